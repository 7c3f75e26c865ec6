import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import {
  type Hours,
  hoursBeginMs,
  hoursIn,
  hoursInWords,
  isZone,
  momentInWords,
} from '../../src/mail/book/hours.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const HOUR = HOUR_MS;
const DAYS = ['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'];

/** The spans in hours since Monday 00:00. */
function spansOf(text: string): (readonly number[])[] | null {
  return hoursIn(text)?.spans.map((span) => span.map((ms) => ms / HOUR)) ?? null;
}

t.test('a text means these hours of the week', async (t) => {
  const week = [[0, 168]];
  const nights = Array.from({ length: 7 }, (_, day) => [day * 24 + 22, day * 24 + 30]);
  const rows: [text: string, spans: number[][], words: string][] = [
    ['Mo 07:00-18:00', [[7, 18]], 'Monday 07:00-18:00'],
    [
      'Mo-Tu 07:30-18:00',
      [
        [7.5, 18],
        [31.5, 42],
      ],
      'Monday to Tuesday 07:30-18:00',
    ],
    [
      'Mo-Tu 07:00-18:00, Sa 09:00-12:00',
      [
        [7, 18],
        [31, 42],
        [129, 132],
      ],
      'Monday to Tuesday 07:00-18:00, Saturday 09:00-12:00',
    ],
    ['Mo-Su', week, 'Monday to Sunday all day'],
    ['Mo-Su 00:00-24:00', week, 'Monday to Sunday all day'],
    ['00:00-24:00', week, 'every day all day'],
    ['Sa-Su', [[120, 168]], 'Saturday to Sunday all day'],
    [
      'Su-Mo',
      [
        [0, 24],
        [144, 168],
      ],
      'Sunday to Monday all day',
    ],
    [
      'Fr-Mo 10:00-11:00',
      [
        [10, 11],
        [106, 107],
        [130, 131],
        [154, 155],
      ],
      'Friday to Monday 10:00-11:00',
    ],
    ['We', [[48, 72]], 'Wednesday all day'],
    ['We-We 01:00-02:00', [[49, 50]], 'Wednesday 01:00-02:00'],
    ['Sa, Su', [[120, 168]], 'Saturday all day, Sunday all day'],
    // Past midnight.
    ['22:00-06:00', [[0, 6], ...nights.slice(0, 6), [166, 168]], 'every day 22:00-06:00'],
    ['Mo 22:00-06:00', [[22, 30]], 'Monday 22:00-06:00'],
    [
      'Su 22:00-06:00',
      [
        [0, 6],
        [166, 168],
      ],
      'Sunday 22:00-06:00',
    ],
    ['Tu 18:00-00:00', [[42, 48]], 'Tuesday 18:00-00:00'],
    ['Tu 18:00-24:00', [[42, 48]], 'Tuesday 18:00-24:00'],
    // Several on one day, and spans that touch.
    [
      'Mo 07:00-12:00, 13:00-18:00',
      [
        [7, 12],
        [13, 18],
      ],
      'Monday 07:00-12:00 and 13:00-18:00',
    ],
    ['Mo 07:00-12:00, Mo 12:00-18:00', [[7, 18]], 'Monday 07:00-12:00, Monday 12:00-18:00'],
    ['Mo 09:00-12:00, Mo 07:00-10:00', [[7, 12]], 'Monday 09:00-12:00, Monday 07:00-10:00'],
    ['Mo 06:00-20:00, Mo 07:00-10:00', [[6, 20]], 'Monday 06:00-20:00, Monday 07:00-10:00'],
    ['Mo 20:00-24:00, Tu 00:00-02:00', [[20, 26]], 'Monday 20:00-24:00, Tuesday 00:00-02:00'],
    // However people write it.
    [
      'mo-TU  7:00 – 18:00 ',
      [
        [7, 18],
        [31, 42],
      ],
      'Monday to Tuesday 07:00-18:00',
    ],
    [
      'Mo–Tu 07:00–18:00',
      [
        [7, 18],
        [31, 42],
      ],
      'Monday to Tuesday 07:00-18:00',
    ],
  ];
  for (const [text, spans, words] of rows) {
    t.same(spansOf(text), spans, text);
    t.equal(hoursInWords(hoursIn(text) as Hours), words, text);
  }
});

t.test('anything else is no hours', async (t) => {
  const bad = [
    ...['', ' ', ',', 'Mo,', ',Mo', 'Mo,,Tu', 'Mo 07:00-18:00,'],
    ...['always', 'Mon 07:00-18:00', 'Montag', 'Xx', 'Mo-Xx', 'Xx-Mo', 'Mo-', '-Mo', 'Mo-Tu-We'],
    ...['Mo 07:00', 'Mo 7-18', 'Mo 07:00-', '07:00', 'Mo07:00-18:00', 'Mo 07:00-18:00 Tu', 'Mo 7:0-8:00'],
    // Empty or impossible.
    ...[
      '08:00-08:00',
      '00:00-00:00',
      '24:00-24:00',
      '24:00-06:00',
      '07:00-24:01',
      '25:00-26:00',
      '07:60-08:00',
    ],
    ...['Mo\t07:00-08:00', 'Mo\u00a007:00-08:00', 'Mo 07:00-08:00\n', 'Mo—Fr'],
    ...['07:00-08:60', '-1:00-08:00', '07:00-99:00'],
    `${'Mo, '.repeat(50)}Mo`,
    ...[null, undefined, 5, true, {}, ['Mo'], new String('Mo')],
  ];
  for (const text of bad) t.equal(hoursIn(text), null, String(text));
});

