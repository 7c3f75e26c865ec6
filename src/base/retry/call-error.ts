/**
 * Explains to the person who must mend it why a peer cannot be called: an error of a socket, of TLS, or of an HTTP request.
 * Pure.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { isPlausible } from '../stamp.js';
import { isoOf, oneLine } from '../text.js';

/** The kinds of trouble with a connection. */
export type SocketError =
  | 'dns'
  | 'refused'
  | 'unreachable'
  | 'lost'
  | 'tls'
  | 'certificate'
  | 'certificate-unknown-authority'
  | 'certificate-not-yet-valid'
  | 'client-certificate';

/** Both ends of a socket; without ports: it has none. */
interface Ends {
  readonly localPort?: number | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly remoteAddress?: string | undefined;
}

/**
 * The error of a socket that is connected to itself; null: it is not. Nobody listens on the port, and the kernel has drawn the
 * same port for this end. Close it: it keeps the port from the program that is to listen there.
 */
export function refusalOfSelf({ localPort, remotePort, localAddress, remoteAddress }: Ends): Error | null {
  if (remotePort === undefined || localPort !== remotePort || localAddress !== remoteAddress) return null;
  const words = `connect ECONNREFUSED ${remoteAddress}:${remotePort}: connected to itself`;
  return Object.assign(new Error(words), { code: 'ECONNREFUSED' });
}

/** By Node's codes of system calls and of its resolver. */
const SENTENCES: Readonly<Record<string, readonly [kind: SocketError, words: string]>> = {
  ENOTFOUND: ['dns', 'its name cannot be resolved: there is no such name'],
  ENODATA: ['dns', 'its name cannot be resolved: the name has no address'],
  EAI_AGAIN: ['dns', 'its name cannot be resolved: the name servers do not answer, or fail'],
  EAI_FAIL: ['dns', 'its name cannot be resolved: the name server failed'],
  EAI_NODATA: ['dns', 'its name cannot be resolved: the name has no address'],
  EAI_NONAME: ['dns', 'its name cannot be resolved: there is no such name'],
  ECONNREFUSED: ['refused', 'the connection was refused: nothing listens there, or a firewall is in between'],
  EHOSTUNREACH: ['unreachable', 'it cannot be reached: no way leads to its host'],
  ENETUNREACH: ['unreachable', 'it cannot be reached: this device has no network, or no route to it'],
  EHOSTDOWN: ['unreachable', 'it cannot be reached: its host is down'],
  ENETDOWN: ['unreachable', 'it cannot be reached: the network of this device is down'],
  EADDRNOTAVAIL: ['unreachable', 'it cannot be reached: this device has no address or no port left for that'],
  EADDRINUSE: ['unreachable', 'it cannot be reached: this device has no port left for that'],
  EAFNOSUPPORT: [
    'unreachable',
    'it cannot be reached: this device does not speak the protocol of its address',
  ],
  EINVAL: ['unreachable', 'it cannot be reached: its address cannot be connected to'],
  ETIMEDOUT: ['unreachable', 'it cannot be reached: no answer comes from its host'],
  EACCES: ['unreachable', 'it cannot be reached: a firewall of this device forbids it'],
  EPERM: ['unreachable', 'it cannot be reached: a firewall of this device forbids it'],
  EMFILE: ['unreachable', 'it cannot be reached: this device has too many files open'],
  ENFILE: ['unreachable', 'it cannot be reached: this device has too many files open'],
  ENOBUFS: ['unreachable', 'it cannot be reached: this device is short of memory'],
  ENOMEM: ['unreachable', 'it cannot be reached: this device is short of memory'],
  ECONNRESET: ['lost', 'the connection was lost: the other side broke it off'],
  ECONNABORTED: ['lost', 'the connection was lost: this device gave it up'],
  ENETRESET: ['lost', 'the connection was lost: the network broke it off'],
  EPIPE: ['lost', 'the connection was lost: the other side closed it'],
  ENOTCONN: ['lost', 'the connection was lost: the other side closed it'],
};

/** TLS errors by OpenSSL's reason, which Node puts also into the code. */
const TLS_SENTENCES: readonly (readonly [reason: RegExp, kind: SocketError, words: string])[] = [
  [
    /wrong.version.number|packet.length.too.long|http.request|unexpected.message/i,
    'tls',
    'TLS failed: it does not speak TLS on this port; plain SMTP or HTTP does, perhaps',
  ],
  [
    /certificate.required|bad.certificate|alert.certificate|alert.unknown.ca|alert.access.denied/i,
    'client-certificate',
    'TLS failed: it wants a certificate of this device, or refuses the one it was shown',
  ],
  [
    /protocol.version|unsupported.protocol|version.too.low/i,
    'tls',
    'TLS failed: it speaks no version of TLS from 1.2 on',
  ],
  [/handshake.failure|no.shared.cipher/i, 'tls', 'TLS failed: it and this device have no cipher in common'],
  [/unrecognized.name/i, 'tls', 'TLS failed: it does not know the name by which it was called'],
];

