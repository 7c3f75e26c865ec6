/** A start leaves the messages of a snapshot unread until somebody asks, and nobody can tell. */
// A process of its own: it takes long.
import { Buffer } from 'node:buffer';
import t, { type Test } from 'tap';
import { MIB } from '../../src/limits.js';
import type { Message, Verdict } from '../../src/message/message.js';
import { type BatchHead, MessageMap, Unread } from '../../src/store/message-map.js';
import { settled } from '../support/clock.js';
import { digestOf, draftTo } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { addFile } from '../support/spool.js';
import { type Bench, newDisk, openOn } from '../support/store.js';

const ROOMY = { budget: { maxQueue: 20_000, maxSpoolBytes: 256 * MIB, minFreeBytes: 0 } };
const ALL = { status: null, limit: 100_000, after: null };

/** Lines of a snapshot that are parsed from here to the end of the test. */
function countReads(t: Test): () => number {
  const { parse } = JSON;
  let reads = 0;
  JSON.parse = (text, ...rest) => {
    if (String(text).startsWith('[{"boot":')) reads++;
    return parse(text, ...rest);
  };
  t.teardown(() => {
    JSON.parse = parse;
  });
  return () => reads;
}

t.test('a start with 10,000 messages reads none of them, whatever it comes after', async (t) => {
  let disk = newDisk();
  const { store } = await openOn(disk, 1, ROOMY);
  for (let n = 0; n < 100; n++)
    await store.accept(
      Array.from({ length: 100 }, (_, i) => draftTo(`m${n * 100 + i}`, 1)),
      null,
    );
  await store.close();
  for (const before of ['a clean stop', 'a kill']) {
    disk = disk.afterKill();
    const reads = countReads(t);
    const { store } = await openOn(disk, 2, ROOMY);
    t.equal(store.counts().queued, before === 'a kill' ? 10_001 : 10_000);
    t.equal(reads(), 1, `after ${before} only the batch of the oldest message`);
    t.equal(store.list({ ...ALL, limit: 10 }).messages.length, 10);
    t.equal([...store.queued(({ type }) => type !== 1)].length, 0);
    t.equal(reads(), 2, 'and the one of the page');
    if (before === 'a clean stop') await store.accept([draftTo('new')], null);
  }
});

function messageNumbered(n: number): Message {
  return { id: String(n).padStart(5, '0'), type: 1, status: 'queued' } as Message;
}

/** The entry of a batch; `read` is told when it is read. */
function unreadOf(messages: readonly Message[], read: () => void): Unread {
  const [first = '', last = ''] = [messages[0]?.id, messages.at(-1)?.id];
  const head: BatchHead = {
    ...{ first, last, count: messages.length, type: 1, status: 'queued' },
    ...{ weight: 0, live: [], boots: [] },
  };
  return new Unread({ head, line: Buffer.alloc(0) }, () => {
    read();
    return messages;
  });
}

t.test('it is like a Map, with batches anywhere in it', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  for (let round = 0; round < 50; round++) {
    const map = new MessageMap();
    const model = new Map<string, Message>();
    const known: Message[] = [];
    let [number, reads, batches] = [0, 0, 0];
    const make = () => {
      number += 1 + Math.floor(random() * 3);
      return messageNumbered(number);
    };
    const remember = (message: Message) => {
      known.push(message);
      model.set(message.id, message);
    };
    for (let part = 0; part < 6; part++) {
      const made = Array.from({ length: 1 + Math.floor(random() * 4) }, make);
      made.forEach(remember);
      if (random() < 0.4) for (const message of made) map.add(message);
      else {
        batches++;
        map.addUnread(unreadOf(made, () => reads++));
      }
    }
    t.equal(map.get(messageNumbered(number + 1).id), undefined);
    t.equal(map.get(''), undefined);
    t.equal([...map.parts()].length - [...map.select(() => false)].length, batches);
    t.equal(reads, 0, 'what is not in it is not looked for in a batch');
    for (let step = 0; step < 60; step++) {
      const message = random() < 0.8 ? pick(random, known) : make();
      if (random() < 0.5) t.equal(map.delete(message.id), model.delete(message.id));
      else if (!model.has(message.id)) {
        map.add(message);
        remember(message);
      }
      const asked = pick(random, known).id;
      if (map.get(asked) !== model.get(asked) || map.size !== model.size) t.fail(`step ${step}`);
      if (random() < 0.8) continue;
      t.same([...map], [...model.values()]);
      t.same([...map.selectBackwards(() => true)], [...model.values()].reverse());
    }
    t.ok(reads <= batches, 'a batch is read once');
  }
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
