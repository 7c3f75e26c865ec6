/**
 * Lists for clients, limited by bytes because entries may be long.
 */

/** The first of the values, each as JSON: as many as fit into `bytesMax`, but at least one. */
export function firstAsJson(values: Iterable<unknown>, bytesMax: number): string[] {
  const texts: string[] = [];
  let bytes = 0;
  for (const value of values) {
    const text = JSON.stringify(value);
    bytes += Buffer.byteLength(text) + ','.length;
    if (bytes > bytesMax && texts.length > 0) break;
    texts.push(text);
  }
  return texts;
}
