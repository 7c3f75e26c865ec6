/**
 * The texts of notifications, in the person's language: about one device, and about many. The words are in the file of each
 * language. Texts of others (names, reasons, last words) are one harmless line each.
 */
import type { Lang } from '../../base/langs.js';
import { cut, harmlessName, oneSpaced } from '../../base/text.js';
import { WORDS } from './languages.js';
import { momentIn, pointIn, shortMomentIn, spanIn, type Zone, zoneAt, zoneOf } from './moments.js';
import { asSentence, cutToFit, fitted, folded, isOneSms, listedName, type SmsPart, smsList } from './sms.js';
import type { Direction, Way, Words } from './words.js';

/** A digest is for news of more devices than this. It names this many of them. */
export const DIGEST_DEVICES = 20;
/** A phone call or push message names this many devices. */
const SPOKEN_DEVICES = 5;
/** The characters of a device's own text that a message shows. */
const OWN_TEXT_CHARS_MAX = 120;

/** Why a device was away: it ran throughout, or it came back `upMs` after its start. */
export type Why = { readonly kind: 'ran' } | { readonly kind: 'restarted'; readonly upMs: number };

/** News about a device. Moments are wall times; null: not known. */
export type Happening =
  /** The last heartbeat came at `sinceMs`; or it announced a stop then and has not come back. `word`: its last word. */
  | { readonly kind: 'silent' | 'stopped'; readonly sinceMs: number | null; readonly word?: string }
  /** The next heartbeat came at `sinceMs`, after `lastedMs` of silence. `flaps`: so many absences since then. */
  | {
      readonly kind: 'back';
      readonly sinceMs: number | null;
      readonly lastedMs: number | null;
      readonly why?: Why;
      readonly flaps?: { readonly times: number; readonly sinceMs: number | null };
    }
  /** So many outages began and ended outside a person's hours, from the first to the end of the last. Never stored. */
  | {
      readonly kind: 'was';
      readonly sinceMs: number | null;
      readonly untilMs: number | null;
      readonly times: number;
    }
  /** Nobody is told of its silence until then. `sinceMs`: when that was said; without it the text names the day. */
  | {
      readonly kind: 'quiet';
      readonly sinceMs?: number | null;
      readonly untilMs: number;
      readonly why: string | null;
    }
  /** It said this at `sinceMs`, and may fall silent. */
  | { readonly kind: 'word'; readonly sinceMs: number | null; readonly word: string }
  /** A reminder: the outage that people know goes on. */
  | { readonly kind: 'still'; readonly sinceMs: number | null; readonly lastedMs: number | null }
  /** It is online, but its mails do not leave since then. `relay`: its state, if that is why. */
  | {
      readonly kind: 'stuck';
      readonly sinceMs: number | null;
      readonly relay: string | null;
      readonly failed: number;
    }
  /** They leave again. */
  | { readonly kind: 'flows'; readonly sinceMs: number | null }
  /** A test. `uid`: of one person; null: of all. */
  | { readonly kind: 'drill'; readonly key: string; readonly uid: string | null };

/** One notification. */
export interface Text {
  /** Of a mail, and the title of a push message. */
  readonly subject: string;
  /** A mail. Lines end with LF. */
  readonly plain: string;
  /** For a phone call, which is read aloud, and for push: in true letters, of any length. */
  readonly short: string;
  /** Fits one SMS. */
  readonly sms: () => string;
}

/** What the settings say about all texts. */
export interface TextOptions {
  /** An IANA name, or UTC: the person's own, or the cloud's. */
  readonly timeZone: string;
  /** A page about the devices, for the last line of a mail; null: no such line. */
  readonly publicUrl: string | null;
  /** Of a drill: the page to confirm it, for this person. Without it, as for a call that is read aloud, nothing is asked. */
  readonly link?: string | null;
}

/** The device that a text is about. */
export interface About {
  readonly device: string;
  readonly site: string | null;
  /** Whom to call. */
  readonly contact: string | null;
}

/** The devices of a digest, and the wall time of its first news; null: not known. */
interface DigestContent {
  readonly direction: Way;
  readonly devices: readonly About[];
  readonly sinceMs: number | null;
}

