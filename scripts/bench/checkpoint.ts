/**
 * Our side of checkpoint.mjs: a process that makes snapshots of so many queued messages and prints what they cost, as JSON.
 * Between two snapshots two thousand messages change. The peer is JSON.stringify of lists of the same values, once for all.
 * Each figure is the least of its rounds: what else runs on the machine only adds.
 */
import { fromDocument, toDocument } from '../../src/mail/store/document.js';
import { decodeSnapshot, encodeSnapshot } from '../../src/mail/store/snapshot.js';
import { apply, emptyState, type State } from '../../src/mail/store/state.js';
import { boundsOf } from '../../src/mail/store/weight.js';

const [queued = 0, rounds = 0] = process.argv.slice(2).map(Number);
const BOUNDS = boundsOf({ historyMax: 1000 });
const CHANGED = 2000;
const THROUGH = { segment: 1, offset: 0 };
const STAMP = { boot: 'abcdefab', bootMs: 1 };

const idOf = (n: number) => `${n.toString(32).padStart(7, '0').toUpperCase()}ABCDEFGH`;

function accept(state: State, n: number): void {
  const message = { id: idOf(n), type: 1, destination: `john${n}@example.com`, subject: 'Load' } as const;
  const content = { from: 'device@example.com' as never, length: 1100, crc: 3_000_000_000 + n };
  const at = { ...STAMP, bootMs: 1_000_000 + n };
  const place = { segment: 1 + (n >> 9), offset: (n & 511) * 1200 };
  apply(state, [{ e: 'accepted', at, reachMs: n, messages: [{ ...message, ...content }] }], place);
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const state = emptyState(BOUNDS);
for (let n = 0; n < queued; n++) accept(state, n);
const costs: number[] = [];
const longest: number[] = [];
const peers: number[] = [];
let bytes = Buffer.alloc(0);
for (let round = 0; round < 2 * rounds; round++) {
  for (let i = 0; i < CHANGED; i++) {
    const id = idOf((round * CHANGED + i) % queued);
    apply(state, [{ e: 'deferred', id, attempts: 1, reply: '450 4.2.0 later', due: STAMP }], THROUGH);
  }
  const pieces: Buffer[] = [];
  const steps: number[] = [];
  let before = cpuMs();
  const step = () => {
    const now = cpuMs();
    steps.push(now - before);
    before = now;
  };
  const made = encodeSnapshot(THROUGH, toDocument(state));
  let next = made.next();
  for (; !next.done; next = made.next()) {
    step();
    pieces.push(next.value);
  }
  step();
  bytes = Buffer.concat(pieces);
  next.value.bytes.copy(bytes, next.value.at);
  // The first half compiles.
  if (round < rounds) continue;
  costs.push(steps.reduce((sum, ms) => sum + ms, 0));
  longest.push(Math.max(...steps));
  const lists = [...state.messages].map(({ id, destination, subject, place }) => [
    ...[id, 0, destination, subject, 1_000_000, 7, place?.segment, place?.offset, place?.length, place?.crc],
  ]);
  before = cpuMs();
  JSON.stringify(lists);
  peers.push(cpuMs() - before);
}
const read = decodeSnapshot(bytes);
if (!read || fromDocument(read.state(), BOUNDS).messages.size !== queued) throw new Error('it is not whole');
console.log(
  JSON.stringify({
    cpuMs: Math.min(...costs),
    longestMs: Math.min(...longest),
    peerMs: Math.min(...peers),
  }),
);
