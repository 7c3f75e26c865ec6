/**
 * How the history is kept: records of octets, one behind the other. Pure.
 *
 *     length of the payload (1), CRC-32 of the payload (4, the lowest first), payload
 *
 * A payload begins with a number: four times the number of its first ten minutes, plus its kind. Numbers are varints: seven
 * bits an octet, the lowest first; the top bit says that more follow. A signed number n is written as 2n, or -2n-1.
 *
 *     kind 0     rows of ten minutes, without a gap
 *     kind 1     rows of hours; the first begins with these ten minutes
 *     kind 2     a signed number: the clock leapt, and the rows from here on move by so many ten minutes
 *     kind 3     of a later program: skipped
 *
 * A row is as the one before it predicts, or says how it differs. Predicted are: nothing accepted, sent or failed; as many
 * waiting, and the same shares; a wait of at least a row goes on, a shorter one is over. Before the first row nothing
 * waited, and relay and link were there.
 *
 *     0x80 + n   n + 1 rows as predicted
 *     bits       1 accepted, 2 sent, 4 failed: numbers; 8 waiting, 16 oldest in seconds: signed, the difference;
 *                32 relay, 64 link: one octet, 0 for unknown, or 1 + percent
 *
 * A record counts if its CRC does. What does not is skipped octet by octet. A later record stands for an earlier one.
 */
import { Buffer } from 'node:buffer';
import { crc32 } from '../../base/crc.js';
import { type HistoryRow, hourOf, type Numbered, percentOf, shareOf, type Table } from './rows.js';

const HEAD_BYTES = 5;
/** No row is added to a payload of so many octets. */
const PAYLOAD_BYTES = 200;
const RUN = 0x80;
/** The shares of an hour count as those of six rows. */
const TIMES_OF_HOUR = 6;
const KINDS = 4;
const STEP_S = [600, 3600] as const;

const BEFORE: HistoryRow = {
  accepted: 0,
  sent: 0,
  failed: 0,
  waitingMax: 0,
  oldestS: 0,
  relay: shareOf(100),
  link: shareOf(100),
};

/** How long the oldest message has waited at the end of the next row, if it still waits. */
export function predictedS({ oldestS }: HistoryRow, stepS: number = STEP_S[0]): number {
  return oldestS >= stepS ? oldestS + stepS : 0;
}

/** True if the row of ten minutes is as the one before it predicts. */
export function isPredicted(row: HistoryRow, before: HistoryRow): boolean {
  return differing(row, before, STEP_S[0]).bits === 0;
}

/** How a row differs from what the one before predicts, as it is written. */
function differing(row: HistoryRow, before: HistoryRow, stepS: number) {
  const waiting = signed(row.waitingMax - before.waitingMax);
  const oldest = signed(row.oldestS - predictedS(before, stepS));
  const numbers = [row.accepted, row.sent, row.failed, waiting, oldest];
  const shares = [octetOf(row.relay), octetOf(row.link)];
  const isNew = [shares[0] !== octetOf(before.relay), shares[1] !== octetOf(before.link)];
  const given = [...numbers.map((number) => number !== 0), ...isNew];
  return { bits: given.reduce((sum, is, i) => sum + (is ? 1 << i : 0), 0), values: [...numbers, ...shares] };
}

/** The records of these rows. A row of an hour (kind 1) has the number of its first ten minutes. */
export function recordsOf(rows: readonly Numbered[], kind: 0 | 1): Buffer[] {
  const payloads: number[][] = [];
  let payload: number[] = [];
  let next = Number.NaN;
  let before = BEFORE;
  /** Where the run is that goes on, if one does. */
  let runAt = 0;
  for (const [number, row] of rows) {
    const at = kind === 0 ? number : hourOf(number);
    if (at !== next || payload.length > PAYLOAD_BYTES) {
      before = BEFORE;
      runAt = 0;
      payload = numberOctets(number * KINDS + kind);
      payloads.push(payload);
    }
    const { bits, values } = differing(row, before, STEP_S[kind]);
    const run = payload[runAt] as number;
    if (bits === 0 && runAt > 0 && run < 0xff) payload[runAt] = run + 1;
    else {
      runAt = bits === 0 ? payload.length : 0;
      payload.push(bits === 0 ? RUN : bits);
      values.forEach((value, i) => {
        if (bits & (1 << i)) payload.push(...numberOctets(value));
      });
    }
    before = row;
    next = at + 1;
  }
  return payloads.map(sealed);
}

