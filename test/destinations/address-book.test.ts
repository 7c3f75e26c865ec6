import t from 'tap';
import { AddressBook } from '../../src/destinations/address-book.js';
import {
  applyBook,
  type Book,
  type BookEvent,
  distrust,
  emptyBook,
  fromBookDocument,
  toBookDocument,
} from '../../src/destinations/book.js';
import type { Entry, Fields } from '../../src/destinations/destination.js';
import { FieldpostError } from '../../src/errors.js';
import { DESTINATIONS_MAX, REMOVED_IDS_MAX, SYNC_ATTEMPTS_MAX } from '../../src/limits.js';

const JOHN: Fields = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const JANE: Fields = { type: 1, destination: 'jane@example.com', lang: 'nl', name: 'Jane' };
const OWNER: Fields = { type: 4, destination: 'OWNER', lang: 'pl', name: 'Owner' };
const uid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const entry = (n: number, fields: object = JOHN): Entry => ({ ...JOHN, ...fields, uid: uid(n) });

interface Bench {
  readonly book: AddressBook;
  readonly state: Book;
  readonly events: BookEvent[];
  /** Thrown by the next record, if set. */
  failure: Error | null;
}

function start(state: Book = emptyBook()): Bench {
  let uids = 0;
  const bench: Bench = {
    state,
    events: [],
    failure: null,
    book: new AddressBook({
      book: state,
      async record(event) {
        await null;
        if (bench.failure) throw bench.failure;
        bench.events.push(event);
        // As the journal gives it back.
        applyBook(state, JSON.parse(JSON.stringify(event)) as BookEvent);
      },
      checkRoom: async () => undefined,
      newUid: () => uid(++uids),
    }),
  };
  return bench;
}

const codeOf = (error: unknown) => (error as FieldpostError).code;

t.test('edits on the device', async (t) => {
  const bench = start();
  const { book } = bench;
  t.same(await book.add(JOHN), { id: 1, ...JOHN });
  t.same(await book.add(JANE), { id: 2, ...JANE });
  t.same(await book.replace(1, { ...JOHN, name: 'Johnny' }), { id: 1, ...JOHN, name: 'Johnny' });
  t.same(book.list(), [
    { id: 1, ...JOHN, name: 'Johnny' },
    { id: 2, ...JANE },
  ]);
  t.equal(book.generation, 3);
  await book.replace(1, { ...JOHN, name: 'Johnny' });
  t.equal(bench.events.length, 3, 'what changes nothing writes nothing');
  await book.remove(2);
  t.equal(book.get(2), undefined);
  t.same(await book.add(JANE), { id: 3, ...JANE }, 'an id is never given again');
  t.same(book.counts, { count: 2, hidden: 0 });
  for (const call of [() => book.replace(2, JANE), () => book.remove(2), () => book.remove(9)]) {
    t.equal(codeOf(await call().catch((error) => error)), 'not-found');
  }
});

t.test('a second one with the same destination', async (t) => {
  const { book, events } = start();
  await book.add(JOHN);
  await book.add(JANE);
  const again = { ...OWNER, type: 1 as const, destination: 'john@EXAMPLE.com' };
  const refused = await book.add(again).catch((error) => error);
  t.equal(codeOf(refused), 'conflict');
  t.match(refused.message, /Destination 1 /);
  t.match((await book.replace(2, again).catch((error) => error)).message, /Destination 1 /);
  await book.replace(1, again);
  t.equal(events.length, 3, 'but it may be itself');
  const both = await Promise.allSettled([book.add(OWNER), book.add(OWNER)]);
  t.same(
    both.map(({ status }) => status),
    ['fulfilled', 'rejected'],
    'also of two at once',
  );
});

t.test('what the store refuses', async (t) => {
  const bench = start();
  const { book } = bench;
  bench.failure = new FieldpostError('storage-failed', 'no');
  t.equal(codeOf(await book.add(JOHN).catch((error) => error)), 'storage-failed');
  t.same([book.list(), book.generation], [[], 0]);
  bench.failure = null;
  t.equal((await book.add(JOHN)).id, 1, 'the next one is not in its way');
});

