/** The table of messages: a sorted list of rows and messages, and nobody can tell which is which. */
// A process of its own: it takes long.
import { Buffer } from 'node:buffer';
import t from 'tap';
import { isFinal, STATUSES } from '../../src/base/views.js';
import { type Message, NO_ATTACHMENTS, type Verdict } from '../../src/mail/message/message.js';
import { MessageTable } from '../../src/mail/store/message-table.js';
import { settled } from '../support/clock.js';
import { digestOf, draftTo } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { addFile } from '../support/spool.js';
import { type Bench, newDisk, openOn } from '../support/store.js';

const ALL = { status: null, limit: 100_000, after: null };

/** A message with members of its own, or a plain one. */
function messageNumbered(n: number, random: () => number): Message {
  const isPlain = random() < 0.5;
  const attachments = isPlain ? NO_ATTACHMENTS : [{ id: `f${n}`, name: 'a', type: 'b/c', size: 1, crc: 2 }];
  return {
    ...{ id: String(n).padStart(5, '0'), type: 1, destination: `m${n % 3}@example.com`, from: undefined },
    ...{ subject: '', extras: isPlain ? undefined : { urgent: true }, attachments, reachMs: n },
    ...{ accepted: { boot: pick(random, ['one', 'two']), bootMs: n }, status: pick(random, STATUSES) },
    ...{ attempts: isPlain ? 0 : 3, lastReply: isPlain ? null : '250 OK', due: null, textBytes: 0 },
    ...{ place: { segment: 1 + (n % 4), offset: n, length: 7, crc: 9 }, more: undefined },
  };
}

