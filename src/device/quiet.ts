/**
 * The quiet of this device: for a while people are not told that it is offline, because somebody works at it. The cloud
 * hears of it in a heartbeat, counts it on its own clock, and is told again only until it has answered.
 *
 * `quiet.json` is a durable file of a KeptQuiet, so that a technician may pull the battery. It is written when a quiet begins,
 * when somebody ends it, and when the cloud knows it; it is removed at the end. A disk that fails costs only what a restart
 * would know, unless the cloud cannot be told either.
 */
import { join } from 'node:path';
import { DurableFile } from '../base/durable-file.js';
import { FieldpostError, wordsOf } from '../base/errors.js';
import { shapeOf } from '../base/json.js';
import { QUIET_MS_MAX } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Disk } from '../base/system/disk.js';
import type { Log } from '../base/system/log.js';
import { isoOf } from '../base/text.js';
import { Turns } from '../base/turns.js';
import type { QuietView } from '../base/views.js';
import type { Untold } from './link/link.js';

/** A quiet as it is kept. */
export interface KeptQuiet {
  /** When `forMs` was left: the boot, and the moment on its clock. */
  readonly boot: string;
  readonly bootMs: number;
  /** The same on the wall clock; null: that was wrong. */
  readonly wallMs: number | null;
  readonly forMs: number;
  readonly why: string | null;
  /** Who has begun it, or ended it. */
  readonly by: string;
  /** Somebody has ended it before its time. It is kept until the cloud knows. */
  readonly isEnded: boolean;
  /** The cloud that knows it; null: none. */
  readonly knownTo: string | null;
}

const TIME = 0.5;
const isKept = shapeOf({
  ...{ boot: '', bootMs: TIME, 'wallMs|null': TIME, forMs: TIME, 'why|null': '', by: '' },
  ...{ isEnded: true, 'knownTo|null': '' },
});

/** How much of it is left; 0 or less: it is over. In another boot the wall clock counts, if neither boot knew it as wrong. */
export function leftMs(
  { boot, bootMs, wallMs, forMs }: Pick<KeptQuiet, 'boot' | 'bootMs' | 'wallMs' | 'forMs'>,
  clock: Pick<Clock, 'boot' | 'bootMs' | 'wallMs' | 'trust'>,
): number {
  const nowMs = clock.bootMs();
  if (boot === clock.boot) return forMs - (nowMs - bootMs);
  const agoMs = wallMs === null || clock.trust() === 'wrong' ? 0 : clock.wallMs() - wallMs;
  // Since this boot began, so much time has passed for certain.
  return forMs - Math.max(nowMs, agoMs);
}

/** The quiet after somebody has begun or ended it. `reason`: why the cloud does not know that yet; null: it does. */
export interface ToldQuiet extends QuietView {
  readonly reason: string | null;
}

/** What the quiet is made of. */
export interface QuietOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Which cloud it is, and which device there. */
  readonly cloud: string;
  /** See Link.sayNow. */
  readonly sayNow: () => Promise<string | null>;
}

/** The present quiet, if there is one. */
export class Quiet {
  readonly #options: QuietOptions;
  readonly #path: string;
  readonly #file: DurableFile<KeptQuiet>;
  readonly #alarm: Alarm;
  readonly #turns = new Turns();
  #kept: KeptQuiet | null = null;
  /** What the file has. */
  #written: KeptQuiet | null = null;

  /** Goes on with the quiet of an earlier run. */
  static async open(options: QuietOptions): Promise<Quiet> {
    const quiet = new Quiet(options);
    try {
      quiet.#written = await quiet.#file.read();
    } catch (error) {
      quiet.#notKept(wordsOf(error));
    }
    quiet.#kept = quiet.#written;
    quiet.#look();
    return quiet;
  }

