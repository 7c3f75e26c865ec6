/** The bytes of a snapshot: plain JSON that is read a line at a time. */
import t from 'tap';
import { fromDocument, type StoreDocument, toDocument } from '../../src/mail/store/document.js';
import { decodeSnapshot, encodeSnapshot } from '../../src/mail/store/snapshot.js';
import { apply, emptyState, type State } from '../../src/mail/store/state.js';
import { boundsOf } from '../../src/mail/store/weight.js';
import { seededRandom } from '../support/random.js';

const BOUNDS = boundsOf({ historyMax: 1000 });
const THROUGH = { segment: 7, offset: 12_345 };
const BOOT = { boot: '0123abcd', bootMs: 1 };

/** The bytes of the file, as writeNew writes them. */
function bytesOf(...args: Parameters<typeof encodeSnapshot>): Buffer {
  const pieces: Buffer[] = [];
  const made = encodeSnapshot(...args);
  let next = made.next();
  for (; !next.done; next = made.next()) pieces.push(next.value);
  const bytes = Buffer.concat(pieces);
  next.value.bytes.copy(bytes, next.value.at);
  return bytes;
}

/**
 * A state with so many messages, or those of these numbers: every third of another request, one with words that could be
 * mistaken.
 */
function stateWith(which: number | readonly number[]): State {
  const numbers = typeof which === 'number' ? Array.from({ length: which }, (_, i) => i + 1) : which;
  const state = emptyState(BOUNDS);
  state.storeId = 'feedfeedfeedfeed';
  apply(state, [{ e: 'boot', boot: BOOT.boot, startMs: 5, confirmed: true }], { segment: 1, offset: 0 });
  for (const n of numbers) {
    const id = `${String(n).padStart(7, '0')}ABCDEFGH`;
    const destination = n % 5 === 0 ? '"],\n[ü€'.repeat(3) : `john${n >> 3}@example.com`;
    const at = { ...BOOT, bootMs: n - (n % 3) };
    const message = { id, type: 1, destination, length: 10, crc: n } as const;
    apply(state, [{ e: 'accepted', messages: [message], at, reachMs: 0 }], { segment: 1, offset: n * 20 });
  }
  return state;
}

t.test('written contents are read back, however many messages there are', async (t) => {
  for (const count of [0, 1, 255, 256, 257, 700]) {
    const state = stateWith(count);
    const bytes = bytesOf(THROUGH, toDocument(state));
    const plain = JSON.parse(bytes.toString());
    t.same(plain.through, THROUGH);
    t.equal(plain.state.messages.flat().length, count, 'it is JSON');
    const snapshot = decodeSnapshot(bytes);
    t.same(snapshot?.through, THROUGH);
    const read = snapshot && fromDocument(snapshot.state(), BOUNDS);
    t.same(read?.liveBytes, state.liveBytes);
    t.same(read?.weights, state.weights);
    if (count > 0) t.same(read?.boots, state.boots);
    if (read) t.ok(bytesOf(THROUGH, toDocument(read)).equals(bytes), 'written again the same');
    t.same([...(read?.messages ?? [])], [...state.messages], `${count} messages`);
    t.same(read?.weights, state.weights);
    if (read) t.ok(bytesOf(THROUGH, toDocument(read)).equals(bytes), 'also when all were looked at');
  }
});

t.test('a message is read back whole, whatever the one before it had', async (t) => {
  const random = seededRandom(11);
  const oneOf = <T>(...values: T[]) => values[Math.floor(random() * values.length)] as T;
  const [yes, later] = [
    { boot: 'feedbeef', bootMs: 9 },
    { ...BOOT, bootMs: 2 },
  ];
  const file = { id: 'f', name: '"],\n[{', type: 'text/plain', size: 1, crc: 1 };
  const state = stateWith(300);
  for (const message of state.messages) {
    Object.assign(message, {
      ...{ type: oneOf(1, 2, 9), from: oneOf(undefined, 'a@example.com'), reachMs: oneOf(0, 5) },
      ...{ attachments: oneOf([], [file], [file, file]), accepted: oneOf(BOOT, yes, later) },
      ...{ attempts: oneOf(0, 1), lastReply: oneOf(null, '', '250 "OK"'), due: oneOf(null, yes, later) },
      more: oneOf(undefined, { priority: 7 }, { priority: 8, __proto__: null, deep: { a: [1] } }),
      ...oneOf({}, { retried: yes }, { failed: later }, { retried: later, failed: yes }),
    });
  }
  const read = decodeSnapshot(bytesOf(THROUGH, toDocument(state)));
  const messages = read ? fromDocument(read.state(), BOUNDS).messages : [];
  t.same([...messages], [...state.messages]);
});

