/**
 * Which devices a list has: those that fit a filter, by id, in pages. Pure.
 */
import type { Sighting } from './fleet-store.js';
import { type DeviceStatus, needsHelp } from './status.js';

/** All states that a device may be in, those that need a person first. `unheard`: it has a document or a key, and has sent
 * no heartbeat. */
export const DEVICE_STATES = ['offline', 'online', 'moved', 'unheard'] as const;

/** A device as the operator sees it. */
export interface Device {
  readonly id: string;
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
  /** A part of the id, in lower case. */
  readonly idPart: string;
  readonly version: string | null;
  /** True: only those that need a person. */
  readonly attention: boolean;
}

/** A page of them: at most `limit`, those with a greater id than `after`. */
export interface DeviceQuery extends DeviceFilter {
  readonly after: string | null;
  readonly limit: number;
}

/** A page of the devices that fit. */
export interface DeviceList {
  /** By id. */
  readonly devices: readonly Device[];
  /** The `after` of the next page; null: there is none. */
  readonly next: string | null;
  /** The number of devices that fit, on all pages. */
  readonly total: number;
  /** Of all devices, whether they fit or not. */
  readonly counts: Readonly<Record<Device['state'] | 'attention', number>>;
}

/** True if the device is one of those that are wanted. */
export function fits(device: Device, { state, idPart, version, attention }: DeviceFilter): boolean {
  const { id, status } = device;
  if (state !== null && device.state !== state) return false;
  if (version !== null && status.version !== version) return false;
  if (attention && !needsHelp(status)) return false;
  return idPart === '' || id.toLowerCase().includes(idPart);
}

/** The lowest ids of many, without sorting them all. */
export class Lowest<Item extends { readonly id: string }> {
  readonly #count: number;
  readonly #kept: Item[] = [];
  /** Higher ids are not among the lowest. */
  #highest: string | null = null;
  #isMore = false;

  constructor(count: number) {
    this.#count = count;
  }

  add(item: Item): void {
    if (this.#highest !== null && item.id > this.#highest) this.#isMore = true;
    else if (this.#kept.push(item) === 2 * this.#count) this.#trim();
  }

  /** The lowest in order, and whether there were others. */
  end(): { readonly lowest: readonly Item[]; readonly isMore: boolean } {
    this.#trim();
    return { lowest: this.#kept, isMore: this.#isMore };
  }

  #trim(): void {
    this.#kept.sort((a, b) => (a.id < b.id ? -1 : 1));
    if (this.#kept.length <= this.#count) return;
    this.#isMore = true;
    this.#kept.length = this.#count;
    this.#highest = this.#kept.at(-1)?.id ?? null;
  }
}
