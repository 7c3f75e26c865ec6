/**
 * One device under load that loses its power or is killed again and again, while its relay comes and goes, and must keep
 * every promise.
 */
import { readdirSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { Chance } from '../simulation/chance.js';
import { Model, type Requested } from '../simulation/model.js';
import { NOBODY } from '../simulation/relay.js';
import type { Request } from '../simulation/wire.js';
import { Book } from './book.js';
import { type Cut, Device, type PowerDisk } from './device.js';
import { PowerPrograms } from './programs.js';
import type { Left } from './write-log.js';

const PROGRAMS = 5;
/** Mails that one sender may have in transit to one relay. */
const UNDER_WAY = 4;
const LOAD_MS_MAX = 700;
/** How long the relay stays reachable and unreachable, at most. */
const PLUGGED_MS_MAX = 600;
const UNPLUGGED_MS_MAX = 100;
/** Much longer than the delivery of a full queue of 60 takes. */
const PATIENCE_MS = 30_000;

export interface Ended {
  /** Every broken promise, in words. */
  readonly found: readonly string[];
  /** What the daemon printed since the last cut, if something is wrong. */
  readonly log: readonly string[];
  readonly cuts: number;
  /** Times the relay was unplugged. */
  readonly unplugged: number;
  /** Messages that were answered with 202, and edits of the address book that were answered. */
  readonly promised: number;
  readonly edits: number;
  readonly arrived: number;
  /** Arrivals beyond the first of each. */
  readonly twice: number;
  /** Writes since the last flush, at the cuts of the device. */
  readonly left: Left;
}

export class History {
  readonly #chance: Chance;
  readonly #device: Device;
  readonly #model = new Model();
  readonly #programs: PowerPrograms;
  readonly #book: Book;
  readonly #left = { kept: 0, torn: 0, lost: 0 };
  #cuts = 0;
  #unplugged = 0;
  #onPromise: () => void = () => undefined;

  /** `main` is another build of the program. */
  constructor(seed: number, disk: PowerDisk, main?: string) {
    const chance = new Chance(seed);
    const model = this.#model;
    this.#chance = chance;
    this.#device = new Device({
      disk,
      chance: chance.fork(),
      ...(main !== undefined && { main }),
      onTaken: ({ token, digest, messageId, sinceMs }) => {
        const posted = model.messages.get(token);
        if (posted !== undefined && this.#programs.settled.has(posted))
          model.violation(`${token} arrives again, although a later promise was kept`);
        model.arrived(token, digest, { atMs: performance.now(), sinceMs, messageId });
      },
    });
    const ask = async (request: Request) => {
      const answer = await this.#device.ask(request);
      if (request.method !== 'GET' && answer !== null && answer.status < 300) this.#onPromise();
      return answer;
    };
    this.#programs = new PowerPrograms({ ask, model, chance: chance.fork() });
    const onWrong = (words: string) => model.violation(words);
    this.#book = new Book({ ask, chance: chance.fork(), onWrong });
  }

  /** Runs these cuts one after the other, until a promise is broken. A `start` cuts the power before any answer. */
  async live(cuts: readonly (Cut | 'start')[]): Promise<Ended> {
    const { found } = this.#model;
    try {
      for (const cut of cuts) {
        this.#lost(cut === 'start' ? await this.#device.cutStart() : await this.#work(cut));
        if (found.length > 0) break;
      }
      if (found.length === 0) await this.#end();
    } catch (error) {
      this.#model.violation(`${(error as Error).stack}`);
    }
    const log = found.length > 0 ? this.#device.lines : [];
    await this.#device.destroy();
    const messages = [...this.#model.messages.values()];
    const arrivals = messages.map((posted) => posted.arrivals.length);
    return {
      found,
      log,
      cuts: this.#cuts,
      unplugged: this.#unplugged,
      promised: messages.filter(({ id }) => id !== null).length,
      edits: this.#book.edits,
      arrived: arrivals.filter((count) => count > 0).length,
      twice: arrivals.reduce((sum, count) => sum + Math.max(0, count - 1), 0),
      left: this.#left,
    };
  }

  /** Switches the device on; programs work on it until the power is cut. */
  async #work(cut: Cut): Promise<Left> {
    const device = this.#device;
    await this.#begin();
    if (this.#chance.is(0.5)) await this.#deliver();
    device.relay.isRoomy = false;
    // On a busy machine each cut may come before the answer to an edit: one is answered before the first.
    while (this.#book.edits === 0) await this.#book.edit();
    const working = Array.from({ length: PROGRAMS }, async () => {
      while (device.isOn) await this.#programs.act();
    });
    const editing = async () => {
      while (device.isOn) await this.#book.edit();
    };
    working.push(editing(), this.#unplug(this.#chance.fork()));
    await pause(this.#chance.below(LOAD_MS_MAX));
    // The worst moment is the one in which an answer arrives.
    if (this.#chance.is(0.5)) {
      await new Promise<void>((resolve) => {
        this.#onPromise = resolve;
      });
    }
    const left = await device.cutPower(cut);
    this.#model.ended(cut !== 'kill', UNDER_WAY, performance.now());
    await Promise.all(working);
    return left;
  }

  /** Takes the relay off the network now and then: mails in transit may arrive twice. */
  async #unplug(chance: Chance): Promise<void> {
    const device = this.#device;
    for (;;) {
      await pause(chance.below(PLUGGED_MS_MAX));
      if (!device.isOn) return;
      device.unplugRelay();
      this.#unplugged++;
      this.#model.ended(false, UNDER_WAY, performance.now());
      await pause(chance.below(UNPLUGGED_MS_MAX));
      device.plugRelay();
    }
  }

  #lost(left: Left): void {
    for (const fate of ['kept', 'torn', 'lost'] as const) this.#left[fate] += left[fate];
    this.#cuts++;
  }

  /** Switches the device on and compares its state with earlier answers. */
  async #begin(): Promise<void> {
    await this.#device.switchOn();
    await this.#programs.check();
    await this.#book.check();
    for (let i = 0; i < PROGRAMS; i++) await this.#programs.postAgain();
  }

  /** Waits until the queue is empty, and checks that every promised mail arrived. */
  async #deliver(): Promise<void> {
    const { relay } = this.#device;
    relay.isRoomy = true;
    await this.#programs.steer('release');
    await this.#programs.steer('flush');
    const patience = AbortSignal.timeout(PATIENCE_MS);
    for (let open = 1; open > 0; await pause(10)) {
      const queue = (await this.#programs.state())?.queue as Record<string, number> | undefined;
      if (queue === undefined) return;
      open = (queue.queued ?? 0) + (queue.sending ?? 0) + (queue.deferred ?? 0);
      if (patience.aborted) return this.#model.violation(`${open} are never delivered`);
    }
    await this.#programs.list();
    const requests = new Set([...this.#model.messages.values()].map(({ request }) => request));
    for (const request of requests) this.#checkDelivered(request);
  }

  #checkDelivered({ posted, standing, key }: Requested): void {
    const ones = posted.filter(({ destination }) => !destination.startsWith(NOBODY));
    const missing = ones.filter(({ arrivals, isCancelAsked }) => arrivals.length === 0 && !isCancelAsked);
    if (missing.length === 0 || (standing !== 'promised' && missing.length === ones.length)) return;
    const names = missing.map(({ token, id }) => `${token} (${id})`).join(', ');
    this.#model.violation(`${names} of ${posted.length}, ${standing} under ${key}, did not arrive`);
  }

  /** Checks the end: all mails are delivered, the spool holds no orphaned file, and the program exits with 0. */
  async #end(): Promise<void> {
    await this.#begin();
    await this.#deliver();
    const listed = await this.#programs.list();
    const failed = listed.filter(({ status }) => status === 'failed');
    const wanted = failed.reduce((sum, { attachments }) => sum + attachments.length, 0);
    // A file is removed once the outcome of its message is on the disk, which may take a second.
    const patience = AbortSignal.timeout(PATIENCE_MS);
    for (let files = Number.POSITIVE_INFINITY; files > wanted; await pause(20)) {
      files = readdirSync(this.#device.pathOf('spool')).length;
      if (!patience.aborted) continue;
      return this.#model.violation(`${files} files are left, and at most ${wanted} are needed`);
    }
    if (readdirSync(this.#device.pathOf('.')).includes('damaged')) this.#model.violation('there is damage');
    const code = await this.#device.switchOff();
    if (code !== 0) this.#model.violation(`the program ends with ${code}`);
  }
}
