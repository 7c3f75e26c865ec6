/**
 * Sends SMS, phone calls and push messages by posting each to a webhook. The service behind the webhook passes them to
 * a provider. Each try is one HTTP request. Delivery decides when to retry.
 */
import { REFUSALS, retryAfterMsOf } from '../base/http/answer.js';
import { CLOUD_ANSWER_BYTES_MAX, CLOUD_CALL_TIMEOUT_MS } from '../base/limits.js';
import { CloudError } from '../base/retry/call-error.js';
import type { Clock } from '../base/system/clock.js';
import type { SendRequest } from '../base/system/https.js';
import type { SendShort, ShortAnswer } from '../mail/message/message.js';

interface WebhookOptions {
  readonly url: string;
  /** The header `Authorization`; null: none is sent. */
  readonly authorization: string | null;
  readonly send: SendRequest;
  readonly clock: Clock;
}

/** Posts messages to `url` as JSON, each with its id as Idempotency-Key. Any 2xx means accepted. Bodies are ignored. */
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
        body: JSON.stringify(message),
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
