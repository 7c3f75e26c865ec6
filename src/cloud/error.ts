/**
 * The error of a failed call to the cloud or the webhook: a sentence for people, and the Retry-After. Used by
 * answer.ts, client.ts and webhook.ts.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { type SocketError, socketErrorOf } from '../retry/socket-error.js';
import { oneLine } from '../text.js';

/** The setting to look at. */
const HINTS: Readonly<Partial<Record<SocketError, string>>> = {
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
    const { isReached = false, proxy } = thrown as { isReached?: boolean; proxy?: string };
    const ofNetwork = (words: string) => new CloudError(words, null, isReached);
    const peer = proxy === undefined ? host : `the proxy ${proxy}`;
    switch (systemCodeOf(thrown)) {
      case 'ABORT_ERR':
        return new CloudError('the call was given up');
      case 'DEADLINE':
        return ofNetwork(`${peer}: ${wordsOf(thrown)}`);
      case 'PROXY':
        return ofNetwork(`${peer} ${wordsOf(thrown)}`);
      case 'TOO_LARGE':
      case 'CUT_SHORT':
        return new CloudError(`${host}: ${wordsOf(thrown)}`);
    }
    if (systemCodeOf(thrown) === '') throw thrown;
    const { kind, words } = socketErrorOf(thrown, wallMs);
    if (kind === 'dns') {
      const name = proxy === undefined ? `the name ${host}` : `the name of the proxy ${proxy}`;
      return ofNetwork(`${name} cannot be resolved (${systemCodeOf(thrown)})`);
    }
    return ofNetwork(oneLine(`${peer}: ${words}${hints[kind] ?? ''}`));
  }
}
