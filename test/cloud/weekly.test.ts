/** The Monday mail: when its week ends, what it counts, and that each person gets it once. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { type AboutDocument, type Document, factsOf } from '../../src/cloud/document.js';
import type { TakenKeys } from '../../src/cloud/fleet-store.js';
import { NO_MARKS } from '../../src/cloud/marks.js';
import { NO_STATUS } from '../../src/cloud/presence.js';
import type { Sighting } from '../../src/cloud/sighting.js';
import { mondayOf, Weekly, weekEndMs, weekOf } from '../../src/cloud/weekly.js';
import type { Store } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { EWA, JAN, startCloud, through } from '../support/reference-cloud.js';
import { fakeRelay } from '../support/relay.js';
import { openQuietly } from '../support/store.js';
import { keptLog } from '../support/system.js';

const at = (iso: string) => Date.parse(`${iso}Z`);
const WEEK_MS = 7 * DAY_MS;
/** A Monday, after a Sunday on which no clock was changed. */
const MONDAY_MS = at('2026-11-23T00:00');

t.test('the week ends at 07:00 on Monday in the zone, and is told until the end of that day', async (t) => {
  const rows: [zone: string, now: string, end: string | null][] = [
    ['UTC', '2026-11-23T06:59:59.999', null],
    ['UTC', '2026-11-23T07:00', '2026-11-23T07:00'],
    ['UTC', '2026-11-23T23:59:59.999', '2026-11-23T07:00'],
    ['UTC', '2026-11-24T00:00', null],
    ['UTC', '2026-11-22T12:00', null],
    ['Europe/Amsterdam', '2026-11-23T05:59', null],
    ['Europe/Amsterdam', '2026-11-23T06:00', '2026-11-23T06:00'],
    ['Europe/Amsterdam', '2026-07-27T05:00', '2026-07-27T05:00'],
    ['Europe/Amsterdam', '2026-07-27T22:00', null],
    ['Asia/Kathmandu', '2026-11-23T01:15', '2026-11-23T01:15'],
    ['Asia/Kathmandu', '2026-11-23T01:14', null],
    ['Pacific/Kiritimati', '2026-11-22T17:00', '2026-11-22T17:00'],
    ['Pacific/Pago_Pago', '2026-11-23T18:00', '2026-11-23T18:00'],
    ['Pacific/Pago_Pago', '2026-11-24T10:59', '2026-11-23T18:00'],
    ['Pacific/Pago_Pago', '2026-11-24T11:00', null],
    // The clocks were changed the day before.
    ['Europe/Amsterdam', '2026-10-26T06:00', '2026-10-26T06:00'],
    ['America/New_York', '2026-03-09T11:00', '2026-03-09T11:00'],
  ];
  for (const [zone, now, end] of rows)
    t.equal(weekEndMs(zone, at(now)), end === null ? null : at(end), `${zone} ${now}`);
});

t.test('all zones have the same Monday', async (t) => {
  for (const end of ['2026-11-22T17:00', '2026-11-23T07:00', '2026-11-23T19:00'])
    t.equal(mondayOf(at(end)), '2026-11-23', end);
  t.equal(mondayOf(at('2026-11-30T07:00')), '2026-11-30');
  t.equal(mondayOf(at('2026-01-05T07:00')), '2026-01-05');
});

const sighting = (more: Partial<Sighting> = {}, past: [number, number][] = []): Sighting => ({
  ...{ id: 'p', state: 'online', heardMs: 0, sinceMs: 0, status: NO_STATUS },
  marks: { ...NO_MARKS, past },
  ...more,
});

t.test('outages of the week count, also in part', async (t) => {
  const end = MONDAY_MS + 7 * HOUR_MS;
  const began = end - WEEK_MS;
  const rows: [name: string, seen: Sighting, times: number, lastedMs: number | null][] = [
    ['none', sighting(), 0, 0],
    [
      'two',
      sighting({}, [
        [began + 5, began + 6],
        [end - 9, end - 2],
      ]),
      2,
      8,
    ],
    ['before the week', sighting({}, [[began - 5, began]]), 0, 0],
    ['from before it', sighting({}, [[began - 5, began + 3]]), 1, 3],
    ['after it', sighting({}, [[end, end + 5]]), 0, 0],
    ['to after it', sighting({}, [[end - 4, end + 5]]), 1, 4],
    ['one that lasts', sighting({ state: 'offline', sinceMs: end - 7 }, [[end - 20, end - 10]]), 2, 17],
    ['one that began after it', sighting({ state: 'offline', sinceMs: end + 7 }), 0, 0],
    ['one that lasts for long', sighting({ state: 'offline', sinceMs: began - DAY_MS }), 1, WEEK_MS],
    ['one of which the begin is not known', sighting({ state: 'offline', sinceMs: null }), 1, null],
  ];
  for (const [name, seen, times, lastedMs] of rows)
    t.match(weekOf(seen, end), { times, lastedMs, isOffline: seen.state === 'offline' }, name);
});

