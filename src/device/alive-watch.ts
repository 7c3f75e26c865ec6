/**
 * Watches programs on the device that must give signs (a dead man's switch), and tells people if one gives none, and when it
 * gives signs again. alive-rule.ts decides; src/device/alive.ts loads this with the first program.
 *
 * `alive.json` is a durable file of what must survive a restart: names, limits, addresses, and who is late. A sign in time
 * writes nothing. An episode is in the file before its message is queued, and the message has a key made of the episode: a
 * crash at any point sends it once. If the file cannot be written, people are told all the same.
 */
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { DurableFile } from '../base/durable-file.js';
import { FieldpostError, wordsOf } from '../base/errors.js';
import { shapeOf } from '../base/json.js';
import type { Lang } from '../base/langs.js';
import { MINUTE_MS, SECOND_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import { startMsOf } from '../base/stamp.js';
import type { Disk } from '../base/system/disk.js';
import { isoOf } from '../base/text.js';
import { Turns } from '../base/turns.js';
import type { Delivery } from '../mail/delivery/delivery.js';
import type { System } from '../mail/engine.js';
import { type Address, recipientKey } from '../mail/message/address.js';
import type { EmailDraft, ShortDraft } from '../mail/message/message.js';
import { asDiskError } from '../mail/store/disk-error.js';
import type { Store } from '../mail/store/store.js';
import {
  type AliveEvent,
  type AliveState,
  firstSign,
  isLate,
  type KeptState,
  keptOf,
  owedIn,
  PROGRAMS_MAX,
  restored,
  step,
} from './alive-rule.js';
import type { AddressBook } from './book/address-book.js';
import { OwnMessages, ownMail, ownShort } from './own-messages.js';

/** A message that was not queued is tried again after this long; so is the file. */
const RETRY_MS = MINUTE_MS;
/** If the alarm rings later than this the daemon stood still. Then it first hears the signs that have come meanwhile. */
const STALL_MS = 5 * SECOND_MS;
const EPISODE_BYTES = 8;

/** The parts that the watch uses. */
export interface AliveOptions extends Pick<System, 'clock' | 'log' | 'hostname' | 'randomBytes'> {
  readonly disk: Disk;
  readonly path: string;
  readonly store: Pick<Store, 'accept' | 'book'>;
  readonly delivery: Pick<Delivery, 'nudge'>;
  /** Who is told about a program without an address. */
  readonly book: Pick<AddressBook, 'list'>;
  /** Where mail to an address goes. */
  readonly homesOf: (address: Address) => readonly Address[];
  /** SMS, calls and pushes can be sent. */
  readonly hasCloud: boolean;
  /** The names that are late have changed. */
  readonly changed: () => void;
}

/** A program as clients see it. */
export interface ShownProgram {
  readonly name: string;
  readonly withinMs: number;
  readonly to: string | null;
  readonly late: boolean;
  /** Null: none since the start of the daemon. */
  readonly lastSignAt: string | null;
}

/** The silence of an episode, from the last sign before it, on the clock of that boot. */
interface Silence {
  readonly boot: string;
  readonly sinceMs: number;
  /** The same on a confirmed wall clock; null: it was not confirmed. */
  readonly sinceWallMs: number | null;
  /** Its length once it is over. */
  readonly lengthMs: number | null;
  /** It was perhaps longer. */
  readonly isAtLeast: boolean;
}

/** A program in `alive.json`. */
interface KeptProgram extends KeptState {
  readonly name: string;
  readonly withinMs: number;
  readonly to: Address | null;
  readonly silence: Silence | null;
}

const TIME = 0.5;
const SILENCE = { boot: '', sinceMs: TIME, 'sinceWallMs|null': TIME, 'lengthMs|null': TIME, isAtLeast: true };
const isPhase = (value: unknown) => ['good', 'late', 'told', 'back'].includes(value as string);
const isFile = shapeOf({
  programs: [{ name: '', withinMs: 0, 'to|null': '', phase: isPhase, episode: '', 'silence|null': SILENCE }],
});

interface File {
  readonly programs: readonly KeptProgram[];
}

interface Program {
  readonly name: string;
  to: Address | null;
  watched: AliveState;
  /** The last sign on the boot's clock; null: none since the start of the daemon. */
  signMs: number | null;
  silence: Silence | null;
}

/** All of them. */
export class AliveWatch {
  readonly #options: AliveOptions;
  readonly #file: DurableFile<File>;
  readonly #messages: OwnMessages;
  readonly #programs = new Map<string, Program>();
  readonly #alarm: Alarm;
  /** One change of the file at a time. */
  readonly #turns = new Turns();
  readonly #startedMs: number;
  /** What the file holds. */
  #written = '';
  #isWarned = false;
  #isWorking = false;
  /** On the awake clock: what the alarm is set for; no look before; and when to try again. */
  #nextMs = Number.POSITIVE_INFINITY;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #retryMs = Number.POSITIVE_INFINITY;

  /** Goes on with the programs of an earlier run. */
  static async open(options: AliveOptions): Promise<AliveWatch> {
    const watch = new AliveWatch(options);
    await watch.#read();
    return watch;
  }

  private constructor(options: AliveOptions) {
    const { disk, path, clock } = options;
    this.#options = options;
    this.#startedMs = clock.bootMs();
    this.#messages = new OwnMessages(options);
    this.#file = new DurableFile({
      ...{ disk, path },
      parse: (value) => (isFile(value) ? (value as File) : null),
      onDamage: ({ copy }) => this.#warn(`the file is damaged: see ${copy}`),
    });
    this.#alarm = new Alarm(clock, () => this.#ring());
  }

  /** How many there are, */
  get count(): number {
    return this.#programs.size;
  }

  /** and the names of those that are late, sorted. */
  get late(): readonly string[] {
    const late = [...this.#programs.values()].filter(({ watched }) => isLate(watched.phase));
    return late.map(({ name }) => name).sort();
  }

  list(): ShownProgram[] {
    return [...this.#programs.values()].map((one) => this.#shown(one));
  }

  get(name: string): ShownProgram | null {
    const found = this.#programs.get(name);
    return found ? this.#shown(found) : null;
  }

  /**
   * A sign. True: it is the first of this program, which is watched from now on. `to`: who is told; null: the people of the
   * address book. A new program, limit or address is on the disk when this resolves. Throws rate-limited for one too many;
   * storage-full, storage-failed.
   */
  async sign(name: string, withinMs: number, to: Address | null): Promise<boolean> {
    const known = this.#programs.get(name);
    if (known && known.watched.withinMs === withinMs && known.to === to) {
      this.#signed(known, withinMs);
      return false;
    }
    return await this.#turns.do(() => this.#enter(name, withinMs, to));
  }

  /** Watches it no longer, and tells nobody. Throws not-found; storage-full, storage-failed. */
  remove(name: string): Promise<void> {
    return this.#turns.do(async () => {
      const program = this.#programs.get(name);
      if (!program) {
        const hint = 'fieldpost alive lists them';
        throw new FieldpostError('not-found', `No program ${JSON.stringify(name)} gives signs`, { hint });
      }
      await this.#change([...this.#programs.values()].filter((one) => one !== program));
      this.#programs.delete(name);
      this.#options.log.info('program no longer watched', { program: name });
      if (isLate(program.watched.phase)) this.#options.changed();
    });
  }

  async stop(): Promise<void> {
    this.#alarm.end();
    await this.#turns.idle();
  }

  async #read(): Promise<void> {
    const { clock } = this.#options;
    const file = await this.#file.read().catch((error) => this.#warn(wordsOf(error)));
    for (const { name, withinMs, to, silence, ...kept } of file?.programs ?? []) {
      const watched = restored(kept, withinMs, clock.awakeMs());
      this.#programs.set(name, { name, to, watched, signMs: null, silence });
    }
    this.#written = this.#text([...this.#programs.values()]);
    this.#go();
  }

  async #enter(name: string, withinMs: number, to: Address | null): Promise<boolean> {
    const { store, clock, log } = this.#options;
    const known = this.#programs.get(name);
    if (!known && this.#programs.size >= PROGRAMS_MAX) {
      throw new FieldpostError('rate-limited', `This device watches at most ${PROGRAMS_MAX} programs`, {
        hint: 'remove one that gives no signs any more: fieldpost alive NAME --off',
      });
    }
    await store.book.checkRoom();
    const watched = firstSign(withinMs, clock.awakeMs());
    const first: Program = known ?? { name, to, watched, signMs: clock.bootMs(), silence: null };
    const others = [...this.#programs.values()].filter((one) => one !== known);
    await this.#change([...others, { ...first, to, watched: { ...first.watched, withinMs } }]);
    this.#programs.set(name, first);
    first.to = to;
    log.info('program watched', { program: name, withinMs, to });
    this.#signed(first, withinMs);
    return !known;
  }

  #signed(program: Program, withinMs: number): void {
    if (this.#happen(program, { kind: 'sign', withinMs })) this.#options.changed();
  }

  /** The one place that changes a phase. True: the program is late now, or no longer. */
  #happen(program: Program, event: AliveEvent): boolean {
    const { clock, log } = this.#options;
    const before = program.watched;
    const after = step(before, event, clock.awakeMs());
    const [wasLate, late] = [isLate(before.phase), isLate(after.phase)];
    program.watched = after;
    if (late && !wasLate) {
      program.silence = this.#silenceOf(program);
      log.warn('program gives no sign', { program: program.name, withinMs: after.withinMs });
    } else if (wasLate && !late) {
      program.silence = program.silence && this.#ended(program.silence, before.withinMs);
      log.info('program gives signs again', { program: program.name, lastedMs: program.silence?.lengthMs });
    }
    if (event.kind === 'sign') program.signMs = clock.bootMs();
    if (after.phase === 'good') program.silence = null;
    if (after.phase !== before.phase) this.#go();
    else this.#setAlarm();
    return late !== wasLate;
  }

  /** It begins with the last sign; if none has come since the start, it has lasted at least since then. */
  #silenceOf({ signMs }: Program): Silence {
    const { clock } = this.#options;
    const sinceMs = signMs ?? this.#startedMs;
    const sinceWallMs = clock.trust() === 'confirmed' ? startMsOf(clock) + sinceMs : null;
    return { boot: clock.boot, sinceMs, sinceWallMs, lengthMs: null, isAtLeast: signMs === null };
  }

  #ended(silence: Silence, withinMs: number): Silence {
    const { clock } = this.#options;
    const { boot, sinceMs, sinceWallMs } = silence;
    const nowMs = clock.bootMs();
    if (boot === clock.boot) return { ...silence, lengthMs: nowMs - sinceMs };
    const leastMs = withinMs + nowMs;
    if (sinceWallMs === null || clock.trust() !== 'confirmed')
      return { ...silence, lengthMs: leastMs, isAtLeast: true };
    return { ...silence, lengthMs: Math.max(leastMs, clock.wallMs() - sinceWallMs) };
  }

  #ring(): void {
    const { clock, changed } = this.#options;
    const nowMs = clock.awakeMs();
    if (nowMs - this.#nextMs > STALL_MS) this.#notBeforeMs = nowMs + STALL_MS;
    if (nowMs < this.#notBeforeMs) {
      this.#setAlarm();
      return;
    }
    let isNews = false;
    for (const program of this.#programs.values())
      if (nowMs >= program.watched.dueMs)
        isNews = this.#happen(program, { kind: 'due', episode: this.#newEpisode() }) || isNews;
    if (nowMs >= this.#retryMs) this.#go();
    else this.#setAlarm();
    if (isNews) changed();
  }

  #setAlarm(): void {
    const { clock } = this.#options;
    const due = [...this.#programs.values()].map(({ watched }) => watched.dueMs);
    this.#nextMs = Math.max(Math.min(this.#retryMs, ...due), this.#notBeforeMs);
    this.#alarm.at(clock.bootMs() + this.#nextMs - clock.awakeMs());
  }

  #newEpisode(): string {
    return Buffer.from(this.#options.randomBytes(EPISODE_BYTES)).toString('hex');
  }

  /** Writes what has changed, and queues what is owed, soon. */
  #go(): void {
    this.#retryMs = Number.POSITIVE_INFINITY;
    this.#setAlarm();
    if (this.#isWorking) return;
    this.#isWorking = true;
    void this.#turns.do(() => this.#work());
  }

  async #work(): Promise<void> {
    this.#isWorking = false;
    let isDone = true;
    for (const program of this.#programs.values()) {
      // What is told is in the file first.
      isDone = (await this.#keep()) && isDone;
      if (await this.#tell(program)) continue;
      isDone = false;
      // The queue or the disk is full for the others, too.
      break;
    }
    isDone = (await this.#keep()) && isDone;
    if (isDone) return;
    this.#retryMs = this.#options.clock.awakeMs() + RETRY_MS;
    this.#setAlarm();
  }

  /** False: its message must wait. */
  async #tell(program: Program): Promise<boolean> {
    const { name, watched, silence } = program;
    const { episode } = watched;
    const phase = owedIn(watched.phase);
    if (phase === null) return true;
    const { log, clock } = this.#options;
    const silentMs = silence?.lengthMs ?? clock.bootMs() - (silence?.sinceMs ?? 0);
    const { aliveText } = await import('./alive-texts.js');
    const isAtLeast = phase === 'back' && silence?.isAtLeast === true;
    const drafts = this.#drafts(program, (lang) => {
      return aliveText(lang, { kind: phase, program: name, silentMs, isAtLeast });
    });
    const key = `alive ${episode} ${phase}`;
    const hash = createHash('sha256').update(key).digest('hex');
    if (drafts.length === 0) log.warn('nobody is told of a program', { program: name });
    else {
      const ids = await this.#messages.post(drafts, `${name} ${phase}`, { key, hash });
      if (ids === null) return false;
      log.info('program told', { program: name, messages: ids.length });
    }
    this.#happen(program, { kind: 'queued', phase, episode });
    return true;
  }

  /** A message to each who is told. A newer one about the program replaces one that waits. */
  #drafts({ name, to, watched }: Program, textIn: (lang: Lang) => string): (EmailDraft | ShortDraft)[] {
    const { book, homesOf, hasCloud, hostname } = this.#options;
    // No client's key has a blank.
    const terms = { collapse: `alive ${name}`, ...(watched.phase === 'late' && { urgent: true as const }) };
    const mail = (address: Address, lang: Lang) => {
      const text = `${hostname()}: ${textIn(lang)}`;
      return ownMail(address, text, [`${text}.`], terms);
    };
    const people = book.list();
    if (to !== null) {
      const langs = new Map(
        people.map(({ destination, lang }) => [recipientKey(destination as Address), lang]),
      );
      return [...new Set(homesOf(to))].map((home) => mail(home, langs.get(recipientKey(home)) ?? 'en'));
    }
    return people.flatMap(({ type, destination, lang }): (EmailDraft | ShortDraft)[] => {
      if (type === 1) return [mail(destination as Address, lang)];
      return hasCloud ? [ownShort(type, destination, `${hostname()}: ${textIn(lang)}`, terms)] : [];
    });
  }

  #text(programs: readonly Program[]): string {
    return JSON.stringify(fileOf(programs));
  }

  /** Writes the file if it has changed. False: it could not. */
  async #keep(): Promise<boolean> {
    try {
      await this.#change([...this.#programs.values()]);
      this.#isWarned = false;
      return true;
    } catch (error) {
      if (!this.#isWarned) this.#warn(wordsOf(error));
      this.#isWarned = true;
      return false;
    }
  }

  /** Writes these programs unless the file has them. Throws storage-full, storage-failed, busy. */
  async #change(programs: readonly Program[]): Promise<void> {
    const text = this.#text(programs);
    if (text === this.#written) return;
    const { disk, path } = this.#options;
    try {
      if (programs.length > 0) await this.#file.write(fileOf(programs));
      else {
        // Durable: a program that came back after a power cut would be late.
        await disk.remove(path);
        await disk.syncDirectory(dirname(path));
      }
    } catch (error) {
      throw asDiskError(error);
    }
    this.#written = text;
  }

  #shown({ name, to, watched, signMs }: Program): ShownProgram {
    const { clock } = this.#options;
    const lastSignAt = signMs === null ? null : isoOf(startMsOf(clock) + signMs);
    return { name, withinMs: watched.withinMs, to, late: isLate(watched.phase), lastSignAt };
  }

  #warn(reason: string): null {
    this.#options.log.warn('programs not kept', { path: this.#options.path, reason });
    return null;
  }
}

function fileOf(programs: readonly Program[]): File {
  return {
    programs: programs.map(({ name, to, watched, silence }) => {
      const { phase, episode } = keptOf(watched);
      const kept = phase === 'good' ? null : silence;
      return { name, withinMs: watched.withinMs, to, phase, episode, silence: kept };
    }),
  };
}
