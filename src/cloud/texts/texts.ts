/**
 * The texts of notifications, in the person's language: about one device, and the digest about many. The words are in the
 * file of each language.
 */
import type { Lang } from '../../base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { DE } from './de.js';
import { EN } from './en.js';
import { ES } from './es.js';
import { FR } from './fr.js';
import { IT } from './it.js';
import { NL } from './nl.js';
import { PL } from './pl.js';
import { cutToFit, folded, isOneSms, smsList } from './sms.js';
import { type Direction, nounFor, type Words } from './words.js';

const WORDS: Readonly<Record<Lang, Words>> = { nl: NL, fr: FR, de: DE, en: EN, it: IT, pl: PL, es: ES };

/** A digest is for news of more devices than this. It names this many of them. */
export const DIGEST_DEVICES = 20;
/** A phone call or push message names this many devices. */
const SPOKEN_DEVICES = 5;

/** News about a device. Moments are wall times; null: not known. */
export type Happening =
  /** The last heartbeat came at `sinceMs`. */
  | { readonly kind: 'silent'; readonly sinceMs: number | null }
  /** It announced a stop at `sinceMs` and has not come back. */
  | { readonly kind: 'stopped'; readonly sinceMs: number | null }
  /** The next heartbeat came at `sinceMs`, after `lastedMs` of silence. */
  | { readonly kind: 'back'; readonly sinceMs: number | null; readonly lastedMs: number | null };

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
  /** An IANA name, or UTC. */
  readonly timeZone: string;
  /** A page about the devices, for the last line of a mail; null: no such line. */
  readonly publicUrl: string | null;
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
  readonly direction: Direction;
  readonly devices: readonly About[];
  readonly sinceMs: number | null;
}

/** The text about a device in a language. */
export function textOf(lang: Lang, about: About, happening: Happening, options: TextOptions): Text {
  const words = WORDS[lang];
  const { timeZone } = options;
  const { kind, sinceMs } = happening;
  const { device, site, contact } = about;
  const lastedMs = kind === 'back' ? happening.lastedMs : null;
  // Unknown and uncertain facts are left out.
  const known: readonly (readonly [label: string, fact: string | null])[] = [
    [words.site, site],
    [words.moment[kind], sinceMs === null ? null : momentIn(lang, sinceMs, timeZone)],
    [words.lasted, lastedMs === null ? null : spanIn(lang, lastedMs)],
    [words.contact, contact],
  ];
  const facts = known.flatMap(([label, fact]) => (fact !== null ? [`${label}${words.colon}${fact}`] : []));
  const subject = words.subject[kind](device);
  const said = [words.sentence[kind](device), ...facts].join('\n');
  return {
    subject,
    plain: mailOf(words, kind === 'back' ? [said] : [said, words.promise], options),
    short: [subject, ...facts].map((sentence) => sentence.replace(/(?<!\.)$/, '.')).join(' '),
    sms: () => smsOf(lang, about, happening, timeZone),
  };
}

/** The text of a mail around these paragraphs. */
function mailOf(words: Words, paragraphs: readonly string[], { publicUrl }: TextOptions): string {
  const { greeting, closing, overview, colon } = words;
  const link = publicUrl === null ? [] : [`${overview}${colon}${publicUrl}`];
  return `${[greeting, ...paragraphs, closing, ...link].join('\n\n')}\n`;
}

/**
 * The SMS about a device, whatever the names are. The site, the contact, the time zone and the length of an outage are left
 * out, in this order, while it is too long. Then the device's name is cut.
 */
export function smsOf(lang: Lang, about: About, happening: Happening, timeZone: string): string {
  const { subject, site, contact, colon, sms } = WORDS[lang];
  const { kind, sinceMs } = happening;
  const say = sms.subject?.[kind] ?? subject[kind];
  const device = folded(about.device);
  const lastedMs = kind === 'back' ? happening.lastedMs : null;
  const lasted = sentence(sms.lasted, lastedMs === null ? null : spanIn(lang, lastedMs));
  const where = sentence(`${sms.site ?? site}${colon}`, about.site);
  const who = sentence(`${contact}${colon}`, about.contact);
  const at = (withZone: boolean) =>
    sinceMs === null ? '' : `${sms.moment[kind]}${shortMomentIn(lang, sinceMs, timeZone, withZone)}`;
  const head = (name: string, withZone = false) => folded(`${say(name)}${at(withZone)}.`);
  const whole = head(device, true);
  const attempts = [
    `${whole}${lasted}${where}${who}`,
    `${whole}${lasted}${who}`,
    `${whole}${lasted}${where}`,
    `${whole}${lasted}`,
    `${head(device)}${lasted}`,
  ];
  return attempts.find(isOneSms) ?? cutToFit(device, head);
}

