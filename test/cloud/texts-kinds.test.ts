/**
 * Every kind of news in every language and way: nothing is missing, cut wrongly or left over from another language, whatever
 * names and texts of devices say.
 */
import t from 'tap';
import { LANGS, type Lang } from '../../src/base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { WORDS } from '../../src/cloud/texts/languages.js';
import { momentIn, pointIn, spanIn, zoneOf } from '../../src/cloud/texts/moments.js';
import {
  type About,
  digestOf,
  type Happening,
  siteOf,
  type Text,
  type TextOptions,
  textOf,
  weeklyOf,
} from '../../src/cloud/texts/texts.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { isBasic, smsCount } from '../support/sms-count.js';

const AT_MS = Date.UTC(2026, 10, 24, 13, 2);
const LINK = `https://cloud.example.com/drill/pump-3/7f3c1f0e-8d3b-4a53-9d0f-0b6b7b2f7d11/${'k'.repeat(22)}`;
const WARSAW = { timeZone: 'Europe/Warsaw', publicUrl: 'https://cloud.example/#fleet', link: LINK };
const PUMP: About = { device: 'Pump 3', site: null, contact: null };
const PLACED: About = { device: 'Pump 3', site: 'Hall 2', contact: 'Anne, +33 1 99 00 12 34' };
const WORD = 'mains failed, battery 10 min';
const RAN = { kind: 'ran' } as const;
const RESTARTED = { kind: 'restarted', upMs: 40 * SECOND_MS } as const;
const FLAPS = { times: 6, sinceMs: AT_MS - 3 * HOUR_MS };
const BACK = { kind: 'back', sinceMs: AT_MS, lastedMs: 22 * MINUTE_MS } as const;
const NIGHT = { kind: 'was', sinceMs: AT_MS - 11 * HOUR_MS, untilMs: AT_MS - 7 * HOUR_MS } as const;

/** Every kind, with and without what it may lack. */
const KINDS: Readonly<Record<string, Happening>> = {
  silent: { kind: 'silent', sinceMs: AT_MS },
  'silent with a last word': { kind: 'silent', sinceMs: AT_MS, word: WORD },
  stopped: { kind: 'stopped', sinceMs: AT_MS },
  'stopped with a last word': { kind: 'stopped', sinceMs: AT_MS, word: WORD },
  back: BACK,
  'back, ran': { ...BACK, why: RAN },
  'back, restarted': { ...BACK, why: RESTARTED },
  'back, flapping': { ...BACK, flaps: FLAPS },
  'back, ran and flapping': { ...BACK, why: RAN, flaps: FLAPS },
  'back, restarted and flapping': { ...BACK, why: RESTARTED, flaps: { times: 3, sinceMs: AT_MS - DAY_MS } },
  'back, flapping for an unknown time': { ...BACK, flaps: { times: 6, sinceMs: null } },
  was: { ...NIGHT, times: 1 },
  'was, several': { ...NIGHT, times: 3 },
  'was, over midnight': { ...NIGHT, sinceMs: AT_MS - 20 * HOUR_MS, times: 1 },
  'was, several over midnight': { ...NIGHT, sinceMs: AT_MS - 20 * HOUR_MS, times: 3 },
  'was, unknown': { kind: 'was', sinceMs: null, untilMs: null, times: 1 },
  quiet: { kind: 'quiet', sinceMs: AT_MS, untilMs: AT_MS + 2 * HOUR_MS, why: 'battery swap' },
  'quiet, no reason': { kind: 'quiet', untilMs: AT_MS + 2 * HOUR_MS, why: null },
  word: { kind: 'word', sinceMs: AT_MS, word: WORD },
  'word, unknown': { kind: 'word', sinceMs: null, word: WORD },
  still: { kind: 'still', sinceMs: AT_MS, lastedMs: DAY_MS },
  'still, unknown': { kind: 'still', sinceMs: null, lastedMs: null },
  'stuck, failing': { kind: 'stuck', sinceMs: AT_MS, relay: 'failing', failed: 0 },
  'stuck, refusing': { kind: 'stuck', sinceMs: AT_MS, relay: 'refusing', failed: 3 },
  'stuck, failed': { kind: 'stuck', sinceMs: AT_MS, relay: null, failed: 3 },
  flows: { kind: 'flows', sinceMs: AT_MS },
  drill: { kind: 'drill', key: 'k', uid: null },
};