/** A site of `total` devices. `silent` of them fell silent together, or are back. */
export interface SiteContent extends DigestContent {
  readonly direction: Direction;
  readonly site: string;
  readonly silent: number;
  readonly total: number;
}

/** The outages of a week that ends at `weekEndsMs`, for a person of `total` devices. */
export interface WeekContent {
  readonly weekEndsMs: number;
  /** Those with outages. `isOffline`: now. */
  readonly devices: readonly {
    readonly about: About;
    readonly times: number;
    readonly lastedMs: number | null;
    readonly isOffline?: boolean;
  }[];
  /** Those that are quiet now. */
  readonly quietDevices: readonly About[];
  readonly total: number;
}

/** All that the text about a device is made of. Its strings are harmless. */
interface Told {
  readonly lang: Lang;
  readonly words: Words;
  readonly about: About;
  readonly happening: Happening;
  readonly zone: Zone;
  readonly options: TextOptions;
}

/** A fact with its label. `isSaid`: the subject has it already. */
interface Fact {
  readonly label: string;
  /** Null: not known, and left out. */
  readonly fact: string | null;
  readonly isSaid?: boolean;
}

/** The text about a device in a language. */
export function textOf(lang: Lang, about: About, happening: Happening, options: TextOptions): Text {
  const words = WORDS[lang];
  const told: Told = {
    ...{ lang, words, options, zone: zoneOf(options.timeZone) },
    about: harmlessAbout(about),
    happening: harmlessHappening(happening),
  };
  const { why, flaps } = remarksOf(told, words);
  const remarks = [...why.slice(0, 1), ...flaps.slice(0, 1)];
  const facts = factsOf(told).filter(({ fact }) => fact !== null);
  const lineFor = ({ label, fact }: Fact) => `${label}${words.colon}${fact}`;
  const subject = subjectOf(told);
  const said = [words.sentence[happening.kind](told.about.device), ...remarks, ...facts.map(lineFor)];
  const unsaid = facts.filter(({ isSaid }) => isSaid !== true).map(lineFor);
  const link = happening.kind === 'drill' ? (options.link ?? null) : null;
  const asked = link === null ? [] : [`${words.drill.seen} ${link}`];
  return {
    subject,
    plain: mailOf(words, [said.join('\n'), ...closingOf(told)], options),
    short: [...[subject, ...remarks, ...unsaid].map(asSentence), ...asked].join(' '),
    sms: () => (happening.kind === 'drill' ? drillSms(told) : fitted(draftOf(told))),
  };
}

function harmlessAbout({ device, site, contact }: About): About {
  return { device: harmlessOr(device, '?'), site: lineOf(site), contact: lineOf(contact) };
}

function harmlessHappening(happening: Happening): Happening {
  if (happening.kind === 'quiet') return { ...happening, why: ownText(happening.why) };
  if (happening.kind === 'word') return { ...happening, word: ownText(happening.word) ?? '?' };
  if (happening.kind !== 'silent' && happening.kind !== 'stopped') return happening;
  const { word, ...rest } = happening;
  const line = ownText(word);
  return line === null ? rest : { ...rest, word: line };
}

function harmlessOr(text: string, instead: string): string {
  return lineOf(text) ?? instead;
}

/** The text as one harmless line; null if nothing of it can be seen. */
function lineOf(text: string | null | undefined): string | null {
  const line = oneSpaced(harmlessName(text ?? '', ' '));
  return /[\p{L}\p{N}\p{P}\p{S}]/u.test(line) ? line : null;
}

function ownText(text: string | null | undefined): string | null {
  const line = lineOf(text);
  return line === null ? null : cut(line, OWN_TEXT_CHARS_MAX).trimEnd();
}

function subjectOf(told: Told): string {
  const { words, about, happening } = told;
  const subject = words.subject[happening.kind](about.device, subjectFact(told));
  const own = happening.kind === 'quiet' ? happening.why : happening.kind === 'word' ? happening.word : null;
  return own === null ? subject : `${subject}${words.colon}${own}`;
}