/** The record of a leap of the clock. */
export function leapRecord(from: number, delta: number): Buffer {
  return sealed([...numberOctets(from * KINDS + 2), ...numberOctets(signed(delta))]);
}

function sealed(payload: readonly number[]): Buffer {
  const record = Buffer.from([payload.length, 0, 0, 0, 0, ...payload]);
  record.writeUInt32LE(crc32(record.subarray(HEAD_BYTES)), 1);
  return record;
}

/** The records in `bytes`, in their order: the number behind the last row, the length, and what to do to a table. */
export function* recordsIn(
  bytes: Buffer,
): Iterable<{ readonly end: number; readonly length: number; apply(table: Table): void }> {
  for (let at = 0; at + HEAD_BYTES < bytes.length; ) {
    const length = HEAD_BYTES + (bytes[at] as number);
    const payload = bytes.subarray(at + HEAD_BYTES, at + length);
    const isWhole = length > HEAD_BYTES && at + length <= bytes.length;
    if (!isWhole || crc32(payload) !== bytes.readUInt32LE(at + 1)) {
      at++;
      continue;
    }
    at += length;
    const { end, apply } = read(payload);
    yield { end, length, apply };
  }
}

function read(payload: Buffer): { end: number; apply(table: Table): void } {
  let at = 0;
  const next = () => {
    let number = 0;
    for (let factor = 1; at < payload.length; factor *= 128) {
      const octet = payload[at++] as number;
      number += (octet & 0x7f) * factor;
      if (octet < 0x80) break;
    }
    return number;
  };
  const [first, kind] = ((number) => [Math.floor(number / KINDS), number % KINDS])(next());
  if (kind === 2) {
    const delta = unsigned(next());
    return { end: first + delta, apply: (table) => table.shift(first, delta) };
  }
  const stepS = STEP_S[kind as 0 | 1] ?? 0;
  const times = kind === 0 ? 1 : TIMES_OF_HOUR;
  const rows: HistoryRow[] = [];
  let before = BEFORE;
  const add = (bits: number) => {
    const numbers = [1, 2, 4, 8, 16].map((bit) => (bits & bit ? next() : 0));
    const [accepted = 0, sent = 0, failed = 0, waiting = 0, oldest = 0] = numbers;
    const waitingMax = before.waitingMax + unsigned(waiting);
    const oldestS = predictedS(before, stepS) + unsigned(oldest);
    const relay = bits & 32 ? shareIn(next(), times) : before.relay;
    const link = bits & 64 ? shareIn(next(), times) : before.link;
    before = { accepted, sent, failed, waitingMax, oldestS, relay, link };
    rows.push(before);
  };
  while (at < payload.length && kind < 2) {
    const bits = payload[at++] as number;
    if (bits < RUN) add(bits);
    else for (let left = bits - RUN; left >= 0; left--) add(0);
  }
  const numberAt = (i: number) => (kind === 0 || i === 0 ? first + i : (hourOf(first) + i) * TIMES_OF_HOUR);
  return {
    end: numberAt(rows.length),
    apply(table) {
      rows.forEach((row, i) => {
        if (kind === 0) table.put(numberAt(i), row);
        else table.putHour(numberAt(i), row);
      });
    },
  };
}

function octetOf(share: HistoryRow['relay']): number {
  return (percentOf(share) ?? -1) + 1;
}

function shareIn(octet: number, times: number): HistoryRow['relay'] {
  return octet === 0 ? 0 : shareOf(octet - 1, times);
}

function signed(number: number): number {
  return number >= 0 ? 2 * number : -2 * number - 1;
}

function unsigned(number: number): number {
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}

function numberOctets(number: number): number[] {
  const octets: number[] = [];
  for (; number >= 128; number = Math.floor(number / 128)) octets.push((number % 128) + 128);
  return [...octets, number];
}
