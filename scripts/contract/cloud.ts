/**
 * A minimal device that calls a cloud: it has no state, and passes every answer on unchanged.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { request as requestTls } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

/** An answer. */
export interface Answer {
  readonly status: number;
  readonly etag: string | null;
  readonly type: string;
  /** As the header has it, or null. */
  readonly retryAfter: string | null;
  readonly text: string;
  /** The JSON object that the body is, or null. */
  readonly json: Readonly<Record<string, unknown>> | null;
}

/** What a call may carry. */
export interface Extras {
  readonly headers?: Readonly<Record<string, string>>;
  /** As JSON, unless it is a string. */
  readonly body?: unknown;
  /** In place of the device's own; null: none. */
  readonly key?: string | null;
}

const PATIENCE_MS = 15_000;
/** A cloud that asks for longer pauses, or for more of them, cannot be checked now. */
const PAUSE_MS_MAX = 120_000;
const PAUSES_MAX = 5;
const ROUNDS = 20;
// RFC 9110 §8.8.3, without W/.
const STRONG_ETAG = /^"[\x21\x23-\x7e\x80-\xff]*"$/;

/** A point that does not hold; the message says what the check saw. */
export class Broken extends Error {}

/** A point that cannot be judged; the message says why. */
export class NotChecked extends Error {}

/** One sentence of the contract, and its check. */
export interface Point {
  readonly name: string;
  /** The harm if it does not hold. */
  readonly why: string;
  /** Throws Broken or NotChecked. */
  check(cloud: Cloud): Promise<void>;
}

/** A device of the cloud, by its name and key. */
export interface Credentials {
  readonly device: string;
  readonly key: string;
}

/** Options of the calls. */
export interface Manner {
  /** A second device of the same cloud, where there is one. */
  readonly other?: Credentials | null;
  /** How often a check is repeated that fails only now and then. */
  readonly rounds?: number;
  /** Waits where the cloud asks for it. */
  readonly wait?: (ms: number) => Promise<unknown>;
}

/** One device at one cloud. */
export class Cloud {
  /** How often a check is repeated that fails only now and then. */
  readonly rounds: number;
  readonly #url: string;
  readonly #device: string;
  readonly #key: string;
  readonly #manner: Manner;

  constructor(url: string, { device, key }: Credentials, manner: Manner = {}) {
    this.#url = url.replace(/\/+$/, '');
    this.#device = device;
    this.#key = key;
    this.#manner = manner;
    this.rounds = manner.rounds ?? ROUNDS;
  }

