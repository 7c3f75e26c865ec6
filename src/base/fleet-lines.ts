/**
 * What the operator's page and the commands of the cloud say of devices. Pure.
 */
import { counted } from './text.js';
import { isRelayDown } from './views.js';

/** All states that a device may be in, those that need a person first. `unheard`: it has a document or a key, and has sent
 * no heartbeat. */
export const DEVICE_STATES = ['offline', 'online', 'moved', 'unheard'] as const;
/** In place of a state: the devices that need a person, in any state. */
export const ATTENTION = 'attention';

/** One of DEVICE_STATES. */
export type DeviceState = (typeof DEVICE_STATES)[number];

/** How many devices are in each state, how many need a person, and of how many nobody is told. */
export type FleetCounts = Readonly<Record<DeviceState | typeof ATTENTION | 'quiet', number>>;

/** A device, as `GET /devices` tells it. Times are ISO 8601. */
export interface FleetDevice {
  readonly id: string;
  readonly name: string | null;
  readonly site: string | null;
  readonly tags: readonly string[];
  readonly state: string;
  readonly since: string | null;
  readonly lastHeartbeat: string | null;
  readonly destinations: number | null;
  readonly version: string | null;
  readonly queue: { readonly queued: number; readonly deferred: number; readonly failed: number } | null;
  readonly relay: string | null;
  readonly link: string | null;
  /** Names of its programs that gave no sign in time. */
  readonly late: readonly string[];
  /** Until then nobody is told that it is offline; null: people are. */
  readonly quiet: { readonly until: string; readonly why: string | null } | null;
}

/** One sentence about all devices, and its mood; `refused`: the calls of devices that are too many. */
export function fleetHeadline(counts: FleetCounts, refused: number): readonly [mood: string, words: string] {
  const { offline, online, attention, quiet, unheard } = counts;
  const count = countOf(counts);
  const hasNone = count === unheard;
  const all = counted(count, 'device');
  const some = (part: number) => `${part} of ${all} ${part === 1 ? 'is' : 'are'}`;
  const troubles = [
    ...(attention > 0 ? [`${attention} ${attention === 1 ? 'needs' : 'need'} attention`] : []),
    ...(refused > 0 ? [`there are too many: ${counted(refused, 'call')} of others refused`] : []),
  ];
  const isAllOnline = online === count;
  const rest = isAllOnline
    ? `${all}, ${count === 1 ? '' : 'all '}online`
    : `${some(online)} online, none is offline`;
  const seen = offline > 0 ? `${some(offline)} offline` : hasNone ? 'no device has called yet' : rest;
  const mood = offline > 0 ? 'bad' : troubles.length > 0 ? 'uneasy' : hasNone ? 'soft' : 'good';
  const quieted = quiet > 0 ? [`${quiet} ${quiet === 1 ? 'is' : 'are'} quiet`] : [];
  return [mood, [seen, ...troubles, ...quieted].join('; ')];
}

/** The number of all devices. */
export function countOf(counts: FleetCounts): number {
  return DEVICE_STATES.reduce((sum, state) => sum + counts[state], 0);
}

/** Why the device needs a person, in short; null if it does not. */
export function troubleOf({
  relay,
  queue,
  late,
}: Pick<FleetDevice, 'relay' | 'queue' | 'late'>): string | null {
  const failed = queue?.failed ?? 0;
  const reasons = [
    ...(isRelayDown(relay) ? [`relay ${relay}`] : []),
    ...(failed > 0 ? [`${counted(failed, 'message')} failed`] : []),
    ...(late.length > 0 ? [`${late.join(' and ')} late`] : []),
  ];
  return reasons.length === 0 ? null : reasons.join(', ');
}

/**
 * What a person does on a device with our package, so that it calls this cloud: each step in words, and what to type or to
 * add to a file. The key itself is in none, so that no shell keeps it. With cat standard input may be a socket, too.
 */
export function joiningSteps(cloud: string, id: string): readonly (readonly [words: string, text: string])[] {
  return [
    [
      'On the device, as root: save the key, which only root may read. Paste it, then press Enter and Ctrl+D:',
      'cat | install -D -m 600 /dev/stdin /etc/credstore/fieldpost.cloud-key',
    ],
    [
      'Add to /etc/fieldpost/fieldpost.env:',
      `FIELDPOST_CLOUD=${cloud.replace(/\/+$/, '')}\nFIELDPOST_DEVICE_ID=${id}`,
    ],
    ['Restart its service, which reads the key:', 'systemctl restart fieldpost'],
  ];
}