/** Texts about many devices. */
function manyTexts(lang: Lang, names: readonly string[], options: TextOptions): Record<string, Text> {
  const devices = names.map((device) => ({ ...PLACED, device }));
  const [silent, total, site] = [devices.length, devices.length + 1, 'North'];
  const rows = devices.map((about, index) => ({
    about,
    times: index + 1,
    lastedMs: index === 0 ? null : index * HOUR_MS,
    isOffline: index === 1,
  }));
  const week = { weekEndsMs: AT_MS, total };
  return {
    digest: digestOf(lang, { direction: 'offline', devices, sinceMs: AT_MS }, options),
    ...Object.fromEntries(
      (['still', 'stuck', 'flows', 'was'] as const).map((direction) => [
        `digest, ${direction}`,
        digestOf(lang, { direction, devices, sinceMs: AT_MS }, options),
      ]),
    ),
    'digest, back': digestOf(lang, { direction: 'back', devices, sinceMs: AT_MS }, options),
    site: siteOf(lang, { direction: 'offline', site, silent, total, devices, sinceMs: AT_MS }, options),
    'site, back': siteOf(lang, { direction: 'back', site, silent, total, devices, sinceMs: AT_MS }, options),
    week: weeklyOf(lang, { ...week, devices: rows, quietDevices: [] }, options),
    'week, clear': weeklyOf(lang, { ...week, devices: [], quietDevices: devices }, options),
  };
}

const NAMES = Array.from({ length: 31 }, (_, index) => `Pump ${index + 1}`);

/** Each text of a language, by what it tells. */
function textsIn(lang: Lang, about = PLACED, options: TextOptions = WARSAW): [name: string, text: Text][] {
  const single = Object.entries(KINDS).map(
    ([name, happening]) => [name, textOf(lang, about, happening, options)] as [string, Text],
  );
  return [...single, ...Object.entries(manyTexts(lang, NAMES, options))];
}

const partsOf = ({ subject, plain, short, sms }: Text) => ({ subject, plain, short, sms: sms() });

t.test('no text has a hole, or a sign too many', async (t) => {
  for (const lang of LANGS) {
    for (const [name, text] of textsIn(lang)) {
      for (const [part, said] of Object.entries(partsOf(text))) {
        const at = `${lang}, ${part} of ${name}: ${said}`;
        if (/undefined|\bnull\b|NaN|Invalid|\[object|\$\{|[{}]/.test(said)) t.fail(`a hole in ${at}`);
        if (/ {2}| [.,;]|\.\.|::|: \.|,\.|\( | \)|\n\n\n/.test(said)) t.fail(`signs in ${at}`);
        if (part !== 'plain' && /[\n\r]/.test(said)) t.fail(`a line break in ${at}`);
        if (/^[^\S\n]|[^\S\n]$/m.test(said)) t.fail(`a blank at an end in ${at}`);
      }
      t.ok(text.plain.endsWith('\n'), `${lang} ${name}`);
      t.ok(text.short.endsWith(name === 'drill' ? LINK : '.'), `${lang} ${text.short}`);
      const [greeting, said = ''] = text.plain.split('\n\n');
      const isSmall = ['de', 'it', 'pl'].includes(lang) && /^\p{Ll}|^Pump|^\d/u.test(said);
      const isMany = !Object.hasOwn(KINDS, name);
      t.equal(greeting, WORDS[lang].greeting);
      t.ok(isMany || isSmall || /^\p{Lu}/u.test(said) !== ['de', 'it', 'pl'].includes(lang), said);
    }
  }
});

/** What another language has as well. */
const ALIKE = ['Contact', 'Site', 'TEST.', 'minute minutes'];

/** All strings of an object and the objects in it. */
function* stringsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null)
    for (const one of Object.values(value)) yield* stringsIn(one);
}

