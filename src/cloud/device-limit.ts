/**
 * A limit on what each device may hand over in a span of time, such as its SMS of an hour. A span begins with the first
 * message of the device. Memory alone has the counts.
 */
import { Recent } from '../base/collections.js';
import { FieldpostError, wordsOf } from '../base/errors.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { FLEET_DEVICES_MAX } from './devices.js';

interface DeviceLimitOptions {
  readonly spanMs: number;
  /** What the cloud takes of a device in a span. */
  readonly most: number;
  /** The limit as a sentence. */
  readonly reason: string;
  readonly clock: Pick<Clock, 'bootMs'>;
  readonly log: Pick<Log, 'warn'>;
}

/** A span of one device. */
interface Span {
  /** On the boot's clock. */
  readonly endMs: number;
  /** What was taken, or is being taken. */
  taken: number;
  /** A refusal was logged. */
  isLogged: boolean;
}

/** Counts what devices hand over. */
export class DeviceLimit {
  readonly #options: DeviceLimitOptions;
  readonly #spans = new Recent<string, Span>(FLEET_DEVICES_MAX);

  constructor(options: DeviceLimitOptions) {
    this.#options = options;
  }

  /**
   * Takes a message of a device by `take`, which calls `admit` unless it has the message already, and resolves with true if
   * the message is new. Only then its `size` stays counted. `admit` throws rate-limited, and invalid for more than a whole
   * span has. Rejects as `take` does.
   */
  async within(device: string, size: number, take: (admit: () => void) => Promise<boolean>): Promise<void> {
    let giveBack = () => {};
    let isNew = false;
    try {
      isNew = await take(() => {
        giveBack = this.#count(device, size);
      });
    } catch (error) {
      this.#logOnce(device, error);
      throw error;
    } finally {
      if (!isNew) giveBack();
    }
  }

  #count(device: string, size: number): () => void {
    const { most, reason } = this.#options;
    if (size > most) throw new FieldpostError('invalid', reason);
    const span = this.#spanOf(device);
    if (span.taken + size > most) throw new FieldpostError('rate-limited', reason);
    span.taken += size;
    return () => {
      span.taken -= size;
    };
  }

  /** Logs the first refusal of a span: the device retries for as long as it takes. */
  #logOnce(device: string, error: unknown): void {
    if (!(error instanceof FieldpostError && ['rate-limited', 'queue-full'].includes(error.code))) return;
    const span = this.#spanOf(device);
    if (!span.isLogged) this.#options.log.warn('device limited', { device, reason: wordsOf(error) });
    span.isLogged = true;
  }

  #spanOf(device: string): Span {
    const { clock, spanMs } = this.#options;
    const nowMs = clock.bootMs();
    const known = this.#spans.get(device);
    if (known !== undefined && known.endMs > nowMs) return known;
    const span = { endMs: nowMs + spanMs, taken: 0, isLogged: false };
    this.#spans.set(device, span);
    return span;
  }
}
