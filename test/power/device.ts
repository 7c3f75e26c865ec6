/**
 * A device whose power can be cut: the built daemon on a disk of its own, with a relay at hand.
 */
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Chance } from '../simulation/chance.js';
import { type Answer, askOver, type Request } from '../simulation/wire.js';
import { type DaemonProcess, MAIN, startDaemon } from '../support/daemon.js';
import { PowerRelay, type Taken } from './relay.js';
import type { Left } from './write-log.js';

/** How long a flush takes. A power cut during a slow flush does the most harm. */
const FLUSHES_MS = [0, 2, 10];

/**
 * Which data is lost: all that the file system has not written, all that the disk has not flushed, or none (`kill`).
 */
export type Cut = 'file system' | 'device' | 'kill';

/** Where the device keeps its state. */
export interface PowerDisk {
  /** Where a command started through `plugIn` finds the disk. */
  readonly mounted: string;
  /** Switches the disk on. Gives the words to put before a command so that it sees the disk. */
  plugIn(flushMs: number): Promise<readonly string[]>;
  /** The power may fail at any moment from now on. */
  cutPower(): void;
  /** Makes the file system that the process sees drop everything it has not written. */
  shutDown(pid: number | undefined): Promise<void>;
  /** Chooses which writes stay on the disk. Call it after the process has ended. */
  settle(cut: Cut, chance: Chance): Promise<Left>;
  remove(): void;
}

/** A directory instead of a disk, for a device that is only killed. The caller removes it. */
export function plainDisk(directory: string): PowerDisk {
  return {
    mounted: directory,
    plugIn: async () => [],
    cutPower: () => undefined,
    shutDown: async () => undefined,
    settle: async () => ({ kept: 0, torn: 0, lost: 0 }),
    remove: () => undefined,
  };
}

export interface DeviceOptions {
  readonly disk: PowerDisk;
  readonly chance: Chance;
  readonly onTaken: (taken: Taken) => void;
  /** Another build of the program. */
  readonly main?: string;
}

export class Device {
  readonly relay: PowerRelay;
  readonly #options: DeviceOptions;
  readonly #disk: PowerDisk;
  #relayPort = 0;
  #daemon: DaemonProcess | null = null;
  /** Aborted when the power fails. */
  #power = new AbortController();

  constructor(options: DeviceOptions) {
    this.#options = options;
    this.#disk = options.disk;
    this.relay = new PowerRelay(options.chance.fork(), options.onTaken);
  }

  get isOn(): boolean {
    return !this.#power.signal.aborted;
  }

  /** The lines of the daemon since it was switched on. */
  get lines(): readonly string[] {
    return this.#daemon?.lines ?? [];
  }

  /** Resolves once the daemon has started. */
  async switchOn(): Promise<void> {
    this.relay.isHeard = true;
    this.#power = new AbortController();
    await this.#start();
  }

  /** Starts the daemon and cuts the power before any client has an answer and before the relay has a mail. */
  async cutStart(): Promise<Left> {
    await this.#start();
    await this.#daemon?.end('SIGKILL');
    return await this.#disk.settle('device', this.#options.chance);
  }

  async #start(): Promise<void> {
    if (this.#relayPort === 0) this.#relayPort = await this.relay.listen();
    const env = {
      FIELDPOST_STATE_DIR: join(this.#disk.mounted, 'state'),
      FIELDPOST_RELAY: `smtp://127.0.0.1:${this.#relayPort}?tls=never`,
      FIELDPOST_FROM: 'device@example.com',
      FIELDPOST_BACKOFF_MIN: '100ms',
      FIELDPOST_BACKOFF_MAX: '1s',
      FIELDPOST_RETRY_MIN: '1s',
      FIELDPOST_RETRY_MAX: '2s',
      FIELDPOST_MIN_FREE: '4MiB',
      FIELDPOST_MAX_QUEUE: '60',
      FIELDPOST_HISTORY: '100000',
    };
    const through = await this.#disk.plugIn(this.#options.chance.one(FLUSHES_MS));
    this.#daemon = await startDaemon(env, ['run'], through, this.#options.main ?? MAIN);
  }

  /** Null if the device is off, or loses its power before it answers. */
  async ask(request: Request): Promise<Answer | null> {
    const { signal } = this.#power;
    if (signal.aborted || this.#daemon === null) return null;
    const socket = connect(this.#daemon.port, '127.0.0.1');
    const drop = () => socket.destroy();
    signal.addEventListener('abort', drop);
    const answer = await askOver(socket, request);
    signal.removeEventListener('abort', drop);
    return signal.aborted ? null : answer;
  }

  /** Takes the relay off the network. */
  unplugRelay(): void {
    this.relay.deafen();
  }

  /** Puts the relay back on the network, unless the device is off. */
  plugRelay(): void {
    this.relay.isHeard = this.isOn;
  }

  /** Cuts the power: later answers and mails do not count. Resolves when the disk has its final content. */
  async cutPower(cut: Cut): Promise<Left> {
    this.#disk.cutPower();
    this.#power.abort();
    this.relay.deafen();
    if (cut === 'file system') await this.#disk.shutDown(this.#daemon?.child.pid);
    await this.#daemon?.end('SIGKILL');
    return await this.#disk.settle(cut, this.#options.chance);
  }

  /** A file of its state directory, while it is on. */
  pathOf(name: string): string {
    return join(`/proc/${this.#daemon?.child.pid}/root`, this.#disk.mounted, 'state', name);
  }

  /** Stops the daemon as systemd does; gives its exit code. */
  async switchOff(): Promise<number | null> {
    return (await this.#daemon?.end('SIGTERM')) ?? null;
  }

  /** Ends the daemon, the disk and the relay, in whatever state they are. */
  async destroy(): Promise<void> {
    this.#power.abort();
    if (this.#daemon?.child.exitCode === null && this.#daemon.child.signalCode === null)
      await this.#daemon.end('SIGKILL');
    this.#disk.remove();
    await this.relay.close();
  }
}