t.test('no two kinds and no two languages say the same, and no language borrows', async (t) => {
  for (const lang of LANGS) {
    const kinds = textsIn(lang);
    t.equal(new Set(kinds.map(([, { plain }]) => plain)).size, kinds.length, `${lang}: mails`);
    const calls = Object.values(KINDS).map((happening) => textOf(lang, PUMP, happening, WARSAW));
    t.equal(new Set(calls.map(({ short }) => short)).size, calls.length, `${lang}: calls`);
    t.equal(new Set(calls.map(({ sms }) => sms())).size, calls.length, `${lang}: SMS`);
    if (lang === 'en') continue;
    for (const [name, text] of kinds) {
      const own = JSON.stringify(partsOf(text)).replaceAll(WORD, '').replaceAll('battery swap', '');
      const borrowed =
        /\b(?:the|its?|since|until|again|from|will|has|have|you|to|times?|device|for|with|on|outages?|still|quiet|last|word|sent|reason|failing|refusing|failed|seen)\b/i.exec(
          own,
        );
      t.equal(borrowed, null, `${lang}, ${name}: ${borrowed?.[0]} in ${own}`);
    }
  }
  const english = [...stringsIn(WORDS.en)];
  for (const lang of LANGS.filter((one) => one !== 'en')) {
    const same = [...stringsIn(WORDS[lang])].filter((text) => english.includes(text) && /\p{L}/u.test(text));
    t.strictSame(
      same.filter((text) => !ALIKE.includes(text)),
      [],
      lang,
    );
  }
  const mails = LANGS.flatMap((lang) => textsIn(lang).map(([, { plain }]) => plain));
  t.equal(new Set(mails).size, mails.length);
});

/** What each way must say of it, besides the name of the device. */
function factsOf(lang: Lang, happening: Happening): { readonly mail: string[]; readonly brief: string[] } {
  const zone = zoneOf(WARSAW.timeZone);
  const moment = (ms: number) => momentIn(lang, ms, zone);
  const point = (ms: number, knownMs: number | null = null) => pointIn(lang, ms, zone, knownMs);
  const own = 'word' in happening ? [happening.word as string] : [];
  if (happening.kind === 'drill') return { mail: [LINK], brief: [LINK] };
  if (happening.kind === 'quiet') {
    const { time, day } = point(happening.untilMs, happening.sinceMs ?? null);
    const why = happening.why === null ? [] : [happening.why];
    return { mail: [moment(happening.untilMs), ...why], brief: [time, day ?? '', '(UTC+01:00)', ...why] };
  }
  if (happening.sinceMs === null) return { mail: own, brief: own };
  const since = point(happening.sinceMs);
  const brief = [since.day as string, since.time, ...own];
  const mail = [moment(happening.sinceMs), ...own];
  if (happening.kind === 'was') {
    const { untilMs, times } = happening;
    const until = point(untilMs as number, happening.sinceMs);
    const count = times > 1 ? [String(times)] : [];
    return {
      mail: [...mail, moment(untilMs as number), ...count],
      brief: [...brief, until.time, until.day ?? '', '(UTC+01:00)', ...count],
    };
  }
  if (happening.kind === 'still') {
    const span = spanIn(lang, happening.lastedMs as number);
    return { mail: [...mail, span], brief: [...brief, span] };
  }
  if (happening.kind === 'stuck') {
    const failed = happening.failed > 0 ? [`: ${happening.failed}`] : [];
    const state = happening.relay === null ? [] : [WORDS[lang].stuck.states[happening.relay as 'failing']];
    return { mail: [...mail, ...failed, ...state], brief: [...brief, ...failed, ...state] };
  }
  if (happening.kind !== 'back') return { mail, brief };
  const lasted = spanIn(lang, happening.lastedMs as number);
  const up = happening.why?.kind === 'restarted' ? [spanIn(lang, happening.why.upMs)] : [];
  const times = happening.flaps === undefined ? [] : [String(happening.flaps.times)];
  return { mail: [...mail, lasted, ...up, ...times], brief: [...brief, ...times] };
}