t.test('there is a limit', async (t) => {
  const { book, state } = start();
  for (let n = 1; n <= DESTINATIONS_MAX; n++) {
    applyBook(state, { e: 'destination', id: n, entry: entry(n, { destination: `n${n}@example.com` }) });
  }
  const refused = await book.add(JOHN).catch((error) => error);
  t.equal(codeOf(refused), 'too-large');
  t.match(refused.message, new RegExp(` ${DESTINATIONS_MAX} `), 'it names the limit');
  await book.replace(1, JOHN);
  await book.remove(2);
  await book.add(JANE);
});

t.test('a sync with a cloud that has nothing, and then something', async (t) => {
  const { book, state, events } = start();
  t.same(await book.pull(null), { push: null, generation: 0 }, 'nothing on both sides');
  t.same(events, []);
  await book.add(JOHN);
  const { push } = await book.pull(null);
  t.same(push, { document: [entry(1)], ifMatch: null });
  await book.pull(null);
  t.equal(events.length, 2, 'an attempt that is made again is not written again');
  await book.stored('"1"');
  t.same([state.base, state.attempted], [{ etag: '"1"', document: [entry(1)] }, []]);
  t.same(await book.pull('unchanged'), { push: null, generation: 1 });
  t.equal(events.length, 3);

  const document = [entry(1, { name: 'Theirs', room: 'B2' }), entry(7, JANE), 'strange'];
  t.same((await book.pull({ etag: '"2"', document })).push, null);
  t.same(book.list(), [
    { id: 1, ...JOHN, name: 'Theirs' },
    { id: 2, ...JANE },
  ]);
  t.same(book.counts, { count: 2, hidden: 1 });
  await book.replace(1, { ...JOHN, lang: 'it' });
  t.same((await book.pull('unchanged')).push, {
    document: [entry(1, { lang: 'it', room: 'B2' }), ...document.slice(1)],
    ifMatch: '"2"',
  });
});

t.test('an edit while a document is being put is not lost, nor taken for put', async (t) => {
  const { book } = start();
  await book.add(JOHN);
  const { generation } = await book.pull(null);
  await book.remove(1);
  await book.add(JANE);
  await book.stored('"1"');
  t.not(generation, book.generation);
  t.same((await book.pull('unchanged')).push?.document, [entry(2, JANE)]);
});

t.test('a lost answer to a PUT, and one that comes late', async (t) => {
  const { book } = start();
  await book.add(JOHN);
  await book.pull(null);
  await book.remove(1);
  t.same(
    (await book.pull({ etag: '"1"', document: [entry(1)] })).push?.document,
    [],
    'our own entry is deleted',
  );
  await book.stored('"2"');
  await book.add(JANE);
  await book.pull('unchanged');
  await book.replace(2, { ...JANE, name: 'Second' });
  await book.pull('unchanged');
  await book.remove(2);
  await book.pull('unchanged');
  const late = await book.pull({ etag: '"3"', document: [entry(2, JANE)] });
  t.same(late.push?.document, [], 'also where others were put after it');
});

t.test('a PUT that may still come late is turned away, even where nothing is left to say', async (t) => {
  const { book, state, events } = start();
  await book.add(JOHN);
  await book.pull(null);
  await book.remove(1);
  t.same((await book.pull(null)).push, { document: [], ifMatch: null }, 'a document, that there be one');
  await book.stored('"1"');
  t.same([state.base, state.attempted], [{ etag: '"1"', document: [] }, []]);
  t.equal((await book.pull('unchanged')).push, null, 'once');

  await book.add(JANE);
  await book.pull('unchanged');
  await book.remove(2);
  const again = { document: [], ifMatch: '"1"' };
  t.same((await book.pull('unchanged')).push, again);
  const { length } = events;
  t.same((await book.pull({ etag: '"1"', document: [] })).push, again, 'until one is answered');
  t.equal(events.length, length);
  t.equal((await book.pull({ etag: '"2"', document: [] })).push, null, 'or somebody else has changed it');
});

