/** The store counts the memory of all that it knows against one budget, and promises no more than fits. */
// A process of its own: it measures the heap.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { DAY_MS, KIB, MIB } from '../../src/base/limits.js';
import type { Attachment, Draft, Extras } from '../../src/mail/message/message.js';
import { fromDocument, toDocument } from '../../src/mail/store/document.js';
import { ANYBODY } from '../../src/mail/store/quota.js';
import { apply, emptyState, type State } from '../../src/mail/store/state.js';
import type { Store } from '../../src/mail/store/store.js';
import { boundsOf, IDEMPOTENCY_KEYS_MAX, memoryBytes, ownText } from '../../src/mail/store/weight.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom } from '../support/random.js';
import { addFile } from '../support/spool.js';
import { openOn, settleAs } from '../support/store.js';

const NO_BOUNDS = boundsOf({ historyMax: 1_000_000 });
const AT = { boot: '0123abcd', bootMs: 1.5 };
const FILES = 10;
const FILE = { name: 'ż'.repeat(255), type: `text/${'t'.repeat(250)}` };

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function heapBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

const idOf = (n: number) => ownText(`${n.toString(32).padStart(7, '0')}ABCDEFGH`);
const fileOf = (n: number, file: { name: string; type: string }): Attachment => ({
  id: ownText(`${n}`.padStart(20, 'f')),
  name: ownText(file.name),
  type: ownText(file.type),
  size: 1,
  crc: 2 ** 31 + n,
});

const filesOf = (n: number, file: { name: string; type: string }) =>
  Array.from({ length: FILES }, (_, i) => fileOf(n * FILES + i, file));

function acceptInto(
  state: State,
  n: number,
  attachments: readonly Attachment[],
  destination: string,
  extras?: Extras,
): void {
  const message = {
    id: idOf(n),
    type: 1,
    destination: ownText(destination),
    length: 10,
    crc: 2 ** 31 + n,
  } as const;
  const accepted = { e: 'accepted', at: { ...AT, bootMs: n + 0.5 }, reachMs: 2 ** 31 + n } as const;
  apply(state, [{ ...accepted, messages: [{ ...message, attachments, ...(extras && { extras }) }] }], {
    segment: 1,
    offset: n * 20,
  });
}

t.test('the counted memory is not less than V8 takes, nor far more', async (t) => {
  const long = { name: 'a name that is as long as most', type: 'application/pdf' };
  const fillers: Record<string, (state: State, n: number) => void> = {
    'bare messages': (state, n) => acceptInto(state, n, [], 'john@example.com'),
    'long destinations': (state, n) => acceptInto(state, n, [], `ż${'j'.repeat(200)}@example.com`),
    'usual files': (state, n) => acceptInto(state, n, filesOf(n, long), 'john@example.com'),
    'files with a Content-ID': (state, n) =>
      acceptInto(
        state,
        n,
        filesOf(n, long).map((file, i) => ({ ...file, cid: ownText(`${n}.${i}@${'x'.repeat(180)}`) })),
        'john@example.com',
      ),
    'long names': (state, n) => acceptInto(state, n, filesOf(n, FILE), 'john@example.com'),
    'deferred messages': (state, n) => {
      acceptInto(state, n, [], 'john@example.com');
      const due = { ...AT, bootMs: n + 0.25 };
      const reply = ownText(`450 ${n} ${'r'.repeat(400)}`);
      apply(state, [{ e: 'deferred', id: idOf(n), attempts: 1, reply, due }], { segment: 1, offset: 0 });
    },
    keys: (state, n) => {
      const key = ownText(`${n}`.padStart(255, 'k'));
      const ids = Array.from({ length: 100 }, (_, i) => idOf(n * 100 + i));
      const messages = ids.map((id) => ({ id, type: 1, destination: 'x', length: 1, crc: 1 }) as const);
      const hash = ownText(`${n}`.padStart(64, 'a'));
      const at = { ...AT, bootMs: n + 0.5 };
      apply(state, [{ e: 'accepted', at, reachMs: 0, messages, key, hash }], { segment: 1, offset: 0 });
    },
  };
  let takenOfAll = 0;
  let countedOfAll = 0;
  for (const [name, fill] of Object.entries(fillers)) {
    let counted = 0;
    const rounds = Array.from({ length: 5 }, () => {
      const state = emptyState(NO_BOUNDS);
      const countedBefore = memoryBytes(state);
      // The first one makes the tables.
      fill(state, 1);
      const before = heapBytes();
      for (let n = 2; n <= 1001; n++) fill(state, n);
      // Somebody has got each by its id: they take the most then.
      for (const { id } of state.messages) state.messages.get(id);
      const bytes = heapBytes() - before;
      counted = memoryBytes(state) - countedBefore;
      return bytes;
    });
    // V8 compiles and drops code meanwhile: the median is without that.
    const taken = rounds.sort((a, b) => a - b)[2] ?? 0;
    t.ok(counted >= taken, `${name}: ${taken} bytes are taken, ${counted} counted`);
    takenOfAll += taken;
    countedOfAll += counted;
  }
  // Of all together, because V8 lays each of them out differently.
  t.ok(countedOfAll < 2.5 * takenOfAll, `of all ${takenOfAll} bytes are taken, ${countedOfAll} counted`);
});