/** As sms.ts spells these few words. */
const plainly = (text: string) =>
  text.normalize('NFKD').replace(/\p{M}/gu, '').replaceAll('’', "'").replaceAll('ł', 'l');

t.test('each way says what happened, to what, and when', async (t) => {
  for (const lang of LANGS) {
    for (const [name, happening] of Object.entries(KINDS)) {
      const { mail, brief } = factsOf(lang, happening);
      const { subject, plain, short, sms } = textOf(lang, PUMP, happening, WARSAW);
      for (const said of [subject, plain, short, sms()]) t.match(said, 'Pump 3', `${lang} ${name}`);
      for (const fact of mail) t.ok(plain.includes(fact), `${lang} ${name}: ${fact} in ${plain}`);
      for (const fact of brief) {
        t.ok(plainly(sms()).includes(plainly(fact)), `${lang} ${name}: ${fact} in ${sms()}`);
        if (!/^(?:24|23)/.test(fact)) t.ok(short.includes(fact), `${lang} ${name}: ${fact} in ${short}`);
      }
      const placed = textOf(lang, PLACED, happening, WARSAW);
      for (const fact of [PLACED.site, PLACED.contact] as string[])
        for (const said of [placed.plain, placed.short]) t.ok(said.includes(`: ${fact}`), `${lang} ${name}`);
    }
  }
});

t.test('why it was away is in one SMS beside a usual name, in every language', async (t) => {
  const about = { device: 'Pumping station 12', site: 'Hall 2', contact: 'Anne, +33 1 99 00 12 34' };
  for (const lang of LANGS) {
    const { why, flaps, sms } = WORDS[lang];
    for (const because of [RAN, RESTARTED]) {
      const text = textOf(lang, about, { ...BACK, why: because, flaps: FLAPS }, WARSAW).sms();
      const said = { ...why, ...sms.why };
      const wanted = because.kind === 'ran' ? said.ran : said.restarted(null);
      t.ok(plainly(text).includes(plainly(wanted).slice(0, -1)), `${lang}: ${text}`);
      const since = { day: null, time: '11:02' };
      t.ok(plainly(text).includes(plainly((sms.flaps ?? flaps)(6, since)).slice(0, -1)), `${lang}: ${text}`);
    }
  }
});

const LONG = [
  'Pump 3',
  'Przepompownia ścieków „Żabia” – Łódź Górna',
  'x'.repeat(200),
  '€'.repeat(200),
  'Насосная станция номер три, город Санкт-Петербург',
  '👩🏽‍🔧'.repeat(28),
  '. . .',
];
const OWN = [
  'mains failed',
  'y'.repeat(120),
  '€'.repeat(120),
  'Питание пропало, батареи хватит на 10 минут',
  '🚰'.repeat(60),
];

function withOwn(happening: Happening, own: string): Happening {
  if (happening.kind === 'quiet') return { ...happening, why: own };
  return 'word' in happening ? { ...happening, word: own } : happening;
}

t.test('every SMS is one, with whole characters and the link whole', async (t) => {
  for (const lang of LANGS) {
    for (const [index, device] of LONG.entries()) {
      for (const own of [OWN[index % 5], OWN[(index + 2) % 5]] as string[]) {
        for (const [name, happening] of Object.entries(KINDS)) {
          const about = { ...PLACED, device, site: own };
          const text = textOf(lang, about, withOwn(happening, own), {
            ...WARSAW,
            timeZone: 'Asia/Kolkata',
          }).sms();
          if (smsCount(text) !== 1) t.equal(smsCount(text), 1, `${lang} ${name}: ${text}`);
          if (/\p{Cs}/u.test(text)) t.fail(`half a character: ${lang} ${text}`);
          const end = name === 'drill' ? text.endsWith(` ${LINK}`) : /[.!?]$/.test(text);
          if (!end) t.fail(`no end: ${lang} ${text}`);
        }
      }
      for (const [name, { sms }] of Object.entries(manyTexts(lang, Array(25).fill(device), WARSAW)))
        if (smsCount(sms()) !== 1) t.fail(`${lang} ${name}: ${sms()}`);
    }
  }
});