  /** The second device with its own key; throws NotChecked where there is none. */
  get other(): Cloud {
    const { other } = this.#manner;
    if (!other) throw new NotChecked('it takes a second device: OTHER_DEVICE and OTHER_KEY');
    return new Cloud(this.#url, other, this.#manner);
  }

  /** Another device with this one's key: the second one, else one that should not exist. */
  get stranger(): Cloud {
    const device = this.#manner.other?.device ?? `${this.#device}-stranger`;
    return new Cloud(this.#url, { device, key: this.#key }, this.#manner);
  }

  /**
   * Makes one call below `devices/<id>/`, as a device does. Waits if the cloud asks for a pause (429 with Retry-After).
   * Throws Broken if no complete answer comes, NotChecked if the pause is too long.
   */
  async call(method: string, path: string, extras: Extras = {}): Promise<Answer> {
    const { wait = sleep } = this.#manner;
    for (let pauses = 0; ; pauses++) {
      const answer = await this.#ask(method, path, extras);
      const asked = answer.status === 429 ? answer.retryAfter : null;
      if (asked === null) return answer;
      const pauseMs = Number(asked) * 1000;
      if (!(pauseMs <= PAUSE_MS_MAX) || pauses >= PAUSES_MAX) {
        throw new NotChecked(`the cloud wants to be left alone (429, Retry-After: ${asked})`);
      }
      await wait(pauseMs);
    }
  }

  async #ask(method: string, path: string, { headers, body, key = this.#key }: Extras): Promise<Answer> {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    // As a device does: the name as it is, and no Accept-Encoding.
    const url = `${this.#url}/devices/${this.#device}/${path}`;
    const options = {
      method,
      signal: AbortSignal.timeout(PATIENCE_MS),
      headers: {
        Accept: 'application/json',
        'User-Agent': 'fieldpost/0-conformance',
        ...(key !== null && { Authorization: `Bearer ${key}` }),
        ...(text !== undefined && {
          'Content-Type': 'application/json',
          'Content-Length': Buffer.byteLength(text),
        }),
        ...headers,
      },
    };
    try {
      const sent = url.startsWith('https:') ? requestTls(url, options) : request(url, options);
      sent.end(text);
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      return answerOf(response, Buffer.concat(chunks));
    } catch (error) {
      if (error instanceof Broken) throw error;
      throw new Broken(`${method} ${path} brought no answer: ${(error as Error).message}`);
    }
  }

  heartbeat(more: Readonly<Record<string, unknown>> = {}, key?: string | null): Promise<Answer> {
    const queue = { queued: 0, deferred: 0, failed: 0 };
    const body = {
      bootId: 'c0fefe00',
      sequence: 1,
      uptimeMs: 1000,
      state: 'running',
      intervalMs: 30_000,
      queue,
      version: '0',
    };
    return this.call('PUT', 'heartbeat', { body: { ...body, ...more }, ...(key !== undefined && { key }) });
  }

  get(headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return this.call('GET', 'destinations', { headers });
  }

  put(document: unknown, headers: Readonly<Record<string, string>>): Promise<Answer> {
    return this.call('PUT', 'destinations', { body: document, headers });
  }

  /** The present document and its ETag, made empty where there is none. Throws NotChecked if that does not work. */
  async present(): Promise<{ etag: string; text: string; document: Readonly<Record<string, unknown>> }> {
    let got = await this.get();
    if (got.status === 404) {
      await this.put({ destinations: [] }, { 'If-None-Match': '*' });
      got = await this.get();
    }
    if (got.status !== 200 || got.json === null || got.etag === null) {
      throw new NotChecked('there is no document with an ETag to try it on');
    }
    return { etag: got.etag, text: got.text, document: got.json };
  }

  /** Replaces the present document; gives the new one's ETag. Throws NotChecked if that does not work. */
  async replace(document: unknown): Promise<string> {
    const { etag } = await this.present();
    const { status } = await this.put(document, { 'If-Match': etag });
    if (status !== 200 && status !== 204) throw new NotChecked('the document could not be replaced');
    return (await this.present()).etag;
  }

  /** Posts a mail to these recipients under a key. */
  mail(octets: string, to: readonly string[], key: string): Promise<Answer> {
    const query = to.map((one) => `to=${encodeURIComponent(one)}`).join('&');
    const headers = { 'Idempotency-Key': key, 'Content-Type': 'message/rfc822' };
    return this.call('POST', `mails?${query}`, { body: octets, headers });
  }

  /** Posts a message under a key. */
  message(body: Readonly<Record<string, unknown>>, key: string): Promise<Answer> {
    return this.call('POST', 'messages', { body, headers: { 'Idempotency-Key': key } });
  }
}

/** Throws Broken unless the answer has one of these statuses. */
export function expectStatus(answer: Answer, ...statuses: readonly number[]): void {
  if (statuses.includes(answer.status)) return;
  throw new Broken(`it was answered ${answer.status}, not ${statuses.join(' or ')}`);
}

/** The JSON object of the answer; throws Broken if it is none. */
export function expectObject(answer: Answer): Readonly<Record<string, unknown>> {
  if (answer.json === null) throw new Broken(`the answer (${answer.type}) is not a JSON object`);
  return answer.json;
}

/** An id as devices draw them: 15 digits and capitals. */
export function newId(): string {
  return `00000${randomBytes(5).toString('hex').toUpperCase()}`;
}

/** True if the answer says that the cloud has taken it. */
export function isAccepted({ status }: Answer): boolean {
  return status >= 200 && status <= 299;
}

/** Throws Broken unless the cloud has taken the message or mail with this id. */
export function expectAccepted(answer: Answer, id: string, what: 'message' | 'mail'): void {
  if (!isAccepted(answer)) throw new Broken(`it was answered ${answer.status}, not 2xx`);
  const told = expectObject(answer).id;
  if (told !== id) throw new Broken(`the answer’s id is ${JSON.stringify(told)}, the ${what}’s is "${id}"`);
}

/** Throws Broken unless the answer says what is wrong as RFC 9457 has it. */
export function expectProblem(answer: Answer): void {
  const { title, detail } = expectObject(answer);
  if (typeof title === 'string' || typeof detail === 'string') return;
  throw new Broken('the answer has neither title nor detail, so a device cannot tell it from a proxy’s');
}

/** Throws Broken unless `etag` is a strong one. */
export function expectStrong(etag: unknown): string {
  if (typeof etag === 'string' && STRONG_ETAG.test(etag)) return etag;
  if (etag === null || etag === undefined) throw new Broken('there is no ETag');
  throw new Broken(`${JSON.stringify(etag)} is not a strong ETag in quotes`);
}

/** Throws NotChecked if the answer is a problem that says that the cloud does not support this. */
export function expectService({ status, json }: Answer, what: string): void {
  const { title, detail } = json ?? {};
  const words = [detail, title].find((said) => typeof said === 'string');
  if ((status === 501 || status === 503) && words !== undefined) {
    throw new NotChecked(`the cloud says that it takes ${what} (${status}: ${words})`);
  }
}

function answerOf({ statusCode = 0, headers }: IncomingMessage, body: Buffer): Answer {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    throw new Broken(`the answer is compressed (${encoding}), and nobody asked for that`);
  const text = body.toString();
  return {
    status: statusCode,
    etag: headers.etag ?? null,
    type: headers['content-type'] ?? 'no type',
    retryAfter: headers['retry-after'] ?? null,
    text,
    json: objectOf(text),
  };
}

function objectOf(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>)
      : null;
  } catch {
    return null;
  }
}
