/**
 * A call to the cloud that failed: what went wrong, as a sentence, and the Retry-After.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { type SocketError, socketErrorOf } from '../retry/socket-error.js';
import { oneLine } from '../text.js';

/** The setting that mends it. */
const HINTS: Readonly<Partial<Record<SocketError, string>>> = {
  'certificate-unknown-authority': '; see FIELDPOST_CLOUD_CA_FILE',
  'client-certificate': '; see FIELDPOST_CLOUD_CERT_FILE',
};

/**
 * `network`: no whole answer came. `refused`: it does not accept us (401, 403). `answer`: what came is not this
 * API's, as a captive portal's page is not. `contract`: it is, but breaks the contract. `status`: any other status
 * that is no success. `aborted`: we gave it up ourselves.
 */
export type CloudErrorKind = 'network' | 'refused' | 'answer' | 'contract' | 'status' | 'aborted';

/** Thrown by every call that failed; `message` is a sentence a technician understands. */
export class CloudError extends Error {
  readonly kind: CloudErrorKind;
  /** Retry-After; null if there was none. */
  readonly retryAfterMs: number | null;
  /** False if there was no connection: the cloud cannot have seen the call. */
  readonly isReached: boolean;

  constructor(
    kind: CloudErrorKind,
    message: string,
    retryAfterMs: number | null = null,
    isReached = kind !== 'network',
  ) {
    super(message);
    this.name = 'CloudError';
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.isReached = isReached;
  }

  /**
   * The error of a request to `host` that was rejected. `wallMs` is compared with a certificate's dates; `hints` name the
   * settings to look at.
   */
  static ofNetwork(thrown: unknown, host: string, wallMs: number, hints = HINTS): CloudError {
    const isReached = (thrown as { isReached?: boolean }).isReached === true;
    const ofNetwork = (words: string) => new CloudError('network', words, null, isReached);
    switch (systemCodeOf(thrown)) {
      case 'ABORT_ERR':
        return new CloudError('aborted', 'the call was given up');
      case 'DEADLINE':
        return ofNetwork(`${host}: ${wordsOf(thrown)}`);
      case 'TOO_LARGE':
      case 'CUT_SHORT':
        return new CloudError('answer', `${host}: ${wordsOf(thrown)}`);
    }
    // Not an error of a socket: a bug.
    if (systemCodeOf(thrown) === '') throw thrown;
    const { kind, words } = socketErrorOf(thrown, wallMs);
    if (kind === 'dns') {
      return ofNetwork(`the name ${host} cannot be resolved (${systemCodeOf(thrown)})`);
    }
    return ofNetwork(oneLine(`${host}: ${words}${hints[kind] ?? ''}`));
  }
}
