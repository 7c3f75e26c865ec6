/**
 * Sends SMS, phone calls and push messages by posting each to a webhook: the service behind it passes them to a provider.
 * And tells the operator's own tools of the news of devices, by posting them to a hook. Each try is one HTTP request.
 * Delivery decides when to retry.
 */
import { REFUSALS, retryAfterMsOf } from '../base/http/answer.js';
import { CLOUD_ANSWER_BYTES_MAX, CLOUD_CALL_TIMEOUT_MS } from '../base/limits.js';
import { CloudError } from '../base/retry/call-error.js';
import type { Clock } from '../base/system/clock.js';
import type { SendRequest } from '../base/system/https.js';
import type { Content, Message, SendShort, ShortAnswer, ShortMessage } from '../mail/message/message.js';

/** What the operator's program hears: `event` as PagerDuty and Alertmanager have it, and the device to know repeats by. */
export interface HookEvent {
  readonly event: 'offline' | 'online' | 'quiet' | 'word' | 'still' | 'stuck' | 'flows';
  readonly device: string;
  readonly dedup: string;
  readonly name: string;
  readonly site: string | null;
  /** ISO 8601; null: not known. */
  readonly since: string | null;
  /** The reason of a quiet, or the last word. */
  readonly why?: string;
}

/** Whose messages those for the hook are, in the store. Messages of devices and to people have no such owner. */
export const HOOK_CALLER = 'hook';

/** True for a message that waits for the hook. */
export function isForHook({ extras }: Partial<Pick<Message, 'extras'>>): boolean {
  return extras?.caller === HOOK_CALLER;
}

/** Sends messages with news for the hook to the hook, and all others to the webhook. Null: the settings name none. */
export function byContent(webhook: SendShort | null, hook: SendShort | null): SendShort {
  return async (message, signal) => {
    const send = newsIn(message) === null ? webhook : hook;
    if (send !== null) return await send(message, signal);
    // An earlier configuration had one; the message expires.
    return { kind: 'later', reply: 'no setting says where to post it', retryAfterMs: null, isReached: false };
  };
}

/** What the teller has put into a content; null: it is for a person. */
export function newsIn(content: Content | ShortMessage): HookEvent | null {
  return (content as Partial<Record<'hook', HookEvent>>).hook ?? null;
}

interface WebhookOptions {
  readonly url: string;
  /** The header `Authorization`; null: none is sent. */
  readonly authorization: string | null;
  readonly send: SendRequest;
  readonly clock: Clock;
}

/**
 * Posts messages to `url` as JSON, each with its id as Idempotency-Key; of news for the hook nothing else. Any 2xx means
 * accepted. Bodies are ignored.
 */
export function createWebhook({ url, authorization, send, clock }: WebhookOptions): SendShort {
  return async (message, signal): Promise<ShortAnswer> => {
    try {
      const answer = await send({
        method: 'POST',
        url,
        headers: {
          'Content-Type': 'application/json',
          'Idempotency-Key': message.id,
          ...(authorization !== null && { Authorization: authorization }),
        },
        body: JSON.stringify(newsIn(message) ?? message),
        timeoutMs: CLOUD_CALL_TIMEOUT_MS,
        answerBytesMax: CLOUD_ANSWER_BYTES_MAX,
        // A body that is cut short must not make us post an accepted message again.
        ignoresBody: true,
        signal,
      });
      const { status } = answer;
      const reply = `the webhook answered ${status}`;
      if (status >= 200 && status < 300) return { kind: 'taken', reply };
      if (REFUSALS.includes(status)) return { kind: 'refused', reply };
      const retryAfterMs = retryAfterMsOf(answer.headers, clock.wallMs());
      return { kind: 'later', reply, retryAfterMs, isReached: true };
    } catch (error) {
      const { hostname } = new URL(url);
      const { message: reply, isReached } = CloudError.ofNetwork(error, hostname, clock.wallMs(), {});
      return { kind: 'later', reply, retryAfterMs: null, isReached };
    }
  };
}
