/**
 * A simulated world: the real daemon, the real store and the real reference cloud on a fake outside, for as long as its
 * seed says. One seed, one history.  Used by live.ts, which runs it.
 */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createCloud } from '../../src/cloud-server/cloud.js';
import { type Config, parseConfig } from '../../src/config.js';
import { createDaemon, type Daemon } from '../../src/daemon.js';
import { HOUR_MS, SECOND_MS } from '../../src/limits.js';
import type { MessageType } from '../../src/message/message.js';
import { Chance } from './chance.js';
import { CloudLink } from './link.js';
import { isOfTheDead, Machine, type Program } from './machine.js';
import { digestOf, readMail } from './mail.js';
import { Model, type Posted } from './model.js';
import { People } from './people.js';
import type { Nature, Plan } from './plan.js';
import { Programs } from './programs.js';
import { Relay, type Taken } from './relay.js';
import { Timeline } from './timeline.js';

const DEVICE_ID = 'pump-3';
/** Where the cloud keeps the device's address book. */
export const DOCUMENT = `/devices/${DEVICE_ID}/destinations`;
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
  /** Of the device; a reload changes them. */
  settings: Readonly<Record<string, string>>;
  /** Which of its senders the device has now. */
  sender = 0;
  /** Until then the device has no power. */
  offUntilMs = 0;
  /** What the disk does to a call that changes something. */
  diskTrouble: 'none' | 'refusing' | 'full' = 'none';

  /** `onLine` is told of every line of the history. */
  constructor({ seed, nature: swarm }: Plan, onLine: (line: string) => void) {
    this.#onLine = onLine;
    const chance = new Chance(seed);
    this.chance = chance;
    this.swarm = swarm;
    this.settings = swarm.settings;
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
      const relay = new Relay(
        `relay${i}.example`,
        relayWorld(chance.fork(), (taken) => this.#onTaken(taken)),
      );
      relay.takesAhead = chance.is(0.5);
      return relay;
    });
    this.#peoplesRelay = new Relay(
      'people.example',
      relayWorld(chance.fork(), (taken) => this.#onNews(taken)),
    );
    this.link = new CloudLink({
      timeline,
      chance: chance.fork(),
      ask: (request) => this.cloud.ask(request),
    });
    const onLog = (line: string) => this.tell(line);
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
        createCloud(cloudConfig(swarm), system, async (message) => {
          this.#onShort(message.message);
          return { kind: 'taken', reply: 'taken' };
        }),
    );
    this.programs = new Programs({
      ask: (request) => this.device.ask(request),
      model: this.model,
      chance: chance.fork(),
      timeline,
      types: swarm.hasCloud ? [1, 1, 1, 2, 3, 4] : ([1] as MessageType[]),
      filesMax: swarm.filesMax,
    });
    this.people = new People({
      chance: chance.fork(),
      device: (request) => this.device.ask(request),
      cloud: (request) => this.cloud.ask(request),
      cloudPath: DOCUMENT,
      violation: (words) => this.model.violation(words),
    });
    this.model.mayForget = 'FIELDPOST_HISTORY' in swarm.settings;
    this.watchDisk();
  }

  /** What an asking comes to, while as much time passes as it needs, up to a minute. */
  async awaited<T>(asking: Promise<T>): Promise<T | null> {
    let isDone = false;
    const over = () => {
      isDone = true;
    };
    asking.then(over, over);
    for (let i = 0; i < 60 && !isDone; i++) {
      await drained();
      if (!isDone) await this.pass(SECOND_MS);
    }
    if (isDone) return await asking;
    this.model.violation('a request hangs');
    return null;
  }

  /** Lets time pass, and all that is due happen. */
  async pass(ms: number): Promise<void> {
    const untilMs = Math.round(this.timeline.nowMs + ms);
    await drained();
    while (this.timeline.next(untilMs)) await drained();
  }

  /** Starts the program, again and again while its disk refuses. */
  async start<P extends Program>(machine: Machine<P>, tries = 0): Promise<void> {
    if (machine.program !== null || machine.isStarting) return;
    try {
      await machine.start();
      this.tell('started');
    } catch (error) {
      this.tell(`a start failed: ${error}`);
      // It died while it started: it is started again when it is back.
      if (isOfTheDead(error)) return;
      if (this.diskTrouble === 'none')
        return this.model.violation(`a start failed: ${(error as Error).stack}`);
      // systemd tries every 5 s. Each try reads the whole store, so that a world has fewer.
      this.timeline.after(
        Math.min(HOUR_MS, 5 * SECOND_MS * 2 ** tries),
        () => void this.start(machine, tries + 1),
      );
    }
  }

  /** So many messages may be on their way at the same time. */
  get underWay(): number {
    return 4 * this.relays.length + 4;
  }

  /** The device's settings as they are now. */
  config(): Config {
    const { settings, hasCloud } = { ...this.swarm, settings: this.settings };
    const cloud = {
      FIELDPOST_CLOUD: 'https://cloud.example',
      FIELDPOST_DEVICE_ID: DEVICE_ID,
      FIELDPOST_CLOUD_KEY: 'key',
    };
    return configOf({
      FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
      FIELDPOST_RELAY: this.relays.map((_, i) => `smtp://relay${i}.example`).join(','),
      FIELDPOST_FROM: `device${this.sender}@example.com`,
      FIELDPOST_MIN_FREE: '4MiB',
      ...(hasCloud && cloud),
      ...settings,
    });
  }

  /** The messages that `is` names, in the order in which they were posted. */
  posted(is: (posted: Posted) => boolean): Posted[] {
    return [...this.model.messages.values()].filter(is);
  }

  /** What becomes of calls to the device's disk from now on. */
  setDiskTrouble(trouble: 'none' | 'refusing' | 'full'): void {
    this.diskTrouble = trouble;
    this.model.diskTrouble(trouble !== 'none', this.timeline.nowMs);
    this.watchDisk();
    this.tell(`the disk is ${trouble}`);
  }

  /** The device's disk is as bad as it is just now; a new disk after a death, too. */
  watchDisk(): void {
    const { disk } = this.device;
    const chance = this.chance.fork();
    const { syncMs } = this.swarm;
    disk.pace = ({ kind }) => {
      if (syncMs === 0 || (kind !== 'sync' && kind !== 'syncDirectory')) return null;
      return new Promise((resolve) => void this.timeline.after(chance.below(syncMs), resolve));
    };
    disk.onOperation = (_, { kind }) => {
      if (this.diskTrouble === 'refusing' && chance.is(0.5))
        return chance.is(0.5) ? 'error:EIO' : 'error-half:EIO';
      if (this.diskTrouble === 'full' && (kind === 'create' || kind === 'makeDirectory'))
        return 'error:ENOSPC';
      return 'ok';
    };
  }

  #onTaken({ relay, mail, sinceMs, isUntold }: Taken): void {
    const { token, messageId, digest } = readMail(mail);
    this.tell(`${relay} takes ${token}${isUntold ? ' and cannot say so' : ''}`);
    this.model.arrived(token, digest, { atMs: this.timeline.nowMs, sinceMs, messageId });
    if (isUntold) this.model.pardon(token);
  }

  #onShort(message: string): void {
    const [token = ''] = message.split(' ');
    this.tell(`the provider takes ${token}`);
    if (!token.startsWith('T')) return;
    const atMs = this.timeline.nowMs;
    this.model.arrived(token, digestOf(message, []), { atMs, sinceMs: 0, messageId: null });
  }

  #onNews({ envelope, mail }: Taken): void {
    this.tell(`${envelope.to} is told ${readMail(mail).token}`);
  }

  /** Of all lines of the history so far; may be asked for once. */
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

function cloudConfig({ cloudDelay }: Nature): Config {
  return configOf({
    FIELDPOST_STATE_DIR: '/var/lib/cloud',
    FIELDPOST_RELAY: 'smtp://people.example',
    FIELDPOST_FROM: 'cloud@example.com',
    FIELDPOST_CLOUD_SERVER_DELAY: cloudDelay,
    FIELDPOST_CLOUD_SERVER_STOP_DELAY: '2d',
    FIELDPOST_MIN_FREE: '4MiB',
  });
}

function configOf(env: Readonly<Record<string, string>>): Config {
  const parsed = parseConfig(env, () => '', { hostname: 'device.example' });
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.config;
}

/** Resolves once everything is done that can be done without time. */
export async function drained(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await nextTurn();
}
