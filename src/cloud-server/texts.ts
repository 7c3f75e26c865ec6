/**
 * The notifications: what a person is told when a device falls silent, does not return from a planned stop, or comes
 * back, in the person's language. Used by outbox.ts.
 */
import type { Lang } from '../destinations/destination.js';
import { PHRASES } from './phrases.js';
import { momentIn, spanIn } from './spans.js';

/** What happened to a device. */
export type Happening =
  /** Nothing was heard from it after `sinceMs` (wall clock; null where no clock can tell it). */
  | { readonly kind: 'silent'; readonly sinceMs: number | null }
  /** At `sinceMs` it announced a stop, and did not come back. */
  | { readonly kind: 'stopped'; readonly sinceMs: number | null }
  /** It was heard again at `sinceMs`, after `lastedMs` of silence (null where no clock can tell it). */
  | { readonly kind: 'back'; readonly sinceMs: number | null; readonly lastedMs: number | null };

/** One notification: an email's subject and text, and a short text for SMS, phone and push. */
export interface Text {
  readonly subject: string;
  /** Lines end with LF. */
  readonly plain: string;
  readonly short: string;
}

/** The subject of a text; site and contact are null where the document does not name them. */
export interface About {
  readonly device: string;
  readonly site: string | null;
  /** Whom to call. */
  readonly contact: string | null;
}

/** The text about a device in a language, moments told in `timeZone` (an IANA name, or UTC). */
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