t.test('it is like a sorted Map, whenever its messages are turned into rows', (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  for (let round = 0; round < 50; round++) {
    const table = new MessageTable();
    const model = new Map<string, Message>();
    const sorted = () => [...model.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    let number = 500;
    for (let step = 0; step < 400; step++) {
      // Most are new ones; a few come out of order.
      number += 1 + Math.floor(random() * 3);
      const n = random() < 0.9 ? number : Math.floor(random() * number);
      const message = messageNumbered(n, random);
      const known = pick(random, [...model.keys(), message.id]);
      if (random() < 0.5 && !model.has(message.id)) {
        table.add(message);
        model.set(message.id, structuredClone(message));
      } else if (random() < 0.6 && model.delete(known)) table.delete(known);
      if (random() < 0.02) {
        const { kinds, rows } = table.fold(() => 'queued');
        const used = new Set(rows.map((row) => row[1]));
        t.equal(used.size, kinds.length, 'only kinds in use');
        t.same(
          rows.map(([id]) => id),
          sorted().map(({ id }) => id),
        );
      }
      const expected = model.get(known);
      t.equal(table.known(known)?.status, expected?.status);
      t.same(table.known(known)?.extras, expected?.extras);
      t.same(table.get(known), expected);
      t.equal(table.size, model.size);
      if (random() < 0.95) continue;
      t.same([...table], sorted());
      const isWanted = (message: Pick<Message, 'status'>) => isFinal(message.status);
      const below = sorted().filter((message) => isWanted(message) && message.id < known);
      t.same([...table.selectBackwards(isWanted, known)], below.reverse());
      const inTwo = sorted().filter(({ place }) => (place?.segment ?? 0) > 2);
      t.same(
        table.withContentIn(new Set([3, 4])),
        inTwo.map(({ id }) => id),
      );
    }
  }
  t.end();
});

t.test('a member of a newer version is not taken for the status', (t) => {
  const table = new MessageTable();
  const kind = table.kinds.numberOf({ type: 1, status: 'queued', boot: 'one' });
  table.addRow(['1', kind, 'a@example.com', '', 1, 2, 1, 2, 3, 4, { status: 'sent' } as object]);
  t.equal(table.known('1')?.status, 'queued');
  t.match(table.get('1'), { status: 'queued', more: { status: 'sent' } });
  t.end();
});

t.test('a message that is being sent stays the same object, and rests as it was', (t) => {
  const table = new MessageTable();
  const message = { ...messageNumbered(7, () => 0), status: 'sending' as const };
  table.add(message);
  const { kinds, rows } = table.fold(() => 'deferred');
  t.equal(kinds[rows[0]?.[1] as number]?.status, 'deferred');
  t.equal(table.get(message.id), message);
  t.end();
});

type Operation = (bench: Bench, id: string) => unknown;

const verdictOf = (kind: Verdict['kind']): Verdict => ({ kind, reply: `${kind} it is`, delayMs: 5000 });

/** Errors count by their codes. */
const settle =
  (kind: Verdict['kind']): Operation =>
  async ({ store }, id) => {
    if (store.claim(id)) await store.settle(id, verdictOf(kind));
  };

const OPERATIONS: readonly Operation[] = [
  settle('sent'),
  settle('failed'),
  settle('expired'),
  settle('deferred'),
  ({ store }, id) => store.cancel(id),
  ({ store }, id) => store.retry(id),
  ({ store }, id) => (store.claim(id) ? store.giveBack(id) : null),
  ({ store }, id) => seenOf(store.get(id)),
  ({ store }, after) => store.list({ status: null, limit: 20, after }).messages.map(seenOf),
  ({ store }) => store.list({ status: 'deferred', limit: 20, after: null }).messages.map(seenOf),
  ({ store }) => [...store.queued()].slice(0, 70).map(seenOf),
  ({ store }) => [...store.deferred(({ type }) => type === 1)].map(seenOf),
  async ({ store }, id) => (await store.accept([draftTo(`late${id.slice(0, 7)}`)], null)).ids,
  async ({ store }, id) => {
    const message = store.get(id);
    return message?.place && digestOf(await store.content(message), []);
  },
  ({ store }) => store.flush(),
  ({ store }) => store.purge(false),
  ({ store }) => void store.storage(),
];

/** What can be seen of a message. Where its content lies depends on when checkpoints were made. */
function seenOf(message: Message | undefined): unknown {
  return message && { ...message, place: message.place?.crc };
}

function countsOf({ store }: Bench): unknown {
  const { bytes: _, ...counts } = store.counts();
  const { messages, memoryBytes } = store.room().used;
  return { ...counts, messages, memoryBytes };
}

/** Many messages, with long runs of the same status, and some with a file. */
async function fill({ store }: Bench, random: () => number): Promise<void> {
  for (let run = 0; run < 6; run++) {
    const kind = pick(random, ['sent', 'failed', 'deferred', 'queued', 'queued', 'mixed'] as const);
    const drafts = Array.from({ length: 700 }, (_, i) => draftTo(`m${run}-${i}`, 10));
    const { ids } = await store.accept(drafts, null);
    for (const id of ids) {
      const verdict = kind === 'mixed' ? pick(random, ['sent', 'failed', 'queued'] as const) : kind;
      if (verdict === 'queued') continue;
      store.claim(id);
      await store.settle(id, verdictOf(verdict));
      // Then no retry needs its content.
      if (kind === 'failed') await store.cancel(id);
    }
    if (run % 2 > 0) continue;
    const upload = await store.upload(0);
    const file = await addFile(upload, [Buffer.from('level 3 m\n')]);
    await store.accept([{ ...draftTo(`file${run}`), attachments: [file] }], null);
    await upload.discard();
  }
}

/** Opens the store; `eager` reads all at once. */
async function reopen(bench: Bench, disk: FaultyDisk, seed: number, eager: boolean): Promise<Bench> {
  const opened = await openOn(disk, seed, { clock: bench.clock, historyMax: 1000 });
  if (eager) opened.store.list(ALL);
  return opened;
}

t.test('it is the same store as one that has read all at once', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  let disks = [newDisk(), newDisk()];
  let benches: Bench[] = [];
  for (const disk of disks) {
    const bench = await openOn(disk, seed, { historyMax: 1000 });
    await fill(bench, seededRandom(seed));
    benches.push(bench);
  }
  for (let start = 1; start <= 6; start++) {
    if (random() < 0.5) for (const { store } of benches) await store.close();
    // Checkpoints under way are done: where one ends is the order in which old messages are forgotten.
    await settled();
    disks = disks.map((disk) => disk.afterKill());
    const before = benches;
    benches = [];
    for (const [i, disk] of disks.entries())
      benches.push(await reopen(before[i] as Bench, disk, seed + start, i === 1));
    const ids = (benches[1] as Bench).store.list(ALL).messages.map(({ id }) => id);
    for (let step = 0; step < 40; step++) {
      const operation = Math.floor(random() * OPERATIONS.length);
      const id = pick(random, ids);
      const results: unknown[] = [];
      for (const bench of benches) {
        const act = async () => OPERATIONS[operation]?.(bench, id);
        const result = await act().catch(({ code }) => code);
        results.push({ result, counts: countsOf(bench) });
      }
      if (!t.same(results[0], results[1], `start ${start}, operation ${operation}`)) return;
    }
    if (start % 3 > 0) continue;
    const [lazy, eager] = benches.map(({ store }) => ({
      listed: store.list(ALL).messages.map(seenOf),
      queued: [...store.queued()].map(({ id }) => id),
      deferred: [...store.deferred()].map(({ id }) => id),
    }));
    t.same(lazy, eager, `all after start ${start}`);
    t.same(countsOf(benches[0] as Bench), countsOf(benches[1] as Bench));
  }
});
