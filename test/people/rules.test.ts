/** Each rule of telling people as a row: who they are, what happens, and what they hear, when (src/cloud/rules.ts). */
import t from 'tap';
import { MINUTE_MS } from '../../src/base/limits.js';
import type { DeviceNews } from '../../src/cloud/fleet-store.js';
import {
  axisOf,
  type Item,
  type Listener,
  needlessPair,
  type Ruling,
  ruleOnce,
  ruleReminder,
  ruleState,
} from '../../src/cloud/rules.js';
import { rulesOf } from '../../src/mail/book/rules.js';

/** 2026-11-20 is a Friday. */
const DAYS: Readonly<Record<string, number>> = {
  Fr: Date.UTC(2026, 10, 20),
  Sa: Date.UTC(2026, 10, 21),
  Su: Date.UTC(2026, 10, 22),
  Mo: Date.UTC(2026, 10, 23),
  // The clocks of Europe go back in the night to the second of these, and forward in the night to the other.
  October24: Date.UTC(2026, 9, 24),
  October25: Date.UTC(2026, 9, 25),
  March27: Date.UTC(2027, 2, 27),
  March28: Date.UTC(2027, 2, 28),
};

/** `Fr 10:30`, in UTC. */
function momentOf(text: string): number {
  const [, day = '', hours, minutes] = /^(\w+) (\d\d):(\d\d)$/.exec(text) ?? [];
  return (DAYS[day] ?? Number.NaN) + (Number(hours) * 60 + Number(minutes)) * MINUTE_MS;
}

function wordsOf(atMs: number): string {
  const day = Object.keys(DAYS).find((name) => Math.floor(atMs / 86_400_000) * 86_400_000 === DAYS[name]);
  return `${day} ${new Date(atMs).toISOString().slice(11, 16)}`;
}

const UID = 'the-uid';

type Mark = Item['mark'];

/** What is decided of the device: `Fr 10:00 silent`. */
function newsOf(text: string, n: number): DeviceNews {
  const [, moment = '', kind = ''] = /^(\w+ \S+) (\w+)/.exec(text) ?? [];
  const atMs = momentOf(moment);
  const happenings: Readonly<Record<string, object>> = {
    back: { lastedMs: null },
    quiet: { untilMs: atMs + 60 * MINUTE_MS, why: null },
    word: { word: 'mains failed' },
    still: { lastedMs: null },
    stuck: { relay: 'failing', failed: 0 },
    drill: { key: 'key', uid: text.endsWith(' other') ? 'another' : text.endsWith(' me') ? UID : null },
  };
  const happening = { kind, sinceMs: atMs, ...happenings[kind] };
  return { ...happening, id: `news-${n}`, device: 'pump-3', atMs } as DeviceNews;
}

/** One person and one device: asks the rules when something happens, and when somebody is due. Returns what was heard. */
function hears(entry: object, events: readonly string[], more: Partial<Listener> = {}): string[] {
  const listener: Listener = {
    ...{
      uid: UID,
      rules: rulesOf({ ...entry }),
      cloudZone: 'UTC',
      quietUntilMs: null,
      gathers: false,
      isHook: false,
    },
    ...more,
  };
  const all = events.map(newsOf);
  const items: { news: DeviceNews; mark: Mark; windowEndsMs: number }[] = [];
  const heard: string[] = [];
  let dueMs = Number.POSITIVE_INFINITY;
  const tell = (nowMs: number, ruling: Ruling, last: { mark: Mark }) => {
    if (ruling.act === 'wait') {
      last.mark = 'waits';
      dueMs = Math.min(dueMs, ruling.untilMs);
    } else if (ruling.act === 'tell') {
      last.mark = 'told';
      const times = ruling.was !== null && ruling.was.times > 1 ? ` ${ruling.was.times}` : '';
      heard.push(`${wordsOf(nowMs)} ${ruling.was === null ? ruling.news.kind : `was${times}`}`);
    } else if (last.mark !== 'none') last.mark = ruling.knows ? 'told' : 'none';
  };
  const ask = (nowMs: number) => {
    dueMs = Number.POSITIVE_INFINITY;
    for (const axis of ['link', 'mails'] as const) {
      const ofAxis = items.filter(({ news }) => axisOf(news) === axis);
      const last = ofAxis.at(-1);
      if (last !== undefined) tell(nowMs, ruleState(ofAxis as Item[], listener, nowMs), last);
    }
    const link = items.findLast(({ news }) => axisOf(news) === 'link');
    const knowsBad = link !== undefined && link.mark === 'told' && link.news.kind !== 'back';
    for (const item of items) {
      const axis = axisOf(item.news);
      if (axis === 'still') tell(nowMs, ruleReminder(item, knowsBad, listener, nowMs), item);
      if (axis === 'once') tell(nowMs, ruleOnce(item, listener, nowMs), item);
    }
  };
  for (;;) {
    const next = all[0]?.atMs ?? Number.POSITIVE_INFINITY;
    const nowMs = Math.min(next, dueMs);
    if (nowMs === Number.POSITIVE_INFINITY) return heard;
    while (all[0] !== undefined && all[0].atMs <= nowMs) {
      const news = all.shift() as DeviceNews;
      items.push({ news, mark: 'fresh', windowEndsMs: news.atMs + MINUTE_MS });
    }
    ask(nowMs);
  }
}