t.test('messages in another order than their ids are found all the same', (t) => {
  const numbers = Array.from({ length: 1500 }, (_, i) => i + 1);
  const [, , ...others] = numbers;
  const sorted = [...stateWith(numbers).messages];
  const orders = [[...numbers].reverse(), [...others, 1, 2], [300, ...numbers.filter((n) => n !== 300)]];
  for (const order of orders) {
    const read = decodeSnapshot(bytesOf(THROUGH, toDocument(stateWith(order))));
    t.same([...fromDocument(read?.state() as StoreDocument, BOUNDS).messages], sorted);
  }
  const document = toDocument(stateWith(1500));
  const turned = [...document.messages].map((line) => [...line].reverse()).reverse();
  const read = decodeSnapshot(bytesOf(THROUGH, { ...document, messages: turned }));
  t.same([...fromDocument(read?.state() as StoreDocument, BOUNDS).messages], sorted);
  t.end();
});

t.test('the order in which messages ended is kept, not that of their acceptance', (t) => {
  const state = stateWith(40);
  const id = (n: number) => `${String(n).padStart(7, '0')}ABCDEFGH`;
  const end = (n: number, e: 'sent' | 'failed' | 'deferred') =>
    apply(state, [{ e, id: id(n), attempts: 1, reply: '', at: BOOT, due: BOOT } as never], THROUGH);
  for (const n of [9, 3, 30]) end(n, 'sent');
  for (const n of [8, 2]) end(n, 'failed');
  for (const n of [31, 7]) end(n, 'deferred');
  const read = decodeSnapshot(bytesOf(THROUGH, toDocument(state)));
  const found = fromDocument(read?.state() as StoreDocument, { ...BOUNDS, historyMax: 2 });
  t.same([...found.finished], [id(3), id(30)], 'the first that ended is forgotten first');
  t.equal(found.messages.get(id(9)), undefined);
  t.same([...found.kept], [id(8), id(2)]);
  t.same([...found.deferred], [id(31), id(7)]);
  t.end();
});

t.test('what is not a row is not taken for an empty queue', (t) => {
  const document = toDocument(stateWith(1));
  const [[row] = []] = document.messages as Iterable<unknown[][]>;
  const wrong = [
    { id: '0000001ABCDEFGH', to: 'john@example.com', at: BOOT },
    { a: 1 },
    null,
    [],
    row?.slice(0, 9),
    row?.with(0, 1),
    row?.with(1, 1),
    row?.with(6, '1'),
    [...(row ?? []), null],
  ];
  for (const value of wrong)
    t.throws(() => fromDocument({ ...document, messages: [[value]] }, BOUNDS), { name: 'TypeError' });
  // Format 1 has no kinds.
  const { kinds, ...old } = document;
  const objects = [[{ id: '0000001ABCDEFGH', to: 'john@example.com', at: BOOT }]];
  t.throws(() => fromDocument({ ...old, messages: objects }, BOUNDS), /must be a list/);
  t.end();
});

t.test('every cut and every flipped bit is seen', async (t) => {
  const bytes = bytesOf(THROUGH, toDocument(stateWith(3)));
  for (let length = 0; length < bytes.length; length++) {
    if (decodeSnapshot(bytes.subarray(0, length)) !== null) t.fail(`cut at ${length}`);
  }
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const broken = Buffer.from(bytes);
    broken[bit >> 3] = (broken[bit >> 3] as number) ^ (1 << (bit & 7));
    if (decodeSnapshot(broken) !== null) t.fail(`bit ${bit}`);
  }
});
