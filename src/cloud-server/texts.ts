/**
 * The texts of notifications, in the person's language: a device is silent, has not returned from a planned stop, or is
 * back. Used by outbox.ts.
 */
import type { Lang } from '../destinations/langs.js';
import { PHRASES } from './phrases.js';
import { momentIn, spanIn } from './spans.js';

/** News about a device. Moments are wall times; null: not known. */
export type Happening =
  /** The last heartbeat came at `sinceMs`. */
  | { readonly kind: 'silent'; readonly sinceMs: number | null }
  /** It announced a stop at `sinceMs` and has not come back. */
  | { readonly kind: 'stopped'; readonly sinceMs: number | null }
  /** The next heartbeat came at `sinceMs`, after `lastedMs` of silence. */
  | { readonly kind: 'back'; readonly sinceMs: number | null; readonly lastedMs: number | null };

/** One notification: an email's subject and text, and a short text for SMS, phone and push. */
export interface Text {
  readonly subject: string;
  /** Lines end with LF. */
  readonly plain: string;
  readonly short: string;
}

/** The device that a text is about. */
export interface About {
  readonly device: string;
  readonly site: string | null;
  /** Whom to call. */
  readonly contact: string | null;
}

/** The text about a device in a language, with times in `timeZone` (an IANA name, or UTC). */
export function textOf(lang: Lang, about: About, happening: Happening, timeZone: string): Text {
  const words = PHRASES[lang];
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
  const paragraphs = [
    words.greeting,
    [words.sentence[kind](device), ...facts].join('\n'),
    ...(kind === 'back' ? [] : [words.promise]),
    words.closing,
  ];
  return {
    subject,
    plain: `${paragraphs.join('\n\n')}\n`,
    short: [subject, ...facts].map((sentence) => sentence.replace(/(?<!\.)$/, '.')).join(' '),
  };
}