t.test('a zone is UTC or a name of the tz database', async (t) => {
  for (const zone of [
    'UTC',
    'Europe/Amsterdam',
    'europe/amsterdam',
    'Asia/Kolkata',
    'Etc/GMT+5',
    'EST5EDT',
  ]) {
    t.equal(isZone(zone), true, zone);
  }
  const bad = [
    '',
    ' ',
    'Amsterdam',
    'Europe/Atlantis',
    '+01:00',
    '-0500',
    'x'.repeat(1e6),
    'Europe/Amsterdam ',
    1,
  ];
  for (const zone of [...bad, null, undefined, {}, []])
    t.equal(isZone(zone), false, String(zone).slice(0, 30));
  t.throws(() => hoursBeginMs(hoursIn('Mo') as Hours, 'Europe/Atlantis', 0), RangeError);
});

t.test('hours begin in a zone', async (t) => {
  const nl = 'Europe/Amsterdam';
  const rows: [hours: string, zone: string, at: string, begins: string][] = [
    // 2026-11-23 is a Monday. Within, at the edges, between, in the next week.
    ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-23T07:00Z', '2026-11-23T07:00Z'],
    ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-23T17:59:59.999Z', '2026-11-23T17:59:59.999Z'],
    ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-23T18:00Z', '2026-11-24T07:00Z'],
    ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-23T06:59:59.999Z', '2026-11-23T07:00Z'],
    ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-27T18:00Z', '2026-11-30T07:00Z'],
    ['Mo-Fr 07:00-18:00', 'UTC', '1969-12-31T23:00Z', '1970-01-01T07:00Z'],
    ['Mo-Su', 'UTC', '2026-11-23T03:00Z', '2026-11-23T03:00Z'],
    ['22:00-06:00', 'UTC', '2026-11-30T00:00Z', '2026-11-30T00:00Z'],
    ['22:00-06:00', 'UTC', '2026-11-30T06:00Z', '2026-11-30T22:00Z'],
    ['Su 22:00-06:00', 'UTC', '2026-11-30T05:59Z', '2026-11-30T05:59Z'],
    ['Mo-Fr 07:00-18:00', nl, '2026-11-23T06:00Z', '2026-11-23T06:00Z'],
    ['Mo-Fr 07:00-18:00', nl, '2026-11-23T17:00Z', '2026-11-24T06:00Z'],
    ['Mo-Fr 07:00-18:00', nl, '2026-07-06T04:59Z', '2026-07-06T05:00Z'],
    // The weekend in which summer time begins or ends.
    ['Mo-Fr 07:00-18:00', nl, '2026-03-27T17:00Z', '2026-03-30T05:00Z'],
    ['Mo-Fr 07:00-18:00', nl, '2026-10-23T16:00Z', '2026-10-26T06:00Z'],
    // On 2026-03-29, 02:00 to 03:00 is skipped at 01:00Z.
    ['02:15-02:45', nl, '2026-03-28T12:00Z', '2026-03-30T00:15Z'],
    ['Su 02:15-02:45', nl, '2026-03-28T12:00Z', '2026-04-05T00:15Z'],
    ['02:30-04:00', nl, '2026-03-29T00:00Z', '2026-03-29T01:00Z'],
    ['03:00-04:00', nl, '2026-03-29T00:59Z', '2026-03-29T01:00Z'],
    ['01:00-02:00', nl, '2026-03-29T00:59Z', '2026-03-29T00:59Z'],
    ['01:00-02:00', nl, '2026-03-29T01:00Z', '2026-03-29T23:00Z'],
    // On 2026-10-25, 02:00 to 03:00 is shown twice: from 00:00Z and from 01:00Z.
    ['02:15-02:45', nl, '2026-10-24T12:00Z', '2026-10-25T00:15Z'],
    ['02:15-02:45', nl, '2026-10-25T00:50Z', '2026-10-25T01:15Z'],
    ['02:15-02:45', nl, '2026-10-25T01:50Z', '2026-10-26T01:15Z'],
    ['02:00-03:00', nl, '2026-10-25T00:59Z', '2026-10-25T00:59Z'],
    // Half-hour zones, and a clock that is changed by half an hour: on 2026-04-05 at 15:00Z, +11:00 to +10:30.
    ['07:00-18:00', 'Asia/Kolkata', '2026-11-23T00:00Z', '2026-11-23T01:30Z'],
    ['07:00-18:00', 'Asia/Kathmandu', '2026-11-23T00:00Z', '2026-11-23T01:15Z'],
    ['07:00-18:00', 'America/St_Johns', '2026-11-23T00:00Z', '2026-11-23T10:30Z'],
    ['01:40-01:50', 'Australia/Lord_Howe', '2026-04-04T14:52Z', '2026-04-04T15:10Z'],
    ['07:00-18:00', 'Pacific/Chatham', '2026-07-06T00:00Z', '2026-07-06T00:00Z'],
    // A whole day is skipped: Samoa had no 2011-12-30, a Friday.
    ['Fr', 'Pacific/Apia', '2011-12-29T12:00Z', '2012-01-05T10:00Z'],
  ];
  for (const [text, zone, at, begins] of rows) {
    const found = hoursBeginMs(hoursIn(text) as Hours, zone, Date.parse(at));
    t.equal(new Date(found).toISOString(), new Date(begins).toISOString(), `${text} in ${zone} at ${at}`);
  }
});

