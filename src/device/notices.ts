/**
 * The mails of the daemon itself: the digest of failures (FIELDPOST_FAILURES_TO) and the report after an outage
 * (FIELDPOST_RETURN_REPORT). Loaded only if one of them is set. Their own failures are told in no digest.
 *
 * A digest tells what failed or expired since the one before. The record of its acceptance says so, because it has the id of
 * the last failure in it (`Extras.notice`). So a restart tells nothing twice, and forgets nothing.
 *
 * An outage begins when no relay can be reached, and ends when one answers: it may refuse this device. `outage.json` is a
 * durable file of an Outage. It is written once the outage is long enough for a report, and at the first start of each boot
 * in it. It is removed when the report is queued, or none is due.
 */
import { join } from 'node:path';
import { DurableFile } from '../base/durable-file.js';
import { wordsOf } from '../base/errors.js';
import { shapeOf } from '../base/json.js';
import { HOUR_MS, MINUTE_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import { ageMs, startMsOf } from '../base/stamp.js';
import type { Disk } from '../base/system/disk.js';
import { counted, isoOf, oneLine, span } from '../base/text.js';
import type { RelayView } from '../base/views.js';
import type { Delivery, Tell } from '../mail/delivery/delivery.js';
import type { System } from '../mail/engine.js';
import type { Address } from '../mail/message/address.js';
import type { Message } from '../mail/message/message.js';
import type { IsWanted, Store } from '../mail/store/store.js';
import { UNTOLD_MAX } from '../mail/store/weight.js';
import { OwnMessages, ownMail } from './own-messages.js';
import type { DeviceConfig } from './settings.js';

/** More failures may follow the first one. */
export const DEBOUNCE_MS = MINUTE_MS;
/** So many failures a digest lists; it counts the others. */
export const LISTED_MAX = 50;
const REPLY_CHARS_SHOWN = 500;
const SUBJECT_CHARS_SHOWN = 200;
/** How often a report looks whether it is due, */
const LOOK_MS = MINUTE_MS;
/** and how long it waits for the last mails. */
const SETTLED_MS_MAX = HOUR_MS;

interface NoticesOptions extends Pick<System, 'clock' | 'log' | 'hostname'> {
  readonly store: Store;
  readonly disk: Disk;
  /** A reload changes it. */
  readonly config: Pick<DeviceConfig, 'failuresTo' | 'returnReport' | 'keepFailedMs' | 'stateDir'>;
  readonly delivery: Pick<Delivery, 'nudge' | 'relayView'>;
}

/** Queues a mail, and gives its id; null if it must wait. */
type Post = (
  to: Address,
  subject: string,
  lines: readonly string[],
  notice: string,
) => Promise<string | null>;

/** Both kinds of mails. */
export class Notices {
  readonly #options: NoticesOptions;
  readonly #digest: Digest;
  readonly #report: ReturnReports;
  readonly #messages: OwnMessages;

  /** Reads what an earlier run has left. */
  static async open(options: NoticesOptions): Promise<Notices> {
    const notices = new Notices(options);
    await notices.#report.read();
    return notices;
  }

  private constructor(options: NoticesOptions) {
    this.#options = options;
    this.#messages = new OwnMessages(options);
    const post: Post = (...mail) => this.#post(...mail);
    this.#digest = new Digest(options, post);
    this.#report = new ReturnReports(options, post);
  }

  readonly tell: Tell = (what, id) => {
    this.#report.hear(what, id);
    if (what === 'failed' || what === 'expired') this.#digest.look();
  };

  /** At the start, and when the settings may have changed. */
  follow(): void {
    this.#digest.look();
    this.#report.look();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#digest.stop(), this.#report.stop()]);
  }

  readonly #post: Post = async (to, subject, lines, notice) => {
    const told = `${this.#options.hostname()}: ${subject}`;
    const ids = await this.#messages.post([ownMail(to, told, lines, { notice })], told);
    return ids?.[0] ?? null;
  };
}

/** Tells failures: 1 min after the first one, then at most once an hour. */
class Digest {
  readonly #options: NoticesOptions;
  readonly #post: Post;
  readonly #alarm: Alarm;
  /** When the last one was queued, on the boot's clock; null: nobody has asked. */
  #lastMs: number | null = null;
  #telling: Promise<void> = Promise.resolve();

