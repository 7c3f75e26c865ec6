/**
 * All devices with a heartbeat or a document. Limits their number, and lets the operator list and remove them. Used by cloud.ts.
 */
import { FieldpostError } from '../errors.js';
import { CLOUD_DEVICES_MAX } from '../limits.js';
import type { Log } from '../system/log.js';
import type { FleetDocuments, FleetWatch, Sighting } from './fleet-store.js';

/** A device as the operator sees it. */
interface Device {
  readonly id: string;
  /** `unheard`: it has a document, but has sent no heartbeat. */
  readonly state: Sighting['state'] | 'unheard';
  /** Wall time of the last heartbeat; null: there was none, or its wall time is unknown. */
  readonly heardMs: number | null;
  /** Wall time since which it is in this state; null: not known. */
  readonly sinceMs: number | null;
  /** The number of entries in its document; null: it has none. */
  readonly destinations: number | null;
}

interface DevicesOptions {
  readonly watch: Pick<FleetWatch, 'ids' | 'has' | 'sightings' | 'forget'>;
  readonly documents: Pick<FleetDocuments, 'ids' | 'about' | 'remove'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

/** All devices that the cloud knows. */
export class Devices {
  readonly #options: DevicesOptions;
  #refused = 0;
  /** Whether a refusal has been logged since the last removal. */
  #isTold = false;

  constructor(options: DevicesOptions) {
    this.#options = options;
  }

  /** Calls refused since the start because there are too many devices. */
  get refused(): number {
    return this.#refused;
  }

  /** Throws unavailable for a new device if there are CLOUD_DEVICES_MAX devices already. */
  admit(id: string): void {
    const { watch, documents, log } = this.#options;
    if (watch.has(id) || documents.about(id) !== null || this.#ids().size < CLOUD_DEVICES_MAX) return;
    this.#refused++;
    if (!this.#isTold) log.warn('device refused', { device: id, devices: CLOUD_DEVICES_MAX });
    this.#isTold = true;
    throw new FieldpostError('unavailable', `There are ${CLOUD_DEVICES_MAX} devices already`, {
      hint: 'the operator can remove one that is gone: DELETE /devices/ID',
    });
  }

  /** Forgets a device and its document. Resolves when the removal is on the disk. Throws not-found, storage-failed. */
  async remove(id: string): Promise<void> {
    const { watch, documents, log } = this.#options;
    if (!watch.has(id) && documents.about(id) === null) {
      throw new FieldpostError('not-found', 'There is no such device');
    }
    await documents.remove(id);
    await watch.forget(id);
    this.#isTold = false;
    log.info('device removed', { device: id });
  }

  /** All devices, first the ones that have sent a heartbeat. */
  list(): Device[] {
    const { watch, documents } = this.#options;
    const sightings = new Map([...watch.sightings()].map((sighting) => [sighting.id, sighting]));
    return [...this.#ids()].map((id) => {
      const unheard = { state: 'unheard', heardMs: null, sinceMs: null } as const;
      const { state, heardMs, sinceMs } = sightings.get(id) ?? unheard;
      return {
        id,
        state,
        heardMs,
        sinceMs,
        destinations: documents.about(id)?.destinations ?? null,
      };
    });
  }

  #ids(): Set<string> {
    const { watch, documents } = this.#options;
    return new Set([...watch.ids, ...documents.ids]);
  }
}
