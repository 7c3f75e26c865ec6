/** Which waits between replies end pipelining, and which do not. */
import { test } from 'tap';
import {
  Pipelining,
  STALL_MS,
  STALLED_WRITES_MAX,
  TRICKLE_MS,
} from '../../../src/mail/delivery/smtp/conversation.js';

/** The waits before the replies to one write: from the write to the first, from that to the second, … */
type Waits = readonly number[];
const LAN_MS = 1;
/** As Nagle's algorithm and a delayed acknowledgement have them over that round trip. */
const announced = (tripMs = LAN_MS): Waits => [tripMs, 40 + tripMs, 0, 0];
const introduced = (tripMs = LAN_MS): Waits => [tripMs, 40 + tripMs, 0];

/** Whether pipelining still pays after these writes. */
function paysAfter(...writes: Waits[]): boolean {
  const pipelining = new Pipelining();
  let nowMs = 1000;
  for (const waits of writes) {
    pipelining.wrote(nowMs);
    for (const [index, waitMs] of waits.entries()) {
      nowMs += waitMs;
      pipelining.replied(nowMs, index === waits.length - 1);
    }
    nowMs += 1000;
  }
  return pipelining.pays;
}

function times(count: number, ...writes: Waits[]): Waits[] {
  return Array.from({ length: count }, () => writes).flat();
}

test('stalled writes in a row end it, whatever was in them', async (t) => {
  const all = STALLED_WRITES_MAX;
  for (const stalled of [announced(), introduced(), [LAN_MS, 0, STALL_MS], [LAN_MS, 0, 0, STALL_MS]]) {
    t.ok(paysAfter(...times(all - 1, stalled)), `${stalled}`);
    t.notOk(paysAfter(...times(all, stalled)), `${stalled}`);
  }
  t.notOk(paysAfter(introduced(), announced(), introduced()), 'mixed');
  t.notOk(paysAfter(...times(all, announced()), ...times(100, [LAN_MS])), 'for good');
});

test('a write without a stall in between starts the count anew', async (t) => {
  t.ok(paysAfter(...times(100, announced(), announced(), [LAN_MS, 0, 0, 0])));
  t.notOk(paysAfter(...times(STALLED_WRITES_MAX, announced(), [LAN_MS])), 'a single command proves nothing');
});

test('a stall that costs less than the round trips saved is borne', async (t) => {
  t.notOk(paysAfter(...times(100, announced(19))), '40 + 19 ms, to save 3 × 19 ms');
  t.ok(paysAfter(...times(100, announced(20))));
  t.notOk(paysAfter(...times(100, introduced(39))), '40 + 39 ms, to save 2 × 39 ms');
  t.ok(paysAfter(...times(100, introduced(40))));
  t.ok(paysAfter(...times(100, announced(150))));
  t.ok(paysAfter([5000], [60], ...times(100, announced(60))), 'a slow EHLO counts for nothing');
  t.notOk(paysAfter([LAN_MS], ...times(100, [300, 41, 0, 0])), 'nor does the time to store a mail');
});

test('pauses that are short, or before the first reply, are no stalls', async (t) => {
  t.ok(paysAfter(...times(100, [LAN_MS, STALL_MS - 1, STALL_MS - 1, STALL_MS - 1])));
  t.ok(paysAfter([LAN_MS], ...times(100, [900, 0, 0, 0])), 'the relay takes long to store each mail');
});

test('a relay that delays each reply ends it at once, also if EHLO was as slow', async (t) => {
  const slow = [TRICKLE_MS, TRICKLE_MS, TRICKLE_MS];
  t.notOk(paysAfter([TRICKLE_MS], slow));
  t.ok(paysAfter([TRICKLE_MS], [TRICKLE_MS, TRICKLE_MS - 1, TRICKLE_MS]));
  t.ok(paysAfter(...times(100, [TRICKLE_MS])), 'single commands');
});
