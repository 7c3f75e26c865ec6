import t from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { AddressBook, DESTINATIONS_MAX } from '../../src/device/book/address-book.js';
import type { Push } from '../../src/device/book/ancestry.js';
import {
  applyBook,
  type Book,
  type BookEvent,
  distrust,
  emptyBook,
  fromBookDocument,
  type Mark,
  REMOVED_IDS_MAX,
  type Remote,
  SYNC_ATTEMPTS_MAX,
  toBookDocument,
} from '../../src/mail/book/book.js';
import type { Entry, Fields } from '../../src/mail/book/destination.js';

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
  let nonces = 0;
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
      newNonce: () => `nonce ${++nonces}`,
    }),
  };
  return bench;
}

const codeOf = (error: unknown) => (error as FieldpostError).code;

const HOURS = { after_min: 60, hours: 'Mo-Fr 07:00-18:00', zone: 'Europe/Amsterdam' } as const;

t.test('an edit that leaves a rule out keeps it, and null removes it', async (t) => {
  const bench = start();
  const { book } = bench;
  const plan = 'told after 60 minutes of being offline, Monday to Friday 07:00-18:00 (Europe/Amsterdam)';
  t.same(await book.add({ ...JOHN, ...HOURS, night: null, weekly: null }), {
    ...{ id: 1, plan, ...JOHN, ...HOURS },
  });
  t.same(bench.state.entries.get(1), { uid: uid(1), ...JOHN, ...HOURS }, 'null is not kept');
  t.same(await book.replace(1, { ...JOHN, name: 'J' }), { id: 1, plan, ...JOHN, name: 'J', ...HOURS });
  t.same(bench.state.entries.get(1), { uid: uid(1), ...JOHN, name: 'J', ...HOURS });
  const { hours: _, ...others } = HOURS;
  t.same(await book.replace(1, { ...JOHN, hours: null }), {
    ...{ id: 1, plan: 'told after 60 minutes of being offline', ...JOHN, ...others },
  });
  const events = bench.events.length;
  await book.replace(1, { ...JOHN, hours: null, night: null });
  t.equal(bench.events.length, events, 'what changes nothing writes nothing');
});

t.test('an edit of the hours on one side and of the name on the other', async (t) => {
  for (const [here, there] of [
    [{ hours: 'Sa-Su' }, { name: 'Theirs' }],
    [{ name: 'Theirs' }, { hours: 'Sa-Su' }],
  ]) {
    const { book } = start();
    const put = await pushOf(book.pull({ etag: '"1"', document: [entry(1, HOURS)] }));
    await book.stored('"2"');
    await book.replace(1, { ...JOHN, ...here });
    const { push } = await book.pull(edited('"3"', [entry(1, { ...HOURS, ...there })], put));
    const both = { ...HOURS, hours: 'Sa-Su', name: 'Theirs' };
    t.same(push?.document, [entry(1, both)]);
    t.match(book.get(1), both);
  }
  const { book } = start();
  const put = await pushOf(book.pull({ etag: '"1"', document: [entry(1, HOURS)] }));
  await book.stored('"2"');
  await book.replace(1, { ...JOHN, after_min: null });
  const { push } = await book.pull(edited('"3"', [entry(1, { ...HOURS, hours: 'Mo' })], put));
  const { after_min: _, ...rest } = HOURS;
  t.same(push?.document, [entry(1, { ...rest, hours: 'Mo' })], 'a rule that was removed stays removed');
});

t.test('what the cloud has put into an entry', async (t) => {
  const bench = start();
  const { book } = bench;
  const confirmedAt = '2026-11-20T09:41:00.000Z';
  const cloudOnly = { confirmedAt, hours: 'whenever', weekly: 'Mo', room: null };
  await book.pull({ etag: '"1"', document: [entry(1, cloudOnly), entry(2, { ...JANE, confirmedAt: 'x' })] });
  const plan = 'told at once; not understood and ignored: hours, weekly';
  t.same(
    book.list(),
    [
      { id: 1, ...JOHN, confirmedAt, plan },
      { id: 2, plan: 'told at once', ...JANE },
    ],
    'a faulty rule is not shown, and the person is',
  );
  await book.replace(1, { ...JOHN, lang: 'nl' });
  t.same(bench.state.entries.get(1), entry(1, { ...cloudOnly, lang: 'nl' }), 'an edit here keeps it all');
  await book.replace(1, { ...JOHN, destination: 'j@example.com' });
  const { confirmedAt: _, ...rest } = cloudOnly;
  t.same(
    bench.state.entries.get(1),
    entry(1, { ...rest, destination: 'j@example.com' }),
    'another place was not tried',
  );
});

