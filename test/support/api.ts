/**
 * The local API on an ephemeral port over the real store on a disk in memory and a clock that stands still, and a
 * client that writes bytes as they are and reads answers one by one.
 *
 *   await using api = await startApi();
 *   const answer = await api.call('GET', '/healthz');
 */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Test } from 'tap';
import type { ListenConfig } from '../../src/base/config/types.js';
import type { ErrorCode } from '../../src/base/errors.js';
import { RefusedTotals } from '../../src/base/http/problem.js';
import { MIB, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { openListeners } from '../../src/base/system/listen.js';
import { createLog } from '../../src/base/system/log.js';
import { lazyAlive } from '../../src/device/alive.js';
import type { ApiContext } from '../../src/device/api/context.js';
import { createApi } from '../../src/device/api/server.js';
import { AddressBook } from '../../src/device/book/address-book.js';
import { base64Octets } from '../../src/mail/mime/encodings.js';
import type { Upload } from '../../src/mail/store/spool.js';
import type { Store, StoreOptions } from '../../src/mail/store/store.js';
import { FakeClock, settled } from './clock.js';
import { assertDescribed } from './described.js';
import type { FaultyDisk } from './faulty-disk.js';
import { openQuietly, STATE_DIR } from './store.js';
import { drawn } from './system.js';

const SPOOL = `${STATE_DIR}/spool`;

export const MESSAGES = '/api/internal/messages';
export const EMAIL = { type: 1, destination: 'john@example.com', subject: 'Hi' };

export interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly json: any;
}

interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** Parts other than those that `startApi` makes itself. */
type GivenParts = Omit<ApiContext, 'store' | 'settings' | 'clock' | 'log'>;

interface StartOptions extends Partial<GivenParts> {
  readonly settings?: Partial<ApiContext['settings']>;
  readonly listen?: ListenConfig;
  readonly disk?: FaultyDisk;
  readonly clock?: FakeClock;
  readonly budget?: Partial<StoreOptions['budget']>;
  readonly memoryBytesMax?: number;
  readonly historyMax?: number;
}

const BUDGET = { maxQueue: 10_000, maxSpoolBytes: 2 ** 28, minFreeBytes: 2 ** 20 };
const SETTINGS: ApiContext['settings'] = {
  cloud: null,
  maxBodyBytes: 2 ** 20,
  maxBatch: 100,
  maxAttachments: 10,
  maxMessageBytes: 25 * 2 ** 20,
  allowedHosts: [],
  apiToken: null,
  sendToken: null,
  fromHeader: 'fix',
  urgentHeaders: 'no',
  minFreeBytes: 16 * MIB,
  maxShare: 100,
};

const isOfDevice = (address: string) => /@(?:localhost(?:\.localdomain)?|pump-3)$/i.test(address);

/** A started api, and what tests do with it. */
export type TestApi = Awaited<ReturnType<typeof startApi>>;