const WEEK = { hours: 'Mo-Fr 07:00-18:00' };
const DAILY = { hours: 'Mo-Su 07:00-18:00' };
const AFTER = { after_min: 60 };

type Row = readonly [rule: string, entry: object, happens: readonly string[], heard: readonly string[]];

const ROWS: readonly Row[] = [
  // -- at once --
  ['without rules at once', {}, ['Fr 10:00 silent', 'Fr 10:30 back'], ['Fr 10:00 silent', 'Fr 10:30 back']],
  [
    'a stop that lasts, too',
    {},
    ['Fr 03:00 stopped', 'Sa 03:00 back'],
    ['Fr 03:00 stopped', 'Sa 03:00 back'],
  ],
  [
    'each outage',
    {},
    ['Fr 01:00 silent', 'Fr 02:00 back', 'Fr 03:00 silent'],
    ['Fr 01:00 silent', 'Fr 02:00 back', 'Fr 03:00 silent'],
  ],
  // -- after_min --
  ['after_min: not if it is back', AFTER, ['Fr 10:00 silent', 'Fr 10:30 back'], []],
  ['after_min: not if it is back then', AFTER, ['Fr 10:00 silent', 'Fr 11:00 back'], []],
  [
    'after_min: if it lasts; the return at once',
    AFTER,
    ['Fr 10:00 silent', 'Fr 11:01 back'],
    ['Fr 11:00 silent', 'Fr 11:01 back'],
  ],
  [
    'after_min counts anew for each outage',
    AFTER,
    ['Fr 10:00 silent', 'Fr 10:50 back', 'Fr 10:55 silent'],
    ['Fr 11:55 silent'],
  ],
  ['after_min of a week', { after_min: 10_080 }, ['Fr 10:00 silent', 'Mo 10:00 back'], []],
  // -- hours --
  [
    'within the hours at once',
    WEEK,
    ['Fr 10:00 silent', 'Fr 10:30 back'],
    ['Fr 10:00 silent', 'Fr 10:30 back'],
  ],
  ['the first minute counts', WEEK, ['Fr 07:00 silent'], ['Fr 07:00 silent']],
  ['the last minute does not', WEEK, ['Fr 18:00 silent'], ['Mo 07:00 silent']],
  ['outside when they begin', WEEK, ['Fr 20:00 silent'], ['Mo 07:00 silent']],
  ['over by then: one line', WEEK, ['Fr 20:00 silent', 'Fr 21:00 back'], ['Mo 07:00 was']],
  ['night: "drop": nothing', { ...WEEK, night: 'drop' }, ['Fr 20:00 silent', 'Fr 21:00 back'], []],
  ['night: "drop": but what lasts', { ...WEEK, night: 'drop' }, ['Fr 20:00 silent'], ['Mo 07:00 silent']],
  [
    'several at night: one line',
    DAILY,
    ['Fr 20:00 silent', 'Fr 21:00 back', 'Fr 22:00 silent', 'Fr 23:00 back'],
    ['Sa 07:00 was 2'],
  ],
  [
    'several at night, the last one lasts: only that',
    DAILY,
    ['Fr 20:00 silent', 'Fr 21:00 back', 'Fr 22:00 silent'],
    ['Sa 07:00 silent'],
  ],
  [
    'a return outside the hours waits',
    DAILY,
    ['Fr 10:00 silent', 'Fr 20:00 back'],
    ['Fr 10:00 silent', 'Sa 07:00 back'],
  ],
  [
    'and is nothing if it is offline again',
    DAILY,
    ['Fr 10:00 silent', 'Fr 20:00 back', 'Fr 22:00 silent'],
    ['Fr 10:00 silent'],
  ],
  [
    'until it is back at last',
    DAILY,
    ['Fr 10:00 silent', 'Fr 20:00 back', 'Fr 22:00 silent', 'Sa 09:00 back'],
    ['Fr 10:00 silent', 'Sa 09:00 back'],
  ],
  [
    'hours over midnight',
    { hours: 'Mo-Su 22:00-06:00' },
    ['Fr 23:00 silent', 'Sa 05:00 back', 'Sa 07:00 silent'],
    ['Fr 23:00 silent', 'Sa 05:00 back', 'Sa 22:00 silent'],
  ],
  // -- after_min, then hours --
  ['both: back before after_min, nothing', { ...AFTER, ...WEEK }, ['Fr 17:30 silent', 'Fr 17:50 back'], []],
  ['both: short at night, nothing', { ...AFTER, ...DAILY }, ['Fr 20:00 silent', 'Fr 20:30 back'], []],
  ['both: the hours end meanwhile', { ...AFTER, ...WEEK }, ['Fr 17:30 silent'], ['Mo 07:00 silent']],
  [
    'both: and it is back by then',
    { ...AFTER, ...WEEK },
    ['Fr 17:30 silent', 'Fr 19:00 back'],
    ['Mo 07:00 was'],
  ],
  ['both: the hours begin meanwhile', { ...AFTER, ...DAILY }, ['Fr 06:30 silent'], ['Fr 07:30 silent']],
  [
    'both: it ends in the hours, before after_min',
    { ...AFTER, ...DAILY },
    ['Fr 06:30 silent', 'Fr 07:10 back'],
    [],
  ],
  // -- zone --
  [
    'hours in the zone of the person',
    { ...DAILY, zone: 'America/New_York' },
    ['Fr 10:00 silent'],
    ['Fr 12:00 silent'],
  ],
  [
    'the clocks go back',
    { ...DAILY, zone: 'Europe/Amsterdam' },
    ['October24 20:00 silent'],
    ['October25 06:00 silent'],
  ],
  [
    'the clocks go forward',
    { ...DAILY, zone: 'Europe/Amsterdam' },
    ['March27 20:00 silent'],
    ['March28 05:00 silent'],
  ],
  // -- who was not told of an outage is not told of its end --
  [
    'a return that nobody waits for',
    AFTER,
    ['Fr 10:00 silent', 'Fr 10:10 back', 'Fr 12:00 silent', 'Fr 14:00 back'],
    ['Fr 13:00 silent', 'Fr 14:00 back'],
  ],
  // -- reminders --
  [
    'still offline after a day',
    {},
    ['Fr 10:00 silent', 'Sa 10:00 still', 'Sa 11:00 back'],
    ['Fr 10:00 silent', 'Sa 10:00 still', 'Sa 11:00 back'],
  ],
  [
    'a reminder waits for the hours',
    WEEK,
    ['Fr 10:00 silent', 'Sa 10:00 still'],
    ['Fr 10:00 silent', 'Mo 07:00 still'],
  ],
  [
    'and is nothing if it is back by then',
    WEEK,
    ['Fr 10:00 silent', 'Sa 10:00 still', 'Su 10:00 back'],
    ['Fr 10:00 silent', 'Mo 07:00 back'],
  ],
  [
    'only for those who know of the outage',
    { after_min: 2880 },
    ['Fr 10:00 silent', 'Sa 10:00 still'],
    ['Su 10:00 silent'],
  ],
  // -- told for themselves --
  ['quiet at once', {}, ['Fr 20:00 quiet'], ['Fr 20:00 quiet']],
  ['quiet: never outside the hours', WEEK, ['Fr 20:00 quiet'], []],
  ['quiet: not to those with after_min', AFTER, ['Fr 10:00 quiet'], []],
  ['a last word at once', {}, ['Fr 03:00 word', 'Fr 03:02 silent'], ['Fr 03:00 word', 'Fr 03:02 silent']],
  ['a last word: never outside the hours', WEEK, ['Fr 20:00 word'], []],
  ['a last word: not to those with after_min', AFTER, ['Fr 10:00 word'], []],
  ['a drill at any hour', { ...WEEK, ...AFTER }, ['Sa 03:00 drill'], ['Sa 03:00 drill']],
  ['a drill for this one', {}, ['Fr 10:00 drill me'], ['Fr 10:00 drill']],
  ['a drill for another one', {}, ['Fr 10:00 drill other'], []],
  // -- mails --
  ['mails that do not leave', {}, ['Fr 10:00 stuck', 'Fr 12:00 flows'], ['Fr 10:00 stuck', 'Fr 12:00 flows']],
  ['an hour of after_min has passed then', AFTER, ['Fr 10:00 stuck'], ['Fr 10:00 stuck']],
  ['more of it has not', { after_min: 90 }, ['Fr 10:00 stuck', 'Fr 10:20 flows'], []],
  ['mails at night: nothing in the morning', DAILY, ['Fr 20:00 stuck', 'Fr 22:00 flows'], []],
  [
    'mails and the link are two things',
    {},
    ['Fr 10:00 stuck', 'Fr 11:00 silent', 'Fr 12:00 back', 'Fr 13:00 flows'],
    ['Fr 10:00 stuck', 'Fr 11:00 silent', 'Fr 12:00 back', 'Fr 13:00 flows'],
  ],
];