  constructor(options: NoticesOptions, post: Post) {
    this.#options = options;
    this.#post = post;
    this.#alarm = new Alarm(options.clock, () => {
      this.#telling = this.#tell();
    });
  }

  /** Sets the alarm if there is something to tell. */
  look(): void {
    const { config, store, clock } = this.#options;
    if (config.failuresTo === null) this.#alarm.off();
    else if (store.untold.size > 0 && !this.#alarm.isSet) {
      this.#lastMs ??= this.#lastOfAll();
      this.#alarm.at(Math.max(clock.bootMs() + DEBOUNCE_MS, this.#lastMs + HOUR_MS));
    }
  }

  /** When the last one that is listed was queued: perhaps by an earlier run. */
  #lastOfAll(): number {
    const { store, clock } = this.#options;
    const [last] = store.list({ status: null, limit: 1, after: null, isDigest: true }).messages;
    return last ? clock.bootMs() - ageMs(last.accepted, clock, store.boots) : Number.NEGATIVE_INFINITY;
  }

  async stop(): Promise<void> {
    this.#alarm.end();
    await this.#telling;
  }

  async #tell(): Promise<void> {
    const { store, config, clock, log } = this.#options;
    const to = config.failuresTo;
    const ids = [...store.untold];
    const found = ids.map((id) => store.get(id));
    const shown = found.filter((one) => one?.status === 'failed' || one?.status === 'expired') as Message[];
    // A person has queued the others again, or they are no longer listed.
    const count = shown.length + found.filter((one) => one === undefined).length;
    if (to === null || count === 0) return;
    this.#lastMs = clock.bootMs();
    const areMails = shown.every(({ type }) => type === 1);
    const most = ids.length < UNTOLD_MAX ? '' : 'at least ';
    const subject = `${most}${counted(count, areMails ? 'mail' : 'message')} failed`;
    const listed = shown.slice(0, LISTED_MAX);
    const rest = count - listed.length;
    const lines = [
      ...listed.flatMap((message) => [...this.#linesOf(message), '']),
      ...(rest > 0 ? [`and ${most}${rest} more: fieldpost queue list --status failed (or expired)`, ''] : []),
      'The next mail like this comes in an hour or later.',
    ];
    const id = await this.#post(to, subject, lines, ids.at(-1) as string);
    if (id !== null) log.info('failures told', { id, count });
    this.look();
  }

  #linesOf({ id, destination, subject, status, lastReply, failed, place }: Message): string[] {
    const { config, store, clock } = this.#options;
    const leftMs = failed && place ? config.keepFailedMs - ageMs(failed, clock, store.boots) : 0;
    const until =
      clock.trust() === 'wrong' ? `within ${span(leftMs)}` : `until ${utc(clock.wallMs() + leftMs)}`;
    return [
      `To: ${oneLine(destination, SUBJECT_CHARS_SHOWN)}`,
      ...(subject === '' ? [] : [`Subject: ${oneLine(subject, SUBJECT_CHARS_SHOWN)}`]),
      `Id: ${id}`,
      `${status === 'failed' ? 'Failed' : 'Expired'}: ${oneLine(lastReply ?? '', REPLY_CHARS_SHOWN)}`,
      leftMs > 0
        ? `To do: mend the cause, then on the device: fieldpost queue retry ${id} (${until})`
        : 'To do: its content is no longer kept: send it anew if it still matters',
    ];
  }
}

/** What `outage.json` holds. Times are of the present boot's clock, lengths are what is certain of them. */
interface Outage {
  /** When it began, by a confirmed wall clock; null: that was not confirmed. */
  readonly sinceWallMs: number | null;
  readonly boot: string;
  /** How many boots there were since the first. */
  readonly boots: number;
  /** When it began in this boot, less what earlier boots saw of it. */
  readonly sinceMs: number;
  /** How long it had lasted when this was written. */
  readonly lengthMs: number;
  /** Why the relay could not be reached at first. */
  readonly reason: string;
  /** The mails that ended in it. */
  readonly failed: number;
  readonly expired: number;
}

const TIME = 0.5;
const isOutage = shapeOf({
  ...{ 'sinceWallMs|null': TIME, boot: '', boots: 0, sinceMs: TIME, lengthMs: TIME, reason: '' },
  ...{ failed: 0, expired: 0 },
});

/** An outage that is over, until its report is queued. */
interface Return {
  readonly outage: Outage;
  readonly endMs: number;
  /** Since when no relay was tried before that, because no mail waited any more; null: one was. */
  readonly idleMs: number | null;
  /** The last mail that was accepted before the end. */
  readonly lastId: string;
  readonly waited: number;
  /** What became of these. */
  readonly ended: { sent: number; failed: number; expired: number };
  /** When to look next. */
  lookMs: number;
}

const isMail: IsWanted = ({ type }) => type === 1;