t.test('edits on the device', async (t) => {
  const bench = start();
  const { book } = bench;
  t.same(await book.add(JOHN), { id: 1, plan: 'told at once', ...JOHN });
  t.same(await book.add(JANE), { id: 2, plan: 'told at once', ...JANE });
  t.same(await book.replace(1, { ...JOHN, name: 'Johnny' }), {
    id: 1,
    plan: 'told at once',
    ...JOHN,
    name: 'Johnny',
  });
  t.same(book.list(), [
    { id: 1, plan: 'told at once', ...JOHN, name: 'Johnny' },
    { id: 2, plan: 'told at once', ...JANE },
  ]);
  t.equal(book.generation, 3);
  await book.replace(1, { ...JOHN, name: 'Johnny' });
  t.equal(bench.events.length, 3, 'what changes nothing writes nothing');
  await book.remove(2);
  t.equal(book.get(2), undefined);
  t.same(await book.add(JANE), { id: 3, plan: 'told at once', ...JANE }, 'an id is never given again');
  t.same(book.counts, { count: 2, hidden: 0 });
  for (const call of [() => book.replace(2, JANE), () => book.remove(2), () => book.remove(9)]) {
    t.equal(codeOf(await call().catch((error) => error)), 'not-found');
  }
});

t.test('a second entry with the same destination', async (t) => {
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

t.test('refusals of the store', async (t) => {
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

/** What the cloud has once somebody has edited what was put. */
const edited = (etag: string, document: readonly unknown[], { more }: Push): Remote => ({
  etag,
  document,
  more,
});

/** What is to be put; there must be something. */
async function pushOf(pulled: ReturnType<AddressBook['pull']>): Promise<Push> {
  const { push } = await pulled;
  if (push === null) throw new Error('nothing is to be put');
  return push;
}

t.test('a sync with a cloud that has nothing, and then something', async (t) => {
  const { book, state, events } = start();
  t.same(await book.pull(null), { push: null, estranged: null, generation: 0 }, 'nothing on both sides');
  t.same(events, []);
  await book.add(JOHN);
  const first = await pushOf(book.pull(null));
  t.match(first, { document: [entry(1)], ifMatch: null, more: { fieldpost: { counter: 1 } } });
  t.same(await pushOf(book.pull(null)), first, 'a PUT that is made again is the same');
  t.equal(events.length, 2, 'and not written again');
  await book.stored('"1"');
  t.same([state.base, state.attempted], [{ etag: '"1"', document: [entry(1)], more: first.more }, []]);
  t.match(await book.pull('unchanged'), { push: null, generation: 1 });
  t.equal(events.length, 3);

  const document = [entry(1, { name: 'Theirs', room: 'B2' }), entry(7, JANE), 'strange'];
  const second = await pushOf(book.pull(edited('"2"', document, first)));
  t.same(second.document, document, 'what was edited there is put back, with a higher counter');
  t.match(second.more, { fieldpost: { ...(first.more.fieldpost as Mark), counter: 2, nonce: String } });
  await book.stored('"3"');
  t.same(book.list(), [
    { id: 1, plan: 'told at once', ...JOHN, name: 'Theirs' },
    { id: 2, plan: 'told at once', ...JANE },
  ]);
  t.same(book.counts, { count: 2, hidden: 1 });
  await book.replace(1, { ...JOHN, lang: 'it' });
  t.match(await pushOf(book.pull('unchanged')), {
    document: [entry(1, { lang: 'it', room: 'B2' }), ...document.slice(1)],
    ifMatch: '"3"',
    more: { fieldpost: { counter: 3 } },
  });
});

t.test('members of the document besides the entries', async (t) => {
  const { book } = start();
  const put = await pushOf(book.pull({ etag: '"1"', document: [entry(5)], more: { name: 'Pump 3' } }));
  t.match(put.more, { name: 'Pump 3', fieldpost: {} });
  await book.stored('"2"');
  t.equal((await book.pull(edited('"2"', put.document, put))).push, null, 'what was put is found');
  t.match(
    (await pushOf(book.pull(null))).more,
    { name: 'Pump 3' },
    'a cloud that has lost them gets them back',
  );
  const wiped = await pushOf(book.pull({ etag: '"9"', document: [], more: { site: 'B' } }));
  t.match(wiped.more, { name: 'Pump 3', site: 'B' }, 'those of both are joined');
});

t.test('a lost answer to a PUT, and one that comes late', async (t) => {
  const { book } = start();
  await book.add(JOHN);
  const first = await pushOf(book.pull(null));
  await book.remove(1);
  t.same(
    (await pushOf(book.pull(edited('"1"', [entry(1)], first)))).document,
    [],
    'our own entry is deleted',
  );
  await book.stored('"2"');
  await book.add(JANE);
  const early = await pushOf(book.pull('unchanged'));
  await book.replace(2, { ...JANE, name: 'Second' });
  await book.pull('unchanged');
  await book.remove(2);
  await book.pull('unchanged');
  const late = await pushOf(book.pull(edited('"3"', [entry(2, JANE)], early)));
  t.same(late.document, [], 'also where others were put after it');
});

t.test('a lost answer to a PUT, and a cloud that keeps no mark', async (t) => {
  const { book } = start();
  await book.add(JOHN);
  await book.pull(null);
  await book.remove(1);
  t.same((await pushOf(book.pull({ etag: '"1"', document: [entry(1)] }))).document, []);
  await book.add(JANE);
  await book.pull('unchanged');
  const corrected = entry(2, { ...JANE, name: 'Jane K.' });
  await book.pull({ etag: '"2"', document: [corrected] });
  t.equal(book.get(2)?.name, 'Jane K.', 'what differs from what was put somebody has edited');
});

t.test('a PUT that may arrive late is refused, even if nothing else has changed', async (t) => {
  const { book, state, events } = start();
  await book.add(JOHN);
  await book.pull(null);
  await book.remove(1);
  const none = await pushOf(book.pull(null));
  t.match(none, { document: [], ifMatch: null }, 'a document, that there be one');
  await book.stored('"1"');
  t.same([state.base, state.attempted], [{ etag: '"1"', document: [], more: none.more }, []]);
  t.equal((await book.pull('unchanged')).push, null, 'once');

  await book.add(JANE);
  const put = await pushOf(book.pull('unchanged'));
  await book.remove(2);
  const again = await pushOf(book.pull('unchanged'));
  t.match(again, { document: [], ifMatch: '"1"', more: { fieldpost: { counter: 3 } } });
  const { length } = events;
  t.same(await pushOf(book.pull(edited('"1"', [], none))), again, 'until one is answered');
  t.equal(events.length, length);
  t.match(
    await pushOf(book.pull(edited('"2"', [entry(2, JANE)], put))),
    { document: [] },
    'or is found there',
  );
});

t.test('a cloud that has forgotten everything', async (t) => {
  const { book, state } = start();
  await book.add(JOHN);
  const put = await pushOf(book.pull({ etag: '"1"', document: [entry(1), entry(8, JANE), 'strange'] }));
  await book.stored('"2"');
  await book.pull(edited('"2"', put.document, put));
  const { base } = state;
  await book.remove(1);
  const anew = await pushOf(book.pull(null));
  t.match(anew, { document: [entry(8, JANE), 'strange'], ifMatch: null });
  t.not(
    (anew.more.fieldpost as Mark).lineage,
    (put.more.fieldpost as Mark).lineage,
    'it is another document',
  );
  t.same(state.base, base, 'what was known stays known until it has arrived');
  const found = await book.pull({ etag: '"9"', document: [entry(3, OWNER)] });
  t.equal(found.estranged, 'bare');
  t.same(
    book.list(),
    [
      { id: 2, plan: 'told at once', ...JANE },
      { id: 3, plan: 'told at once', ...OWNER },
    ],
    'what it has after all is joined',
  );
  t.equal(found.push?.ifMatch, '"9"');
});

t.test('ids', async (t) => {
  const { book, state } = start();
  let put = await pushOf(book.pull({ etag: '"1"', document: [entry(5), entry(6, JANE)] }));
  await book.stored('"2"');
  const pull = async (document: readonly unknown[]) => {
    put = await pushOf(book.pull(edited('"3"', document, put)));
    await book.stored('"4"');
  };
  await pull([entry(6, JANE)]);
  await pull([entry(6, JANE), entry(7, OWNER), entry(5)]);
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
  await pull([entry(6, JANE), entry(7, { ...OWNER, lang: 'fr' }), entry(5)]);
  t.equal(id, 4);
  t.same(book.get(4)?.lang, 'pl', 'an entry that takes over from a local one has its id');
  await book.remove(4);
  await pull([entry(7, { ...OWNER, name: 'Boss' })]);
  t.equal(book.get(4)?.name, 'Boss', 'and keeps it');
  t.equal(state.nextId, 5);
});

t.test('hidden entries and their removal', async (t) => {
  const { book, events } = start();
  const strange = ['x', { uid: uid(9), type: 7 }, { uid: uid(8), type: 8 }];
  await book.pull({ etag: '"1"', document: [...strange, entry(5)] });
  await book.stored('"2"');
  t.same(book.hidden, strange);
  const { generation } = book;
  await book.removeHidden('x');
  await book.removeHidden({ type: 7, uid: uid(9) });
  t.equal(book.generation, generation + 2);
  t.same(book.hidden, strange.slice(2));
  t.same((await pushOf(book.pull('unchanged'))).document, [strange[2], entry(5)]);
  const { length } = events;
  t.equal(codeOf(await book.removeHidden('x').catch((error) => error)), 'not-found');
  t.equal(events.length, length);
});

t.test('how a cloud changes the document that it is sent', async (t) => {
  const { book } = start();
  await book.add({ ...JOHN, destination: 'John@example.com', hours: 'Mo-Fr' });
  await book.add(JANE);
  const { document, more } = await pushOf(book.pull(null));
  await book.stored('"1"');
  t.same(book.alterations, { dropsMark: false, changed: [] });
  const kept = { ...(document[0] as Entry), destination: 'john@example.com', hours: 'mo-fr', since: 5 };
  const adopted = await pushOf(book.pull({ etag: '"1"', document: [kept], more }));
  t.same(book.alterations.changed, [
    { id: 1, members: ['destination', 'hours'] },
    { id: 2, members: ['gone'] },
  ]);
  t.same(
    adopted.document,
    [{ ...kept, destination: 'John@example.com', hours: 'Mo-Fr' }, document[1]],
    'its own member is kept',
  );
  await book.stored('"2"');
  t.equal((await book.pull({ etag: '"2"', document: [kept], more: adopted.more })).push, null);
  t.equal(
    (await book.pull({ etag: '"3"', document: [kept], more: adopted.more })).push,
    null,
    'an ETag that changes at each read',
  );
  t.same([book.etag, book.list().length], ['"3"', 2]);
  t.equal((await book.pull({ etag: '"2"', document: [kept] })).push, null);
  t.match(book.alterations, { dropsMark: true, changed: [{ id: 1 }, { id: 2 }] });
});

t.test('an entry that was replaced and returns', async (t) => {
  const { book } = start();
  await book.add(JOHN);
  const put = await pushOf(book.pull({ etag: '"1"', document: [entry(9)] }));
  await book.stored('"2"');
  t.same(book.list(), [{ id: 1, plan: 'told at once', ...JOHN }]);
  await book.pull(edited('"3"', [entry(9), entry(1, JANE)], put));
  t.same(
    book.list(),
    [
      { id: 1, plan: 'told at once', ...JOHN },
      { id: 2, plan: 'told at once', ...JANE },
    ],
    'its id stands for its heir',
  );
});

t.test('events applied twice change nothing, and the state has a plain form', async (t) => {
  const { book, events, state } = start();
  await book.add(JOHN);
  await book.add(OWNER);
  await book.remove(2);
  const put = await pushOf(book.pull({ etag: '"1"', document: [entry(9, JANE)] }));
  await book.stored('"2"');
  await book.pull(edited('"2"', put.document, put));
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

t.test('the number of remembered removals is bounded', async (t) => {
  const { book, state } = start();
  const document = Array.from({ length: REMOVED_IDS_MAX + 5 }, (_, n) =>
    entry(n + 1, { destination: `n${n}@example.com` }),
  );
  const put = await pushOf(book.pull({ etag: '"1"', document }));
  await book.stored('"2"');
  await book.pull(edited('"3"', [], put));
  t.equal(state.removed.size, REMOVED_IDS_MAX);
  t.not(state.removed.has(uid(5)), true);
  t.ok(state.removed.has(uid(6)), 'the oldest are forgotten');
  for (let n = 0; n < SYNC_ATTEMPTS_MAX + 3; n++) {
    await book.add({ ...JOHN, destination: `m${n}@example.com` });
    await book.pull('unchanged');
  }
  t.equal(state.attempted.length, SYNC_ATTEMPTS_MAX);
});