t.test('without strange names every SMS is in the alphabet', async (t) => {
  for (const lang of LANGS)
    for (const [name, { sms }] of textsIn(lang)) t.ok([...sms()].every(isBasic), `${lang} ${name}: ${sms()}`);
});

t.test('an SMS gives up what matters least', async (t) => {
  const say = (happening: Happening, about: Partial<About> = {}) =>
    textOf('en', { ...PLACED, ...about }, happening, { ...WARSAW, timeZone: 'UTC' }).sms();
  const back: Happening = { ...BACK, why: RESTARTED, flaps: FLAPS };
  const head = (device: string) => `${device} is back online, since 24 Nov, 13:02`;
  const [outage, up, came] = ['. Outage: 22 minutes', ': up for 40 seconds', '. Came and went 6 times'];
  const table: readonly (readonly [device: number, text: (device: string) => string])[] = [
    [6, (d) => `${head(d)} (UTC)${outage}. It lost power or restarted${up}${came} since 10:02.`],
    [20, (d) => `${head(d)}${outage}. It lost power or restarted${up}${came} since 10:02.`],
    [30, (d) => `${head(d)} (UTC)${outage}. It lost power or restarted${came} since 10:02.`],
    [50, (d) => `${head(d)} (UTC). It lost power or restarted${came} since 10:02.`],
    [70, (d) => `${head(d)}. It lost power or restarted${came}.`],
    [90, (d) => `${head(d)} (UTC)${came}.`],
    [118, (d) => `${head(d)}.`],
  ];
  for (const [chars, text] of table) {
    const device = 'p'.repeat(chars);
    t.equal(say(back, { device, site: null, contact: null }), text(device), `a name of ${chars}`);
  }
  const silent: Happening = { kind: 'silent', sinceMs: AT_MS, word: 'w'.repeat(100) };
  t.equal(say(silent), `Pump 3 is offline. Last signal: 24 Nov, 13:02. Last word: ${'w'.repeat(100)}.`);
  t.equal(
    say(silent, { device: 'p'.repeat(60) }),
    `${'p'.repeat(60)} is offline. Last word: ${'w'.repeat(73)}...`,
    'its moment goes before the word is cut',
  );
  t.equal(
    say(silent, { device: 'p'.repeat(100) }),
    `${'p'.repeat(100)} is offline. Last word: ${'w'.repeat(33)}...`,
    'the name stays',
  );
  t.match(
    say(silent, { device: 'Насосная станция номер три' }),
    /^Насосная станция номер три is offline\. Last word: w{12,}\.\.\.$/,
  );
  t.equal(
    say({ kind: 'word', sinceMs: AT_MS, word: 'w'.repeat(120) }, { device: 'p'.repeat(200) }),
    `Last word from ${'p'.repeat(40)}...: ${'w'.repeat(97)}...`,
    'a last word is never without its word',
  );
  t.equal(
    say({ kind: 'quiet', untilMs: AT_MS, why: 'w'.repeat(120) }),
    `Pump 3 is quiet until 24 Nov, 13:02: ${'w'.repeat(120)}.`,
  );
});

t.test('a link that fits is in the SMS whole, and one that does not is not asked for', async (t) => {
  for (const lang of LANGS) {
    for (const device of LONG) {
      for (let chars = 20; chars <= 240; chars += chars < 130 ? 10 : 1) {
        const link = `https://c.example/${'a'.repeat(chars - 18)}`;
        const text = textOf(lang, { ...PUMP, device }, KINDS.drill as Happening, {
          ...WARSAW,
          timeZone: 'UTC',
          link,
        }).sms();
        if (smsCount(text) !== 1) t.fail(`${lang} ${text}`);
        if (chars <= 150 && !text.endsWith(` ${link}`)) t.fail(`${lang}, ${chars}: ${text}`);
        if (!text.endsWith(` ${link}`) && text.includes('https')) t.fail(`cut: ${lang} ${text}`);
        if (!text.endsWith(` ${link}`) && text.includes('?')) t.fail(`a question: ${lang} ${text}`);
      }
    }
    for (const link of [null, undefined]) {
      const options = { timeZone: 'UTC', publicUrl: null, ...(link === null && { link }) };
      const { plain, short, sms } = textOf(lang, PUMP, KINDS.drill as Happening, options);
      for (const said of [plain, short, sms()]) t.notMatch(said, /\?|http|\bnull\b/, lang);
    }
  }
});