  private constructor(options: QuietOptions) {
    const { disk, directory, clock } = options;
    this.#options = options;
    this.#path = join(directory, 'quiet.json');
    this.#file = new DurableFile({
      ...{ disk, path: this.#path },
      parse: (value) => (isKept(value) ? (value as KeptQuiet) : null),
      onDamage: ({ copy }) => this.#notKept(`the file is damaged: see ${copy}`),
    });
    this.#alarm = new Alarm(clock, () => this.#look());
  }

  view(): QuietView {
    const kept = this.#present;
    const isOn = kept !== null && !kept.isEnded;
    return {
      untilMs: isOn ? this.#untilMsOf(kept) : null,
      why: isOn ? kept.why : null,
      by: isOn ? kept.by : null,
      isKnown: kept === null || this.#isKnown(kept),
    };
  }

  /**
   * Begins a quiet, in place of the present one. Resolves once the cloud knows it, or with the `reason` why it does not
   * yet. Rejects with storage-failed if the disk cannot keep it either; it lasts until a restart then.
   */
  begin(forMs: number, why: string | null, by: string): Promise<ToldQuiet> {
    this.#kept = { ...this.#now(forMs), why, by, isEnded: false, knownTo: null };
    this.#options.log.info('quiet begun', { until: this.#untilOf(this.#kept), why: why ?? undefined, by });
    return this.#tell();
  }

  /** Ends it; the cloud is told also if only an operator there has begun one. Resolves and rejects as `begin` does. */
  end(by: string): Promise<ToldQuiet> {
    const kept = this.#present;
    const forMs = kept === null ? QUIET_MS_MAX : leftMs(kept, this.#options.clock);
    this.#kept = { ...this.#now(forMs), why: null, by, isEnded: true, knownTo: null };
    this.#options.log.info('quiet ended', { by });
    return this.#tell();
  }

  /** What the next heartbeat has to say of it. */
  untold(): Untold | null {
    const kept = this.#present;
    if (kept === null || this.#isKnown(kept)) return null;
    const heard = () => this.#heard(kept);
    if (kept.isEnded) return { members: { quietMs: 0 }, heard };
    const quietMs = Math.ceil(leftMs(kept, this.#options.clock));
    return { members: { quietMs, ...(kept.why !== null && { why: kept.why }) }, heard };
  }

  async stop(): Promise<void> {
    this.#alarm.end();
    await this.#turns.idle();
  }

  /** Null also for one that is over, but not yet removed. */
  get #present(): KeptQuiet | null {
    return this.#kept !== null && leftMs(this.#kept, this.#options.clock) > 0 ? this.#kept : null;
  }

  #isKnown({ knownTo }: KeptQuiet): boolean {
    return knownTo === this.#options.cloud;
  }

  #untilMsOf(kept: KeptQuiet): number {
    const { clock } = this.#options;
    return clock.wallMs() + leftMs(kept, clock);
  }

  #untilOf(kept: KeptQuiet): string {
    return isoOf(this.#untilMsOf(kept));
  }

  #now(forMs: number): Pick<KeptQuiet, 'boot' | 'bootMs' | 'wallMs' | 'forMs'> {
    const { clock } = this.#options;
    const wallMs = clock.trust() === 'wrong' ? null : clock.wallMs();
    return { boot: clock.boot, bootMs: clock.bootMs(), wallMs, forMs };
  }

  async #tell(): Promise<ToldQuiet> {
    const fault = await this.#keep();
    const reason = await this.#options.sayNow();
    const view = this.view();
    if (view.isKnown) return { ...view, reason: null };
    if (fault === null) return { ...view, reason };
    throw new FieldpostError(
      'storage-failed',
      `The disk cannot keep it (${fault}), and the cloud is not told`,
      {
        hint: `a restart forgets it; the link says: ${reason ?? 'try again'}`,
      },
    );
  }

  /** The cloud has answered a heartbeat with it. */
  #heard(kept: KeptQuiet): void {
    const { clock, cloud, log } = this.#options;
    // Another one has begun since.
    if (this.#kept !== kept) return;
    this.#kept = kept.isEnded ? null : { ...kept, ...this.#now(leftMs(kept, clock)), knownTo: cloud };
    log.info('quiet known', { until: kept.isEnded ? undefined : this.#untilOf(kept) });
    void this.#keep();
  }

  /** Sets the alarm for its end, or ends it. */
  #look(): void {
    const { clock, log } = this.#options;
    if (this.#kept === null) return;
    const restMs = leftMs(this.#kept, clock);
    if (restMs > 0) {
      this.#alarm.in(Math.ceil(restMs));
      return;
    }
    if (!this.#kept.isEnded) log.info('quiet over');
    this.#kept = null;
    void this.#keep();
  }

  /** Writes what there is; gives why that failed, or null. */
  #keep(): Promise<string | null> {
    this.#look();
    return this.#turns.do(async () => {
      const kept = this.#kept;
      if (kept === this.#written) return null;
      try {
        if (kept === null) await this.#options.disk.remove(this.#path);
        else await this.#file.write(kept);
        this.#written = kept;
        return null;
      } catch (error) {
        this.#notKept(wordsOf(error));
        return wordsOf(error);
      }
    });
  }

  #notKept(reason: string): void {
    this.#options.log.warn('quiet not kept', { path: this.#path, reason });
  }
}
