/**
 * All devices with a heartbeat, a document or a key. Limits the number of those that are more than a line of the keys file,
 * and lets the operator list them, filtered, in an order and in pages, and remove them.
 */
import { FieldpostError } from '../base/errors.js';
import { DEVICE_STATES, type DeviceState, type FleetCounts } from '../base/fleet-lines.js';
import { SECOND_MS } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import type { DeviceKeys, FleetDocuments, FleetWatch } from './fleet-store.js';
import { namesDevice } from './keys.js';
import { NO_MARKS, type QuietTime, quietAt } from './marks.js';
import { type DeviceStatus, NO_STATUS, needsHelp } from './presence.js';
import type { Sighting } from './sighting.js';

/** Devices of the file store, and of one page of a list. */
export const CLOUD_DEVICES_MAX = 10_000;
/** Devices of a store that several instances share. */
export const FLEET_DEVICES_MAX = 200_000;

/** A device as the operator sees it. */
export interface Device {
  readonly id: string;
  /** The name in its document; null: it has none. */
  readonly name: string | null;
  readonly site: string | null;
  readonly tags: readonly string[];
  readonly state: DeviceState;
  /** Wall time of the last heartbeat; null: there was none, or its wall time is unknown. */
  readonly heardMs: number | null;
  /** Wall time since which it is in this state; null: not known. */
  readonly sinceMs: number | null;
  /** The number of entries in its document; null: it has none. */
  readonly destinations: number | null;
  readonly status: DeviceStatus;
  /** The quiet that it has now; null: none. */
  readonly quiet: QuietTime | null;
}

/** The devices that are wanted; null: any. */
interface DeviceFilter {
  readonly state: Device['state'] | null;
  /** A part of the id, the name, the site or a tag, in lower case. */
  readonly part: string;
  /** The whole site, and a whole tag, in lower case. */
  readonly site: string | null;
  readonly tag: string | null;
  readonly version: string | null;
  /** True: only those that need a person. */
  readonly attention: boolean;
}

/** A page of them: at most `limit`, those that come after the device `after`. */
export interface DeviceQuery extends DeviceFilter {
  readonly after: string | null;
  readonly order: keyof typeof ORDERS;
  readonly limit: number;
}

/** A page of the devices that fit. */
interface DeviceList {
  /** In the order that was asked for. */
  readonly devices: readonly Device[];
  /** The `after` of the next page; null: there is none. */
  readonly next: string | null;
  /** The number of devices that fit, on all pages. */
  readonly total: number;
  /** Of all devices, whether they fit or not. */
  readonly counts: FleetCounts;
}

/** True if the device is one of those that are wanted. */
function fits(device: Device, { state, part, site, tag, version, attention }: DeviceFilter): boolean {
  const { id, name, status, tags } = device;
  if (state !== null && device.state !== state) return false;
  if (version !== null && status.version !== version) return false;
  if (attention && !needsHelp(status)) return false;
  if (site !== null && device.site?.toLowerCase() !== site) return false;
  if (tag !== null && !tags.some((one) => one.toLowerCase() === tag)) return false;
  return (
    part === '' ||
    [id, name ?? '', device.site ?? '', ...tags].some((text) => text.toLowerCase().includes(part))
  );
}

type Compare<Item> = (one: Item, other: Item) => number;

/** `attention`: those that need a person come first. */
export const ORDERS = {
  id: (one, other) => compareIds(one.id, other.id),
  attention: (one, other) => rankOf(one) - rankOf(other) || compareIds(one.id, other.id),
} as const satisfies Record<string, Compare<Device>>;

/** Who is quiet, because nobody is told of it, then who is offline, then who has trouble, then the others by state. */
function rankOf({ state, status, quiet }: Device): number {
  if (quiet !== null) return -1;
  return state !== 'offline' && needsHelp(status) ? 0.5 : DEVICE_STATES.indexOf(state);
}

const PEOPLE = new Intl.Collator('en', { numeric: true });

/** As people sort and count: pump-2 comes before pump-10. Ids that are alike to them (01 and 1) have their order as texts. */
export function compareIds(one: string, other: string): number {
  return PEOPLE.compare(one, other) || (one < other ? -1 : Number(one > other));
}

