/**
 * A regional outage: many devices fall silent within a minute, and return. The watch, the teller and the real store on one
 * disk, killed at every write.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { People, peopleOf } from '../../src/cloud/document.js';
import { openFileFleet } from '../../src/cloud/files/fleet.js';
import { type FleetStore, NEWS_WINDOW_MS } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { Teller } from '../../src/cloud/telling.js';
import type { Store } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { entry } from '../support/reference-cloud.js';
import { openQuietly } from '../support/store.js';
import { drawn, keptLog } from '../support/system.js';

const DELAY_MS = 90 * SECOND_MS;
const TICK_MS = DELAY_MS / 10;
const DIRECTORY = '/var/lib/fieldpost';

class Region implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly #texts = { timeZone: 'UTC', publicUrl: null };
  disk = new FaultyDisk({ directories: ['/var/lib', DIRECTORY] });
  readonly people = new People();
  readonly #documents = new Map<string, { destinations: object[] }>();
  readonly #drawn = drawn(1);
  readonly #kept = keptLog();
  readonly lines = this.#kept.lines;
  maxQueue = 20_000;
  /** Devices whose document cannot be read now. */
  readonly unreadable = new Set<string>();
  store!: Store;
  fleet!: FleetStore;

  /** The document of a device names these people: `mail NAME`, `sms +NUMBER` or `push NAME`. */
  put(device: string, names: readonly string[]): void {
    const types: Record<string, number> = { mail: 1, sms: 2, push: 4 };
    const destinations = names.map((name, n) => {
      const [kind = '', to = ''] = name.split(' ');
      const destination = kind === 'mail' ? `${to}@example.com` : to;
      return entry(n, { lang: 'en', type: types[kind], destination });
    });
    this.#documents.set(device, { destinations });
    this.people.set(device, peopleOf({ destinations }));
  }

  async start(): Promise<void> {
    const { disk, clock, people } = this;
    const budget = { maxQueue: this.maxQueue, maxSpoolBytes: 2 ** 30, minFreeBytes: 0 };
    const more = { directory: `${DIRECTORY}/outbox`, outcomes: 'synced', keysMax: 100_000 } as const;
    const { store } = await openQuietly(clock, { disk, budget, ...more });
    const teller = new Teller({
      outages: { record: async () => undefined },
      store: {
        accept: (draft, keyed) => store.accept([draft], keyed),
        recall: (key) => store.recall(key),
        mayTakeMore: () => store.room().urgentReason === null,
      },
      people,
      documents: {
        read: async (id) => {
          if (this.unreadable.has(id)) throw new Error('it cannot be read');
          const document = this.#documents.get(id);
          return document === undefined ? null : { document, text: '', etag: '' };
        },
      },
      texts: this.#texts,
      ...{ takesMail: true, takesShort: true, takesHook: false, quietUntilMs: () => null },
      ...{ clock, log: this.#kept.log },
    });
    this.store = store;
    this.fleet = await openFileFleet({
      ...{ disk, clock, log: this.#kept.log, people: new People() },
      directory: `${DIRECTORY}/cloud`,
      delays: { delayMs: DELAY_MS, stopDelayMs: DELAY_MS },
      randomBytes: this.#drawn.randomBytes,
      accept: async () => ({ replayed: false }),
      tell: (all, isLast) => teller.tell(all, isLast),
    });
    await this.fleet.start();
    await this.pass(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.fleet.stop();
    await this.store.close();
  }

  /** Kills the cloud, or cuts its power, and starts it again. */
  async restart(cut: boolean): Promise<void> {
    const next = cut ? this.disk.afterPowerCut('nothing') : this.disk.afterKill();
    this.disk.cutPower();
    void this.fleet.stop().catch(() => undefined);
    void this.store.close().catch(() => undefined);
    this.disk = next;
    await this.start();
  }

  async pass(ms: number): Promise<void> {
    for (let leftMs = ms; leftMs >= 0; leftMs -= SECOND_MS) {
      await this.clock.advance(Math.min(leftMs, SECOND_MS));
      await nextTurn();
    }
  }

  beat(devices: readonly string[]): void {
    for (const id of devices) this.fleet.watch.heard(id, { said: 'running', everyMs: 0, sent: null });
  }

  /** All messages, as `NAME: subject`; an SMS has its number alone. */
  get told(): string[] {
    return Array.from(
      this.store.queued(),
      ({ destination, subject }) => `${destination.replace(/@.*/, '')}: ${subject}`,
    ).sort();
  }

  toldTo(name: string): string[] {
    return this.told
      .filter((line) => line.startsWith(`${name}: `))
      .map((line) => line.slice(name.length + 2));
  }
}

const named = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${prefix}-${String(n).padStart(4, '0')}`);
const A = named('a', 20);
const ALL = [...A, 'b-0000'];

/** `big` has 21 devices, `small` 20 of them, and each device has an owner. */
async function region(maxQueue = 20_000): Promise<Region> {
  const bench = new Region();
  bench.maxQueue = maxQueue;
  for (const id of ALL) bench.put(id, ['mail big', ...(A.includes(id) ? ['mail small'] : [])]);
  await bench.start();
  return bench;
}

const offline = (devices: readonly string[]) => devices.map((id) => `${id} is offline`);
const back = (devices: readonly string[]) => devices.map((id) => `${id} is back online`);

t.test('of 21 devices a person gets a digest, of 20 a message each, at once', async (t) => {
  await using bench = await region();
  bench.beat(ALL);
  await bench.pass(DELAY_MS + TICK_MS);
  t.same(bench.toldTo('small'), offline(A), 'nobody of twenty devices waits');
  t.same(bench.toldTo('big'), []);
  await bench.pass(NEWS_WINDOW_MS + SECOND_MS);
  t.same(bench.toldTo('big'), ['21 devices are offline']);
  bench.beat(ALL);
  await bench.pass(2 * SECOND_MS);
  t.same(bench.toldTo('small'), [...back(A), ...offline(A)].sort());
  await bench.pass(NEWS_WINDOW_MS + SECOND_MS);
  t.same(bench.toldTo('big'), ['21 devices are back online', '21 devices are offline']);
  t.equal(bench.told.length, 42);
  t.match(bench.lines.join(''), /notified devices=21 kind=silent ids=\w+\n/);
});

t.test('a digest waits until the documents of all its devices can be read', async (t) => {
  await using bench = await region();
  bench.beat(ALL);
  await bench.pass(DELAY_MS + TICK_MS);
  bench.unreadable.add('a-0003');
  await bench.pass(NEWS_WINDOW_MS + TICK_MS);
  t.same(bench.toldTo('big'), []);
  bench.unreadable.clear();
  await bench.pass(2 * TICK_MS);
  t.same(bench.toldTo('big'), ['21 devices are offline']);
  t.match(bench.told.join('\n'), /^small/m);
});

t.test('a person of many devices gets up to twenty news each alone, after a minute', async (t) => {
  await using bench = await region();
  bench.beat(ALL);
  await bench.pass(DELAY_MS / 2);
  bench.beat(ALL.slice(3));
  await bench.pass(DELAY_MS / 2 + TICK_MS);
  t.same(bench.toldTo('small'), offline(A.slice(0, 3)));
  bench.beat(ALL);
  await bench.pass(DELAY_MS / 4);
  bench.beat(ALL);
  await bench.pass(NEWS_WINDOW_MS);
  bench.beat(ALL);
  t.same(bench.toldTo('big'), [], 'silent and back within the minute, and not told of either');
  t.same(bench.toldTo('small'), [...back(A.slice(0, 3)), ...offline(A.slice(0, 3))].sort());
  await bench.pass(DELAY_MS / 2);
  bench.beat(ALL.slice(2));
  await bench.pass(DELAY_MS / 2);
  bench.beat(ALL.slice(2));
  // The two fell silent before, so it takes two delays.
  await bench.pass(DELAY_MS - SECOND_MS);
  bench.beat(ALL.slice(2));
  await bench.pass(NEWS_WINDOW_MS + TICK_MS);
  t.same(bench.toldTo('big'), offline(A.slice(0, 2)));
});

t.test('after a kill or power cut at any write nobody is told twice, and nobody is missing', async (t) => {
  for (const cut of [false, true]) {
    for (let at = 1; ; at++) {
      const bench = await region();
      const { disk } = bench;
      bench.beat(ALL);
      await bench.pass(2 * SECOND_MS);
      const from = disk.operations;
      let isDead = false;
      disk.onOperation = (n) => {
        if (n !== from + at) return 'ok';
        isDead = true;
        return 'power-cut-after';
      };
      // If it dies before it has written the news, the devices are offline after a fresh delay.
      const freshMs = CLOUD_GRACE_MS + DELAY_MS + TICK_MS + NEWS_WINDOW_MS + 2 * SECOND_MS;
      for (const ms of [DELAY_MS + TICK_MS, 30 * SECOND_MS, 40 * SECOND_MS, freshMs, freshMs]) {
        await bench.pass(ms);
        if (disk.dead && bench.disk === disk) await bench.restart(cut);
      }
      const name = `${cut ? 'cut' : 'killed'} at operation ${at}`;
      t.same(bench.toldTo('big'), ['21 devices are offline'], name);
      t.same(bench.toldTo('small'), offline(A), name);
      await bench.fleet.stop();
      if (!isDead) break;
    }
  }
});

t.test('through an outbox that is full in between each message comes once', async (t) => {
  await using bench = await region(12);
  bench.beat(ALL);
  const taken: string[] = [];
  for (let round = 0; round < 60; round++) {
    await bench.pass(10 * SECOND_MS);
    for (const message of [...bench.store.queued()].slice(0, 7)) {
      taken.push(`${message.destination} ${message.subject}`);
      await bench.store.cancel(message.id);
    }
  }
  t.same(taken.sort(), [
    'big@example.com 21 devices are offline',
    ...offline(A).map((subject) => `small@example.com ${subject}`),
  ]);
  t.match(bench.lines.join(''), /notification delayed/);
});

t.test(
  '5,000 devices of one person make one mail, one SMS and one push; each owner hears of one',
  async (t) => {
    await using bench = new Region();
    const devices = named('d', 5000);
    for (const id of devices)
      bench.put(id, ['mail boss', 'sms +31612345678', 'push boss@example.com', 'push OWNER']);
    bench.put('d-0000', ['mail boss', 'mail ordinary']);
    await bench.start();
    bench.beat(devices);
    await bench.pass(DELAY_MS + TICK_MS);
    t.same(bench.toldTo('ordinary'), offline(['d-0000']), 'nobody else waits');
    t.equal(bench.toldTo('OWNER').length, 4999, 'a placeholder is another person for each device');
    await bench.pass(NEWS_WINDOW_MS + 2 * SECOND_MS);
    t.same(bench.toldTo('boss').sort(), ['', '5000 devices are offline']);
    t.equal(bench.toldTo('+31612345678').length, 1);
    t.equal(bench.told.length, 4999 + 1 + 3);
    t.equal(bench.lines.filter((line) => line.includes('notification delayed')).length, 0);
  },
);

t.test('within a minute people of few devices are told of a late news, too', async (t) => {
  await using bench = await region();
  bench.put('late', ['mail big', 'mail single']);
  bench.beat(ALL);
  await bench.pass(20 * SECOND_MS);
  bench.beat(['late']);
  await bench.pass(DELAY_MS + TICK_MS);
  t.same(bench.toldTo('single'), offline(['late']));
  t.same(bench.toldTo('big'), []);
  await bench.pass(MINUTE_MS);
  t.same(bench.toldTo('big'), ['22 devices are offline']);
});

t.test('who was told at once gets no digest of the same news, even with one device more', async (t) => {
  await using bench = await region();
  bench.beat(ALL);
  await bench.pass(DELAY_MS + TICK_MS);
  t.same(bench.toldTo('small'), offline(A));
  bench.put('b-0000', ['mail big', 'mail small']);
  await bench.restart(false);
  await bench.pass(NEWS_WINDOW_MS + 2 * SECOND_MS);
  t.same(bench.toldTo('small'), offline(ALL));
  t.same(bench.toldTo('big'), ['21 devices are offline']);
});