/** See OfDevice of words.ts. `withZone`: a moment is followed by its zone. */
function subjectFact({ lang, words, happening, zone }: Told, withZone = true): string | null {
  if (happening.kind === 'still')
    return happening.lastedMs === null ? null : spanIn(lang, happening.lastedMs);
  if (happening.kind !== 'quiet' && happening.kind !== 'was') return null;
  const { sinceMs = null, untilMs } = happening;
  if (untilMs === null) return null;
  const until = pointIn(lang, untilMs, zone, sinceMs);
  const suffix = withZone ? zoneAt(untilMs, zone) : '';
  if (happening.kind === 'quiet') return `${words.when.until(until)}${suffix}`;
  if (sinceMs === null) return null;
  const from = pointIn(lang, sinceMs, zone, null);
  const { times } = happening;
  const when = times > 1 ? words.when.repeated(times, from, until) : words.when.period(from, until);
  return `${when}${suffix}`;
}

/** Why a device was away, and that it comes and goes, in sentences: each whole, and briefly. */
function remarksOf(
  { lang, happening, zone }: Told,
  { why: says, flaps: sayFlaps }: Pick<Words, 'why' | 'flaps'>,
) {
  if (happening.kind !== 'back') return { why: [], flaps: [] };
  const { why, flaps, sinceMs } = happening;
  const because =
    why?.kind === 'ran'
      ? [says.ran]
      : why
        ? [says.restarted(spanIn(lang, why.upMs)), says.restarted(null)]
        : [];
  // Once is the outage that is over.
  if (flaps === undefined || flaps.times < 2) return { why: because, flaps: [] };
  const since = flaps.sinceMs === null ? null : pointIn(lang, flaps.sinceMs, zone, sinceMs);
  const brief = sayFlaps(flaps.times, null);
  return { why: because, flaps: since === null ? [brief] : [sayFlaps(flaps.times, since), brief] };
}

function factsOf(told: Told): Fact[] {
  const { words, about } = told;
  return [
    { label: words.site, fact: about.site },
    ...factsOfKind(told),
    { label: words.contact, fact: about.contact },
  ];
}

function factsOfKind({ lang, words, happening, zone }: Told): Fact[] {
  const moment = (label: string, wallMs: number | null, isSaid = false): Fact => ({
    ...{ label, isSaid },
    fact: wallMs === null ? null : momentIn(lang, wallMs, zone),
  });
  const span = (label: string, ms: number | null, isSaid = false): Fact => ({
    ...{ label, isSaid },
    fact: ms === null ? null : spanIn(lang, ms),
  });
  if (happening.kind === 'was') {
    const { sinceMs, untilMs, times } = happening;
    const isSaid = sinceMs !== null && untilMs !== null;
    const isOne = isSaid && times === 1;
    return [
      moment(words.was.from, sinceMs, isSaid),
      moment(words.was.to, untilMs, isSaid),
      { label: words.was.times, fact: times > 1 ? String(times) : null, isSaid },
      span(words.lasted, isOne ? untilMs - sinceMs : null),
    ];
  }
  if (happening.kind === 'quiet') {
    return [
      moment(words.moment.quiet, happening.untilMs, true),
      { label: words.quiet.why, fact: happening.why, isSaid: true },
    ];
  }
  if (happening.kind === 'drill') return [];
  const since = moment(words.moment[happening.kind], happening.sinceMs);
  if (happening.kind === 'back') return [since, span(words.lasted, happening.lastedMs)];
  if (happening.kind === 'still') return [since, span(words.lastsFor, happening.lastedMs, true)];
  if (happening.kind === 'word')
    return [{ label: words.lastWord, fact: happening.word, isSaid: true }, since];
  if (happening.kind === 'stuck') return [since, ...stuckFacts(words, happening)];
  if (happening.kind === 'flows') return [since];
  return [since, { label: words.lastWord, fact: happening.word ?? null }];
}

function stuckFacts(
  { stuck }: Words,
  { relay, failed }: Extract<Happening, { readonly kind: 'stuck' }>,
): [relay: Fact, failed: Fact] {
  const state = relay === 'failing' || relay === 'refusing' ? stuck.states[relay] : null;
  return [
    { label: stuck.relay, fact: state },
    { label: stuck.failed, fact: failed > 0 ? String(failed) : null },
  ];
}