/** The lowest of many, without sorting them all. */
export class Lowest<Item> {
  readonly #count: number;
  readonly #compare: Compare<Item>;
  readonly #kept: Item[] = [];
  /** Higher ones are not among the lowest. */
  #highest: Item | null = null;
  #isMore = false;

  constructor(count: number, compare: Compare<Item>) {
    this.#count = count;
    this.#compare = compare;
  }

  add(item: Item): void {
    if (this.#highest !== null && this.#compare(item, this.#highest) > 0) this.#isMore = true;
    else if (this.#kept.push(item) === 2 * this.#count) this.#trim();
  }

  /** The lowest in order, and whether there were others. */
  end(): { readonly lowest: readonly Item[]; readonly isMore: boolean } {
    this.#trim();
    return { lowest: this.#kept, isMore: this.#isMore };
  }

  #trim(): void {
    this.#kept.sort(this.#compare);
    if (this.#kept.length <= this.#count) return;
    this.#isMore = true;
    this.#kept.length = this.#count;
    this.#highest = this.#kept.at(-1) ?? null;
  }
}

const UNHEARD = {
  state: 'unheard',
  heardMs: null,
  sinceMs: null,
  status: NO_STATUS,
  marks: NO_MARKS,
} as const;
const NO_TAGS: readonly string[] = [];
/** After so many steps of a list other work gets its turn: they take about 2 ms. */
const SLICE = 2000;
/** While there are too many devices, they are counted anew at most this often: 200,000 take about 100 ms. */
const RECOUNT_MS = 10 * SECOND_MS;

interface DevicesOptions {
  readonly watch: Pick<FleetWatch, 'ids' | 'has' | 'sighting' | 'forget'>;
  readonly documents: Pick<FleetDocuments, 'ids' | 'about' | 'remove'>;
  readonly keys: Pick<DeviceKeys, 'ids' | 'has' | 'make' | 'remove'>;
  /** The present keys file; null: there is none. */
  readonly keysFile: () => ReadonlyMap<string, unknown> | null;
  readonly clock: Pick<Clock, 'after' | 'bootMs' | 'wallMs'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly devicesMax: number;
}

/** Ids of devices; `isNew`: those that are in no earlier place. */
type Place = readonly [ids: Iterable<string>, isNew: (id: string) => boolean];

/** All devices that the cloud knows. */
export class Devices {
  readonly #options: DevicesOptions;
  /** Calls refused since the start because there are too many devices. */
  refused = 0;
  /** So many new devices fit. Other instances, and calls that keep nothing, make it wrong; a count makes it right again. */
  #free = 0;
  #recountAtMs = Number.NEGATIVE_INFINITY;
  /** Whether a refusal has been logged since the last removal. */
  #isTold = false;

  constructor(options: DevicesOptions) {
    this.#options = options;
  }

  /** Throws unavailable for a new device if there are `devicesMax` devices already. */
  admit(id: string): void {
    const { log, devicesMax } = this.#options;
    if (this.#has(id)) return;
    if (this.#free <= 0) this.#recount();
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    this.refused++;
    if (!this.#isTold) log.warn('device refused', { device: id, devices: devicesMax });
    this.#isTold = true;
    throw new FieldpostError('unavailable', `There are ${devicesMax} devices already`, {
      hint: 'the operator can remove one that is gone: DELETE /devices/ID',
    });
  }

  /** Makes a key for a device, which may be a new one. Throws unavailable, and rejects as DeviceKeys.make does. */
  async makeKey(id: string): Promise<string> {
    const { keys, log } = this.#options;
    this.admit(id);
    const key = await keys.make(id);
    log.info('device key made', { device: id });
    return key;
  }

  /**
   * Forgets a device, its document and the keys that were made for it. Its line in the keys file stays. Resolves when the
   * removal is on the disk. Throws not-found, storage-failed, busy.
   */
  async remove(id: string): Promise<void> {
    const { watch, documents, keys, log } = this.#options;
    if (!this.#has(id)) throw noSuchDevice(id, this.#isInFile(id));
    // First the keys: a call of the device would make it known again.
    await keys.remove(id);
    await documents.remove(id);
    await watch.forget(id);
    this.#free++;
    this.#isTold = false;
    log.info('device removed', { device: id });
  }

  /** One device. Throws not-found. */
  get(id: string): Device {
    if (!this.#isInFile(id) && !this.#has(id)) throw noSuchDevice(id);
    return this.#device(id, this.#options.watch.sighting(id));
  }

  /** How many devices there are in each state. */
  async count(): Promise<FleetCounts> {
    return await this.#each(() => undefined);
  }

  /** The first devices in this order that fit. */
  async list({ after, limit, order, ...filter }: DeviceQuery): Promise<DeviceList> {
    const compare = ORDERS[order];
    const page = new Lowest<Device>(limit, compare);
    const last = after === null ? null : this.#device(after, this.#options.watch.sighting(after));
    let total = 0;
    const counts = await this.#each((id, sighting) => {
      const device = this.#device(id, sighting);
      if (!fits(device, filter)) return;
      total++;
      if (last === null || compare(device, last) > 0) page.add(device);
    });
    const { lowest: devices, isMore } = page.end();
    return { devices, next: isMore ? (devices.at(-1)?.id ?? null) : null, total, counts };
  }

  /** Visits and counts all devices. Others run in between: the devices may be many. */
  async #each(visit: (id: string, sighting: Sighting | null) => void): Promise<FleetCounts> {
    const { watch, keysFile, clock } = this.#options;
    const counts = { offline: 0, online: 0, moved: 0, unheard: 0, attention: 0, quiet: 0 };
    const nowMs = clock.wallMs();
    let steps = 0;
    for (const [ids, isNew] of this.#places(keysFile()?.keys() ?? []))
      for (const id of ids) {
        if (++steps % SLICE === 0) await new Promise<void>((resolve) => clock.after(0, resolve));
        if (!isNew(id)) continue;
        const sighting = watch.sighting(id);
        const { state, status, marks } = sighting ?? UNHEARD;
        counts[state]++;
        if (quietAt(marks, nowMs) !== null) counts.quiet++;
        if (needsHelp(status)) counts.attention++;
        visit(id, sighting);
      }
    return counts;
  }

  /** Where ids are, at last those of the keys file, and which of them did not come before. A generator takes longer. */
  #places(inFile: Iterable<string>): readonly Place[] {
    const { watch, documents, keys } = this.#options;
    return [
      [watch.ids, () => true],
      [documents.ids, (id) => !watch.has(id)],
      [keys.ids, (id) => !watch.has(id) && documents.about(id) === null],
      [inFile, (id) => namesDevice(id) && !this.#has(id)],
    ];
  }

  #recount(): void {
    const { clock, devicesMax } = this.#options;
    const nowMs = clock.bootMs();
    if (nowMs < this.#recountAtMs) return;
    this.#recountAtMs = nowMs + RECOUNT_MS;
    this.#free = devicesMax;
    for (const [ids, isNew] of this.#places([])) for (const id of ids) if (isNew(id)) this.#free--;
  }

  #device(id: string, sighting: Sighting | null): Device {
    const { documents, clock } = this.#options;
    const { state, heardMs, sinceMs, status, marks } = sighting ?? UNHEARD;
    // Not spread: for 200,000 devices that takes 0.4 s.
    const { name = null, site = null, tags = NO_TAGS, destinations = null } = documents.about(id) ?? {};
    const quiet = marks.quiet && quietAt(marks, clock.wallMs());
    return { id, name, site, tags, state, heardMs, sinceMs, destinations, status, quiet };
  }

  #isInFile(id: string): boolean {
    return namesDevice(id) && this.#options.keysFile()?.has(id) === true;
  }

  #has(id: string): boolean {
    const { watch, documents, keys } = this.#options;
    return watch.has(id) || documents.about(id) !== null || keys.has(id);
  }
}

function noSuchDevice(id: string, isInFile = false): FieldpostError {
  const words = isInFile
    ? `The cloud keeps nothing of ${id}, which has a line in FIELDPOST_CLOUD_SERVER_KEYS_FILE`
    : `There is no device ${id}`;
  return new FieldpostError('not-found', words);
}
