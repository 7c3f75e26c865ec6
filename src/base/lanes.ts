/**
 * Several workers that share one list of work.
 */

/** Does `act` for each item, for at most so many at a time. Resolves when all are done; rejects with the first rejection. */
export async function inLanes<Item>(
  lanes: number,
  items: Iterable<Item>,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await act(next.value);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
