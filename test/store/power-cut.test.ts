/**
 * Cuts the power before every operation on the disk (npm test: a random sample), in every variant of what the disk may then
 * hold. Recovers, and checks that acknowledged messages are there, refused ones are not, and final ones stay final. Then
 * proves the sweep: each planted fault makes it fail.
 */
// A process of its own: it takes long.
import { basename } from 'node:path';
import t from 'tap';
import { decodeLine, encodeLine, seal } from '../../src/mail/store/record.js';
import { draftTo, draftToAll, octets, strayFiles } from '../support/drafts.js';
import { FaultyDisk, type Operation } from '../support/faulty-disk.js';
import type { PowerCut } from '../support/faulty-nodes.js';
import { seededRandom, testSeed } from '../support/random.js';
import { addFile } from '../support/spool.js';
import { onOpen, openOn, STATE_DIR } from '../support/store.js';
import { StoreClient } from './store-client.js';

const seed = testSeed();
const random = seededRandom(seed);
const LONG = process.env.FIELDPOST_TEST_LONG === '1';
/** The share of the operations before which the power is cut. */
const SHARE = LONG ? 1 : 0.2;
const KIB = 1024;
const VARIANTS: readonly PowerCut[] = ['nothing', 'everything', 'random', 'random', 'torn-head', 'torn-tail'];

interface CutPoint {
  readonly n: number;
  readonly operation: Operation;
  readonly books: StoreClient;
  readonly disks: readonly { kind: PowerCut; disk: FaultyDisk }[];
}

/** First start, single and batch accepts, the address book, outcomes of every kind, changes, hold, a clean stop and a restart. */
async function everyday(disk: FaultyDisk, books: StoreClient): Promise<void> {
  let { store, clock } = await openOn(disk, seed);
  await books.accept(store, [draftTo('first')]);
  await books.accept(store, [draftTo('b1'), draftTo('b2', 5000), draftTo('b3')], {
    key: 'key-1',
    hash: 'h1',
  });
  await Promise.all(['c1', 'c2', 'c3', 'c4'].map((name) => books.accept(store, [draftTo(name, 900)])));
  await books.destinations.add(store, 'john');
  await books.destinations.add(store, 'jane');
  await books.settle(store, 'first', { kind: 'sent', reply: '250 taken' });
  await books.destinations.change(store, 'john', 'nl');
  await books.destinations.sync(store, 'jim', '"1"', '"2"');
  await books.settle(store, 'b1', { kind: 'failed', reply: '550 unknown' });
  await books.settle(store, 'b2', { kind: 'deferred', reply: '451 later', delayMs: 60_000 });
  await clock.advance(1000);
  books.synced();
  await books.change(store, 'b1', 'retry', 'queued');
  await books.change(store, 'b3', 'cancel', 'cancelled');
  await books.setHeld(store, true);
  await books.settle(store, 'c1', { kind: 'sent', reply: '250 taken' });
  await Promise.all([
    books.accept(store, [draftTo('d1')]),
    books.settle(store, 'c2', { kind: 'sent', reply: '250' }),
  ]);
  await store.close();
  books.synced();
  ({ store, clock } = await openOn(disk, seed + 1));
  await books.setHeld(store, false);
  await books.destinations.remove(store, 'jane');
  await Promise.all([books.destinations.add(store, 'jack'), books.destinations.change(store, 'jim', 'pl')]);
  await books.accept(store, [draftTo('e1', 3000)]);
  await books.settle(store, 'e1', { kind: 'expired', reply: 'too old' });
  await books.settle(store, 'c3', { kind: 'sent', reply: '250 taken' });
  await clock.advance(1000);
  books.synced();
  await books.accept(store, [draftTo('f1')]);
}

/** Enough to change segments, checkpoint several times, and move old content to new segments. */
async function heavy(disk: FaultyDisk, books: StoreClient): Promise<void> {
  const { store, clock } = await openOn(disk, seed);
  for (let i = 0; i < 13; i++) {
    await books.accept(store, [draftTo(`small${i}`), draftTo(`big${i}`, 330 * KIB)], {
      key: `k${i}`,
      hash: 'h',
    });
    await books.settle(store, `big${i}`, { kind: 'sent', reply: '250 taken' });
    if (i % 4 === 3) {
      await clock.advance(1000);
      books.synced();
    }
  }
  for (let i = 0; i < 5; i++) {
    await books.accept(store, [draftTo(`more${i}`, 330 * KIB)]);
    await books.settle(store, `more${i}`, { kind: 'sent', reply: '250 taken' });
  }
  await books.accept(store, [draftTo('huge', 1500 * KIB)]);
  await books.accept(store, [draftTo('last')]);
  await store.close();
  books.synced();
}

