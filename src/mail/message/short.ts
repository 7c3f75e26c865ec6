/**
 * An SMS, a call or a push on its way to the cloud, and the answer.
 */
import type { ShortContent } from './message.js';

/** A message as it is sent to the cloud. */
export type ShortMessage = ShortContent & {
  readonly id: string;
  readonly type: 2 | 3 | 4;
  readonly destination: string;
};

/**
 * The outcome of an offer. `later`: neither taken nor refused. `isReached`: there was a connection, so the message may
 * have arrived.
 */
export type ShortAnswer =
  | { readonly kind: 'taken' | 'refused'; readonly reply: string }
  | {
      readonly kind: 'later';
      readonly reply: string;
      readonly retryAfterMs: number | null;
      readonly isReached: boolean;
    };

/** Offers a message. */
export type SendShort = (message: ShortMessage, signal: AbortSignal) => Promise<ShortAnswer>;