// Node's names of OpenSSL's X509_V_ERR_ codes, and its own errors of certificates.
const CERTIFICATE =
  /^(?:CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERROR_IN_CERT|ERR_TLS_CERT|HOSTNAME_|INVALID_|PATH_LENGTH_)/;

// No authority that this device trusts has signed the certificate.
const UNKNOWN_AUTHORITY =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/;

/**
 * Explains what a socket threw. The words of a certificate error give the date of `wallMs`, because a wrong clock makes a
 * good certificate seem invalid. The words call the peer "it": the caller names it.
 */
export function socketErrorOf(thrown: unknown, wallMs: number): { kind: SocketError; words: string } {
  // Each address of a name may fail in another way.
  const errors: readonly unknown[] = thrown instanceof AggregateError ? thrown.errors : [thrown];
  const found = errors.map((error) => oneErrorOf(error, wallMs));
  const places = new Map<string, Set<string>>();
  for (const { words, place } of found) places.set(words, (places.get(words) ?? new Set()).add(place));
  const words = [...places].map(([sentence, all]) => {
    const shown = [...all].filter((place) => place !== '').join(', ');
    return shown === '' ? sentence : `${sentence} (${shown})`;
  });
  return { kind: found[0]?.kind ?? 'lost', words: oneLine(words.join('; ')) };
}

/** `place`: the code, and the address if any; shown in brackets. */
function oneErrorOf(thrown: unknown, wallMs: number): { kind: SocketError; words: string; place: string } {
  const code = systemCodeOf(thrown);
  const said = oneLine(wordsOf(thrown));
  const [kind, words] = SENTENCES[code] ?? [];
  if (kind !== undefined && words !== undefined) {
    const { address } = thrown as { address?: unknown };
    return { kind, words, place: typeof address === 'string' ? `${code} ${address}` : code };
  }
  if (UNKNOWN_AUTHORITY.test(code)) {
    const words = 'no authority that this device trusts has signed its certificate';
    return { kind: 'certificate-unknown-authority', words, place: code };
  }
  // A verification error of OpenSSL without a name in Node.js: a weak digest or key, for example.
  if (code === 'UNSPECIFIED') {
    const example = /digest/.test(said) ? ', as SHA-1 is' : '';
    return { kind: 'certificate', words: `its certificate is not good enough: ${said}${example}`, place: '' };
  }
  if (CERTIFICATE.test(code)) {
    const certificate = code === 'CERT_NOT_YET_VALID' ? 'certificate-not-yet-valid' : 'certificate';
    return { kind: certificate, words: certificateWords(said, code, wallMs), place: '' };
  }
  if (/^(?:ERR_SSL_|ERR_TLS_|EPROTO)/.test(code)) return { ...tlsErrorOf(thrown, code), place: code };
  return { kind: 'lost', words: said === '' ? LOST : `${LOST}: ${said}`, place: '' };
}

const LOST = 'the connection was lost';

function tlsErrorOf(thrown: unknown, code: string): { kind: SocketError; words: string } {
  const { reason } = thrown as { reason?: unknown };
  const said = typeof reason === 'string' ? reason : oneLine(wordsOf(thrown));
  for (const [pattern, kind, words] of TLS_SENTENCES)
    if (pattern.test(code) || pattern.test(said)) return { kind, words };
  return { kind: 'tls', words: `TLS failed: ${said}` };
}

/** A wrong clock makes a good certificate seem invalid. */
function certificateWords(thrown: string, code: string, wallMs: number): string {
  const today = isoOf(wallMs).slice(0, 10);
  return /_(?:NOT_YET_VALID|HAS_EXPIRED)$/.test(code) && !isPlausible(wallMs)
    ? `${thrown}, but this device's clock is wrong (${today})`
    : `${thrown} (${code}; the clock of this device says ${today})`;
}

/** What to add about some faults: the setting to look at. */
type RequestHints = Readonly<Partial<Record<SocketError, string>>>;

/**
 * The rejection of a SendRequest to `host`, as a sentence. The words of a certificate error give the date of `wallMs`.
 * Rethrows an error without a `code`, because it is a bug.
 */
export function requestWordsOf(thrown: unknown, host: string, wallMs: number, hints: RequestHints): string {
  const code = systemCodeOf(thrown);
  if (code === '') throw thrown;
  if (['ABORT_ERR', 'TOO_LARGE', 'CUT_SHORT'].includes(code)) return `${host}: ${wordsOf(thrown)}`;
  const { proxy } = thrown as { proxy?: string };
  const peer = proxy === undefined ? host : `the proxy ${proxy}`;
  if (code === 'DEADLINE') return `${peer}: ${wordsOf(thrown)}`;
  if (code === 'PROXY') return `${peer} ${wordsOf(thrown)}`;
  const { kind, words } = socketErrorOf(thrown, wallMs);
  if (kind === 'dns') {
    const name = proxy === undefined ? `the name ${host}` : `the name of the proxy ${proxy}`;
    return `${name} cannot be resolved (${code})`;
  }
  return oneLine(`${peer}: ${words}${hints[kind] ?? ''}`);
}

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