/** Attachments: taken in, given up, replayed, together; kept for a retry, and gone after each kind of outcome. */
async function attachments(disk: FaultyDisk, books: StoreClient): Promise<void> {
  const { store, clock } = await openOn(disk, seed);
  const keyed = { key: 'key-1', hash: 'h1' };
  await books.acceptFiles(store, draftTo('a1'), [octets(3000), octets(0)], keyed);
  // A replay: the new files are not needed.
  const again = await store.upload(3000);
  const sent = await addFile(again, [octets(3000)]);
  await store.accept([{ ...draftTo('a1'), attachments: [sent] }], keyed);
  await again.discard();
  const givenUp = await store.upload(0);
  await addFile(givenUp, [octets(700)]).catch(() => undefined);
  await Promise.all([
    books.acceptFiles(store, draftTo('c1'), [octets(700)]),
    books.acceptFiles(store, draftTo('c2'), [octets(5000)]),
    books.accept(store, [draftTo('c3')]),
    givenUp.discard(),
  ]);
  await books.settle(store, 'a1', { kind: 'sent', reply: '250 taken' });
  await books.settle(store, 'c1', { kind: 'failed', reply: '550 unknown' });
  await books.acceptFiles(store, draftTo('d1'), [octets(600)]);
  await books.settle(store, 'd1', { kind: 'expired', reply: 'too old' });
  await clock.advance(1000);
  books.synced();
  await books.change(store, 'c1', 'retry', 'queued');
  await books.change(store, 'c2', 'cancel', 'cancelled');
  await books.settle(store, 'c1', { kind: 'sent', reply: '250 taken' });
  await store.close();
  books.synced();
}

/** Mails to several: their common file goes with the last of them, across a clean stop and a start by replay. */
async function recipients(disk: FaultyDisk, books: StoreClient): Promise<void> {
  let { store, clock } = await openOn(disk, seed);
  const keyed = { key: 'key-1', hash: 'h1' };
  await books.acceptFiles(store, draftToAll(['a1', 'a2', 'a3', 'a4']), [octets(3000)], keyed);
  await books.accept(store, [
    draftTo('b'),
    draftToAll(['c1', 'c2'], 5000),
    { ...draftTo('d'), urgent: true },
  ]);
  await books.settle(store, 'a1', { kind: 'sent', reply: '250 taken' });
  await books.settle(store, 'a2', { kind: 'failed', reply: '550 unknown' });
  await books.settle(store, 'c1', { kind: 'deferred', reply: '451 later', delayMs: 60_000 });
  await clock.advance(1000);
  books.synced();
  await books.change(store, 'a3', 'cancel', 'cancelled');
  await store.purge(false);
  await store.close();
  books.synced();
  ({ store, clock } = await openOn(disk, seed + 1));
  await books.settle(store, 'a4', { kind: 'expired', reply: 'too old' });
  await books.change(store, 'a2', 'retry', 'queued');
  await Promise.all([
    books.settle(store, 'a2', { kind: 'sent', reply: '250 taken' }),
    books.accept(store, [draftToAll(['e1', 'e2'], 900)]),
  ]);
  await books.settle(store, 'c2', { kind: 'sent', reply: '250 taken' });
  await clock.advance(1000);
  books.synced();
  await store.purge(false);
  await books.accept(store, [draftTo('f')]);
}

/** Runs the scenario once; before a share of all operations takes what some or all variants of a power cut would leave. */
async function cutPoints(
  scenario: (disk: FaultyDisk, books: StoreClient) => Promise<void>,
  options: {
    share?: number;
    kinds?: number;
    lie?: Lie;
    disk?: FaultyDisk;
    books?: StoreClient;
  } = {},
): Promise<CutPoint[]> {
  const { share = 1, kinds = VARIANTS.length, lie, books = new StoreClient() } = options;
  const disk = options.disk ?? new FaultyDisk({ random: seededRandom(seed), directories: ['/var/lib'] });
  lie?.(disk);
  const points: CutPoint[] = [];
  disk.onOperation = (n, operation) => {
    // Few change a name of a segment, and each of them matters.
    const isRare = ['remove', 'rename'].includes(operation.kind) && operation.path.includes('/journal/');
    if (!isRare && random() >= share) return 'ok';
    const at = Math.floor(random() * VARIANTS.length);
    const some = [...VARIANTS.slice(at), ...VARIANTS.slice(0, at)].slice(0, kinds);
    const disks = some.map((kind) => ({ kind, disk: disk.afterPowerCut(kind, random) }));
    points.push({ n, operation, books: books.copy(), disks });
    return 'ok';
  };
  await scenario(disk, books);
  return points;
}

