/**
 * A device over many boots: one disk, the real store and delivery, and relays behind a link that comes and goes.
 */

import { wallMsOf } from '../../src/base/stamp.js';
import type { LogFields } from '../../src/base/system/log.js';
import { type Alive, lazyAlive } from '../../src/device/alive.js';
import type { AliveWatch } from '../../src/device/alive-watch.js';
import { AddressBook } from '../../src/device/book/address-book.js';
import { Notices } from '../../src/device/notices.js';
import type { DeviceConfig } from '../../src/device/settings.js';
import { Delivery } from '../../src/mail/delivery/delivery.js';
import type { Ending } from '../../src/mail/delivery/smtp/protocol.js';
import type { MessageType } from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';
import { FakeClock, settled } from './clock.js';
import { CONFIG, FakeRelays, post, TAKEN, trouble } from './delivery.js';
import { FaultyDisk } from './faulty-disk.js';
import { openOn, STATE_DIR } from './store.js';
import { configOf, drawn } from './system.js';

/** Other chance than that of the store. */
const EPISODE_SEED = 1000;

interface RebootOptions {
  /** Pulls the plug instead of a clean stop. */
  readonly plug?: boolean;
  /** What is left after a cut that came before; by default the plug is pulled now. */
  readonly disk?: FaultyDisk | null;
  readonly offMs?: number;
  /** The wall clock at the next boot; by default it has gone on. */
  readonly wallMs?: number;
}

export class Device {
  clock: FakeClock;
  disk = new FaultyDisk({ directories: ['/var/lib'] });
  isLinkUp = true;
  /** A relay's answer to a message, by the message's id. */
  answer: (id: string) => Ending = () => TAKEN;
  /** Called for each line that delivery logs. */
  onLog: (event: string, fields: LogFields) => void = () => undefined;
  /** Called for each attempt to open a session. */
  onOpen: (isOpened: boolean) => void = () => undefined;
  /** Every message offered to a relay, in order. */
  readonly offered: string[] = [];
  /** Every mail that a relay took, in order. */
  readonly mails: string[] = [];
  /** A reload changes it. */
  readonly config: DeviceConfig;
  /** How often the names of programs that are late have changed. */
  lateNews = 0;
  #notices: Notices | null = null;
  #alive: Alive | null = null;
  #book: AddressBook | null = null;
  #store: Store | null = null;
  #delivery: Delivery | null = null;
  #boots = 0;

  /** Boots a new device. */
  static async start(options: { clock?: FakeClock; settings?: Partial<DeviceConfig> } = {}): Promise<Device> {
    const device = new Device(options.clock ?? new FakeClock(), options.settings ?? {});
    await device.#start();
    return device;
  }

  private constructor(clock: FakeClock, settings: Partial<DeviceConfig>) {
    this.clock = clock;
    this.config = { ...configOf({}), ...CONFIG, stateDir: STATE_DIR, minFreeBytes: 0, ...settings };
  }

  /** Follows a change of its settings. */
  async follow(): Promise<void> {
    const { disk, clock, store, config } = this;
    const delivery = this.#delivery as Delivery;
    const line = (event: string, fields: LogFields = {}) => this.onLog(event, fields);
    const log = { debug: line, info: line, warn: line, error: line };
    const parts = { ...{ disk, clock, store, config, delivery, log }, hostname: () => 'gw-17' };
    if (this.#notices === null && config.failuresTo === null && config.returnReport === null) return;
    this.#notices ??= await Notices.open(parts);
    this.#notices.follow();
  }

  /** The programs that must give signs. */
  get alive(): Alive {
    if (this.#alive === null) throw new Error('the device is off');
    return this.#alive;
  }

  get book(): AddressBook {
    if (this.#book === null) throw new Error('the device is off');
    return this.#book;
  }

  /** A sign of a program. */
  async sign(...sign: Parameters<AliveWatch['sign']>): Promise<boolean> {
    return await (await this.alive.open()).sign(...sign);
  }

  get store(): Store {
    if (this.#store === null) throw new Error('the device is off');
    return this.#store;
  }

  /** Accepts messages; gives their ids. */
  async post(count = 1, type: MessageType = 1): Promise<string[]> {
    const ids = await post(this.store, count, type);
    this.#delivery?.nudge();
    return ids;
  }

  /** Lets time pass and waits until everything due is done. */
  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    do await settled();
    while (this.store.counts().sending > 0);
  }

  async reboot({ plug = false, disk: left = null, ...clock }: RebootOptions = {}): Promise<void> {
    if (plug) {
      const disk = left ?? this.disk.afterPowerCut('nothing');
      this.disk.cutPower();
      this.disk = disk;
    } else {
      await this.#notices?.stop();
      await this.#alive?.stop();
      await this.#delivery?.stop();
      await this.store.close();
    }
    this.#notices = null;
    this.clock = this.clock.reboot(clock);
    await this.#start();
  }

  /** When people are told that the message was accepted. */
  acceptedAtMs(id: string): number {
    const message = this.store.get(id);
    if (!message) throw new Error(`there is no ${id}`);
    return wallMsOf(message.accepted, this.clock, this.store.boots);
  }

  async #start(): Promise<void> {
    const { clock, disk, config } = this;
    const { store } = await openOn(disk, ++this.#boots, {
      clock,
      directory: config.stateDir,
      budget: config,
    });
    const relays = new FakeRelays();
    relays.onOpen = () => {
      this.onOpen(this.isLinkUp);
      return this.isLinkUp ? null : trouble('connect', 'unreachable');
    };
    relays.onSend = (id) => {
      if (!this.isLinkUp) return trouble('dot', 'lost');
      this.offered.push(id);
      const ending = this.answer(id);
      if (ending === TAKEN) this.mails.push(relays.content);
      return ending;
    };
    const line = (event: string, fields: LogFields = {}) => this.onLog(event, fields);
    const log = { debug: line, info: line, warn: line, error: line };
    this.#store = store;
    const delivery = new Delivery({
      store,
      config,
      openSession: ({ relay }) => relays.session(relay),
      connect: () => Promise.reject(new Error('nothing is connected')),
      hostname: () => 'device.example',
      short: null,
      tell: (what, id) => this.#notices?.tell(what, id),
      clock,
      random: () => 0.5,
      log,
    });
    this.#delivery = delivery;
    await this.follow();
    this.#book = new AddressBook(store.book);
    this.#alive = lazyAlive({
      ...{ store, disk, clock, log, delivery, book: this.#book, directory: config.stateDir },
      hostname: () => 'gw-17',
      homesOf: (address) => [address],
      hasCloud: config.cloud !== null,
      ...drawn(EPISODE_SEED + this.#boots),
      changed: () => void this.lateNews++,
    });
    await this.#alive.begin();
    delivery.start();
    await this.pass(0);
  }
}
