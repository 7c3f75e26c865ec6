/**
 * Who calls: the secret of a request, whether it comes from this device, and the log of wrong secrets.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { FieldpostError } from '../errors.js';
import { HOUR_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import type { Log, LogFields } from '../system/log.js';
import type { Exchange } from './exchange.js';

/** SHA-256 of a secret. Only digests are kept and compared. */
export function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The digest of the secret in `Authorization: Bearer`; null if there is none. */
export function bearerOf({ headers }: IncomingMessage): Buffer | null {
  const given = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  return given === undefined ? null : digest(given);
}

/** True if `given` is one of `secrets`, in constant time: all digests have the same length. */
export function isOneOf(given: Buffer | null, secrets: readonly Buffer[]): boolean {
  return given !== null && secrets.some((secret) => timingSafeEqual(secret, given));
}

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
// A host name or address, and any port.
const HOST = /^(\[[0-9a-f:.]+\]|[^:]+)(?::\d{0,5})?$/;

/**
 * A function that throws not-local unless a program on this device asks. Loopback is not trust: any web page can make the
 * browser on this device send requests here. Over a unix socket the Host does not count: the socket's mode says who may
 * call. Two Host headers are malformed-request.
 */
export function createLocalCheck(allowedHosts: readonly string[] = []): (exchange: Exchange) => void {
  const names = new Set([...LOOPBACK_NAMES, ...allowedHosts.map((name) => name.toLowerCase())]);
  return ({ req, host, connection }) => {
    checkSingleHost(req.rawHeaders);
    const lowerHost = host?.toLowerCase();
    const isOverTcp = connection.kind === 'tcp';
    const name = HOST.exec(lowerHost ?? '')?.[1] ?? '';
    if (isOverTcp && lowerHost !== undefined && !names.has(name)) {
      const words = `The name ${JSON.stringify(host)} is not one of this device's own`;
      throw new FieldpostError('not-local', words, {
        hint: 'call 127.0.0.1, or list the name in FIELDPOST_ALLOWED_HOSTS',
      });
    }
    const { origin, 'sec-fetch-site': site } = req.headers;
    // A proxy adds TLS for a name of the settings.
    const schemes = LOOPBACK_NAMES.includes(name) ? ['http'] : ['http', 'https'];
    const isOwn =
      lowerHost !== undefined &&
      schemes.some((scheme) => origin?.toLowerCase() === `${scheme}://${lowerHost}`);
    if (origin !== undefined && !isOwn) throw foreignPage('Origin');
    if (site !== undefined && site !== 'same-origin' && site !== 'none') throw foreignPage('Sec-Fetch-Site');
  };
}

/** RFC 9112 §3.2: a proxy may have checked one of two Host headers, and the daemon the other. */
function checkSingleHost(rawHeaders: readonly string[]): void {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'host') count++;
  if (count > 1) throw new FieldpostError('malformed-request', 'The request has more than one Host header');
}

function foreignPage(header: string): FieldpostError {
  const words = `The ${header} header says that a web page from elsewhere is asking`;
  return new FieldpostError('not-local', words, { hint: 'only programs on this device may call' });
}

interface WrongSecretsOptions {
  readonly clock: Pick<Clock, 'bootMs' | 'after'>;
  readonly log: Pick<Log, 'warn'>;
  /** Logs wrong secrets; left out, they are tokens. */
  readonly logWrong?: ((fields: LogFields) => void) | undefined;
}

/**
 * Logs the first wrong secret at once, and then once an hour how many came since: whoever guesses, or has an old one, may go
 * on for days.
 */
export class WrongSecrets {
  readonly #logWrong: (fields: LogFields) => void;
  readonly #alarm: Alarm;
  #count = 0;
  #last: LogFields = {};

  constructor({ clock, log, logWrong }: WrongSecretsOptions) {
    this.#logWrong = logWrong ?? ((fields) => log.warn('wrong tokens', fields));
    this.#alarm = new Alarm(clock, () => this.#logAll());
  }

  /** `last` says whose it was. */
  note(last: LogFields): void {
    this.#count++;
    this.#last = last;
    if (!this.#alarm.isSet) this.#logAll();
  }

  /** Logs the rest. */
  end(): void {
    this.#logAll();
    this.#alarm.end();
  }

  #logAll(): void {
    if (this.#count === 0) return;
    this.#logWrong({ count: this.#count, ...this.#last });
    this.#count = 0;
    this.#alarm.in(HOUR_MS);
  }
}
