/**
 * The error of a failed call to the cloud or the webhook: a sentence for people, and the Retry-After.
 */
import { systemCodeOf } from '../errors.js';
import { type RequestHints, requestWordsOf } from './request-error.js';

/** The setting to look at. */
const HINTS: RequestHints = {
  'certificate-unknown-authority': '; see FIELDPOST_CLOUD_CA_FILE',
  'client-certificate': '; see FIELDPOST_CLOUD_CERT_FILE',
};

/** A call to the cloud or the webhook has failed. `message` is a sentence that a technician understands. */
export class CloudError extends Error {
  /** Retry-After; null if there was none. */
  readonly retryAfterMs: number | null;
  /** False if the request cannot have arrived. A call that was given up counts as arrived. */
  readonly isReached: boolean;

  constructor(message: string, retryAfterMs: number | null = null, isReached = true) {
    super(message);
    this.name = 'CloudError';
    this.retryAfterMs = retryAfterMs;
    this.isReached = isReached;
  }

  /**
   * Turns the rejection of a SendRequest to `host` into a CloudError. The words of a certificate error give the date of
   * `wallMs`. Rethrows an error without a `code`, because it is a bug.
   */
  static ofNetwork(thrown: unknown, host: string, wallMs: number, hints = HINTS): CloudError {
    if (systemCodeOf(thrown) === 'ABORT_ERR') return new CloudError('the call was given up');
    const isReached = (thrown as { isReached?: boolean }).isReached === true;
    const isAnswered = ['TOO_LARGE', 'CUT_SHORT'].includes(systemCodeOf(thrown));
    return new CloudError(requestWordsOf(thrown, host, wallMs, hints), null, isReached || isAnswered);
  }
}
