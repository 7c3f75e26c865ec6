/**
 * The last heartbeat of a device, and what people were last told of it, as etcd keeps them: JSON with short names, because
 * each heartbeat is written.
 *
 *   seen   a: wall time; f: since when it is so; s: said; e: interval in ms; b, u: its boot and uptime; st: its status
 *   told   o: 1 if people were told that it is offline; a: the wall time of its last heartbeat
 */
import { isJsonObject } from '../../base/json.js';
import type { Report } from '../fleet-store.js';
import { SAID, type Said } from '../presence.js';
import { statusOf } from '../status.js';

/** A heartbeat. Wall times are null if the clock was wrong. */
export interface Seen extends Report {
  readonly atMs: number | null;
  /** Since when the device is in the state that it had with this heartbeat. */
  readonly sinceMs: number | null;
}

/** True for one heartbeat that was written twice. One that came at a time that is not known is always new. */
export function isSame(a: Seen, b: Seen): boolean {
  return a.atMs !== null && a.atMs === b.atMs && seenText(a) === seenText(b);
}

/** A heartbeat as it is written. */
export function seenText({ atMs, sinceMs, said, everyMs, sent, status }: Seen): string {
  return JSON.stringify({
    a: atMs,
    f: sinceMs,
    s: said,
    e: everyMs,
    ...(sent && { b: sent.bootId, u: sent.uptimeMs }),
    ...(status !== undefined && { st: status }),
  });
}

/** Null: not a value of seenText. */
export function parseSeen(text: string): Seen | null {
  const value = parse(text);
  if (value === null || !SAID.includes(value.s as Said)) return null;
  const { a, f, s, e, b, u, st } = value;
  return {
    atMs: numberOf(a),
    sinceMs: numberOf(f),
    said: s as Said,
    everyMs: numberOf(e) ?? 0,
    sent: typeof b === 'string' && typeof u === 'number' ? { bootId: b, uptimeMs: u } : null,
    ...(isJsonObject(st) && { status: statusOf(st) }),
  };
}

/** What people were last told. */
export interface LastTold {
  readonly isOffline: boolean;
  /** Offline: when the device was last heard; null: not known. */
  readonly heardMs: number | null;
}

/** What people were told, as it is written. */
export function toldText({ isOffline, heardMs }: LastTold): string {
  return JSON.stringify({ o: Number(isOffline), a: heardMs });
}

/** A value that cannot be read counts as never told. */
export function parseTold(text: string): LastTold {
  const value = parse(text);
  return { isOffline: value?.o === 1, heardMs: numberOf(value?.a) };
}

function parse(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

const numberOf = (value: unknown) => (typeof value === 'number' ? value : null);
