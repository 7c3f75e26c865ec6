/**
 * Which devices a list has: those that fit a filter, in an order, in pages. Pure.
 */
import type { Sighting } from './fleet-store.js';
import { type DeviceStatus, needsHelp } from './status.js';

/** All states that a device may be in, those that need a person first. `unheard`: it has a document or a key, and has sent
 * no heartbeat. */
export const DEVICE_STATES = ['offline', 'online', 'moved', 'unheard'] as const;

/** A device as the operator sees it. */
export interface Device {
  readonly id: string;
  /** The name in its document; null: it has none. */
  readonly name: string | null;
  readonly state: Sighting['state'] | 'unheard';
  /** Wall time of the last heartbeat; null: there was none, or its wall time is unknown. */
  readonly heardMs: number | null;
  /** Wall time since which it is in this state; null: not known. */
  readonly sinceMs: number | null;
  /** The number of entries in its document; null: it has none. */
  readonly destinations: number | null;
  readonly status: DeviceStatus;
}

/** The devices that are wanted; null: any. */
export interface DeviceFilter {
  readonly state: Device['state'] | null;
  /** A part of the id or the name, in lower case. */
  readonly part: string;
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
export interface DeviceList {
  /** In the order that was asked for. */
  readonly devices: readonly Device[];
  /** The `after` of the next page; null: there is none. */
  readonly next: string | null;
  /** The number of devices that fit, on all pages. */
  readonly total: number;
  /** Of all devices, whether they fit or not. */
  readonly counts: Readonly<Record<Device['state'] | 'attention', number>>;
}

/** True if the device is one of those that are wanted. */
export function fits(device: Device, { state, part, version, attention }: DeviceFilter): boolean {
  const { id, name, status } = device;
  if (state !== null && device.state !== state) return false;
  if (version !== null && status.version !== version) return false;
  if (attention && !needsHelp(status)) return false;
  return part === '' || [id, name ?? ''].some((text) => text.toLowerCase().includes(part));
}

type Compare<Item> = (one: Item, other: Item) => number;

/** `attention`: those that need a person come first. */
export const ORDERS = {
  id: (one, other) => compareIds(one.id, other.id),
  attention: (one, other) => rankOf(one) - rankOf(other) || compareIds(one.id, other.id),
} as const satisfies Record<string, Compare<Device>>;

/** Who is offline, then who has trouble, then the others by state. */
function rankOf({ state, status }: Device): number {
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