/** A cloud that begins at this moment with these documents, over a store of its own. */
async function bench(startMs: number, documents: Record<string, Document>, kept?: Store) {
  const clock = new FakeClock({ wallMs: startMs });
  const { store } = kept === undefined ? await openQuietly(clock) : { store: kept };
  const { log, lines } = keptLog();
  const all = new Map(Object.entries(documents));
  const sightings = new Map<string, Sighting>();
  const state = {
    isLeader: true,
    isBusy: false,
    isFull: false,
    fails: false,
    timeZone: 'UTC',
    reads: [] as string[],
  };
  const sent: { key: string; to: string; content: string }[] = [];
  const known = new WeakMap<Document, AboutDocument>();
  const about = (id: string) => {
    const document = all.get(id);
    if (document === undefined) return null;
    const facts = known.get(document) ?? { etag: JSON.stringify(document), ...factsOf(document) };
    known.set(document, facts);
    return facts;
  };
  const options = (taken: TakenKeys | null = null) => ({
    ...{ clock, log, taken, takesMail: true, takesShort: true },
    office: state,
    documents: {
      get ids() {
        return all.keys();
      },
      about,
      async read(id: string) {
        state.reads.push(id);
        if (state.fails) throw new Error('no quorum');
        const document = all.get(id);
        return document === undefined ? null : { document, text: '', etag: about(id)?.etag ?? '' };
      },
    },
    watch: { sighting: (id: string) => sightings.get(id) ?? sighting({ id }) },
    store: {
      async accept(draft: Parameters<Store['accept']>[0][number], keyed: { key: string; hash: string }) {
        const { destination, content } = draft;
        const accepted = await store.accept([draft], keyed);
        sent.push({ key: keyed.key, to: String(destination), content: JSON.stringify(content) });
        return accepted;
      },
      recall: (key: string) => store.recall(key),
      mayTakeMore: () => !state.isFull,
      isBusy: () => state.isBusy,
    },
    texts: { timeZone: 'UTC', publicUrl: null },
  });
  const weekly = new Weekly(options());
  return { weekly, options, clock, store, all, sightings, state, sent, lines };
}

/** Lets time pass; what a quarter of an hour begins can end. */
async function pass(clock: FakeClock, ms: number): Promise<void> {
  const endMs = clock.bootMs() + ms;
  while (clock.bootMs() < endMs) {
    await clock.advance(Math.min(clock.nextInMs ?? ms, endMs - clock.bootMs()));
    for (let turn = 0; turn < 10; turn++) await nextTurn();
  }
}

const weekly = (entry: object, more: object = {}) => ({ ...entry, weekly: true, ...more });
const on = (...destinations: object[]): Document => ({ destinations });

t.test('one message a person over all their devices, at 07:00 in their zone, each week', async (t) => {
  const {
    weekly: mails,
    clock,
    sent,
    sightings,
    lines,
  } = await bench(MONDAY_MS - 5 * DAY_MS, {
    'pump-1': on(weekly(JAN, { lang: 'en', zone: 'Europe/Amsterdam' }), { ...EWA, lang: 'en' }),
    'pump-2': on(weekly(JAN, { lang: 'en', zone: 'Europe/Amsterdam' }), weekly(EWA, { lang: 'en' })),
    'pump-3': on({ ...JAN, lang: 'en' }),
    'pump-4': on(weekly(JAN, { lang: 'en', zone: 'Europe/Amsterdam' })),
  });
  sightings.set(
    'pump-2',
    sighting({ id: 'pump-2' }, [[MONDAY_MS - DAY_MS, MONDAY_MS - DAY_MS + 2 * HOUR_MS]]),
  );
  sightings.set('pump-4', sighting({ id: 'pump-4', state: 'moved' }));
  mails.start();
  await pass(clock, 5 * DAY_MS + 6 * HOUR_MS - MINUTE_MS);
  t.strictSame(sent, [], 'not before');
  await pass(clock, 10 * MINUTE_MS);
  t.strictSame(
    sent.map(({ to }) => to),
    ['jan@example.com'],
  );
  t.match(
    sent[0]?.content,
    /1 device with outages in the past 7 days.*2 devices.*pump-2/s,
    'but not the one that moved',
  );
  t.match(sent[0]?.content, /07:00 \(UTC\+01:00\)/);
  t.notMatch(sent[0]?.content, /pump-1/);
  await pass(clock, HOUR_MS);
  t.strictSame(
    sent.map(({ to }) => to),
    ['jan@example.com', 'ewa@example.com'],
  );
  t.match(sent[1]?.content, /1 device with outages in the past 7 days.*pump-2/s);
  await pass(clock, 6 * DAY_MS);
  t.equal(sent.length, 2);
  await pass(clock, DAY_MS);
  t.equal(sent.length, 4, 'the next Monday');
  t.match(sent[2]?.content, /No outages in the past 7 days/);
  t.equal(new Set(sent.map(({ key }) => key)).size, 4);
  t.equal(lines.filter((line) => line.includes('kind=weekly')).length, 4);
  await mails.stop();
});

