/**
 * A machine of a simulated world, on which one program of ours runs: its disk, its clock, its boots and deaths. The
 * device and the cloud are such machines.
 */
import type { Server } from 'node:http';
import type { LogFields } from '../../src/base/system/log.js';
import type { System } from '../../src/mail/engine.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import type { Chance } from './chance.js';
import { MachineClock, type Timeline } from './timeline.js';
import { type Answer, ask, type Request } from './wire.js';

/** A program of ours, as its machine sees it. */
export interface Program {
  stop(): Promise<void>;
}

/** How a program ends. */
export type Death = 'stop' | 'kill' | 'power cut';

export interface MachineOptions {
  readonly name: string;
  readonly timeline: Timeline;
  readonly chance: Chance;
  readonly wallMs: number;
  readonly onLog: (line: string) => void;
  /** Other parts of the program's outside. */
  readonly outside: (isAlive: () => boolean) => Partial<System>;
}

const BOOT_MS = 60_000;

export class Machine<P extends Program> {
  disk: FaultyDisk;
  clock: MachineClock;
  program: P | null = null;
  isStarting = false;
  /** The machine has died and is not back yet: no program can start on it. */
  isOff = false;
  /** Requests that wait for an answer. */
  asking = 0;
  readonly #options: MachineOptions;
  readonly #start: (system: System) => Promise<P>;
  #servers: Server[] = [];
  #boots = 1;
  /** How many programs were started. Output of earlier ones is ignored. */
  #lives = 0;

  constructor(options: MachineOptions, start: (system: System) => Promise<P>) {
    this.#options = options;
    this.#start = start;
    const { timeline, chance, wallMs } = options;
    this.disk = new FaultyDisk({ random: chance.fork().random, directories: ['/var/lib'] });
    this.clock = new MachineClock(timeline, { boot: this.#boots, upMs: BOOT_MS, wallMs });
  }

  /** True while the program takes requests. */
  get isUp(): boolean {
    return this.program !== null && this.#servers.length > 0 && !this.clock.isAsleep;
  }

  /** The number of the current program. */
  get life(): number {
    return this.#lives;
  }

  /** Starts the program; rejects as the program does. */
  async start(): Promise<void> {
    const life = ++this.#lives;
    this.isStarting = true;
    const { name, chance, onLog, outside } = this.#options;
    const log =
      (level: string) =>
      (event: string, fields: LogFields = {}) => {
        if (life === this.#lives) onLog(`${name} ${level} ${event} ${JSON.stringify(fields)}`);
      };
    const draw = chance.fork();
    const random = draw.random;
    const started = this.#start({
      disk: this.disk,
      clock: this.clock,
      log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
      randomBytes: (count) => draw.bytes(count),
      random,
      takeLock: async () => ({ release: async () => undefined }),
      hostname: () => `${name}.example`,
      connect: () => Promise.reject(new Error('nothing is connected in a simulated world')),
      version: '1.0.0',
      openListeners: async (addresses, makeServer) => {
        const servers = addresses.map(makeServer) as Server[];
        this.#servers = servers;
        return {
          addresses,
          close: async () => {
            if (this.#servers === servers) this.#servers = [];
          },
        };
      },
      ...outside(() => life === this.#lives),
    });
    try {
      const program = await started;
      if (life === this.#lives) this.program = program;
    } finally {
      if (life === this.#lives) this.isStarting = false;
    }
  }

  /** Asks the program; null if no complete answer comes. */
  async ask(request: Request): Promise<Answer | null> {
    const [server] = this.#servers;
    if (server === undefined || !this.isUp) return null;
    const life = this.#lives;
    this.asking++;
    const answer = await ask(server, request);
    if (life === this.#lives) this.asking--;
    return answer;
  }

  /** Kills the program. After a power cut the disk may have lost data that was not synced. */
  die(death: 'kill' | 'power cut'): void {
    this.#lives++;
    this.#servers = [];
    this.asking = 0;
    this.program = null;
    this.isStarting = false;
    this.isOff = true;
    this.clock.die();
    const { chance } = this.#options;
    if (death === 'kill') this.disk = this.disk.afterKill();
    else {
      const kind = chance.one([
        'nothing',
        'everything',
        'random',
        'random',
        'torn-head',
        'torn-tail',
      ] as const);
      const next = this.disk.afterPowerCut(kind, chance.fork().random);
      this.disk.cutPower();
      this.disk = next;
    }
  }

  /** Prepares another boot of the machine, or another process in the same boot. */
  renew({ isBoot, wallMs }: { isBoot: boolean; wallMs?: number }): void {
    const { timeline } = this.#options;
    const before = this.clock;
    before.die();
    this.isOff = false;
    const boot = isBoot ? ++this.#boots : this.#boots;
    const upMs = isBoot ? BOOT_MS : before.bootMs();
    this.clock = new MachineClock(timeline, { boot, upMs, wallMs: wallMs ?? before.wallMs() });
    if (!isBoot) this.clock.inherit(before);
  }
}