/** Reports outages. */
class ReturnReports {
  readonly #options: NoticesOptions;
  readonly #post: Post;
  readonly #path: string;
  readonly #file: DurableFile<Outage>;
  readonly #alarm: Alarm;
  #outage: Outage | null = null;
  #idleMs: number | null = null;
  /** There is a file, and whether it has the present outage. */
  #hasFile = false;
  #isKept = false;
  #return: Return | null = null;
  #work: Promise<void> = Promise.resolve();

  constructor(options: NoticesOptions, post: Post) {
    const { clock, disk, config } = options;
    this.#options = options;
    this.#post = post;
    this.#path = join(config.stateDir, 'outage.json');
    this.#file = new DurableFile({
      ...{ disk, path: this.#path },
      parse: (value) => (isOutage(value) ? (value as Outage) : null),
      onDamage: ({ copy }) => this.#notKept(`the file is damaged: see ${copy}`),
    });
    this.#alarm = new Alarm(clock, () => this.#do(() => this.#ring()));
  }

  /** Goes on with the outage of an earlier run. */
  async read(): Promise<void> {
    const { boot } = this.#options.clock;
    await this.#try(async () => {
      this.#outage = await this.#file.read();
    });
    if (this.#outage === null) return;
    this.#hasFile = true;
    this.#isKept = true;
    if (this.#outage.boot === boot) return;
    const { boots, lengthMs } = this.#outage;
    this.#outage = { ...this.#outage, boot, boots: boots + 1, sinceMs: -lengthMs };
    await this.#keep();
  }

  /** An outcome, or a new state of a relay. */
  hear(what: Parameters<Tell>[0], id: string): void {
    if (what === 'relay') this.look();
    const { store, clock } = this.#options;
    const [outage, after] = [this.#outage, this.#return];
    if (
      what === 'relay' ||
      what === 'deferred' ||
      (outage ?? after) === null ||
      (store.get(id)?.type ?? 1) !== 1
    )
      return;
    if (after !== null && id <= after.lastId) after.ended[what]++;
    else if (outage !== null && what !== 'sent') {
      this.#outage = { ...outage, [what]: outage[what] + 1 };
      const isIdle = store.lengthOf('queued') + store.lengthOf('deferred') === 0;
      this.#idleMs ??= isIdle ? clock.bootMs() : null;
    }
  }

  /** Follows the state of the relays, and the settings. */
  look(): void {
    const { returnReport } = this.#options.config;
    const view = this.#options.delivery.relayView();
    if (returnReport === null) {
      this.#outage = null;
      this.#return = null;
      if (this.#hasFile) this.#do(() => this.#forget());
    } else if (view.state === 'failing' && this.#outage === null) this.#begin(view);
    else if (view.state === 'ok' || view.state === 'refusing') this.#end(returnReport.afterMs);
    this.#setAlarm();
  }

  async stop(): Promise<void> {
    this.#alarm.end();
    await this.#work;
  }

  #begin({ sinceMs, reason }: RelayView): void {
    const { clock } = this.#options;
    this.#isKept = false;
    this.#idleMs = null;
    this.#outage = {
      ...{ sinceWallMs: null, boot: clock.boot, boots: 0, sinceMs: sinceMs - startMsOf(clock), lengthMs: 0 },
      ...{ reason: reason ?? '', failed: 0, expired: 0 },
    };
  }

  /** Nothing is reported if no mail waited for so long, and none ended. */
  #end(afterMs: number): void {
    const { clock, store } = this.#options;
    const outage = this.#outage;
    if (outage === null) return;
    this.#outage = null;
    const [endMs, before] = [clock.bootMs(), this.#return];
    const { failed, expired } = outage;
    const isLong = this.#isKept || endMs - outage.sinceMs >= afterMs;
    if (!isLong || (failed + expired === 0 && !this.#hasWaited(afterMs))) {
      if (before === null && this.#hasFile) this.#do(() => this.#forget());
      return;
    }
    // Another outage has come before it was queued.
    if (before !== null) this.#do(() => this.#report(before));
    const { queued, sending, deferred, forCloud } = store.counts();
    this.#return = {
      ...{ outage, endMs, idleMs: this.#idleMs, lookMs: endMs + LOOK_MS },
      lastId: store.list({ status: null, limit: 1, after: null }).messages[0]?.id ?? '',
      waited: queued + sending + deferred - forCloud + failed + expired,
      ended: { sent: 0, failed, expired },
    };
  }

  /** True if a mail that waits is of an earlier boot, or has waited for so long. */
  #hasWaited(afterMs: number): boolean {
    const { store, clock } = this.#options;
    for (const { accepted } of this.#waiting())
      if (accepted.boot !== clock.boot || ageMs(accepted, clock, store.boots) >= afterMs) return true;
    return false;
  }

  *#waiting() {
    const { store } = this.#options;
    yield* store.queued(isMail);
    yield* store.deferred(isMail);
  }

  #setAlarm(): void {
    const { returnReport } = this.#options.config;
    const isNew = this.#outage !== null && !this.#isKept;
    const keepMs = isNew
      ? (this.#outage?.sinceMs ?? 0) + (returnReport?.afterMs ?? 0)
      : Number.POSITIVE_INFINITY;
    this.#alarm.at(Math.min(keepMs, this.#return?.lookMs ?? Number.POSITIVE_INFINITY));
  }

  async #ring(): Promise<void> {
    const { clock, config } = this.#options;
    const nowMs = clock.bootMs();
    const after = this.#return;
    if (after !== null && nowMs >= after.lookMs) {
      const isDue = nowMs >= after.endMs + SETTLED_MS_MAX || this.#left(after) === 0;
      if (!isDue) after.lookMs = nowMs + LOOK_MS;
      else if (await this.#report(after)) {
        if (this.#return === after) this.#return = null;
        if (!this.#isKept || this.#outage === null) await this.#forget();
      } else after.lookMs = nowMs + HOUR_MS;
    }
    const { returnReport } = config;
    if (
      this.#outage !== null &&
      returnReport !== null &&
      nowMs - this.#outage.sinceMs >= returnReport.afterMs
    )
      if (!this.#isKept) await this.#keep();
    this.#setAlarm();
  }

  /** How many of these mails still wait. */
  #left({ lastId }: Return): number {
    let count = 0;
    for (const { id } of this.#waiting()) if (id <= lastId) count++;
    return count;
  }

  /** False: it must wait. */
  async #report(after: Return): Promise<boolean> {
    const { config, hostname, clock, log } = this.#options;
    const to = config.returnReport?.to ?? config.failuresTo;
    if (to === null) return true;
    const { outage, ended, waited, endMs } = after;
    const length = `cut off for ${this.#lengthOf(after)}`;
    const left = this.#left(after);
    const parts = [
      `${waited} waited, ${ended.sent} sent, ${ended.expired} expired`,
      ended.failed > 0 ? `, ${ended.failed} failed` : '',
      left > 0 ? `, ${left} still waiting` : '',
      outage.boots > 0 ? `; ${counted(outage.boots, 'boot')}` : '',
    ];
    const reason = outage.reason === '' ? '' : ` (${oneLine(outage.reason, REPLY_CHARS_SHOWN)})`;
    const lines = [`${hostname()} was ${length}${reason}; ${parts.join('')}.`];
    if (clock.trust() !== 'wrong')
      lines.push(`A relay could be reached again at ${utc(startMsOf(clock) + endMs)}.`);
    const id = await this.#post(to, length, lines, '');
    if (id !== null) log.info('outage reported', { id, waited, ...ended });
    return id !== null;
  }

  #lengthOf({ outage, endMs, idleMs }: Return): string {
    const { clock } = this.#options;
    const knownMs = (idleMs ?? endMs) - outage.sinceMs;
    const { sinceWallMs, boots } = outage;
    if (idleMs === null && boots === 0) return span(knownMs);
    const isKnown = idleMs === null && sinceWallMs !== null && clock.trust() === 'confirmed';
    return isKnown
      ? span(Math.max(knownMs, startMsOf(clock) + endMs - sinceWallMs))
      : `at least ${span(knownMs)}`;
  }

  /** Writes the outage. */
  async #keep(): Promise<void> {
    const { clock } = this.#options;
    if (this.#outage === null) return;
    const lengthMs = clock.bootMs() - this.#outage.sinceMs;
    this.#outage = { ...this.#outage, lengthMs };
    if (this.#outage.boots === 0 && clock.trust() === 'confirmed')
      this.#outage = { ...this.#outage, sinceWallMs: startMsOf(clock) + this.#outage.sinceMs };
    const keeping = this.#outage;
    this.#isKept = true;
    this.#hasFile = true;
    await this.#try(() => this.#file.write(keeping));
  }

  async #forget(): Promise<void> {
    this.#hasFile = false;
    await this.#try(() => this.#options.disk.remove(this.#path));
  }

  /** One after another. */
  #do(work: () => Promise<unknown>): void {
    this.#work = this.#work.then(async () => void (await work()));
  }

  /** A disk that fails costs only what a restart would know of the outage. */
  async #try(work: () => Promise<void>): Promise<void> {
    await work().catch((error) => this.#notKept(wordsOf(error)));
  }

  #notKept(reason: string): void {
    this.#options.log.warn('outage not kept', { path: this.#path, reason });
  }
}

function utc(wallMs: number): string {
  return `${isoOf(wallMs).slice(0, 16).replace('T', ' ')} UTC`;
}
