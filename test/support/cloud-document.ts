/**
 * The reference cloud with the destinations document of one device, over connections in memory. People edit the document
 * on the cloud's screen. Requests and answers get lost on the way, or something else answers. Used by the tests of the sync.
 */
import type { Server } from 'node:http';
import { CloudClient } from '../../src/cloud/client.js';
import type { HttpAnswer, HttpRequest } from '../../src/system/https.js';
import { ask, type Request } from '../simulation/wire.js';
import { FakeClock } from './clock.js';
import { DESTINATIONS, DEVICE, startCloud } from './reference-cloud.js';

/** What becomes of a call. An answer is given in place of the cloud's. */
export type Fate = 'ok' | 'lost request' | 'lost answer' | HttpAnswer;

interface Document {
  readonly destinations: readonly unknown[];
  readonly [member: string]: unknown;
}
type Call = 'get' | 'put';

/** An answer with a problem. */
export function refusal(status: number, headers: HttpAnswer['headers'] = {}): HttpAnswer {
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: Buffer.from(JSON.stringify({ title: 'Problem', status, detail: 'not now' })),
  };
}

export class CloudDocument {
  readonly client: CloudClient;
  /** How this cloud changes a document that is put to it; by default not at all. */
  keep: (document: Document) => Document = (document) => document;
  /** What becomes of the next call; a test may also wait or edit here. */
  onCall: (call: Call) => Fate | Promise<Fate> = () => 'ok';
  /** Every call that was made, for a test to look at. */
  readonly calls: Call[] = [];
  readonly #server: Server;
  #etag = '';
  /** Null before the first PUT and after a loss. */
  #document: Document | null = null;

  static async start(): Promise<CloudDocument> {
    let server: Server | undefined;
    await startCloud({
      system: {
        openListeners: async (addresses, makeServer) => {
          server = addresses.map(makeServer)[0] as Server;
          return { addresses, close: async () => undefined };
        },
      },
    });
    return new CloudDocument(server as Server);
  }

  private constructor(server: Server) {
    this.#server = server;
    this.client = new CloudClient(
      { url: 'http://cloud.example', deviceId: 'pump-3', key: 'any' },
      { send: (request) => this.#send(request), clock: new FakeClock(), version: '1.2.3' },
    );
  }

  get etag(): string {
    return this.#etag;
  }

  get entries(): readonly unknown[] | null {
    return this.#document?.destinations ?? null;
  }

  /** Somebody edits on the cloud's own screen. */
  async edit(how: (entries: readonly unknown[]) => readonly unknown[]): Promise<void> {
    await this.#store({ ...this.#document, destinations: how(this.entries ?? []) });
  }

  /** The document is gone, as after a failed restore. */
  async forget(): Promise<void> {
    await this.#ask({ method: 'DELETE', path: DEVICE });
  }

  /** A backup of the document as it is now; what it gives puts that one back. */
  backUp(): () => Promise<void> {
    const document = this.#document as Document;
    return () => this.#store(document);
  }

  /** The same document has another ETag, as from a cloud whose ETags flap. */
  async flap(): Promise<void> {
    if (this.#document !== null) await this.#store(this.#document);
  }

  async #store(document: Document): Promise<void> {
    const condition = this.#document === null ? { 'If-None-Match': '*' } : { 'If-Match': '*' };
    const body = JSON.stringify(document);
    const { status } = await this.#ask({ method: 'PUT', path: DESTINATIONS, headers: condition, body });
    if (status >= 300) throw new Error(`the cloud answered ${status}`);
  }

  async #send({ method, headers, body, signal }: HttpRequest): Promise<HttpAnswer> {
    const call = method === 'GET' ? 'get' : 'put';
    this.calls.push(call);
    const fate = await this.onCall(call);
    if (signal.aborted) throw coded('ABORT_ERR');
    if (typeof fate === 'object') return fate;
    if (fate === 'lost request') throw coded('ECONNRESET');
    const kept = body === null ? null : JSON.stringify(this.keep(JSON.parse(body)));
    const answer = await this.#ask({ method, path: DESTINATIONS, headers, body: kept });
    if (fate === 'lost answer') throw coded('ECONNRESET');
    return answer;
  }

  /** Asks the cloud. After a change, looks at what the cloud has. */
  async #ask(request: Request): Promise<HttpAnswer> {
    const headers = { Authorization: 'Bearer any', 'Content-Type': 'application/json', ...request.headers };
    const answer = await ask(this.#server, { ...request, headers });
    if (answer === null) throw new Error('the cloud has not answered');
    if (request.method !== 'GET') {
      const { status, headers, body } = await this.#ask({ method: 'GET', path: DESTINATIONS });
      this.#document = status === 200 ? JSON.parse(body.toString()) : null;
      this.#etag = headers.etag ?? '';
    }
    return answer;
  }
}

function coded(code: string): Error {
  return Object.assign(new Error(code), { code });
}