/** What strangers may send as a name or a text. */
const PIECES = [
  ...['a', 'Pump ', '3', 'ż', 'ł', 'ß', '€', '[', '~', '.', '!', ',', ' ', '…', '“', '»'],
  ...['й', 'Ω', 'ポ', '🚰', '👩🏽‍🔧', 'e\u0301\u0301\u0301', '\ud800', '\udc00'],
  ...[
    '\n',
    '\r\n',
    '\t',
    '\0',
    '\x1b[2J',
    '\x7f',
    '\u2028',
    '\u2029',
    '\u00a0',
    '\u202e',
    '\u2066',
    '\u200f',
    '\ufeff',
  ],
];
const CHARS_MAX = [0, 1, 3, 20, 60, 200, 400];

t.test('whatever names and texts of devices are, every text is harmless', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const text = () =>
    Array.from({ length: Math.floor(random() * pick(random, CHARS_MAX)) }, () => pick(random, PIECES)).join(
      '',
    );
  for (let round = 0; round < 500; round++) {
    const lang = pick(random, LANGS);
    const [name, happening] = pick(random, Object.entries(KINDS));
    const about = {
      device: text(),
      site: pick(random, [null, text()]),
      contact: pick(random, [null, text()]),
    };
    const own = text();
    const options = { ...WARSAW, timeZone: pick(random, ['UTC', 'Europe/Warsaw', 'Asia/Kolkata']) };
    const relay = pick(random, [null, 'failing', own]);
    const told = withOwn(happening.kind === 'stuck' ? { ...happening, relay } : happening, own);
    const devices = [about, { ...about, device: text() }];
    const content = {
      site: own,
      silent: 2,
      total: 2,
      devices,
      direction: 'offline',
      sinceMs: AT_MS,
    } as const;
    const week = devices.map((one) => ({ about: one, times: 1, lastedMs: 1 }));
    const texts = [
      textOf(lang, about, told, options),
      siteOf(lang, content, options),
      digestOf(lang, content, options),
      weeklyOf(lang, { weekEndsMs: AT_MS, devices: week, quietDevices: devices, total: 2 }, options),
    ];
    for (const one of texts) {
      const { subject, plain, short, sms } = partsOf(one);
      const at = `seed ${seed}, round ${round}, ${lang} ${name}`;
      for (const said of [subject, plain.replaceAll('\n', ''), short, sms])
        if (/[\p{Cc}\p{Cs}\u2028\u2029\u200f\u202a-\u202e\u2066-\u2069\ufeff]/u.test(said))
          t.fail(`${at}: ${said}`);
      if (smsCount(sms) !== 1) t.fail(`${at}: ${sms}`);
      if (plain.split('\n').length > 30 || /^\s|\n\n\n/.test(plain)) t.fail(`${at}: ${plain}`);
    }
  }
});

t.test('a text of a device that shows nothing is left out', async (t) => {
  for (const nothing of ['', '  ', '\n', '\u200b']) {
    const silent = textOf('en', PUMP, { kind: 'silent', sinceMs: AT_MS, word: nothing }, WARSAW);
    t.notMatch(`${silent.plain}${silent.short}${silent.sms()}`, 'Last word');
    const quiet = textOf('en', PUMP, { kind: 'quiet', untilMs: AT_MS, why: nothing }, WARSAW);
    t.notMatch(quiet.plain, 'Reason');
    t.match(quiet.subject, /\)$/);
  }
  const { plain } = textOf(
    'en',
    PUMP,
    { kind: 'stuck', sinceMs: AT_MS, relay: 'of a later version', failed: 1 },
    WARSAW,
  );
  t.notMatch(plain, 'Relay');
  t.notMatch(textOf('en', PUMP, { ...BACK, flaps: { times: 1, sinceMs: AT_MS } }, WARSAW).plain, 'gone');
});

