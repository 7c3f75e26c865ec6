/**
 * Judges what people were told of the devices of a fleet by the devices' own record. Used by fleet-faults.test.ts.
 */
import type { LoadDevice } from '../support/fleet-load.js';
import type { Instance, SunkMessage } from './fleet.js';

/** A time in which a device was silent on purpose. Moments are on one clock. */
export interface Silence {
  readonly id: string;
  readonly fromMs: number;
  /** When its last heartbeat was answered with 200. */
  readonly okMs: number;
  readonly said: 'nothing' | 'stopping';
  /** When it spoke again; null: never. */
  untilMs: number | null;
}

/** A fault of one instance, or of a member of etcd. */
export interface Trouble {
  readonly what: string;
  /** The name of the instance; null: a member. */
  readonly instance: string | null;
  readonly fromMs: number;
  toMs: number;
}

/** What the judge needs to know. */
export interface Evidence {
  readonly devices: readonly LoadDevice[];
  readonly silences: readonly Silence[];
  readonly troubles: readonly Trouble[];
  readonly messages: readonly SunkMessage[];
  readonly instances: readonly Instance[];
  /** A device that was heard within this time is not offline: its delay, less one heartbeat that may be lost. */
  readonly patienceMs: number;
  readonly stopPatienceMs: number;
}

type Kind = 'silent' | 'stopped' | 'back';
/** A message about one device. */
export interface Notification extends SunkMessage {
  readonly device: string;
  readonly kind: Kind;
  /** When an instance noted in its log that it accepted the message; else when the message came. */
  readonly acceptedMs: number;
}

const WORDS: readonly (readonly [RegExp, Kind])[] = [
  [/is offline/, 'silent'],
  [/is still shut down/, 'stopped'],
  [/is back online/, 'back'],
];

/** The messages about one device each, in the order of their acceptance. Digests are left out. */
export function notificationsIn({
  messages,
  instances,
}: Pick<Evidence, 'messages' | 'instances'>): Notification[] {
  const accepted = new Map<string, number>();
  for (const { name, lines } of instances) {
    for (const { atMs, text } of lines) {
      const ids = / notified .*ids=([\w,]+)/.exec(text)?.[1]?.split(',') ?? [];
      for (const id of ids) accepted.set(`${name} ${id}`, atMs);
    }
  }
  return messages
    .flatMap((message) => {
      const kind = WORDS.find(([words]) => words.test(message.text))?.[1];
      if (message.device === null || kind === undefined) return [];
      const acceptedMs = Math.min(accepted.get(message.id) ?? message.atMs, message.atMs);
      return [{ ...message, device: message.device, kind, acceptedMs }];
    })
    .sort((a, b) => a.acceptedMs - b.acceptedMs);
}

/** The faults: somebody was told who should not, or was told twice for no reason. */
export function faultsOfTelling(evidence: Evidence): { faults: string[]; duplicates: number } {
  const { troubles, devices, instances } = evidence;
  const faults: string[] = [];
  const notifications = notificationsIn(evidence);
  const byId = new Map(devices.map((device) => [device.id, device]));
  for (const one of notifications) {
    const device = byId.get(one.device);
    if (device === undefined || !isJustified(one, device, evidence)) faults.push(`${describe(one)}: not so`);
  }
  for (const { name, lines } of instances) {
    for (const { atMs, text } of lines) {
      const id = / device offline device=(\S+)/.exec(text)?.[1];
      const device = id === undefined ? undefined : byId.get(id);
      if (device === undefined) continue;
      const kind = /stopped=true/.test(text) ? 'stopped' : 'silent';
      if (!isJustified({ device: device.id, kind, atMs }, device, evidence))
        faults.push(`${name}: ${text}: not so`);
    }
  }
  let duplicates = 0;
  const last = new Map<string, Notification>();
  for (const one of notifications) {
    const person = `${one.device} ${one.destination}`;
    const earlier = last.get(person);
    last.set(person, one);
    const isAgain =
      earlier === undefined ? one.kind === 'back' : (earlier.kind === 'back') === (one.kind === 'back');
    if (!isAgain) continue;
    duplicates++;
    const excuse = troubles.some(
      ({ instance, fromMs, toMs }) =>
        instance === earlier?.instance && fromMs <= one.atMs && toMs >= earlier.acceptedMs - 1000,
    );
    if (!excuse) faults.push(`${earlier && describe(earlier)}, then ${describe(one)}: told twice`);
  }
  return { faults, duplicates };
}

/** True if the device was silent for long enough, or had spoken again. */
function isJustified(
  { device: id, kind, atMs }: Pick<Notification, 'device' | 'kind' | 'atMs'>,
  device: LoadDevice,
  { silences, patienceMs, stopPatienceMs }: Evidence,
): boolean {
  const own = silences.filter((silence) => silence.id === id);
  if (kind === 'back') {
    const wasAway = device.gapMs >= patienceMs;
    return wasAway || own.some(({ untilMs }) => untilMs !== null && untilMs <= atMs);
  }
  const said = kind === 'stopped' ? 'stopping' : 'nothing';
  const limitMs = kind === 'stopped' ? stopPatienceMs : patienceMs;
  const wasSilent = own.some((one) => one.said === said && atMs - one.okMs >= limitMs && atMs >= one.fromMs);
  return wasSilent || (kind === 'silent' && device.gapMs >= patienceMs);
}

function describe({ instance, device, kind, destination, atMs }: Notification): string {
  return `${device} ${kind} to ${destination} by ${instance} at ${Math.round(atMs)}`;
}
