/**
 * The text of a digest: one message to a person about many devices, in place of one for each.
 */
import type { Lang } from '../base/langs.js';
import { DIGEST_DEVICES } from '../base/limits.js';
import { DIGEST_PHRASES, type Direction } from './digest-phrases.js';
import { PHRASES } from './phrases.js';
import { smsList } from './sms.js';
import { momentIn, shortMomentIn } from './spans.js';
import { type About, mailOf, type Text, type TextOptions } from './texts.js';

/** The devices of a digest, and the wall time of its first news; null: not known. */
interface DigestContent {
  readonly direction: Direction;
  readonly devices: readonly About[];
  readonly sinceMs: number | null;
}

/** A phone call or push message names this many devices. */
const SPOKEN_DEVICES = 5;

/** The text about these devices in a language. */
export function digestOf(
  lang: Lang,
  { direction, devices, sinceMs }: DigestContent,
  options: TextOptions,
): Text {
  const { timeZone } = options;
  const words = DIGEST_PHRASES[lang];
  const { colon } = PHRASES[lang];
  const count = devices.length;
  const subject = words.subject[direction](count);
  const sorted = sortedByName(devices);
  const listed = sorted.slice(0, DIGEST_DEVICES);
  const since = sinceMs === null ? null : momentIn(lang, sinceMs, timeZone);
  const names = sorted.map(({ device }) => device);
  const moreThan = (named: number) => (count > named ? ` ${words.more(count - named)}` : '');
  const plain = mailOf(
    lang,
    [
      [
        direction === 'offline' ? `${subject}${words.signals}` : `${subject}.`,
        ...(since === null ? [] : [`${capital(words.since)}${colon}${since}`]),
      ].join('\n'),
      [
        ...listed.map(({ device, site }) => (site === null ? `- ${device}` : `- ${device} (${site})`)),
        ...(count > listed.length ? [words.more(count - listed.length)] : []),
      ].join('\n'),
      ...(direction === 'offline' ? [words.promise] : []),
    ],
    options,
  );
  const spoken = `${names.slice(0, SPOKEN_DEVICES).join(', ')}${moreThan(SPOKEN_DEVICES)}`;
  return {
    subject,
    plain,
    short: `${subject}${since === null ? '' : `, ${words.since} ${since}`}${colon}${spoken}.`,
    sms: () => {
      const at = sinceMs === null ? '' : `, ${words.since} ${shortMomentIn(lang, sinceMs, timeZone, true)}`;
      const head = `${(words.sms ?? words.subject)[direction](count)}${at}`;
      return smsList(head, colon, names.slice(0, DIGEST_DEVICES), moreThan);
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
