/**
 * Where the fleet's state is in etcd. All keys begin with FIELDPOST_CLOUD_SERVER_STORE_PREFIX:
 *
 *   layout                   LAYOUT
 *   instance/<id>            an instance, under its lease; its value counts its ticks
 *   at/<device>              where the device is: its home, its state, and its last report
 *   doc/<device>             its destinations document
 *   keys/<device>            its keys, hashed
 *   news/<id>                news that people have not been told yet, or whose end they will be told
 *   message/<device>/<id>    a device's message that no instance has accepted yet
 *   taken/<device>/<id>      the hash of such a message, for a week: a repeated call is recognized
 *
 * Values are JSON, in `at` with short names:
 *
 *   h: its home; o: 1 if it is offline; a: wall time of its last heartbeat; l: the same of the last one before it was offline;
 *   f: since when it is so; s: said; e: interval in ms; b, u, n: its boot, uptime and heartbeats; d: damping; st: its status;
 *   m: its marks
 */
import { FieldpostError } from '../../base/errors.js';
import { isJsonObject, objectIn } from '../../base/json.js';
import { SECOND_MS } from '../../base/limits.js';
import { marksIn, writtenMarks } from '../marks.js';
import { SAID, type Said, statusOf } from '../presence.js';
import type { Watched } from '../watch.js';

/** Another one means other keys or values. */
export const LAYOUT = '3';
/** The layout during an import; the digest of the export follows. */
export const IMPORTING = 'import ';

/** Throws FieldpostError unless a cloud of this version may use the keys. */
export function assertLayout(found: string): void {
  if (found === LAYOUT) return;
  const [words, hint] = found.startsWith(IMPORTING)
    ? [
        'An import into the fleet in etcd has not ended',
        'run it again: fieldpost-cloud import, the same file',
      ]
    : [
        `The fleet in etcd has layout ${found}, and this program knows ${LAYOUT}`,
        'run the version of fieldpost-cloud that has written it, or another prefix',
      ];
  throw new FieldpostError('unavailable', words, { hint });
}

/** An instance renews its lease at each tick. */
export const FLEET_TICK_MS = 2 * SECOND_MS;
/** An instance whose memory is older than this decides nothing. */
export const FLEET_STALE_MS = 10 * SECOND_MS;

/** The items in chunks of at most `size`. */
export function* chunksOf<Item>(items: readonly Item[], size: number): Generator<readonly Item[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size);
}

/** What etcd has of a device. Wall times are null if the clock was wrong. */
export interface At extends Pick<Watched, 'told' | 'home' | 'status' | 'marks'> {
  readonly heardMs: number | null;
  /** When it was last heard before people were told that it is offline. */
  readonly awayMs: number | null;
  readonly sinceMs: number | null;
  readonly said: Said;
  readonly everyMs: number;
  readonly sent: Watched['presence']['sent'];
  readonly damping: number;
}

/** The value of `at`. */
export function atText(at: At): string {
  const { home, told, heardMs, awayMs, sinceMs, said, everyMs, sent, damping, status } = at;
  const marks = writtenMarks(at.marks);
  return JSON.stringify({
    h: home,
    ...(told === 'offline' && { o: 1, l: awayMs }),
    ...{ a: heardMs, f: sinceMs, s: said, e: everyMs },
    ...(sent && { b: sent.bootId, u: sent.uptimeMs, n: sent.sequence }),
    ...(damping > 1 && { d: damping }),
    st: status,
    ...(marks !== null && { m: marks }),
  });
}

/** Throws SyntaxError for a value that is none of atText. */
export function parseAt(text: string): At {
  const { h, o, a, l, f, s, e, b, u, n, d, st, m } = objectIn(text) ?? {};
  const said = SAID.find((one) => one === s);
  if (typeof h !== 'string' || said === undefined) throw new SyntaxError('no device');
  return {
    ...{
      home: h,
      told: o === 1 ? 'offline' : 'online',
      said,
      status: statusOf(isJsonObject(st) ? st : {}),
      marks: marksIn(m),
    },
    ...{ heardMs: numberIn(a), awayMs: numberIn(l), sinceMs: numberIn(f) },
    ...{ everyMs: numberIn(e) ?? 0, damping: numberIn(d) ?? 1 },
    sent: typeof b === 'string' && typeof u === 'number' ? sentOf(b, u, n) : null,
  };
}

const sentOf = (bootId: string, uptimeMs: number, sequence: unknown) => ({
  ...{ bootId, uptimeMs },
  ...(typeof sequence === 'number' && { sequence }),
});

const numberIn = (value: unknown) => (typeof value === 'number' ? value : null);
