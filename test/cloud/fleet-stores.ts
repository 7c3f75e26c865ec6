/**
 * Both stores of the cloud's state, on a faulty disk and over a fake etcd, and what is outside of them: the clock, the log,
 * people and the outbox.
 *
 *   const place = filesOf();   // or etcdOf()
 *   const fleet = await place.open();
 *   await fleet.start();
 */
import { FieldpostError } from '../../src/base/errors.js';
import { People } from '../../src/cloud/document.js';
import { openEtcdFleet } from '../../src/cloud/etcd/fleet.js';
import { EtcdState } from '../../src/cloud/etcd/state.js';
import { openFileFleet } from '../../src/cloud/files/fleet.js';
import { FileState } from '../../src/cloud/files/state.js';
import type { DeviceNews, FleetStore, NewsOfDevice, Telling } from '../../src/cloud/fleet-store.js';
import type { StateStore } from '../../src/cloud/state-record.js';
import type { KeyedContent } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { FakeEtcd } from '../support/fake-etcd.js';
import { FaultyDisk, PowerCutError } from '../support/faulty-disk.js';
import { DELAYS } from '../support/fleet-world.js';
import { seededRandom } from '../support/random.js';
import { drawn, freeLock, keptLog } from '../support/system.js';
import { newsIn, notYet, tellingBut } from '../support/telling.js';

/** Where the files are. */
export const DIRECTORY = '/var/lib/cloud';

// Ids are different, also after a restart.
const { randomBytes } = drawn(1);

/** People, as the tests play them, and the journal of messages to them. It lasts over starts of a store. */
export class Outside {
  clock = new FakeClock();
  readonly kept = keptLog();
  readonly lines = this.kept.lines;
  /** `silent pump-3`: each news once, when everybody was told. */
  readonly told: string[] = [];
  /** The same news. */
  readonly news: DeviceNews[] = [];
  /** Every call of `tell`. */
  readonly calls: { readonly all: readonly NewsOfDevice[]; readonly isLast: boolean }[] = [];
  /** Devices of which nobody can be told. */
  refused: ReadonlySet<string> = new Set();
  /** With these marks the news are kept; null: they are dropped, because all were told. */
  marks: Required<Pick<DeviceNews, 'told' | 'waits'>> | null = null;
  /** True: people wait for the end of the window. */
  isLate = false;
  readonly journal = new Map<string, string>();
  readonly #known = new Set<string>();

  readonly tell = async (all: readonly NewsOfDevice[], isLast: boolean): Promise<Telling> => {
    this.calls.push({ all, isLast });
    const nowMs = this.clock.wallMs();
    const isEarly = ({ news }: NewsOfDevice) =>
      this.isLate && !isLast && news.some(({ windowEndsMs }) => windowEndsMs > nowMs);
    const { settled, refusal } = tellingBut(all, (device) => this.refused.has(device));
    const answers = new Map(settled);
    for (const one of all) {
      if (this.refused.has(one.device)) continue;
      const { marks } = this;
      const marked = marks && newsIn([one]).map((news) => ({ ...news, ...marks }));
      if (marked)
        answers.set(one.device, {
          dropped: [],
          marked,
          dueMs: Number.POSITIVE_INFINITY,
          isOwed: false,
        });
      else if (isEarly(one))
        answers.set(one.device, notYet(Math.max(...one.news.map((n) => n.windowEndsMs))));
      else this.#noteTold(newsIn([one]));
    }
    return { settled: answers, refusal };
  };

  #noteTold(news: readonly DeviceNews[]): void {
    for (const one of news) {
      if (!this.#known.has(one.id)) {
        this.told.push(`${one.kind} ${one.device}`);
        this.news.push(one);
      }
      this.#known.add(one.id);
    }
  }

  readonly accept = async (_draft: unknown, { key, hash }: KeyedContent, admit?: () => void) => {
    const replayed = this.journal.has(key);
    if (!replayed) admit?.();
    if ((this.journal.get(key) ?? hash) !== hash) throw new FieldpostError('invalid', 'other content');
    this.journal.set(key, hash);
    return { replayed };
  };
}

/** A store, to be opened by a cloud or by a transfer. */
export interface Place {
  readonly outside: Outside;
  open(): Promise<FleetStore>;
  state(): StateStore;
}

const optionsOf = ({ clock, kept: { log }, tell, accept }: Outside) => ({
  ...{ clock, log, tell, accept, randomBytes },
  ...{ delays: DELAYS, people: new People() },
});

/** Files on a disk. */
export function filesOf(
  outside = new Outside(),
  disk = new FaultyDisk({ directories: ['/var/lib'] }),
  delays = DELAYS,
) {
  const where = { disk, directory: DIRECTORY };
  const tell = async (all: readonly NewsOfDevice[], isLast: boolean) => {
    if (disk.dead) throw new PowerCutError('dead');
    return await outside.tell(all, isLast);
  };
  return {
    ...{ outside, disk },
    open: () => openFileFleet({ ...optionsOf(outside), ...where, tell, delays }),
    state: () => new FileState({ ...where, clock: outside.clock, takeLock: freeLock, statOf: () => null }),
  };
}

/** One instance over etcd. */
export function etcdOf(outside = new Outside(), server = new FakeEtcd(outside.clock, seededRandom(1))) {
  return {
    ...{ outside, server },
    open: () => openEtcdFleet({ ...optionsOf(outside), etcd: server.client('a'), hostname: 'a' }),
    state: () => new EtcdState(server.client('transfer')),
  };
}

/** Both. */
export const PLACES = { files: filesOf, etcd: etcdOf } as const;