const draftWith = (attachments: readonly Attachment[]): Draft =>
  ({
    type: 1,
    destination: 'john@example.com',
    content: { subject: 'x', plain: '', html: '' },
    attachments,
    ignored: [],
    // Up to the whole budget: a part of it is kept for urgent messages.
    urgent: true,
  }) as unknown as Draft;

async function acceptFiles(store: Store): Promise<string> {
  const upload = await store.upload(0, { ...ANYBODY, isUrgent: true });
  try {
    const attachments: Attachment[] = [];
    for (let i = 0; i < FILES; i++) attachments.push(await addFile(upload, [Buffer.from('x')], FILE));
    return (await store.accept([draftWith(attachments)], null)).ids[0] as string;
  } finally {
    await upload.discard();
  }
}

const MEMORY = { memoryBytesMax: 1536 * KIB };

async function fill(store: Store): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const id = await acceptFiles(store).catch((error) => {
      if (error.code !== 'queue-full' || !/memory/.test(error.message)) throw error;
      return null;
    });
    if (id === null) return ids;
    ids.push(id);
  }
}

t.test('mails with many long names are refused once memory is spent, and survive a restart', async (t) => {
  const disk = new FaultyDisk();
  const { store, clock, lines } = await openOn(disk, 1, MEMORY);
  t.equal(await store.look(), null);
  const ids = await fill(store);
  // Ten names of two bytes a character, and ten types.
  t.ok(ids.length > 50 && ids.length < 1536 / 8, `${ids.length} mails`);
  await t.rejects(
    store.accept([draftWith([])], null).then(() => fillBare(store)),
    { code: 'queue-full' },
  );
  t.match(await store.look(), /of memory/, 'and the health check says why');
  t.match(
    lines.findLast((line) => line.includes('queue full')),
    /of memory/,
    'and the log',
  );
  const { used, limits } = store.room();
  t.ok(limits.memoryBytes !== null && used.memoryBytes > 0.9 * limits.memoryBytes);
  await store.close();
  const { store: again } = await openOn(disk, 2, { ...MEMORY, clock });
  t.ok(ids.every((id) => again.get(id)?.status === 'queued'));
  await t.rejects(acceptFiles(again), { code: 'queue-full' }, 'it weighs the same');
  await settleAs(again, ids[0] as string, 'sent');
  t.ok(await acceptFiles(again), 'what is sent is forgotten for what is new');
  t.equal(again.get(ids[0] as string), undefined);
  await again.close();
});

async function fillBare(store: Store): Promise<never> {
  for (;;) await store.accept([draftWith([])], null);
}

t.test('content kept for a retry gives way to new messages', async (t) => {
  const { store } = await openOn(new FaultyDisk(), 1, MEMORY);
  const ids = await fill(store);
  for (const id of ids.slice(0, 3)) await settleAs(store, id, 'failed');
  t.ok(await acceptFiles(store));
  await t.rejects(store.retry(ids[0] as string));
  await store.retry(ids[2] as string);
  t.equal(store.get(ids[2] as string)?.status, 'queued');
  await store.close();
});

