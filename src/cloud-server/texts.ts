/**
 * The notifications: what a person is told when a device falls silent, does not return from a planned stop, or
 * comes back, in the person's language. notices.ts makes messages of them.
 */
import type { Lang } from '../destinations/destination.js';
import { PHRASES } from './phrases.js';
import { momentIn, spanIn } from './spans.js';

/** What happened to a device. */
export type Happening =
  /** Nothing was heard from it after `sinceMs` (wall clock). */
  | { readonly kind: 'silent'; readonly sinceMs: number }
  /** It said at `sinceMs` that it was stopping, and did not come back. */
  | { readonly kind: 'stopped'; readonly sinceMs: number }
  /** It was heard again at `sinceMs`, after `lastedMs` of silence. */
  | { readonly kind: 'back'; readonly sinceMs: number; readonly lastedMs: number };

/** One notification: an email's subject and text, and a short text for SMS, phone and push. */
export interface Text {
  readonly subject: string;
  /** Lines end with LF. */
  readonly plain: string;
  readonly short: string;
}

/** The text about `device` in a language, moments told in `timeZone` (an IANA name, or UTC). */
export function textOf(lang: Lang, device: string, happening: Happening, timeZone: string): Text {
  const words = PHRASES[lang];
  const at = momentIn(lang, happening.sinceMs, timeZone);
  const fact = (label: string, value: string) => `${label}${words.colon}${value}`;
  const isBack = happening.kind === 'back';
  const facts =
    happening.kind === 'back'
      ? [fact(words.backSince, at), fact(words.lasted, spanIn(lang, happening.lastedMs))]
      : [fact(happening.kind === 'silent' ? words.lastHeard : words.stoppedAt, at)];
  const subject = isBack ? words.online(device) : words.offline(device);
  const paragraphs = [
    words.greeting,
    [words[happening.kind](device), ...facts].join('\n'),
    ...(isBack ? [] : [words.promise]),
    words.closing,
  ];
  return {
    subject,
    plain: `${paragraphs.join('\n\n')}\n`,
    short: [subject, ...facts].map((sentence) => `${sentence}.`).join(' '),
  };
}
