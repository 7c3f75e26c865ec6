/**
 * All devices with a heartbeat, a document or a key. Limits the number of those that are more than a line of the keys file,
 * and lets the operator list and remove them.
 */
import { FieldpostError } from '../base/errors.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { OPERATOR } from './access.js';
import { type Device, type DeviceList, type DeviceQuery, fits, Lowest, ORDERS } from './device-list.js';
import type { DeviceKeys, FleetDocuments, FleetWatch, Sighting } from './fleet-store.js';
import { NO_STATUS, needsHelp } from './status.js';

const UNHEARD = { state: 'unheard', heardMs: null, sinceMs: null, status: NO_STATUS } as const;
/** After so many devices of a list other work gets its turn: they take about 2 ms. */
const SLICE = 2000;

interface DevicesOptions {
  readonly watch: Pick<FleetWatch, 'ids' | 'has' | 'sightings' | 'sighting' | 'forget'>;
  readonly documents: Pick<FleetDocuments, 'ids' | 'about' | 'remove'>;
  readonly keys: Pick<DeviceKeys, 'ids' | 'has' | 'make' | 'remove'>;
  /** The present keys file; null: there is none. */
  readonly keysFile: () => ReadonlyMap<string, unknown> | null;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly devicesMax: number;
}

/** All devices that the cloud knows. */
export class Devices {
  readonly #options: DevicesOptions;
  #refused = 0;
  /** At least this many new devices fit: to count all of them for each new one would take seconds of CPU. */
  #free = 0;
  /** Whether a refusal has been logged since the last removal. */
  #isTold = false;

  constructor(options: DevicesOptions) {
    this.#options = options;
  }

  /** Calls refused since the start because there are too many devices. */
  get refused(): number {
    return this.#refused;
  }

  /** Throws unavailable for a new device if there are `devicesMax` devices already. */
  admit(id: string): void {
    const { log, devicesMax } = this.#options;
    if (this.#has(id)) return;
    if (this.#free <= 0) this.#free = devicesMax - this.#ids().size;
    if (this.#free-- > 0) return;
    this.#refused++;
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
    if (!this.#has(id)) throw noSuchDevice();
    // First the keys: a call of the device would make it known again.
    await keys.remove(id);
    await documents.remove(id);
    await watch.forget(id);
    this.#isTold = false;
    log.info('device removed', { device: id });
  }

  /** One device. Throws not-found. */
  get(id: string): Device {
    const isInFile = id !== OPERATOR && this.#options.keysFile()?.has(id) === true;
    if (!isInFile && !this.#has(id)) throw noSuchDevice();
    return this.#device(id, this.#options.watch.sighting(id));
  }

  /** The first devices in this order that fit. Others run in between: the devices may be many. */
  async list({ after, limit, order, ...filter }: DeviceQuery): Promise<DeviceList> {
    const counts = { offline: 0, online: 0, moved: 0, unheard: 0, attention: 0 };
    const compare = ORDERS[order];
    const page = new Lowest<Device>(limit, compare);
    const last = after === null ? null : this.#device(after, this.#options.watch.sighting(after));
    let [all, total] = [0, 0];
    for (const device of this.#all()) {
      if (++all % SLICE === 0) await pause(this.#options.clock);
      counts[device.state]++;
      if (needsHelp(device.status)) counts.attention++;
      if (!fits(device, filter)) continue;
      total++;
      if (last === null || compare(device, last) > 0) page.add(device);
    }
    const { lowest: devices, isMore } = page.end();
    return { devices, next: isMore ? (devices.at(-1)?.id ?? null) : null, total, counts };
  }

  *#all(): Generator<Device> {
    const { watch, documents, keys, keysFile } = this.#options;
    for (const sighting of watch.sightings()) yield this.#device(sighting.id, sighting);
    for (const id of documents.ids) if (!watch.has(id)) yield this.#device(id, null);
    for (const id of keys.ids) {
      if (!watch.has(id) && documents.about(id) === null) yield this.#device(id, null);
    }
    for (const id of keysFile()?.keys() ?? []) {
      if (id !== OPERATOR && !this.#has(id)) yield this.#device(id, null);
    }
  }

  #device(id: string, sighting: Sighting | null): Device {
    const { name = null, destinations = null } = this.#options.documents.about(id) ?? {};
    return { ...UNHEARD, ...sighting, id, name, destinations };
  }

  #has(id: string): boolean {
    const { watch, documents, keys } = this.#options;
    return watch.has(id) || documents.about(id) !== null || keys.has(id);
  }

  #ids(): Set<string> {
    const { watch, documents, keys } = this.#options;
    return new Set([...watch.ids, ...documents.ids, ...keys.ids]);
  }
}

function noSuchDevice(): FieldpostError {
  return new FieldpostError('not-found', 'There is no such device');
}

function pause(clock: Pick<Clock, 'after'>): Promise<void> {
  return new Promise((resolve) => clock.after(0, resolve));
}
