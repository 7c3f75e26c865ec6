/**
 * A simulated world: the real daemon, the real store and the real reference cloud on a fake outside. The same seed gives
 * the same history.
 */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { createCloud } from '../../src/cloud/cloud.js';
import type { DevConfig } from '../../src/dev/settings.js';
import { createDaemon, type Daemon } from '../../src/device/daemon.js';
import type { MessageType } from '../../src/mail/message/message.js';
import { PowerCutError } from '../support/faulty-disk.js';
import { BookWatch } from './book-watch.js';
import { Chance } from './chance.js';
import type { Backup } from './cloudside.js';
import { type Ailment, afflict } from './ill-disk.js';
import { CloudLink } from './link.js';
import { Machine, type Program } from './machine.js';
import { readMail } from './mail.js';
import { Model, type Posted } from './model.js';
import { Notices } from './notices.js';
import { Patience } from './patience.js';
import { People } from './people.js';
import type { Nature, Plan } from './plan.js';
import { Programs } from './programs.js';
import { Rate } from './rate.js';
import { Relay, type Taken } from './relay.js';
import { cloudConfig, cloudUrl, deviceConfig } from './settings.js';
import { Timeline } from './timeline.js';
import { Watch } from './watch.js';

/** Between two starts of a program that fails, at first and at most. */
const RETRY_MS = 5 * SECOND_MS;
const RETRY_MS_MAX = 12 * HOUR_MS;

/** A world, not yet running. */
export class World {
  readonly chance: Chance;
  readonly swarm: Nature;
  readonly timeline = new Timeline();
  readonly model = new Model();
  readonly #hash = createHash('sha256');
  readonly #onLine: (line: string) => void;
  readonly relays: Relay[];
  readonly #peoplesRelay: Relay;
  readonly device: Machine<Daemon>;
  readonly cloud: Machine<Program>;
  readonly link: CloudLink;
  readonly programs: Programs;
  readonly people: People;
  readonly bookWatch: BookWatch;
  readonly patience: Patience;
  readonly notices: Notices;
  readonly rate: Rate;
  readonly watch: Watch;
  /** Documents of the cloud that may be restored. */
  readonly backups: Backup[] = [];
  /** How often the cloud's URL was spelled anew. */
  spelling = 0;
  /** The device has no cloud just now. */
  isAway = false;
  /** The device's next start finds damage. */
  isDamaged = false;
  /** The device's network has changed. */
  networkChanged = (): void => undefined;
  /** Of the device; a reload changes them. */
  settings: Readonly<Record<string, string>>;
  /** Which of its senders the device has now. */
  sender = 0;
  /** Which relays it knows, in its order. */
  route: readonly number[];
  /** The settings that the device runs with. */
  live: DevConfig;
  /** How often the device has dropped the content of failed messages after FIELDPOST_KEEP_FAILED. */
  contentDrops = 0;
  /** When the device and the cloud have power again. */
  offUntilMs = 0;
  /** What the disk does to a call that changes something. */
  diskTrouble: Ailment = 'none';