t.test('a day is named in the zone of the person, where it is another one', async (t) => {
  const lateMs = Date.UTC(2026, 10, 23, 23, 30);
  const was = (timeZone: string): string =>
    textOf(
      'en',
      PUMP,
      { kind: 'was', sinceMs: lateMs, untilMs: lateMs + HOUR_MS, times: 1 },
      { ...WARSAW, timeZone },
    ).subject;
  t.equal(was('UTC'), 'Pump 3 was offline from 23 Nov, 23:30 to 24 Nov, 00:30 (UTC)');
  t.equal(was('Europe/Warsaw'), 'Pump 3 was offline on 24 Nov from 00:30 to 01:30 (UTC+01:00)');
  const yearMs = Date.UTC(2026, 0, 1, 10);
  const quiet = (sinceMs: number): string =>
    textOf('en', PUMP, { kind: 'quiet', sinceMs, untilMs: sinceMs + 2 * HOUR_MS, why: null }, WARSAW).subject;
  t.equal(quiet(AT_MS), 'Pump 3 is quiet until 16:02 (UTC+01:00)');
  t.equal(quiet(lateMs - 2 * HOUR_MS), 'Pump 3 is quiet until 24 Nov, 00:30 (UTC+01:00)');
  // The night in which summer time ends.
  t.equal(quiet(Date.UTC(2026, 9, 24, 23, 30)), 'Pump 3 is quiet until 02:30 (UTC+01:00)');
  const far: Happening = { kind: 'quiet', sinceMs: yearMs, untilMs: yearMs + 365 * DAY_MS, why: null };
  t.match(textOf('en', PUMP, far, WARSAW).subject, 'until 1 Jan, 11:00', 'the same day of another year');
});

t.test('Polish numbers, German cases, the Spanish article of one o’clock', async (t) => {
  const plural = new Intl.PluralRules('pl');
  const forms = {
    przerwa: { one: 'przerwa', few: 'przerwy', many: 'przerw' },
    była: { one: 'była', few: 'były', many: 'było' },
    urządzenie: { one: 'urządzenie', few: 'urządzenia', many: 'urządzeń' },
  };
  for (let count = 1; count <= 130; count++) {
    const form = plural.select(count) as 'one' | 'few' | 'many';
    t.equal(WORDS.pl.weekly.line(count, null), `${count} ${forms.przerwa[form]}`);
    t.match(WORDS.pl.weekly.outages(count), `${count} ${forms.urządzenie[form]} z przerwami`);
    t.equal(WORDS.pl.flaps(count, null), `Łącznie ${forms.była[form]} ${count} ${forms.przerwa[form]}.`);
  }
  const was = {
    kind: 'was',
    sinceMs: AT_MS - 13 * HOUR_MS,
    untilMs: AT_MS - 12 * HOUR_MS,
    times: 2,
  } as const;
  t.match(
    textOf('es', PUMP, was, WARSAW).subject,
    'estuvo sin conexión 2 veces el 24/11 entre la 01:02 y las 02:02 h',
  );
  const still = (lang: Lang, lastedMs: number): string =>
    textOf(lang, PUMP, { kind: 'still', sinceMs: null, lastedMs }, WARSAW).subject;
  t.equal(still('pl', 25 * HOUR_MS), 'Pump 3 nadal jest offline, już 1 dzień i 1 godzinę');
  t.equal(still('pl', 7 * DAY_MS + 3 * HOUR_MS), 'Pump 3 nadal jest offline, już 7 dni i 3 godziny');
  t.equal(still('de', 25 * HOUR_MS), 'Pump 3 ist noch immer offline, seit 1 Tag und 1 Stunde');
  t.equal(still('de', 7 * DAY_MS), 'Pump 3 ist noch immer offline, seit 7 Tagen');
});