/** The paragraphs of a mail after the facts. */
function closingOf({ words, happening: { kind }, options: { link = null } }: Told): string[] {
  if (kind === 'quiet') return [words.quiet.means];
  if (kind === 'stuck') return [words.stuck.promise];
  if (kind === 'drill') return link === null ? [] : [`${words.drill.confirm}${words.colon}${link}`];
  return kind === 'silent' || kind === 'stopped' || kind === 'still' ? [words.promise] : [];
}

/** The text of a mail around these paragraphs. */
function mailOf(words: Words, paragraphs: readonly string[], { publicUrl }: TextOptions): string {
  const { greeting, closing, overview, colon } = words;
  const link = publicUrl === null ? [] : [`${overview}${colon}${publicUrl}`];
  return `${[greeting, ...paragraphs, closing, ...link].join('\n\n')}\n`;
}

/** What an SMS leaves out first, if it is too long. */
const WEIGHTS = {
  site: 1,
  contact: 2,
  zone: 3,
  up: 4,
  lasted: 5,
  flapsSince: 6,
  why: 7,
  flaps: 8,
  moment: 9,
  own: 10,
};

/** The SMS about a device, whatever the names are. WEIGHTS and `fitted` say what is left out while it is too long. */
function draftOf(told: Told) {
  const { words, about, happening } = told;
  const { sms, contact, colon } = words;
  const say = sms.subject?.[happening.kind] ?? words.subject[happening.kind];
  const [fact, brief] = [subjectFact(told), subjectFact(told, false)];
  return {
    heads: (fact === brief ? [fact] : [fact, brief]).map((said) => (name: string) => say(name, said)),
    headWeight: WEIGHTS.zone,
    name: about.device,
    parts: [
      ...(happening.kind === 'word'
        ? [...smsFacts(told), ...smsMoment(told)]
        : [...smsMoment(told), ...smsFacts(told)]),
      ...smsPart(`. ${sms.site ?? words.site}${colon}`, about.site, WEIGHTS.site),
      ...smsPart(`. ${contact}${colon}`, about.contact, WEIGHTS.contact),
    ],
  };
}

/** None without a text. */
function smsPart(lead: string, text: string | null, weight: number, isCut = false): SmsPart[] {
  return text === null ? [] : [{ lead, versions: [text], weights: [weight], isCut }];
}

/** When it happened. The event and its moment stay, but a device's own words are worth more than the moment. */
function smsMoment({ lang, words, happening, zone }: Told): SmsPart[] {
  // Their first words have it.
  if (happening.kind === 'drill' || happening.kind === 'quiet' || happening.kind === 'was') return [];
  const { kind, sinceMs } = happening;
  if (sinceMs === null) return [];
  const moment = shortMomentIn(lang, sinceMs, zone);
  const isLight = kind === 'still' || ('word' in happening && happening.word !== undefined);
  return [
    {
      lead: words.sms.moment[kind],
      versions: [`${moment}${zoneAt(sinceMs, zone)}`, moment],
      weights: isLight ? [WEIGHTS.zone, WEIGHTS.moment] : [WEIGHTS.zone],
    },
  ];
}

/** What else the SMS says of its event. */
function smsFacts(told: Told): SmsPart[] {
  const { lang, words, happening } = told;
  const { sms, colon, lastWord } = words;
  if (happening.kind === 'quiet') return smsPart(colon, happening.why, WEIGHTS.own, true);
  if (happening.kind === 'word') return smsPart(colon, happening.word, WEIGHTS.own, true);
  if (happening.kind === 'silent' || happening.kind === 'stopped')
    return smsPart(`. ${lastWord}${colon}`, happening.word ?? null, WEIGHTS.own, true);
  if (happening.kind === 'stuck') {
    const [relay, failed] = stuckFacts(words, happening);
    return [
      ...smsPart(`. ${relay.label}${colon}`, relay.fact, WEIGHTS.why),
      ...smsPart(`. ${failed.label}${colon}`, failed.fact, WEIGHTS.flaps),
    ];
  }
  if (happening.kind !== 'back') return [];
  const { lastedMs } = happening;
  const { why, flaps } = remarksOf(told, {
    why: { ...words.why, ...sms.why },
    flaps: sms.flaps ?? words.flaps,
  });
  return [
    ...smsPart(`. ${sms.lasted}`, lastedMs === null ? null : spanIn(lang, lastedMs), WEIGHTS.lasted),
    ...smsVersions(why, WEIGHTS.up, WEIGHTS.why),
    ...smsVersions(flaps, WEIGHTS.flapsSince, WEIGHTS.flaps),
  ];
}