export async function startApi(options: StartOptions = {}) {
  const {
    settings,
    listen,
    disk: given,
    clock = new FakeClock(),
    budget,
    memoryBytesMax,
    historyMax,
    ...parts
  } = options;
  const { store, disk } = await openQuietly(clock, {
    budget: { ...BUDGET, ...budget },
    ...(given && { disk: given }),
    ...(memoryBytesMax !== undefined && { memoryBytesMax }),
    ...(historyMax !== undefined && { historyMax }),
  });
  const uploads = countUploads(store);
  const lines: string[] = [];
  const book = new AddressBook(store.book);
  const log = createLog({
    level: 'debug',
    priorities: true,
    write: (line) => lines.push(line),
    wallMs: Date.now,
  });
  const alive = lazyAlive({
    ...{ store, disk, clock, log, book, directory: STATE_DIR },
    ...drawn(2),
    hostname: () => 'pump-3',
    homesOf: (address) => [address],
    hasCloud: false,
    delivery: { nudge: () => undefined },
    changed: () => undefined,
  });
  const api = createApi({
    store,
    book,
    settings: { ...SETTINGS, ...settings },
    clock,
    log,
    version: '1.2.3',
    startedBootMs: clock.bootMs(),
    accepted: { total: 0 },
    refused: new RefusedTotals(),
    nudge: () => {
      test.nudges++;
    },
    wake: () => {
      test.wakes++;
    },
    edited: () => {
      test.edits++;
    },
    syncState: () => null,
    tryRelays: async () => [],
    relayState: () => ({
      state: 'none',
      sinceMs: clock.wallMs(),
      reason: 'none set',
      nextTryMs: null,
      rate: null,
    }),
    linkState: () => null,
    telling: null,
    alive,
    history: async () => [],
    mayBeFrom: (address) => address === 'device@example.com',
    isOfThisDevice: isOfDevice,
    homesOf: (address) => (isOfDevice(address) ? [] : [address]),
    hostname: () => 'pump-3',
    mailLimitBytes: () => null,
    // A stand-in for the real size: all of the content, as it is.
    mailBytes: ({ content, attachments }) =>
      Buffer.byteLength(Object.values(content).join('')) +
      attachments.reduce((sum, { size }) => sum + base64Octets(size), 0),
    outcomes: () => ({ sent: 3, deferred: 2, failed: 1, expired: 0 }),
    clockTrusted: () => true,
    peerUid: async () => null,
    settingsFault: () => null,
    ...parts,
  });
  const sockets = new Map<number | undefined, Socket>();
  const listeners = await openListeners(
    [listen ?? { kind: 'tcp', host: '127.0.0.1', port: 0 }],
    (address) => {
      const isUnix = address.kind === 'unix';
      const server = isUnix
        ? api.makeServer(address.sendOnly ? 'send' : 'unix', address.path)
        : api.makeServer('tcp');
      server.on('connection', (socket) => sockets.set(socket.remotePort, socket));
      return server;
    },
  );
  const [address] = listeners.addresses as [ListenConfig];
  const test = {
    api,
    store,
    book,
    disk,
    clock,
    /** All messages there are. */
    get size(): number {
      return store.list({ status: null, limit: 1_000_000, after: null }).messages.length;
    },
    /** Uploads that were begun and not discarded. */
    get uploads(): number {
      return uploads.size;
    },
    /** The names of the files in the spool. */
    files: () => disk.list(SPOOL),
    file: (id: string) => disk.readWhole(`${SPOOL}/${id}`),
    /** The disk refuses every change until it is mended. */
    breakDisk() {
      disk.onOperation = () => 'error:EIO';
    },
    async mendDisk() {
      disk.onOperation = () => 'ok';
      await clock.advance(STORAGE_RETRY_MS);
    },
    async fillDisk() {
      disk.capacityBytes -= (await disk.space('/')).freeBytes;
      await store.look();
    },
    async emptyDisk() {
      disk.capacityBytes = 2 ** 40;
      await store.look();
    },
    /** Every log line, and those of errors. */
    lines,
    get errors(): readonly string[] {
      return lines.filter((line) => line.startsWith('<3>'));
    },
    listeners,
    nudges: 0,
    edits: 0,
    wakes: 0,
    connect: () => RawClient.to(address),
    /** Octets of what the client wrote that the server has read. */
    readOf: ({ socket }: RawClient): number => sockets.get(socket.localPort)?.bytesRead ?? 0,
    /** After this long without a byte the server ends the connection; 0: never. */
    timeoutMsOf: ({ socket }: RawClient): number => sockets.get(socket.localPort)?.timeout ?? 0,
    /** Resolves when the server has read all that the client wrote. */
    async heard(client: RawClient): Promise<void> {
      while (test.readOf(client) < client.socket.bytesWritten) await settled();
    },
    /** One request on a connection of its own. It and its answer must be as the API describes them. */
    async call(method: string, path: string, { headers = {}, body = '' }: CallOptions = {}): Promise<Answer> {
      await using client = await RawClient.to(address);
      client.write(requestText(method, path, headers, Buffer.byteLength(body)));
      if (body.length > 0) client.write(body);
      const answer = await client.answer(method === 'HEAD');
      assertDescribed({
        method,
        path,
        headers: lowerCased(headers),
        body,
        status: answer.status,
        answerHeaders: answer.headers,
        answerBody: answer.body,
      });
      return answer;
    },
    /** Posts a value as JSON to the messages. */
    post: (value: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
      test.call('POST', MESSAGES, {
        headers: { 'Content-Type': 'application/json', ...headers },
        body: JSON.stringify(value),
      }),
    async [Symbol.asyncDispose](): Promise<void> {
      const closed = listeners.close();
      const stopped = api.stop(0);
      await clock.advance(0);
      await stopped;
      await alive.stop();
      await closed;
    },
  };
  return test;
}

/** With their names in lower case. */
function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Those that are open. */
function countUploads(store: Store): ReadonlySet<Upload> {
  const open = new Set<Upload>();
  const begin = store.upload.bind(store);
  store.upload = async (expectedBytes, isUrgent) => {
    const upload = await begin(expectedBytes, isUrgent);
    open.add(upload);
    const discard = upload.discard.bind(upload);
    upload.discard = async () => {
      open.delete(upload);
      await discard();
    };
    return upload;
  };
  return open;
}

/** Tests that this is a whole problem of that kind; `name` says which of several answers it is. */
export function isProblem(t: Test, answer: Answer, status: number, code: ErrorCode, name = ''): void {
  t.equal(answer.status, status, name);
  t.equal(answer.headers['content-type'], 'application/problem+json', name);
  t.match(answer.json, { type: `urn:fieldpost:problem:${code}`, status, title: /./, detail: /\S/ }, name);
  t.match(answer.headers, { date: /GMT$/, 'content-length': String(Buffer.byteLength(answer.body)) }, name);
}

/** The head of a request; Content-Length is there if there is a body. */
export function requestText(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  bodyBytes = 0,
): string {
  const all = {
    Host: 'localhost',
    ...(bodyBytes > 0 && { 'Content-Length': String(bodyBytes) }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** A connection on which a test writes what it likes. */
export class RawClient implements AsyncDisposable {
  readonly socket: Socket;
  /** Resolves when the server has ended its side, by whatever means; true if it was a reset. */
  readonly ended: Promise<boolean>;
  #received = Buffer.alloc(0);
  #isOver = false;
  #wake: () => void = () => undefined;

  static async to(address: ListenConfig): Promise<RawClient> {
    const where =
      address.kind === 'unix' ? { path: address.path } : { host: address.host, port: address.port };
    const socket = connect({ ...where, allowHalfOpen: true, noDelay: true });
    const client = new RawClient(socket);
    await once(socket, 'connect');
    return client;
  }

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    this.ended = new Promise((resolve) => {
      const over = (wasReset: boolean) => () => {
        this.#isOver = true;
        this.#wake();
        resolve(wasReset);
      };
      socket.once('end', over(false));
      socket.once('close', over(false));
      socket.on('error', over(true));
    });
  }

  /** What arrived and was not read as an answer. */
  get rest(): string {
    return this.#received.toString('latin1');
  }

  write(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  /** Reads the next answer; for HEAD there is no body, whatever its length says. Rejects if none comes. */
  async answer(isHead = false): Promise<Answer> {
    for (;;) {
      const answer = this.#parse(isHead);
      if (answer !== null) return answer;
      if (this.#isOver) throw new Error(`no answer, only ${JSON.stringify(this.rest)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    if (!this.socket.closed) await once(this.socket, 'close');
  }

  #parse(isHead: boolean): Answer | null {
    const headEnd = this.#received.indexOf('\r\n\r\n');
    if (headEnd < 0) return null;
    const [first = '', ...lines] = this.#received.toString('latin1', 0, headEnd).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const bodyBytes = isHead ? 0 : Number(headers['content-length'] ?? 0);
    const end = headEnd + 4 + bodyBytes;
    if (this.#received.length < end) return null;
    const body = this.#received.toString('utf8', headEnd + 4, end);
    this.#received = this.#received.subarray(end);
    const isJson = /json/.test(headers['content-type'] ?? '') && !isHead;
    return {
      status: Number(first.split(' ')[1]),
      headers,
      body,
      json: isJson ? JSON.parse(body) : undefined,
    };
  }
}