/** One more sentence of an SMS; '' without a fact. */
function sentence(label: string, fact: string | null): string {
  return fact === null ? '' : folded(` ${label}${fact}${fact.endsWith('.') ? '' : '.'}`);
}

/** The digest about these devices in a language. */
export function digestOf(
  lang: Lang,
  { direction, devices, sinceMs }: DigestContent,
  options: TextOptions,
): Text {
  const { timeZone } = options;
  const words = WORDS[lang];
  const { colon, digest } = words;
  const count = devices.length;
  const subject = digest.subject[direction](count);
  const sorted = sortedByName(devices);
  const listed = sorted.slice(0, DIGEST_DEVICES);
  const since = sinceMs === null ? null : momentIn(lang, sinceMs, timeZone);
  const names = sorted.map(({ device }) => device);
  const moreThan = (named: number) => (count > named ? ` ${digest.more(count - named)}` : '');
  const plain = mailOf(
    words,
    [
      [
        direction === 'offline' ? `${subject}${digest.signals}` : `${subject}.`,
        ...(since === null ? [] : [`${capital(digest.since)}${colon}${since}`]),
      ].join('\n'),
      [
        ...listed.map(({ device, site }) => (site === null ? `- ${device}` : `- ${device} (${site})`)),
        ...(count > listed.length ? [digest.more(count - listed.length)] : []),
      ].join('\n'),
      ...(direction === 'offline' ? [digest.promise] : []),
    ],
    options,
  );
  const spoken = `${names.slice(0, SPOKEN_DEVICES).join(', ')}${moreThan(SPOKEN_DEVICES)}`;
  return {
    subject,
    plain,
    short: `${subject}${since === null ? '' : `, ${digest.since} ${since}`}${colon}${spoken}.`,
    sms: () => {
      const say = (digest.sms ?? digest.subject)[direction];
      const at = sinceMs === null ? '' : `, ${digest.since} ${shortMomentIn(lang, sinceMs, timeZone, true)}`;
      return smsList(`${say(count)}${at}`, colon, names.slice(0, DIGEST_DEVICES), moreThan);
    },
  };
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

const UNITS_MS = [DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS] as const;

/** `ms` in its largest unit and the next smaller one, rounded down: `2 hours and 5 minutes`, `1 minuta`. */
export function spanIn(lang: Lang, ms: number): string {
  const { units, and } = WORDS[lang];
  const wholeMs = Math.max(ms, SECOND_MS);
  const largest = UNITS_MS.findIndex((unitMs) => wholeMs >= unitMs);
  const say = (index: number, count: number) => `${count} ${nounFor(count, units[index] as string)}`;
  const unitMs = UNITS_MS[largest] as number;
  const count = Math.floor(wholeMs / unitMs);
  const restUnitMs = UNITS_MS[largest + 1];
  const rest = restUnitMs === undefined ? 0 : Math.floor((wholeMs % unitMs) / restUnitMs);
  return rest === 0 ? say(largest, count) : `${say(largest, count)} ${and} ${say(largest + 1, rest)}`;
}

/** A moment with its time zone: `20 November 2026, 09:41 (UTC)`. Throws RangeError for an unknown zone. */
export function momentIn(lang: Lang, wallMs: number, timeZone: string): string {
  const { months, date, time } = WORDS[lang];
  const { year, month, day, clock, offset } = localOf(wallMs, timeZone);
  return `${date(day, months.split(' ')[month - 1] as string, year)}${time(clock)} (${offset})`;
}

/** A moment for a short text, without its year: `24-11 om 09:41`, if wanted with its zone: `24-11 om 09:41 (UTC)`. */
function shortMomentIn(lang: Lang, wallMs: number, timeZone: string, withZone: boolean): string {
  const { month, day, clock, offset } = localOf(wallMs, timeZone);
  return `${WORDS[lang].sms.at(day, month, clock)}${withZone ? ` (${offset})` : ''}`;
}

interface Local {
  readonly year: number;
  /** From 1. */
  readonly month: number;
  readonly day: number;
  /** `09:41` */
  readonly clock: string;
  /** `UTC`, `UTC+01:00` */
  readonly offset: string;
}

function localOf(wallMs: number, timeZone: string): Local {
  const offset = offsetAt(wallMs, timeZone);
  const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d\d):(\d\d)$/.exec(offset) ?? [];
  const offsetMs = Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS;
  const date = new Date(sign === '+' ? wallMs + offsetMs : wallMs - offsetMs);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    clock: date.toISOString().slice(11, 16),
    offset,
  };
}

/** `UTC`, `UTC+01:00`. Without Intl for UTC: it would take 8 MB. */
function offsetAt(wallMs: number, timeZone: string): string {
  if (timeZone === 'UTC') return timeZone;
  const format = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' });
  const found = format.formatToParts(wallMs).find(({ type }) => type === 'timeZoneName');
  return String(found?.value).replace('GMT', 'UTC');
}