/** Recovers each disk of each point; returns what was broken, at most about `limit` faults. */
async function sweep(points: readonly CutPoint[], limit = Number.POSITIVE_INFINITY): Promise<string[]> {
  const found: string[] = [];
  for (const { n, operation, books, disks } of points) {
    for (const { kind, disk } of disks) {
      const words = await recoverAndCheck(disk, books).catch((error: Error) => [
        `no start: ${error.message}`,
      ]);
      found.push(
        ...words.map((it) => `cut before ${n} (${operation.kind} ${operation.path}), ${kind}: ${it}`),
      );
    }
    if (found.length >= limit) break;
  }
  return found;
}

/** Recovers, checks, goes on a little, and cuts the power once more. */
async function recoverAndCheck(disk: FaultyDisk, books: StoreClient): Promise<string[]> {
  const { store } = await openOn(disk, seed + 7);
  const found = [...(await books.violations(store)), ...(await strayFiles(disk, STATE_DIR, store))];
  const later = books.copy();
  later.reconcile(store);
  await later.accept(store, [draftTo('after')]);
  await later.acceptFiles(store, draftTo('file'), [octets(600)]);
  await later.destinations.add(store, 'after');
  const { store: again } = await openOn(disk.afterPowerCut('nothing'), seed + 8);
  return [...found, ...(await later.violations(again)).map((words) => `after going on: ${words}`)];
}

t.comment(`seed ${seed}`);

for (const [use, scenario] of Object.entries({ 'everyday use': everyday, attachments, recipients })) {
  t.test(`the power cut before every operation of ${use}`, async (t) => {
    const points = await cutPoints(scenario, { share: SHARE });
    const found = await sweep(points);
    t.comment(
      `${points.length} cut points (${SHARE * 100} %) x ${VARIANTS.length} variants, ${found.length} violations`,
    );
    t.same(found.slice(0, 5), []);
  });
}

t.test('the power cut before every operation of heavy use', async (t) => {
  const kinds = LONG ? VARIANTS.length : 1;
  let relocations = 0;
  const lie = (disk: FaultyDisk) =>
    onWrite(disk, (bytes) => {
      if (bytes.includes('"e":"relocated"')) relocations++;
      return bytes;
    });
  const points = await cutPoints(heavy, { share: SHARE, kinds, lie });
  const found = await sweep(points);
  t.comment(`${points.length} cut points (${SHARE * 100} %) x ${kinds} variants, ${found.length} violations`);
  t.same(found.slice(0, 5), []);
  t.ok(relocations > 0, 'old content was moved');
  for (const kind of ['remove', 'rename'] as const) {
    const seen = points.some(
      ({ operation }) => operation.kind === kind && operation.path.includes('/journal/'),
    );
    t.ok(seen, `a segment was done with: ${kind}`);
  }
});

t.test('the power cut during recovery from a power cut', async (t) => {
  // Of both by samples, other ones every time.
  const sample = LONG ? { share: 0.15, kinds: VARIANTS.length } : { share: 0.05, kinds: 1 };
  const points = [...(await cutPoints(everyday, sample)), ...(await cutPoints(attachments, sample))];
  let recoveries = 0;
  const found: string[] = [];
  for (const { books, disks } of points) {
    for (const { disk } of disks) {
      const recovery = async (disk: FaultyDisk) => {
        const { store } = await openOn(disk, seed + 3);
        await store.close();
      };
      const inner = await cutPoints(recovery, { kinds: LONG ? 3 : 1, disk, books });
      recoveries += inner.length;
      found.push(...(await sweep(inner)));
    }
  }
  t.comment(`${recoveries} cuts during recovery, ${found.length} violations`);
  t.same(found.slice(0, 5), []);
  t.ok(recoveries > points.length, 'recovery itself writes');
});

type Lie = (disk: FaultyDisk) => void;