t.test('a moment in a zone', async (t) => {
  const rows: [zone: string, at: string, words: string][] = [
    ['UTC', '2026-11-27T22:00:59.999Z', 'Fr 2026-11-27 22:00'],
    ['UTC', '1969-12-31T23:00Z', 'We 1969-12-31 23:00'],
    ['Europe/Amsterdam', '2026-11-29T23:00Z', 'Mo 2026-11-30 00:00'],
    ['America/St_Johns', '2026-11-30T03:00Z', 'Su 2026-11-29 23:30'],
    ['Asia/Kathmandu', '2026-11-30T00:00Z', 'Mo 2026-11-30 05:45'],
  ];
  for (const [zone, at, words] of rows) t.equal(momentInWords(zone, Date.parse(at)), words);
  t.throws(() => momentInWords('Europe/Atlantis', 0), RangeError);
});

t.test('hours begin at the first minute at which the clocks show one of them', async (t) => {
  const seed = testSeed();
  t.comment(`seed ${seed}`);
  const random = seededRandom(seed);
  const draw = (max: number) => Math.floor(random() * max);
  const zones = [
    'UTC',
    'Europe/Amsterdam',
    'America/New_York',
    'Australia/Lord_Howe',
    'Asia/Kolkata',
    'Africa/Casablanca',
  ];
  const clock = (minutes: number) => `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}`;
  for (let round = 0; round < 60; round++) {
    const zone = pick(random, zones);
    const [from, length] = [draw(96) * 15, 15 + draw(8) * 15];
    const days = draw(3) === 0 ? '' : `${pick(random, DAYS)}-${pick(random, DAYS)} `;
    const text = `${days}${clock(from)}-${clock((from + length) % 1440)}`;
    // Near the changes of the clocks, on a minute.
    const change = pick(random, [
      '2026-03-29T01:00Z',
      '2026-10-25T01:00Z',
      '2026-03-08T07:00Z',
      '2026-04-04T15:00Z',
    ]);
    const atMs = Date.parse(change) + (draw(2 * 1440) - 1440) * MINUTE_MS;
    const found = hoursBeginMs(hoursIn(text) as Hours, zone, atMs);
    const isShown = shownBy(text, zone);
    let expected = atMs;
    while (!isShown(expected) && expected < atMs + 15 * DAY_MS) expected += MINUTE_MS;
    t.equal(
      new Date(found).toISOString(),
      new Date(expected).toISOString(),
      `${text} in ${zone} at ${new Date(atMs).toISOString()}`,
    );
  }
});

/** Whether the clocks show one of these hours, by another way of asking Intl. `text` has one part. */
function shownBy(text: string, timeZone: string): (wallMs: number) => boolean {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
  });
  const [, first, last, from = '', until = ''] = /^(?:(..)-(..) )?(.+)-(.+)$/.exec(text) ?? [];
  const minutesOf = (clock: string) => Number(clock.split(':')[0]) * 60 + Number(clock.split(':')[1]);
  const [fromMinute, untilMinute] = [minutesOf(from), minutesOf(until)];
  const isWanted = (day: number) => {
    if (first === undefined) return true;
    const [a, b] = [DAYS.indexOf(first), DAYS.indexOf(String(last))];
    return a <= b ? a <= day && day <= b : a <= day || day <= b;
  };
  return (wallMs) => {
    const parts = new Map(format.formatToParts(wallMs).map(({ type, value }) => [type, value]));
    const day = DAYS.indexOf(String(parts.get('weekday')).slice(0, 2));
    const minute = Number(parts.get('hour')) * 60 + Number(parts.get('minute'));
    if (fromMinute < untilMinute) return isWanted(day) && fromMinute <= minute && minute < untilMinute;
    return (isWanted(day) && fromMinute <= minute) || (isWanted((day + 6) % 7) && minute < untilMinute);
  };
}
