/**
 * The texts of notifications, in the person's language: a device is silent, has not returned from a planned stop, or is
 * back.
 */
import type { Lang } from '../base/langs.js';
import { PHRASES } from './phrases.js';
import { smsOf } from './sms.js';
import { momentIn, spanIn } from './spans.js';

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

/** The text about a device in a language. */
export function textOf(lang: Lang, about: About, happening: Happening, options: TextOptions): Text {
  const words = PHRASES[lang];
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
    plain: mailOf(lang, kind === 'back' ? [said] : [said, words.promise], options),
    short: [subject, ...facts].map((sentence) => sentence.replace(/(?<!\.)$/, '.')).join(' '),
    sms: () => smsOf(lang, about, happening, timeZone),
  };
}

/** The text of a mail around these paragraphs. */
export function mailOf(lang: Lang, paragraphs: readonly string[], { publicUrl }: TextOptions): string {
  const { greeting, closing, overview, colon } = PHRASES[lang];
  const link = publicUrl === null ? [] : [`${overview}${colon}${publicUrl}`];
  return `${[greeting, ...paragraphs, closing, ...link].join('\n\n')}\n`;
}