for (const [rule, entry, happens, heard] of ROWS)
  t.test(`${rule}: ${JSON.stringify(entry)}, ${happens.join(', ')}`, async (t) => {
    t.strictSame(hears(entry, happens), heard);
  });

t.test('who has many devices hears at the end of a window', async (t) => {
  const many = { gathers: true };
  t.strictSame(hears({}, ['Fr 10:00 silent'], many), ['Fr 10:01 silent']);
  t.strictSame(hears({}, ['Fr 10:00 silent', 'Fr 10:01 back'], many), []);
  t.strictSame(hears(AFTER, ['Fr 10:00 silent'], many), ['Fr 11:01 silent']);
});

t.test("the operator's program hears no drills", async (t) => {
  t.strictSame(hears({}, ['Fr 10:00 drill', 'Fr 11:00 silent'], { isHook: true }), ['Fr 11:00 silent']);
});

t.test('quiet that is asked for while somebody waits', async (t) => {
  const quiet = { quietUntilMs: momentOf('Fr 12:00') };
  t.strictSame(hears(AFTER, ['Fr 10:30 silent'], quiet), ['Fr 12:00 silent']);
  t.strictSame(hears(AFTER, ['Fr 10:30 silent', 'Fr 11:50 back'], quiet), []);
  t.strictSame(hears(AFTER, ['Fr 11:30 silent'], quiet), ['Fr 12:30 silent']);
  t.strictSame(hears(DAILY, ['Fr 10:30 silent', 'Fr 11:50 back'], quiet), []);
  t.strictSame(hears({ hours: 'Mo-Su 11:00-11:30' }, ['Fr 10:30 silent'], quiet), ['Sa 11:00 silent']);
});

