/**
 * Judges what people were told of the devices of a fleet by the devices' own record.
 */
import { FLEET_STALE_MS } from '../../src/cloud/etcd/layout.js';
import type { LoadDevice, Try } from '../support/fleet-load.js';
import type { Instance, SunkMessage } from './fleet.js';

/** A fault of one instance, or of a member of etcd. Moments are on one clock. */
export interface Trouble {
  readonly what: string;
  /** The name of the instance; null: a member. */
  readonly instance: string | null;
  readonly fromMs: number;
  toMs: number;
}

/** What the judge needs to know. */
export interface Evidence {
  readonly devices: readonly Pick<LoadDevice, 'id' | 'tries'>[];
  readonly troubles: readonly Trouble[];
  readonly messages: readonly SunkMessage[];
  readonly instances: readonly Pick<Instance, 'name' | 'url' | 'lines'>[];
  /** After this long without a heartbeat a device is offline, or after a stop still shut down. */
  readonly delayMs: number;
  readonly stopDelayMs: number;
}

type Kind = 'silent' | 'stopped' | 'back';
/** A message about one device. */
export interface Notification extends SunkMessage {
  readonly device: string;
  readonly kind: Kind;
  /** When an instance noted in its log that it accepted the message; else when the message came. */
  readonly acceptedMs: number;
}

/** A time in which the cloud may not have heard a device. */
interface Outage {
  readonly kind: 'silent' | 'stopped';
  /** From here on people may be told. */
  readonly dueMs: number;
  /** By then the cloud has heard the device again; Infinity: it has not. */
  readonly untilMs: number;
}

const WORDS: readonly (readonly [RegExp, Kind])[] = [
  [/is offline/, 'silent'],
  [/is still shut down/, 'stopped'],
  [/is back online/, 'back'],
];
/** In these an instance may lose what it has answered with 200. At a stop it writes what it has. */
const LOSSES = ['kill', 'pause', 'cut'];
/** Members of etcd are down. */
export const NO_QUORUM = 'no quorum';
/** In these a request waits for the end of the fault. */
const BUFFERED = ['pause', 'cut'];

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
    const tries = byId.get(one.device)?.tries ?? [];
    if (!isJustified(one, tries, evidence)) faults.push(`${describe(one)}: not so\n${recordOf(tries, one)}`);
  }
  for (const { name, lines } of instances) {
    for (const { atMs, text } of lines) {
      const id = / device offline device=(\S+)/.exec(text)?.[1];
      const tries = id === undefined ? undefined : byId.get(id)?.tries;
      if (tries === undefined) continue;
      const kind = /stopped=true/.test(text) ? 'stopped' : 'silent';
      if (!isJustified({ kind, atMs }, tries, evidence, lateMsOf(name, atMs, troubles)))
        faults.push(`${name}: ${text}: not so\n${recordOf(tries, { atMs })}`);
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

/**
 * True if the cloud may not have heard the device for a delay; for a return: and if the device has spoken since. `lateMs`: the
 * time between the device's return and the end of what may be said of its outage. A message may come at any time.
 */
function isJustified(
  { kind, atMs }: Pick<Notification, 'kind' | 'atMs'>,
  tries: readonly Try[],
  evidence: Evidence,
  lateMs = Number.POSITIVE_INFINITY,
): boolean {
  const outages = outagesOf(tries, evidence);
  if (kind !== 'back')
    return outages.some(
      (outage) => outage.kind === kind && outage.dueMs <= atMs && atMs <= outage.untilMs + lateMs,
    );
  return outages.some(({ dueMs }) =>
    tries.some((one) => heardByMs(one, evidence) >= dueMs - FLEET_STALE_MS && one.sentMs <= atMs),
  );
}

/**
 * When the cloud may have heard the request at the latest. What a device sends to an instance that is paused or cut off lies
 * in a buffer of the system; the instance reads it when its fault ends, long after the device has given it up.
 */
function heardByMs({ url, sentMs, okMs }: Try, evidence: Evidence): number {
  if (okMs !== null) return okMs;
  const ends = troublesOf(url, sentMs, evidence)
    .filter(({ what }) => BUFFERED.includes(what))
    .map(({ toMs }) => toMs + FLEET_STALE_MS);
  return Math.max(sentMs, ...ends);
}

/** The faults of the instance behind this URL at this moment, and those that began up to FLEET_STALE_MS later. */
function troublesOf(
  url: string,
  atMs: number,
  { instances, troubles }: Pick<Evidence, 'instances' | 'troubles'>,
): Trouble[] {
  const name = instances.find((instance) => instance.url === url)?.name;
  return troubles.filter(
    ({ instance, fromMs, toMs }) => instance === name && fromMs - FLEET_STALE_MS <= atMs && atMs <= toMs,
  );
}

/**
 * How long after the device was heard again an instance may log its decision: its last transaction may have taken some
 * seconds, or a whole fault of the instance.
 */
function lateMsOf(name: string, atMs: number, troubles: readonly Trouble[]): number {
  const hadFault = troubles.some(
    ({ instance, fromMs, toMs }) => instance === name && fromMs <= atMs && toMs >= atMs - FLEET_STALE_MS,
  );
  return hadFault ? Number.POSITIVE_INFINITY : FLEET_STALE_MS;
}

/**
 * The cloud hears a device when it answers 200, or up to FLEET_STALE_MS later, because a heartbeat may wait for etcd. What
 * an instance had answered when it was killed, paused or cut off may be lost. What was not answered with 200 may have been
 * heard.
 */
function outagesOf(tries: readonly Try[], { delayMs, stopDelayMs, ...evidence }: Evidence): Outage[] {
  const outages: Outage[] = [];
  let nextMs = Number.POSITIVE_INFINITY;
  for (const one of tries.toReversed()) {
    const kind = one.state === 'stopping' ? 'stopped' : 'silent';
    const dueMs = one.sentMs + (kind === 'stopped' ? stopDelayMs : delayMs);
    if (dueMs <= nextMs && one.state !== 'moved') outages.push({ kind, dueMs, untilMs: nextMs });
    if (isHeard(one, evidence)) nextMs = (one.okMs as number) + FLEET_STALE_MS;
  }
  return outages;
}

function isHeard({ url, okMs }: Try, { instances, troubles }: Pick<Evidence, 'instances' | 'troubles'>) {
  if (okMs === null) return false;
  // Without a quorum only the memory of the instance has it.
  const [without] = troubles.filter(
    ({ what, fromMs, toMs }) => what === NO_QUORUM && fromMs - FLEET_STALE_MS <= okMs && okMs <= toMs,
  );
  const keptMs = (without?.toMs ?? okMs) + FLEET_STALE_MS;
  const name = instances.find((instance) => instance.url === url)?.name;
  return !troubles.some(
    ({ what, instance, fromMs, toMs }) =>
      LOSSES.includes(what) && instance === name && fromMs <= keptMs && okMs <= toMs,
  );
}

function describe({ instance, device, kind, destination, atMs }: Notification): string {
  return `${device} ${kind} to ${destination} by ${instance} at ${Math.round(atMs)}`;
}

/** What the device sent before this moment, and a little after. */
export function recordOf(tries: readonly Try[], { atMs }: { readonly atMs: number }): string {
  return tries
    .filter(({ sentMs }) => sentMs <= atMs + FLEET_STALE_MS)
    .slice(-12)
    .map(({ url, state, sentMs, okMs }) => {
      return `  ${Math.round(sentMs)} ${state} to ${url}: ${okMs === null ? 'no' : Math.round(okMs)}`;
    })
    .join('\n');
}
