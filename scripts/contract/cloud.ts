/**
 * A device that asks a cloud, as bare as can be: no state, nothing put right, every answer as it came. Used by the
 * points of the contract.
 */

/** An answer. */
export interface Answer {
  readonly status: number;
  readonly etag: string | null;
  readonly type: string;
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
// RFC 9110 §8.8.3, without W/.
const STRONG_ETAG = /^"[\x21\x23-\x7e\x80-\xff]*"$/;

/** A point that does not hold; the message says what was seen. */
export class Broken extends Error {}

/** A point that cannot be judged; the message says why. */
export class NotChecked extends Error {}

/** One device at one cloud. */
export class Cloud {
  readonly #base: string;
  readonly #key: string;

  constructor(url: string, device: string, key: string) {
    this.#base = `${url.replace(/\/+$/, '')}/devices/${encodeURIComponent(device)}`;
    this.#key = key;
  }

  /** One call below `devices/<id>/`. Throws Broken if no whole answer comes. */
  async call(method: string, path: string, { headers, body, key = this.#key }: Extras = {}): Promise<Answer> {
    try {
      const answer = await fetch(`${this.#base}/${path}`, {
        method,
        redirect: 'manual',
        signal: AbortSignal.timeout(PATIENCE_MS),
        headers: {
          ...(key !== null && { Authorization: `Bearer ${key}` }),
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await answer.text();
      const type = answer.headers.get('content-type') ?? 'no type';
      return { status: answer.status, etag: answer.headers.get('etag'), type, text, json: objectOf(text) };
    } catch (error) {
      const { cause } = error as { cause?: Error };
      throw new Broken(`${method} ${path} brought no answer: ${(cause ?? (error as Error)).message}`);
    }
  }

  heartbeat(more: Readonly<Record<string, unknown>> = {}, key?: string | null): Promise<Answer> {
    const queue = { queued: 0, deferred: 0, failed: 0 };
    const body = { bootId: 'c0fefe00', sequence: 1, uptimeMs: 1000, state: 'running', queue, version: '0' };
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