  /** `onLine` is told of every line of the history. */
  constructor({ seed, nature: swarm }: Plan, onLine: (line: string) => void) {
    this.#onLine = onLine;
    const chance = new Chance(seed);
    this.chance = chance;
    this.swarm = swarm;
    this.settings = swarm.settings;
    this.route = Array.from({ length: swarm.relays }, (_, i) => i);
    this.live = this.config();
    this.watch = new Watch(this);
    this.rate = new Rate(this);
    const timeline = this.timeline;
    const timeoutMs = Number.parseInt(swarm.settings.FIELDPOST_SMTP_TIMEOUT ?? '60', 10) * SECOND_MS;
    const relayWorld = (chance: Chance, onTaken: (taken: Taken) => void) => ({
      timeline,
      chance,
      timeoutMs,
      mailMs: swarm.mailMs,
      onTaken,
      onOpen: (host: string) => this.tell(`${host} is called`),
    });
    this.relays = Array.from({ length: swarm.relays }, (_, i) => {
      const relay = new Relay(`relay${i}.example`, {
        ...relayWorld(chance.fork(), (taken) => this.watch.taken(taken)),
        watcher: this.watch.offers,
      });
      relay.takesAhead = chance.is(0.5);
      return relay;
    });
    this.#peoplesRelay = new Relay(
      'people.example',
      relayWorld(chance.fork(), (taken) => this.#onNews(taken)),
    );
    this.link = new CloudLink(this, chance.fork());
    this.link.ill = swarm.ill;
    if (swarm.isOfBook) this.link.weights = swarm.fates;
    this.bookWatch = new BookWatch(this);
    this.patience = new Patience(this);
    this.notices = new Notices(this);
    this.link.watchers.push(this.watch, this.bookWatch, this.patience, this.notices);
    const onLog = (line: string) => {
      if (line.startsWith('device info content dropped')) this.contentDrops++;
      this.tell(line);
    };
    const machine = { timeline, wallMs: swarm.wallMs, onLog };
    this.device = new Machine<Daemon>(
      {
        ...machine,
        name: 'device',
        chance: chance.fork(),
        outside: (isAlive) => ({
          openSession: async ({ relay: { host } }) => {
            const relay = this.relays.find((_, i) => host === `relay${i}.example`);
            if (relay === undefined) throw new Error(`there is no ${host}`);
            return await relay.session(isAlive);
          },
          openHttps: () => this.link.https(isAlive),
          watchNetwork: (onChange) => {
            this.networkChanged = () => isAlive() && !this.device.clock.isAsleep && onChange();
            return { close: () => undefined };
          },
        }),
      },
      (system) => createDaemon(this.config(), system),
    );
    this.cloud = new Machine<Program>(
      {
        ...machine,
        wallMs: Math.max(swarm.wallMs, Date.UTC(2026, 10, 20, 9)),
        name: 'cloud',
        chance: chance.fork(),
        outside: (isAlive) => ({ openSession: () => this.#peoplesRelay.session(isAlive) }),
      },
      (system) =>
        createCloud(cloudConfig(swarm.cloudDelay), system, async (message) => {
          this.watch.short(message.message);
          return { kind: 'taken', reply: 'taken' };
        }),
    );
    this.programs = new Programs({
      ask: (request) => this.device.ask(request),
      model: this.model,
      watch: this.watch,
      chance: chance.fork(),
      timeline,
      types: swarm.hasCloud && !swarm.isOfBook ? [1, 1, 1, 2, 3, 4] : ([1] as MessageType[]),
      filesMax: swarm.filesMax,
    });
    this.people = new People(this, chance.fork());
    this.model.historyMax = this.live.history;
    this.watchDisk();
  }

  /** Lets up to a minute pass until a promise settles, and gives its value; null if `isInVain` says so first. */
  async awaited<T>(asking: Promise<T>, isInVain = () => false): Promise<T | null> {
    let isDone = false;
    const over = () => {
      isDone = true;
    };
    asking.then(over, over);
    for (let i = 0; i < 60 && !isDone && !isInVain(); i++) {
      await drained();
      if (!isDone) await this.pass(SECOND_MS);
    }
    if (isDone) return await asking;
    if (this.model.found.length === 0 && !isInVain()) this.model.violation('a request hangs');
    return null;
  }

  /** Lets time pass, and runs everything that comes due. */
  async pass(ms: number): Promise<void> {
    const untilMs = Math.round(this.timeline.nowMs + ms);
    await drained();
    // A world that has failed stops at once: it might be so busy that it never ends.
    while (this.model.found.length === 0 && this.timeline.next(untilMs)) await drained();
  }

  /** Starts the program; retries while its disk fails. */
  async start<P extends Program>(machine: Machine<P>, tries = 0): Promise<void> {
    if (machine.program !== null || machine.isStarting || machine.isOff) return;
    try {
      await machine.start();
      this.tell('started');
      if (machine.program === this.cloud.program) this.notices.cloudStarted();
    } catch (error) {
      this.tell(`a start failed: ${error}`);
      // A machine that died while it started is started again later.
      if (error instanceof PowerCutError) return;
      // Its files are closed when its process ends.
      machine.die('kill');
      machine.renew({ isBoot: false });
      this.watchDisk();
      if (this.diskTrouble === 'none')
        return this.model.violation(`a start failed: ${(error as Error).stack}`);
      // systemd tries every 5 s. Each try reads the whole store, so that a world has fewer while the disk refuses.
      this.timeline.after(
        Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** tries),
        () => void this.start(machine, tries + 1),
      );
    }
  }

  /** So many messages may be on their way at the same time. */
  get underWay(): number {
    return 4 * this.relays.length + 4;
  }

  /** The device's program has ended. */
  deviceEnded(isCut: boolean): void {
    this.model.ended(isCut, this.underWay, this.timeline.nowMs);
    this.bookWatch.processEnded();
    this.patience.processEnded();
    this.watch.processEnded();
  }

  /** The device's settings as they are now. */
  config(): DevConfig {
    const { settings, route: relays, sender, spelling, isAway } = this;
    const cloud = this.swarm.hasCloud && !isAway ? cloudUrl(spelling) : null;
    this.live = deviceConfig({ settings, relays, sender, cloud });
    return this.live;
  }

  /** The messages that `is` names, in the order in which they were posted. */
  posted(is: (posted: Posted) => boolean): Posted[] {
    return [...this.model.messages.values()].filter(is);
  }

  /** Sets the fault of the device's disk. */
  setDiskTrouble(trouble: Ailment): void {
    this.diskTrouble = trouble;
    this.model.diskTrouble(trouble !== 'none', this.timeline.nowMs);
    this.watch.weather.upset();
    this.watchDisk();
    this.tell(`the disk is ${trouble}`);
    if (trouble === 'none') this.timeline.after(RETRY_MS, () => void this.start(this.device));
  }

  /** Gives the present disk the current fault. A machine has a new disk after each death. */
  watchDisk(): void {
    const { timeline, swarm, device, diskTrouble } = this;
    afflict(device.disk, diskTrouble, { chance: this.chance.fork(), timeline, syncMs: swarm.syncMs });
  }

  #onNews({ envelope, mail }: Taken): void {
    const { token, messageId } = readMail(mail);
    this.tell(`${envelope.to} is told ${token}`);
    this.notices.mail(envelope.to, token, messageId);
  }

  /** The hash of all lines of the history; it can be read once. */
  hash(): string {
    return this.#hash.digest('hex').slice(0, 16);
  }

  /** A line of the history. */
  tell(line: string): void {
    const told = `${(this.timeline.nowMs / SECOND_MS).toFixed(3)} ${line}`;
    this.#hash.update(told);
    this.#onLine(told);
  }
}

/** Resolves when nothing is left to do without a timer. */
export async function drained(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await nextTurn();
}