/** A sentence, whole and briefly. */
function smsVersions(versions: readonly string[], detail: number, weight: number): SmsPart[] {
  if (versions.length === 0) return [];
  return [{ lead: '. ', versions, weights: [...versions.slice(1).map(() => detail), weight] }];
}

/** The link is never cut: rather the name is left out, then the question. A link that fills an SMS is left out itself. */
function drillSms({ words, about, options: { link = null } }: Told): string {
  const { seen, device, brief } = words.drill;
  const say = words.sms.subject?.drill ?? words.subject.drill;
  const name = folded(about.device);
  const asked = (called: string) => `${folded(`${say(called, null)}. ${seen}`)} ${link}`;
  const attempts =
    link === null
      ? []
      : [cutToFit(name, asked, device), `${folded(`${brief} ${seen}`)} ${link}`, `${brief} ${link}`];
  return attempts.find(isOneSms) ?? cutToFit(name, (called) => folded(`${say(called, null)}.`));
}

/** The digest about these devices in a language. */
export function digestOf(
  lang: Lang,
  { direction, devices, sinceMs }: DigestContent,
  options: TextOptions,
): Text {
  const { digest } = WORDS[lang];
  const count = devices.length;
  const [subject, smsHead] = [digest.subject, digest.sms ?? digest.subject].map((say) =>
    say[direction](count),
  );
  const said = isAway(direction) ? `${subject}${digest.signals}` : `${subject}.`;
  const content = { direction, devices, sinceMs, subject: subject as string, said };
  return manyOf(lang, content, (at) => `${smsHead}${at}`, options);
}

const isAway = (way: Way): boolean => way === 'offline' || way === 'still';

/** The text about devices of one site that fell silent together, or are back. */
export function siteOf(lang: Lang, content: SiteContent, options: TextOptions): Text {
  const { direction, silent, total } = content;
  const { digest } = WORDS[lang];
  const site = harmlessOr(content.site, '?');
  const say = (digest.siteSms ?? digest.site)[direction];
  const subject = digest.site[direction](site, silent, total);
  const smsHead = (at: string, briefAt: string) => {
    const head = (called: string, moment: string) => `${say(called, silent, total)}${moment}`;
    const whole = head(site, at);
    if (isOneSms(folded(`${whole}.`))) return whole;
    return cutToFit(folded(site), (called) => folded(`${head(called, briefAt)}.`)).slice(0, -1);
  };
  const devices = content.devices.map((about) => ({ ...about, site: null }));
  return manyOf(lang, { ...content, devices, subject, said: `${subject}.` }, smsHead, options);
}

/** `said`: the first sentence of a mail. `smsHead`: the first words of an SMS with its moment, with and without a zone. */
function manyOf(
  lang: Lang,
  content: DigestContent & { readonly subject: string; readonly said: string },
  smsHead: (at: string, briefAt: string) => string,
  options: TextOptions,
): Text {
  const { direction, devices, sinceMs, subject, said } = content;
  const zone = zoneOf(options.timeZone);
  const words = WORDS[lang];
  const { colon, digest } = words;
  const since = sinceMs === null ? null : momentIn(lang, sinceMs, zone);
  const sorted = sortedByName(devices.map(harmlessAbout));
  const names = sorted.map(({ device }) => device);
  const moreThan = (named: number) => (names.length > named ? ` ${digest.more(names.length - named)}` : '');
  const head = [said, ...(since === null ? [] : [`${capital(digest.since)}${colon}${since}`])];
  const lines = sorted.map(({ device, site }) => (site === null ? `- ${device}` : `- ${device} (${site})`));
  const paragraphs = [head.join('\n'), listOf(words, lines), ...(isAway(direction) ? [digest.promise] : [])];
  const spoken = `${names.slice(0, SPOKEN_DEVICES).join(', ')}${moreThan(SPOKEN_DEVICES)}`;
  return {
    subject,
    plain: mailOf(
      words,
      paragraphs.filter((text) => text !== ''),
      options,
    ),
    short: `${subject}${since === null ? '' : `, ${digest.since} ${since}`}${spoken === '' ? '' : `${colon}${spoken}`}.`,
    sms: () => {
      const at = sinceMs === null ? '' : `, ${digest.since} ${shortMomentIn(lang, sinceMs, zone)}`;
      const head = smsHead(sinceMs === null ? '' : `${at}${zoneAt(sinceMs, zone)}`, at);
      return smsList(head, colon, names.slice(0, DIGEST_DEVICES).map(listedName), moreThan);
    },
  };
}