/** Each makes the disk, or the written bytes, lie in one point on which the promises rest. */
const PLANTED: readonly (readonly [fault: string, scenario: typeof everyday, lie: Lie])[] = [
  ['records are not synced', everyday, (disk) => skipSync(disk, /journal/)],
  ['the snapshot is not synced', everyday, (disk) => skipSync(disk, /store\.json/)],
  ["a segment's name is not synced", everyday, (disk) => skipDirectory(disk, /journal$/)],
  ["the state directory's names are not synced", everyday, (disk) => skipDirectory(disk, /fieldpost$/)],
  ["the state directory's own name is not synced", everyday, (disk) => skipDirectory(disk, /lib$/)],
  ['attachments are not synced', attachments, (disk) => skipSync(disk, /spool/)],
  ['a file that recipients share is not synced', recipients, (disk) => skipSync(disk, /spool/)],
  ['the file goes with the first recipient', recipients, removeEarly],
  ["attachments' names are not synced", attachments, (disk) => skipDirectory(disk, /spool$/)],
  ['attachments go before the outcome is synced', attachments, removeEarly],
  ['records are answered before they are synced', everyday, syncLate],
  ['a new segment does not say how far the one before counts', everyday, followsNothing],
  ['segments go before later snapshots are synced', heavy, (disk) => skipDirectory(disk, /fieldpost$/, 1)],
];

for (const [fault, scenario, lie] of PLANTED) {
  t.test(`the sweep sees when ${fault}`, async (t) => {
    const points = await cutPoints(scenario, { lie, kinds: scenario === heavy ? 2 : VARIANTS.length });
    // What shows only after a checkpoint shows sooner from the end.
    const found = await sweep(points.reverse(), 1);
    t.comment(found[0] ?? 'nothing seen');
    t.ok(found.length > 0, 'a violation is found');
  });
}

/** Lets `how` change what is written to the journal. */
function onWrite(disk: FaultyDisk, how: (bytes: Buffer, offset: number, segment: number) => Buffer): void {
  onOpen(disk, /journal/, (file, path) => {
    const { write } = file;
    const segment = Number.parseInt(basename(path), 10);
    file.write = (bytes, offset) => write.call(file, how(bytes, offset, segment), offset);
  });
}

function skipSync(disk: FaultyDisk, path: RegExp): void {
  onOpen(disk, path, (file) => {
    file.sync = async () => undefined;
  });
}

/** Syncs of the directory are left out, but for the first `after` of them. */
function skipDirectory(disk: FaultyDisk, path: RegExp, after = 0): void {
  const { syncDirectory } = disk;
  let seen = 0;
  disk.syncDirectory = async (at) => {
    if (path.test(at) && ++seen > after) return;
    await syncDirectory.call(disk, at);
  };
}

function syncLate(disk: FaultyDisk): void {
  onOpen(disk, /journal/, (file) => {
    const { sync } = file;
    file.sync = async () => {
      setImmediate(() => sync.call(file).catch(() => undefined));
    };
  });
}

/** Unlinks with the record, not after its sync. */
function removeEarly(disk: FaultyDisk): void {
  const files = new Map<string, string[]>();
  onOpen(disk, /journal/, (file, path) => {
    const { write } = file;
    file.write = async (bytes, offset) => {
      await write.call(file, bytes, offset);
      for (const line of linesOf(bytes))
        for (const event of decodeLine(line, Number.parseInt(basename(path), 10))?.events ?? []) {
          if (event.e === 'accepted')
            for (const { id, attachments = [] } of event.messages)
              files.set(
                id,
                attachments.map((attachment) => attachment.id),
              );
          if (event.e === 'sent' || event.e === 'cancelled' || event.e === 'expired')
            for (const id of files.get(event.id) ?? []) await disk.remove(`${STATE_DIR}/spool/${id}`);
        }
    };
  });
}

function* linesOf(bytes: Buffer): Iterable<Buffer> {
  for (let at = 0, end = bytes.indexOf('\n'); end !== -1; at = end + 1, end = bytes.indexOf('\n', at))
    yield bytes.subarray(at, end + 1);
}

function followsNothing(disk: FaultyDisk): void {
  onWrite(disk, (bytes, offset, segment) => {
    const end = bytes.indexOf('\n') + 1;
    const first = offset === 0 ? decodeLine(bytes.subarray(0, end), segment) : null;
    if (!first?.head) return bytes;
    const head = { ...first.head, follows: { ...first.head.follows, upTo: 2 ** 20 } };
    const lie = encodeLine(seal({ events: first.events, contents: first.contents }), {
      segment,
      synced: 0,
      head,
    });
    return Buffer.concat([lie, bytes.subarray(end)]);
  });
}
