/** The teller over a store that refuses some messages: who is told when, and what is kept of it. */
import t from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { type Document, People, peopleOf } from '../../src/cloud/document.js';
import type { DeviceNews, KeptNews, NewsOfDevice, Telling } from '../../src/cloud/fleet-store.js';
import type { ToldNews } from '../../src/cloud/outages.js';
import { Teller } from '../../src/cloud/telling.js';
import { FakeClock } from '../support/clock.js';
import { JAN } from '../support/reference-cloud.js';
import { openQuietly } from '../support/store.js';
import { keptLog } from '../support/system.js';

/** An entry: its type, its address, and its rules. */
type Person = readonly [type: number, destination: string, rules?: object];

/** Each device has these people. `refuses` says what the outbox refuses now. */
class Bench implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly people = new People();
  /** `jan@example.com p is offline` */
  readonly offered: string[] = [];
  readonly texts: string[] = [];
  readonly recorded: ToldNews[] = [];
  readonly kept = keptLog();
  refuses = (_to: string) => false;
  isFull = false;
  reads = 0;
  readonly #destinations: Document['destinations'];
  readonly #site: string | null;
  readonly #store;
  readonly #teller: Teller;
  /** By id. */
  readonly #news = new Map<string, KeptNews>();

  static async open(people: readonly Person[], options: { takesShort?: boolean; site?: string } = {}) {
    const clock = new FakeClock();
    const { store } = await openQuietly(clock);
    return new Bench(clock, people, options, store);
  }

  private constructor(
    clock: FakeClock,
    people: readonly Person[],
    { takesShort = true, site }: { takesShort?: boolean; site?: string },
    store: Awaited<ReturnType<typeof openQuietly>>['store'],
  ) {
    this.clock = clock;
    this.#store = store;
    this.#site = site ?? null;
    this.#destinations = people.map(([type, destination, rules], n) => ({
      ...{ ...JAN, lang: 'en', type, destination, ...rules },
      uid: `${JAN.uid.slice(0, -1)}${n}`,
    }));
    const { log } = this.kept;
    this.#teller = new Teller({
      store: {
        accept: async (draft, keyed) => {
          const { destination } = draft;
          const subject = 'subject' in draft.content ? draft.content.subject : '';
          this.offered.push(`${destination} ${subject}`.trim());
          if ('plain' in draft.content) this.texts.push(draft.content.plain);
          if (this.refuses(String(destination))) throw new FieldpostError('queue-full', 'no room');
          return await store.accept([draft], keyed);
        },
        recall: (key) => store.recall(key),
        mayTakeMore: () => !this.isFull,
      },
      documents: {
        read: async () => {
          this.reads++;
          return { document: this.document, text: '', etag: '' };
        },
      },
      outages: { record: async (all) => void this.recorded.push(...all) },
      ...{ clock, log, people: this.people, texts: { timeZone: 'UTC', publicUrl: null } },
      ...{ takesMail: true, takesShort, takesHook: false, quietUntilMs: () => null },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store.close();
  }

  get document(): Document {
    return { destinations: this.#destinations, ...(this.#site !== null && { site: this.#site }) };
  }

  /** These devices name the people. */
  add(...devices: readonly string[]): void {
    for (const device of devices) this.people.set(device, peopleOf(this.document));
  }

  /** News that are kept. They come in a window that is over, unless it is said when it ends. */
  come(news: readonly DeviceNews[], windowEndsMs = 0): void {
    for (const one of news) this.#news.set(one.id, { news: one, order: this.#news.size + 1, windowEndsMs });
  }

  /** Tells all news that are kept, and keeps what becomes of them, as the desk does. */
  async tell({ isLast = false, isKept = true } = {}): Promise<Telling> {
    const byDevice = new Map<string, KeptNews[]>();
    for (const one of this.#news.values())
      byDevice.set(one.news.device, [...(byDevice.get(one.news.device) ?? []), one]);
    const all: NewsOfDevice[] = [...byDevice].map(([device, news]) => ({ device, news }));
    const telling = await this.#teller.tell(all, isLast);
    if (isKept)
      for (const { dropped, marked } of telling.settled.values()) {
        for (const id of dropped) this.#news.delete(id);
        for (const news of marked)
          this.#news.set(news.id, { ...(this.#news.get(news.id) as KeptNews), news });
      }
    return telling;
  }

  /** The messages that were offered since the last call. */
  take(): string[] {
    return this.offered.splice(0);
  }

  /** What is kept still. */
  get left(): string[] {
    return [...this.#news.keys()];
  }

  toldOf(id: string): string[] {
    const lines = this.recorded.filter(({ news }) => news.id === id);
    return lines.flatMap(({ told }) => told.map((one) => one.destination));
  }
}

const silent = (device: string, atMs = 0, sinceMs = atMs): DeviceNews => ({
  ...{ id: `silent ${device}`, device, atMs },
  ...{ kind: 'silent', sinceMs },
});
const back = (device: string, atMs = 0): DeviceNews => ({
  ...{ id: `back ${device}`, device, atMs },
  ...{ kind: 'back', sinceMs: atMs, lastedMs: 1 },
});
const stuck = (id: string, atMs: number, relay: string | null): DeviceNews => ({
  ...{ id, device: 'p', atMs },
  ...{ kind: 'stuck', sinceMs: atMs, relay, failed: 1 },
});
const names = (count: number) => Array.from({ length: count }, (_, n) => `p${n}`);

t.test('a person hears of an outage and its end; what was refused and is over is not told', async (t) => {
  await using bench = await Bench.open([[1, 'jan@example.com']]);
  bench.come([silent('p'), silent('q')]);
  bench.refuses = () => true;
  t.match(await bench.tell(), { refusal: { code: 'queue-full' } });
  t.equal(bench.take().length, 2);
  bench.come([back('p')]);
  bench.refuses = () => false;
  t.equal((await bench.tell()).refusal, null);
  t.strictSame(bench.take(), ['jan@example.com q is offline']);
  t.strictSame(bench.left, ['silent q'], 'its end is to be told');
  bench.come([back('q')]);
  await bench.tell();
  t.strictSame(bench.take(), ['jan@example.com q is back online']);
  t.strictSame(bench.left, []);
});

t.test('a full outbox is not offered a whole fleet', async (t) => {
  // Of each device it is another person.
  await using bench = await Bench.open([[4, 'OWNER']]);
  Object.assign(bench, { refuses: () => true, isFull: true });
  bench.come(names(1000).map((device) => silent(device)));
  for (let times = 0; times < 2; times++) {
    t.match((await bench.tell()).refusal, { code: 'queue-full' });
    t.ok(bench.take().length < 200);
  }
  Object.assign(bench, { refuses: () => false, isFull: false });
  t.equal((await bench.tell()).refusal, null);
  t.equal(bench.take().length, 1000, 'no digest');
});

t.test('while SMS are refused, mails are told; who was told is kept once', async (t) => {
  await using bench = await Bench.open([
    [2, '+31612345678'],
    [1, 'jan@example.com'],
  ]);
  bench.refuses = (to) => to.startsWith('+');
  bench.come([silent('p')]);
  t.match(await bench.tell(), { refusal: { code: 'queue-full' } });
  bench.refuses = () => false;
  t.equal((await bench.tell()).refusal, null);
  t.strictSame(bench.toldOf('silent p').sort(), ['+31612345678', 'jan@example.com']);
  const ids = [...bench.kept.lines.join('').matchAll(/ ids=(\S+)/g)].flatMap(
    ([, of]) => of?.split(',') ?? [],
  );
  t.equal(ids.length, 2);
});

t.test('destinations without a way are counted once', async (t) => {
  await using bench = await Bench.open(
    [
      [1, 'jan@example.com', { after_min: 60 }],
      [2, '+31612345678'],
    ],
    { takesShort: false },
  );
  bench.come(names(3).map((device) => silent(device)));
  await bench.tell();
  await bench.tell();
  t.equal(bench.kept.lines.join('').match(/unreachable=1/g)?.length, 3);
});

t.test('a person of more than twenty devices waits for the window, and gets a digest', async (t) => {
  for (const [count, first] of [
    [20, 20],
    [21, 0],
  ] as const) {
    await using bench = await Bench.open([[1, 'jan@example.com']]);
    bench.add(...names(count));
    const endMs = bench.clock.wallMs() + MINUTE_MS;
    const atMs = bench.clock.wallMs();
    bench.come(
      names(count).map((device) => silent(device, atMs)),
      endMs,
    );
    const { settled } = await bench.tell();
    t.equal(bench.take().length, first, `${count} devices`);
    t.match(settled.get('p0'), first === 0 ? { dueMs: endMs, isOwed: true } : { isOwed: false });
    await bench.clock.advance(MINUTE_MS);
    await bench.tell();
    t.strictSame(bench.take(), first === 0 ? ['jan@example.com 21 devices are offline'] : []);
  }
});

t.test(
  'a digest that was accepted before a crash counts for those that it told, and for no others',
  async (t) => {
    await using bench = await Bench.open([[1, 'jan@example.com']]);
    bench.add(...names(45));
    bench.come(names(22).map((device) => silent(device)));
    await bench.tell({ isKept: false });
    t.strictSame(bench.take(), ['jan@example.com 22 devices are offline']);
    bench.come(
      names(45)
        .slice(22)
        .map((device) => silent(device)),
    );
    await bench.tell();
    t.strictSame(
      [...new Set(bench.take())].sort(),
      ['jan@example.com 22 devices are offline', 'jan@example.com 23 devices are offline'],
      'the first is known by its key',
    );
    t.equal(bench.recorded.filter(({ told }) => told.length > 0).length, 22 + 45);
    await bench.tell();
    t.strictSame(bench.take(), []);
  },
);

t.test('a digest has the moment of its first news, and is logged once; its SMS stops no mail', async (t) => {
  await using bench = await Bench.open([
    [2, '+31612345678'],
    [1, 'jan@example.com'],
    [4, 'OWNER'],
  ]);
  bench.refuses = (to) => to.startsWith('+');
  const news = [9, 3, 11, 4, 5, 6, ...Array(100).keys()].map((hour, n) =>
    silent(`p${n}`, 0, (hour + 3) * HOUR_MS),
  );
  bench.come(news);
  t.match(await bench.tell(), { refusal: { code: 'queue-full' } });
  t.equal(bench.offered.length, 1 + 1 + news.length);
  t.match(bench.texts.join('\n'), 'Since: 1 January 1970, 03:00 (UTC)');
  const [jan = ''] = bench.kept.lines.filter((line) => line.includes('devices='));
  const [, id = 'none'] = / ids=(\S+)/.exec(jan) ?? [];
  t.equal(bench.kept.lines.filter((line) => line.includes(id)).length, 1);
});

t.test('most of a site is told as the site, at the end of the window', async (t) => {
  for (const [total, count, expected] of [
    [5, 3, ['jan@example.com Site North: 3 of 5 devices offline']],
    [6, 3, [0, 1, 2].map((n) => `jan@example.com p${n} is offline`)],
    [2, 2, [0, 1].map((n) => `jan@example.com p${n} is offline`)],
  ] as const) {
    await using bench = await Bench.open([[1, 'jan@example.com']], { site: 'North' });
    bench.add(...names(total));
    const atMs = bench.clock.wallMs();
    bench.come(
      names(count).map((device) => silent(device, atMs)),
      atMs + MINUTE_MS,
    );
    await bench.tell();
    t.equal(bench.take().length, total === 2 ? 2 : 0, 'while the window is open');
    await bench.clock.advance(MINUTE_MS);
    await bench.tell();
    const told = total === 2 ? [0, 1].map((n) => `jan@example.com p${n} is offline`) : bench.take();
    t.match(
      told.sort(),
      expected.map((line) => new RegExp(line)),
      `${count} of ${total}`,
    );
  }
});

t.test('a stop tells those who wait for the window, and not those who wait by their rules', async (t) => {
  await using bench = await Bench.open(
    [
      [1, 'jan@example.com'],
      [1, 'boss@example.com', { after_min: 60 }],
    ],
    { site: 'North' },
  );
  bench.add(...names(8));
  const atMs = bench.clock.wallMs();
  bench.come([silent('p0', atMs)], atMs + MINUTE_MS);
  await bench.tell();
  t.strictSame(bench.take(), []);
  await bench.tell({ isLast: true });
  t.strictSame(bench.take(), ['jan@example.com p0 is offline']);
});

t.test('the manager is told after an hour, once, and of the end only if they were told', async (t) => {
  for (const lastsMs of [30 * MINUTE_MS, 2 * HOUR_MS]) {
    await using bench = await Bench.open([
      [1, 'tech@example.com'],
      [1, 'boss@example.com', { after_min: 60 }],
    ]);
    const atMs = bench.clock.wallMs();
    bench.come([silent('p', atMs)]);
    t.match((await bench.tell()).settled.get('p'), { dueMs: atMs + HOUR_MS, isOwed: false });
    t.strictSame(bench.take(), ['tech@example.com p is offline']);
    for (let passed = 0; passed < lastsMs; passed += 10 * MINUTE_MS) {
      await bench.clock.advance(10 * MINUTE_MS);
      await bench.tell();
    }
    const isLong = lastsMs >= HOUR_MS;
    t.strictSame(bench.take(), isLong ? ['boss@example.com p is offline'] : []);
    bench.come([back('p', bench.clock.wallMs())]);
    await bench.tell();
    const told = ['tech@example.com p is back online', 'boss@example.com p is back online'];
    t.strictSame(bench.take().sort(), told.slice(0, isLong ? 2 : 1).sort());
    t.strictSame(bench.left, []);
  }
});

t.test('a person who is added during an outage hears nothing of it, nor of its end', async (t) => {
  const people: Person[] = [[1, 'tech@example.com']];
  await using bench = await Bench.open(people);
  bench.come([silent('p')]);
  await bench.tell();
  bench.take();
  (bench.document.destinations as unknown[]).push({
    ...{ ...JAN, lang: 'en', type: 1, destination: 'new@example.com', uid: JAN.uid.replace(/.$/, '7') },
  });
  await bench.tell();
  bench.come([back('p')]);
  await bench.tell();
  t.strictSame(bench.take(), ['tech@example.com p is back online']);
});

t.test(
  'whoever knows of failed messages hears that the relay is down, in their hours, and of the end',
  async (t) => {
    await using bench = await Bench.open([
      [1, 'tech@example.com'],
      [1, 'boss@example.com', { hours: '09:00-10:00' }],
    ]);
    bench.come([stuck('failed', bench.clock.wallMs(), null)]);
    await bench.tell();
    t.equal(bench.take().length, 2);
    await bench.clock.advance(2 * HOUR_MS);
    bench.come([stuck('down', bench.clock.wallMs(), 'failing')]);
    await bench.tell();
    await bench.tell();
    t.match(bench.take(), [/^tech/], 'once');
    const atMs = bench.clock.wallMs();
    bench.come([{ id: 'flows', device: 'p', atMs, kind: 'flows', sinceMs: atMs }]);
    await bench.tell();
    t.match(bench.take(), [/^tech/]);
    await bench.clock.advance(22 * HOUR_MS + MINUTE_MS);
    await bench.tell();
    t.match(bench.take(), [/^boss/]);
    t.strictSame(bench.left, []);
  },
);

t.test(
  'what could not be told in time is not told at night, and not at all if it is over by then',
  async (t) => {
    for (const isOver of [false, true]) {
      await using bench = await Bench.open([[1, 'jan@example.com', { hours: '09:00-18:00' }]]);
      const atMs = bench.clock.wallMs();
      bench.come([silent('p', atMs)]);
      bench.refuses = () => true;
      t.match((await bench.tell()).refusal, { code: 'queue-full' });
      bench.take();
      bench.refuses = () => false;
      await bench.clock.advance(12 * HOUR_MS);
      const nextMs = atMs + 24 * HOUR_MS;
      t.match((await bench.tell()).settled.get('p'), { dueMs: nextMs });
      if (isOver) bench.come([back('p', bench.clock.wallMs())]);
      await bench.tell();
      t.strictSame(bench.take(), [], 'not at night');
      await bench.clock.advance(12 * HOUR_MS);
      await bench.tell();
      t.match(bench.take(), isOver ? [] : ['jan@example.com p is offline']);
    }
  },
);

t.test(
  'whom the document does not name for a while hears of the outage, or of its end, all the same',
  async (t) => {
    await using bench = await Bench.open([
      [1, 'tech@example.com'],
      [1, 'boss@example.com', { after_min: 60 }],
    ]);
    bench.come([silent('p', bench.clock.wallMs())]);
    await bench.tell();
    const entries = bench.document.destinations as unknown[];
    const people = entries.splice(0);
    await bench.tell();
    t.match(await bench.tell(), {
      settled: new Map([['p', { dueMs: Number.POSITIVE_INFINITY, marked: [] }]]),
    });
    entries.push(...people);
    await bench.tell();
    t.strictSame(bench.take(), ['tech@example.com p is offline'], 'once');
    await bench.clock.advance(HOUR_MS);
    await bench.tell();
    t.strictSame(bench.take(), ['boss@example.com p is offline']);
    entries.pop();
    await bench.tell();
    bench.come([back('p', bench.clock.wallMs())]);
    await bench.tell();
    t.strictSame(bench.take(), ['tech@example.com p is back online']);
    t.strictSame(bench.left, []);
  },
);

t.test('reminders of many devices become one message, and so do mails that do not leave', async (t) => {
  await using bench = await Bench.open([[1, 'jan@example.com']]);
  bench.add(...names(21));
  const atMs = bench.clock.wallMs();
  const come = async (kind: 'still' | 'stuck' | 'flows', lastedMs: number) => {
    await bench.clock.advance(lastedMs);
    const facts = { sinceMs: atMs, lastedMs, relay: 'failing', failed: 0 };
    bench.come(
      names(21).map((device) => ({
        ...{ id: `${kind} ${device}`, device, atMs: bench.clock.wallMs(), kind },
        ...facts,
      })),
    );
    await bench.tell();
    await bench.tell();
    return bench.take();
  };
  bench.come(names(21).map((device) => silent(device, atMs)));
  await bench.tell();
  t.strictSame(bench.take(), ['jan@example.com 21 devices are offline']);
  t.strictSame(await come('still', 24 * HOUR_MS), ['jan@example.com 21 devices are still offline']);
  t.strictSame(await come('stuck', HOUR_MS), [
    'jan@example.com 21 devices are online, but their mails do not leave',
  ]);
  t.strictSame(await come('flows', HOUR_MS), ['jan@example.com 21 devices send their mails again']);
});