/** The lines of a list in a mail: DIGEST_DEVICES of them. */
function listOf({ digest }: Words, lines: readonly string[]): string {
  const more = lines.length - DIGEST_DEVICES;
  return [...lines.slice(0, DIGEST_DEVICES), ...(more > 0 ? [digest.more(more)] : [])].join('\n');
}

/** The text about the outages of a week; that all is clear, if there were none. */
export function weeklyOf(lang: Lang, content: WeekContent, options: TextOptions): Text {
  const words = WORDS[lang];
  const { weekly, digest, colon } = words;
  const { devices, total } = content;
  const rows = weekRows(lang, devices);
  const count = rows.length;
  const subject = count === 0 ? weekly.clear : weekly.outages(count);
  const quiet = sortedByName(content.quietDevices.map(harmlessAbout)).map(({ device }) => device);
  const moreThan = (all: number, named: number) => (all > named ? ` ${digest.more(all - named)}` : '');
  const quietLine = `${quiet.slice(0, DIGEST_DEVICES).join(', ')}${moreThan(quiet.length, DIGEST_DEVICES)}`;
  const head = [
    `${subject}. ${weekly.watched(total)}`,
    `${weekly.until}${colon}${momentIn(lang, content.weekEndsMs, zoneOf(options.timeZone))}`,
    ...(quiet.length === 0 ? [] : [`${weekly.quiet}${colon}${quietLine}`]),
  ];
  const lines = rows.map(
    ({ device, site, line }) => `- ${device}${site === null ? '' : ` (${site})`}${colon}${line}`,
  );
  const spoken = rows.slice(0, SPOKEN_DEVICES).map(({ device, line }) => `${device} (${line})`);
  return {
    subject,
    plain: mailOf(words, [head.join('\n'), ...(count === 0 ? [] : [listOf(words, lines)])], options),
    short:
      count === 0
        ? `${subject}. ${weekly.watched(total)}`
        : `${subject}${colon}${spoken.join(', ')}${moreThan(count, SPOKEN_DEVICES)}.`,
    sms: () =>
      count === 0
        ? folded(`${subject}. ${weekly.watched(total)}`)
        : smsList(
            subject,
            colon,
            rows.slice(0, DIGEST_DEVICES).map(({ device, line }) => `${listedName(device)} (${line})`),
            (named) => moreThan(count, named),
          ),
  };
}

/** Each device with its outages of a week, the longest first. */
function weekRows(lang: Lang, devices: WeekContent['devices']) {
  const { weekly } = WORDS[lang];
  const byName = new Map(devices.map((one) => [harmlessAbout(one.about), one]));
  return sortedByName([...byName.keys()])
    .map((about) => ({ ...about, ...(byName.get(about) as WeekContent['devices'][number]) }))
    .sort((a, b) => (b.lastedMs ?? 0) - (a.lastedMs ?? 0))
    .map(({ device, site, times, lastedMs, isOffline }) => ({
      ...{ device, site },
      line: `${weekly.line(times, lastedMs === null ? null : spanIn(lang, lastedMs))}${isOffline ? `, ${weekly.still}` : ''}`,
    }));
}

function capital(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}

/** `Pump 2` before `Pump 10`. */
function sortedByName(devices: readonly About[]): About[] {
  const keyed = devices.map((about) => ({ about, key: sortKeyOf(about.device) }));
  keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return keyed.map(({ about }) => about);
}

/** Accents and case do not count, numbers count as numbers. Collation by Intl would take 8 MB. */
function sortKeyOf(name: string): string {
  const plain = name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  return plain.replace(/\d+/g, (digits) => digits.padStart(16, '0'));
}