t.test('a person who is added during an outage hears of neither it nor its end', async (t) => {
  const listener: Listener = {
    ...{ uid: UID, rules: rulesOf({}), cloudZone: 'UTC', quietUntilMs: null, gathers: false, isHook: false },
  };
  const [silent, back] = ['Fr 10:00 silent', 'Fr 11:00 back'].map(newsOf) as [DeviceNews, DeviceNews];
  const begun: Item = { news: silent, mark: 'none', windowEndsMs: silent.atMs };
  const nowMs = back.atMs;
  t.strictSame(ruleState([begun], listener, nowMs), { act: 'none', knows: false });
  const ended: Item = { news: back, mark: 'fresh', windowEndsMs: nowMs };
  t.equal(ruleState([begun, ended], listener, nowMs).act, 'none');
  t.equal(ruleState([{ ...begun, mark: 'told' }, ended], listener, nowMs).act, 'tell');
  t.equal(ruleState([{ ...begun, mark: 'waits' }, ended], listener, nowMs).act, 'none');
});

t.test('of too many news those are dropped without which everybody still knows the same', async (t) => {
  const [TECH, BOSS, MATE] = ['tech', 'boss', 'mate'];
  const rows: readonly (readonly [name: string, told: readonly (readonly string[])[], dropped: string])[] = [
    ['nobody was told', [[], [], [], []], '1 2'],
    ['all know of the first', [[TECH, BOSS], [], [], []], '1 2'],
    ['one heard of its end, too, and is out of hours now', [[TECH], [TECH], [], []], '2 3'],
    ['another one hears of all', [[TECH, MATE], [TECH, MATE], [MATE], [MATE]], '2 3'],
    ['one does not know that it is back', [[TECH, BOSS], [TECH], [TECH], [TECH]], '1 2'],
    ['the last was told to one who missed the middle', [[TECH, MATE], [TECH], [], [MATE]], '0 1'],
  ];
  for (const [name, told, dropped] of rows) {
    const all = ['Fr 10:00 silent', 'Fr 10:10 back', 'Fr 10:20 silent', 'Fr 10:30 back'].map((text, n) => ({
      ...newsOf(text, n),
      told: told[n] ?? [],
    }));
    t.equal(needlessPair(all).join(' ').replaceAll('news-', ''), dropped, name);
  }
});
