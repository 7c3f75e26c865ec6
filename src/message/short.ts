/**
 * An SMS, a call or a push as it is given to whoever sends it, and the answer. Spoken of by delivery, the cloud's client
 * and the reference cloud.
 */
import type { ShortContent } from './message.js';

/** A message as the cloud is given it. */
export type ShortMessage = ShortContent & {
  readonly id: string;
  readonly type: 2 | 3 | 4;
  readonly destination: string;
};

/**
 * What came of an offer. `later`: it was neither taken nor refused. `isReached`: there was a connection, so whoever sends
 * it may have seen the message.
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