t.test('a person with two zones hears once, of all devices', async (t) => {
  const {
    weekly: mails,
    clock,
    sent,
  } = await bench(MONDAY_MS, {
    a: on(weekly(JAN, { lang: 'en', zone: 'Europe/Amsterdam' })),
    b: on(weekly(JAN, { lang: 'en' })),
  });
  mails.start();
  await pass(clock, 6 * HOUR_MS + 10 * MINUTE_MS);
  t.match(sent, [{ content: /2 devices/ }]);
  await pass(clock, 2 * HOUR_MS);
  t.equal(sent.length, 1);
  await mails.stop();
});

t.test('it is Monday somewhere before and after it is in UTC', async (t) => {
  const documents = {
    a: on(weekly(JAN, { zone: 'Pacific/Kiritimati' }), weekly(EWA, { zone: 'Etc/GMT+12' })),
  };
  const { weekly: mails, clock, sent } = await bench(MONDAY_MS - 8 * HOUR_MS, documents);
  mails.start();
  await pass(clock, HOUR_MS + 5 * MINUTE_MS);
  t.match(sent, [{ to: JAN.destination }], '07:00 on Monday is 17:00 on Sunday');
  await mails.stop();
  const later = await bench(MONDAY_MS + 35 * HOUR_MS, documents);
  later.weekly.start();
  await pass(later.clock, HOUR_MS);
  t.match(later.sent, [{ to: EWA.destination }], 'their Monday ends at 12:00 on Tuesday');
  await later.weekly.stop();
});

t.test(
  'what was missed is sent later on Monday, not on Tuesday, and not again after a restart',
  async (t) => {
    const document = { a: on(weekly(JAN)) };
    for (const [fromMs, count] of [
      [MONDAY_MS + 15 * HOUR_MS, 1],
      [MONDAY_MS + 23 * HOUR_MS + 40 * MINUTE_MS, 1],
      [MONDAY_MS + DAY_MS - MINUTE_MS, 0],
      [MONDAY_MS + 30 * HOUR_MS, 0],
    ] as const) {
      const { weekly: mails, clock, sent } = await bench(fromMs, document);
      mails.start();
      await pass(clock, 2 * DAY_MS);
      await mails.stop();
      t.equal(sent.length, count, new Date(fromMs).toISOString());
    }
    const before = await bench(MONDAY_MS + 8 * HOUR_MS, document);
    before.weekly.start();
    await pass(before.clock, HOUR_MS);
    await before.weekly.stop();
    t.equal(before.sent.length, 1);
    const after = await bench(MONDAY_MS + 10 * HOUR_MS, document, before.store);
    after.weekly.start();
    await pass(after.clock, HOUR_MS);
    await after.weekly.stop();
    t.equal(after.sent.length, 0);
  },
);

t.test('a new leader does not repeat what another instance has sent', async (t) => {
  const keys = new Map<string, string>();
  let isAway = false;
  const taken: TakenKeys = {
    async hashOf(_as, key) {
      if (isAway) throw new Error('no quorum');
      return keys.get(key) ?? null;
    },
    remember: async (_as, { key, hash }) => void keys.set(key, hash),
  };
  const document = { a: on(weekly(JAN)) };
  const one = await bench(MONDAY_MS + 6 * HOUR_MS, document);
  const other = await bench(MONDAY_MS + 6 * HOUR_MS, document);
  other.state.isLeader = false;
  const mails = [new Weekly(one.options(taken)), new Weekly(other.options(taken))] as const;
  for (const each of mails) each.start();
  isAway = true;
  await pass(one.clock, 90 * MINUTE_MS);
  t.equal(one.sent.length, 0, 'while they cannot be asked');
  isAway = false;
  await pass(one.clock, 30 * MINUTE_MS);
  await pass(other.clock, 2 * HOUR_MS);
  t.equal(one.sent.length, 1);
  t.equal(other.sent.length, 0, 'only the leader');
  t.equal(other.state.reads.length, 0);
  other.state.isLeader = true;
  await pass(other.clock, HOUR_MS);
  t.ok(other.state.reads.length > 0);
  t.equal(other.sent.length, 0);
  for (const each of mails) await each.stop();
});

