/**
 * The reference cloud, over connections in memory, and its screen: people edit the destinations document of one device.
 */
import type { Server } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SECOND_MS } from '../../src/base/limits.js';
import { type Answer, ask, type Request } from '../simulation/wire.js';
import { FakeClock } from './clock.js';
import { DESTINATIONS, DEVICE, startCloud } from './reference-cloud.js';

export const KEY = 'the-device-key';
const OPERATOR = { Authorization: 'Bearer boss', 'Content-Type': 'application/json' };

/** The cloud answers most calls within so many turns. */
const TURNS = 50;

interface Document {
  readonly destinations: readonly unknown[];
  readonly [member: string]: unknown;
}

export class CloudScreen {
  readonly #server: Server;
  readonly #clock: FakeClock;
  #etag = '';
  /** Null before the first PUT and after a loss. */
  #document: Document | null = null;

  static async start<T extends CloudScreen>(this: new (server: Server, clock: FakeClock) => T): Promise<T> {
    let server: Server | undefined;
    // A wrong clock: heartbeats are answered without the time.
    const clock = new FakeClock({ wallMs: 0 });
    await startCloud({
      keys: `pump-3 ${KEY}\n* boss\n`,
      clock,
      send: async () => ({ kind: 'taken', reply: '202' }),
      system: {
        openListeners: async (addresses, makeServer) => {
          server = addresses.map(makeServer)[0] as Server;
          return { addresses, close: async () => undefined };
        },
      },
    });
    return new this(server as Server, clock);
  }

  constructor(server: Server, clock: FakeClock) {
    this.#server = server;
    this.#clock = clock;
  }

  get etag(): string {
    return this.#etag;
  }

  get entries(): readonly unknown[] | null {
    return this.#document?.destinations ?? null;
  }

  /** Somebody edits on the screen. */
  async edit(how: (entries: readonly unknown[]) => readonly unknown[]): Promise<void> {
    await this.#store({ ...this.#document, destinations: how(this.entries ?? []) });
  }

  /** The document is gone, as after a failed restore. */
  async forget(): Promise<void> {
    await this.ask({ method: 'DELETE', path: DEVICE, headers: OPERATOR });
  }

  /** A backup of the document as it is now. The function that it returns restores it. */
  backUp(): () => Promise<void> {
    const document = this.#document as Document;
    return () => this.#store(document);
  }

  /** The same document gets another ETag. */
  async flap(): Promise<void> {
    if (this.#document !== null) await this.#store(this.#document);
  }

  /** Asks the cloud. After a change, looks at what the cloud has. */
  async ask(request: Request): Promise<Answer> {
    const answer = await this.#answered(ask(this.#server, request));
    if (answer === null) throw new Error('the cloud has not answered');
    const { method, path } = request;
    if (method === 'DELETE' || (method === 'PUT' && path === DESTINATIONS)) {
      const found = await this.ask({ method: 'GET', path: DESTINATIONS, headers: OPERATOR });
      this.#document = found.status === 200 ? JSON.parse(found.body.toString()) : null;
      this.#etag = found.headers.etag ?? '';
    }
    return answer;
  }

  /** What people ask for is stored at most once a second: the clock goes on while the cloud does not answer. */
  async #answered<T>(asked: Promise<T>): Promise<T> {
    let isOpen = true;
    const tick = async () => {
      for (let turn = 1; isOpen; turn++) {
        await nextTurn();
        if (isOpen && turn % TURNS === 0) await this.#clock.advance(SECOND_MS / 10);
      }
    };
    void tick();
    try {
      return await asked;
    } finally {
      isOpen = false;
    }
  }

  async #store(document: Document): Promise<void> {
    const condition = this.#document === null ? { 'If-None-Match': '*' } : { 'If-Match': '*' };
    const headers = { ...OPERATOR, ...condition };
    const body = JSON.stringify(document);
    const { status } = await this.ask({ method: 'PUT', path: DESTINATIONS, headers, body });
    if (status >= 300) throw new Error(`the cloud answered ${status}`);
  }
}