t.test('a cloud that has forgotten everything', async (t) => {
  const { book, state } = start();
  await book.add(JOHN);
  await book.pull({ etag: '"1"', document: [entry(1), entry(8, JANE), 'strange'] });
  await book.remove(1);
  const { push } = await book.pull(null);
  t.same(push, { document: [entry(8, JANE), 'strange'], ifMatch: null });
  t.equal(state.base, null);
  const returned = await book.pull({ etag: '"9"', document: [entry(1)] });
  t.same(
    book.list(),
    [
      { id: 1, ...JOHN },
      { id: 2, ...JANE },
    ],
    'what it has after all is joined; a uid that returns keeps its id',
  );
  t.equal(returned.push?.ifMatch, '"9"');
});

t.test('ids', async (t) => {
  const { book, state } = start();
  await book.pull({ etag: '"1"', document: [entry(5), entry(6, JANE)] });
  await book.pull({ etag: '"2"', document: [entry(6, JANE)] });
  await book.pull({ etag: '"3"', document: [entry(6, JANE), entry(7, OWNER), entry(5)] });
  t.same(
    book.list().map(({ id, name }) => [id, name]),
    [
      [1, 'John'],
      [2, 'Jane'],
      [3, 'Owner'],
    ],
  );
  await book.remove(3);
  const { id } = await book.add(OWNER);
  await book.pull({ etag: '"4"', document: [entry(6, JANE), entry(7, { ...OWNER, lang: 'fr' }), entry(5)] });
  t.equal(id, 4);
  t.same(book.get(4)?.lang, 'pl', 'an entry that takes over from a local one has its id');
  await book.remove(4);
  await book.pull({ etag: '"5"', document: [entry(7, { ...OWNER, name: 'Boss' })] });
  t.equal(book.get(4)?.name, 'Boss', 'and keeps it');
  t.equal(state.nextId, 5);
});

t.test('an entry that was taken over and returns', async (t) => {
  const { book } = start();
  await book.add(JOHN);
  await book.pull({ etag: '"1"', document: [entry(9)] });
  await book.stored('"2"');
  t.same(book.list(), [{ id: 1, ...JOHN }]);
  await book.pull({ etag: '"3"', document: [entry(9), entry(1, JANE)] });
  t.same(
    book.list(),
    [
      { id: 1, ...JOHN },
      { id: 2, ...JANE },
    ],
    'its id stands for its heir',
  );
});

t.test('events twice applied, and the plain form', async (t) => {
  const { book, events, state } = start();
  await book.add(JOHN);
  await book.add(OWNER);
  await book.remove(2);
  await book.pull({ etag: '"1"', document: [entry(9, JANE)] });
  await book.stored('"2"');
  await book.add(OWNER);
  await book.pull('unchanged');
  const twice = emptyBook();
  for (const event of events) for (const _ of [1, 2]) applyBook(twice, event);
  twice.attempted = twice.attempted.slice(1);
  t.same(toBookDocument(twice), toBookDocument(state));
  const plain = JSON.parse(JSON.stringify(toBookDocument(state)));
  t.same(toBookDocument(fromBookDocument(plain)), toBookDocument(state));
  distrust(state, false);
  t.same([state.base, state.attempted, state.entries.size], [null, [], 3]);
  const { nextId } = state;
  distrust(state, true);
  t.ok(state.nextId > nextId, 'ids that nobody knows of are passed over');
});

t.test('what is remembered is bounded', async (t) => {
  const { book, state } = start();
  const document = Array.from({ length: REMOVED_IDS_MAX + 5 }, (_, n) =>
    entry(n + 1, { destination: `n${n}@example.com` }),
  );
  await book.pull({ etag: '"1"', document });
  await book.pull({ etag: '"2"', document: [] });
  t.equal(state.removed.size, REMOVED_IDS_MAX);
  t.not(state.removed.has(uid(5)), true);
  t.ok(state.removed.has(uid(6)), 'the oldest are forgotten');
  for (let n = 0; n < SYNC_ATTEMPTS_MAX + 3; n++) {
    await book.add({ ...JOHN, destination: `m${n}@example.com` });
    await book.pull('unchanged');
  }
  t.equal(state.attempted.length, SYNC_ATTEMPTS_MAX);
});