t.test('a full outbox, one that is kept for news, and a store that is away: tried again', async (t) => {
  for (const trouble of ['isFull', 'isBusy', 'fails'] as const) {
    const {
      weekly: mails,
      clock,
      sent,
      state,
      lines,
    } = await bench(MONDAY_MS + 6 * HOUR_MS, {
      a: on(weekly(JAN)),
      b: on(weekly(EWA)),
    });
    state[trouble] = true;
    mails.start();
    await pass(clock, 2 * HOUR_MS);
    t.equal(sent.length, 0, trouble);
    t.equal(lines.filter((line) => line.includes('notification delayed')).length, 1, 'logged once');
    state[trouble] = false;
    await pass(clock, 20 * MINUTE_MS);
    t.equal(sent.length, 2);
    await mails.stop();
  }
});

t.test('documents are read only if somebody wants it, and at the hours in question', async (t) => {
  const {
    weekly: mails,
    clock,
    state,
    all,
  } = await bench(MONDAY_MS - 4 * DAY_MS, {
    ...Object.fromEntries(Array.from({ length: 2500 }, (_, n) => [`x${n}`, on(JAN)])),
    a: on(weekly(JAN)),
  });
  mails.start();
  await pass(clock, 3 * DAY_MS);
  t.strictSame(state.reads, [], 'in the week');
  await pass(clock, DAY_MS + 6 * HOUR_MS);
  t.strictSame(state.reads.splice(0), ['a'], 'for its zone');
  await pass(clock, 2 * HOUR_MS);
  t.strictSame(state.reads.splice(0), ['a'], 'for the mail');
  all.set('b', on(weekly(EWA, { zone: 'America/New_York' })));
  await pass(clock, HOUR_MS);
  t.strictSame(state.reads.splice(0), ['b'], 'a new document');
  await pass(clock, 6 * DAY_MS);
  t.strictSame(state.reads.sort(), ['a', 'b'], 'for the mail in New York');
  await mails.stop();
});

t.test('a wrong clock sends nothing', async (t) => {
  const { weekly: mails, clock, sent } = await bench(MONDAY_MS + 6 * HOUR_MS, { a: on(weekly(JAN)) });
  clock.doubt();
  mails.start();
  await pass(clock, 3 * HOUR_MS);
  t.equal(sent.length, 0);
  clock.confirm();
  await pass(clock, 20 * MINUTE_MS);
  t.equal(sent.length, 1);
  await mails.stop();
});

t.test(
  'SMS are short; a placeholder is another person for each device; who cannot be reached is left out',
  async (t) => {
    const owner = { ...JAN, type: 4, destination: 'OWNER', lang: 'en' };
    const phone = { ...EWA, type: 2, destination: '+31612345678', lang: 'en' };
    const { options, clock, sent, sightings } = await bench(MONDAY_MS + 6 * HOUR_MS, {
      a: on(weekly(owner), weekly(phone)),
      b: on(weekly(owner), weekly(phone), weekly(JAN)),
      c: on(weekly({ ...EWA, destination: 'nobody@example.com' }, { weekly: 'yes' })),
    });
    sightings.set(
      'b',
      sighting({ marks: { ...NO_MARKS, quiet: { untilMs: MONDAY_MS + DAY_MS, why: null } } }),
    );
    const mails = new Weekly({ ...options(), takesMail: false });
    mails.start();
    await pass(clock, 2 * HOUR_MS);
    t.strictSame(sent.map(({ to }) => to).sort(), ['+31612345678', 'OWNER', 'OWNER']);
    t.strictSame(sent.flatMap(({ content }) => JSON.parse(content).device ?? []).sort(), ['a', 'b']);
    t.match(sent.find(({ to }) => to.startsWith('+'))?.content, /No outages in the past 7 days/);
    await mails.stop();
  },
);

t.test('the whole cloud: one mail on Monday, also after a restart', async (t) => {
  await using relay = await fakeRelay();
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const clock = new FakeClock({ wallMs: MONDAY_MS + 6 * HOUR_MS + 50 * MINUTE_MS });
  const cloud = await startCloud({ disk, clock, env: through(relay) });
  await cloud.putFirst({ destinations: [{ ...EWA, lang: 'en' }, weekly(JAN, { lang: 'en' })] });
  await cloud.beat();
  await cloud.passUntil(() => relay.mails.length === 3);
  t.match(relay.mails.map(({ to }) => String(to)).sort(), [
    'ewa@example.com',
    'jan@example.com',
    'jan@example.com',
  ]);
  t.match(String(relay.mails[2]?.content), /Subject: 1 device with outages in the past 7 days\r\n.*pump-3/s);
  await cloud.stop();
  await using again = await startCloud({ disk, clock, env: through(relay) });
  await again.clock.advance(20 * MINUTE_MS);
  for (let turn = 0; turn < 100; turn++) await nextTurn();
  t.equal(relay.mails.length, 3);
});