t.test('with little memory an outcome is recorded with the beginning of its reply', async (t) => {
  const { store } = await openOn(new FaultyDisk(), 1, MEMORY);
  const [first = '', second = ''] = await fill(store);
  await fillBare(store).catch(() => undefined);
  // Its 80th and 81st units are one character.
  const reply = `450 ${'r'.repeat(75)}😀${'r'.repeat(300)}`;
  store.claim(first);
  await store.settle(first, { kind: 'deferred', reply, delayMs: 1000 });
  t.equal(store.get(first)?.lastReply, reply.slice(0, 79));
  for (const { id } of [...store.queued()].slice(0, 20)) if (id !== second) await store.cancel(id);
  store.claim(second);
  await store.settle(second, { kind: 'deferred', reply, delayMs: 1000 });
  t.equal(store.get(second)?.lastReply, reply, 'with room, it is whole');
  await store.close();
});

t.test(
  'keys with a hundred ids take their share of memory, and no message is refused for them',
  async (t) => {
    const memoryBytesMax = 4 * MIB;
    const disk = new FaultyDisk();
    const options = { memoryBytesMax, historyMax: 0 };
    const { store, clock } = await openOn(disk, 1, options);
    const drafts = Array.from({ length: 100 }, () => draftWith([]));
    const KEYS = 300;
    for (let n = 0; n < KEYS; n++) {
      const key = `${n}`.padStart(255, 'k');
      const { ids } = await store.accept(drafts, { key, hash: 'a'.repeat(64) });
      for (const id of ids) await settleAs(store, id, 'sent');
    }
    const known = () =>
      Array.from({ length: KEYS }, (_, n) => store.recall(`${n}`.padStart(255, 'k')) !== null);
    const kept = known().filter(Boolean).length;
    // A quarter of 4 MiB, of at least 46 bytes an id.
    t.ok(kept > 100 && kept < MIB / 4600, `${kept} keys are known`);
    t.same(known(), [...Array(KEYS - kept).fill(false), ...Array(kept).fill(true)], 'the youngest');
    await store.close();
    const { store: again } = await openOn(disk, 2, { ...options, clock });
    t.ok(again.recall(`${KEYS - kept}`.padStart(255, 'k')) !== null);
    t.equal(again.recall(`${KEYS - kept - 1}`.padStart(255, 'k')), null);
    await again.close();
    t.ok(IDEMPOTENCY_KEYS_MAX * 100 * 46 > memoryBytesMax, 'all that the count allows would not have fitted');
  },
);

t.test('the sums stay true after any random event', async (t) => {
  const random = seededRandom(7);
  const oneOf = <T>(...values: T[]) => values[Math.floor(random() * values.length)] as T;
  const state = emptyState(boundsOf({ historyMax: 20, memoryBytesMax: 200_000 }));
  for (let n = 1; n < 3000; n++) {
    const offset = n * 20;
    const ids = [...state.messages].map((message) => message.id);
    const id = ids[Math.floor(random() * ids.length)] ?? '';
    const common = { id, attempts: 1, reply: 'r'.repeat(Math.floor(random() * 300)) };
    const kind = Math.floor(random() * 9);
    if (kind <= 2) {
      const extras = oneOf(
        undefined,
        { onlySends: true },
        { caller: 'uid 33' },
        { onlySends: true, caller: 'uid 34' },
      );
      acceptInto(state, n, random() < 0.5 ? [] : [fileOf(n, FILE)], 'john@example.com', extras as Extras);
    } else if (kind === 3) apply(state, [{ e: 'deferred', ...common, due: AT }], { segment: 1, offset });
    else if (kind === 4) apply(state, [{ e: 'sent', ...common, at: AT }], { segment: 1, offset });
    else if (kind === 5) apply(state, [{ e: 'failed', ...common, at: AT }], { segment: 1, offset });
    else if (kind === 6) apply(state, [{ e: 'dropped', ids: [id] }], { segment: 1, offset });
    else if (kind === 7) apply(state, [{ e: 'retried', id, at: AT, reachMs: 0 }], { segment: 1, offset });
    else {
      const message = { id: idOf(n), type: 1, destination: 'x', length: 1, crc: 1 } as const;
      const keyed = { key: `k${n % 50}`, hash: 'a', at: { ...AT, bootMs: n * DAY_MS }, reachMs: 0 };
      apply(state, [{ e: 'accepted', messages: [message], ...keyed }], { segment: 1, offset });
    }
    if (n % 100 > 0) continue;
    const { messages, ...rest } = toDocument(state);
    const copy = fromDocument(JSON.parse(JSON.stringify({ ...rest, messages: [...messages] })), state.bounds);
    t.same(copy.weights, { ...state.weights, book: copy.weights.book }, `after ${n} events`);
    t.same(copy.accounts, state.accounts);
  }
});
