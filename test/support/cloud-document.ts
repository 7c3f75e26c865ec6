/**
 * The reference cloud as the client of one device calls it. Requests and answers get lost on the way, or something else
 * answers.
 */
import type { Server } from 'node:http';
import type { HttpAnswer, HttpRequest } from '../../src/base/system/https.js';
import { CloudClient } from '../../src/device/link/client.js';
import { FakeClock } from './clock.js';
import { CloudScreen, KEY } from './cloud-screen.js';
import { systemError } from './system-error.js';

/** What becomes of a call. An answer is given in place of the cloud's. */
export type Fate = 'ok' | 'lost request' | 'lost answer' | HttpAnswer;

interface Document {
  readonly destinations: readonly unknown[];
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

export class CloudDocument extends CloudScreen {
  readonly client: CloudClient;
  /** How this cloud changes a document that is put to it; by default not at all. */
  keep: (document: Document) => Document = (document) => document;
  /** What becomes of the next call; a test may also wait or edit here. */
  onCall: (call: Call) => Fate | Promise<Fate> = () => 'ok';
  /** Every call that was made, for a test to look at. */
  readonly calls: Call[] = [];

  constructor(server: Server, clock: FakeClock) {
    super(server, clock);
    this.client = new CloudClient(
      { url: 'http://cloud.example', deviceId: 'pump-3', key: KEY },
      { send: (request) => this.#send(request), clock: new FakeClock(), version: '1.2.3' },
    );
  }

  async #send({ method, url, headers, body, signal }: HttpRequest): Promise<HttpAnswer> {
    const call = method === 'GET' ? 'get' : 'put';
    this.calls.push(call);
    const fate = await this.onCall(call);
    if (signal.aborted) throw systemError('ABORT_ERR');
    if (typeof fate === 'object') return fate;
    if (fate === 'lost request') throw systemError('ECONNRESET');
    const kept = body === null ? null : JSON.stringify(this.keep(JSON.parse(body)));
    const answer = await this.ask({ method, path: new URL(url).pathname, headers, body: kept });
    if (fate === 'lost answer') throw systemError('ECONNRESET');
    return answer;
  }
}
