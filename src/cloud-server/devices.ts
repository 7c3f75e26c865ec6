/**
 * All devices: those that have sent a heartbeat, and those that have a document. Limits their number, and lets the operator
 * see and remove them. Used by calls.ts.
 */
import { FieldpostError } from '../errors.js';
import { CLOUD_DEVICES_MAX } from '../limits.js';
import type { Log } from '../system/log.js';
import type { Document } from './document.js';
import type { Documents } from './documents.js';
import type { Sighting, Watch } from './watch.js';

/** A device as the operator sees it. */
export interface Device {
  readonly id: string;
  /** `unheard`: it has a document, and has sent no heartbeat. */
  readonly state: Sighting['state'] | 'unheard';
  /** Wall clock; null where it was never heard, or no clock can tell when. */
  readonly heardMs: number | null;
  /** Entries in its document; null where it has none. */
  readonly destinations: number | null;
}

/** What it is given; `max`: CLOUD_DEVICES_MAX if left out. */
export interface DevicesOptions {
  readonly watch: Pick<Watch, 'ids' | 'has' | 'sightings' | 'forget'>;
  readonly documents: Pick<Documents, 'ids' | 'remove'> & {
    get(id: string): { readonly document: Document } | null;
  };
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly max?: number;
}

/** All of them. */
export class Devices {
  readonly #options: DevicesOptions;
  /** Calls refused since the start, because there are too many devices. */
  #refused = 0;
  /** That there are too many has been logged. */
  #isTold = false;

  constructor(options: DevicesOptions) {
    this.#options = options;
  }

  /** Calls of devices beyond the limit, since the start. */
  get refused(): number {
    return this.#refused;
  }

  /** Throws unavailable for a device that is not known yet where there are as many as there may be. */
  admit(id: string): void {
    const { watch, documents, log, max = CLOUD_DEVICES_MAX } = this.#options;
    if (watch.has(id) || documents.get(id) !== null || this.#ids().size < max) return;
    this.#refused++;
    if (!this.#isTold) log.warn('device refused', { device: id, devices: max });
    this.#isTold = true;
    throw new FieldpostError('unavailable', `There are ${max} devices already`, {
      hint: 'the operator can remove one that is gone: DELETE /devices/ID',
    });
  }

  /** Forgets a device and its document. Resolves once that lasts. Throws not-found, storage-failed. */
  async remove(id: string): Promise<void> {
    const { watch, documents, log } = this.#options;
    if (!watch.has(id) && documents.get(id) === null) {
      throw new FieldpostError('not-found', 'There is no such device');
    }
    await documents.remove(id);
    await watch.forget(id);
    this.#isTold = false;
    log.info('device removed', { device: id });
  }

  /** All devices, those that were heard first. */
  list(): Device[] {
    const { watch, documents } = this.#options;
    const sightings = new Map([...watch.sightings()].map((sighting) => [sighting.id, sighting]));
    return [...this.#ids()].map((id) => {
      const { state, heardMs } = sightings.get(id) ?? { state: 'unheard', heardMs: null };
      return { id, state, heardMs, destinations: documents.get(id)?.document.destinations.length ?? null };
    });
  }

  #ids(): Set<string> {
    const { watch, documents } = this.#options;
    return new Set([...watch.ids, ...documents.ids]);
  }
}
