/**
 * One watch: a POST whose answer goes on, one JSON object a line. etcd sends large batches in fragments; each revision is
 * handed over whole.
 */
import type { Buffer } from 'node:buffer';
import { isJsonObject, type JsonObject, objectIn } from '../../base/json.js';
import { ETCD_ANSWER_BYTES_MAX } from '../../base/limits.js';
import { Octets } from '../../base/octets.js';
import { cancelOf, keyValueOf, numberOf, objectsOf, refusalOf } from './answers.js';
import type { Endpoints, EtcdRequest, Failed } from './endpoints.js';
import { type Change, EtcdError, type WatchListener } from './etcd.js';
import { below } from './requests.js';

const LINE_FEED = 0x0a;

/** Opens a watch, at the next member if one fails. `closed` is called when it is over. */
export class Watching {
  readonly #endpoints: Endpoints;
  readonly #listener: WatchListener;
  readonly #request: EtcdRequest;
  readonly #closed: () => void;
  #isClosed = false;
  /** Ends the present attempt. */
  #attemptEnd = new AbortController();
  /** True once etcd has begun: from then on a failure ends the watch. */
  #isCreated = false;
  /** What etcd said at the end. */
  #failed: Failed | null = null;
  readonly #rest = new Octets();
  /** The changes of the last revision so far, while more fragments are to come. */
  #pending: Change[] = [];

  constructor(
    endpoints: Endpoints,
    prefix: string,
    from: number,
    listener: WatchListener,
    closed: () => void,
  ) {
    this.#endpoints = endpoints;
    this.#listener = listener;
    this.#closed = closed;
    const range = { ...below(prefix), start_revision: String(from), fragment: true };
    this.#request = { path: '/v3/watch', body: { create_request: range }, kind: 'read' };
    void this.#run();
  }

  /** Ends it without a word. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#attemptEnd.abort();
    this.#closed();
  }

  async #run(): Promise<void> {
    let error: unknown;
    try {
      await this.#endpoints.eachMember<never>(
        (endpoint) => this.#attempt(endpoint),
        () => !this.#isCreated && !this.#isClosed,
      );
    } catch (thrown) {
      error = thrown;
    }
    if (this.#isClosed || this.#endpoints.isClosed) return;
    this.close();
    if (!(error instanceof EtcdError)) throw error;
    this.#listener.ended(error);
  }

  /** Watches at one member until that ends. A watch always ends in an error. */
  async #attempt(endpoint: string): Promise<Failed> {
    this.#failed = null;
    this.#rest.take();
    this.#pending = [];
    const end = new AbortController();
    this.#attemptEnd = end;
    const chunk = (bytes: Buffer) => {
      if (end.signal.aborted) return;
      this.#read(bytes, endpoint);
      if (this.#failed !== null) end.abort();
    };
    try {
      const { status } = await this.#endpoints.send(endpoint, this.#request, { chunk, signal: end.signal });
      if (this.#failed === null && this.#rest.length > 0) this.#line(this.#rest.take(), endpoint);
      return this.#failed ?? this.#endpoints.malformed(endpoint, `the watch has ended (${status})`);
    } catch (thrown) {
      return this.#failed ?? this.#endpoints.thrown(thrown, endpoint);
    }
  }

  /** Splits the bytes into lines. */
  #read(bytes: Buffer, endpoint: string): void {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      this.#rest.push(bytes.subarray(from, end));
      from = end + 1;
      this.#line(this.#rest.take(), endpoint);
      // The listener may have closed it.
      if (this.#failed !== null || this.#isClosed) return;
    }
    if (from === bytes.length) return;
    this.#rest.push(bytes.subarray(from));
    if (this.#rest.length > ETCD_ANSWER_BYTES_MAX)
      this.#failed = this.#endpoints.malformed(endpoint, 'a line of its watch is too long');
  }

  #line(line: Buffer, endpoint: string): void {
    if (line.length === 0) return;
    const answer = objectIn(line);
    const refusal = answer === null ? null : refusalOf(answer);
    if (refusal !== null) this.#failed = this.#endpoints.refused(refusal, endpoint, null);
    else {
      const found = readResult(answer?.result);
      if (found === null) this.#failed = this.#endpoints.malformed(endpoint, "an answer that is not etcd's");
      else this.#take(found, endpoint);
    }
  }

  #take({ isCanceled, reason, compacted, isCreated, changes, isFragment }: Result, endpoint: string): void {
    if (compacted > 0) {
      const words = `etcd at ${new URL(endpoint).host}: the revision has been compacted`;
      this.#failed = { error: new EtcdError('refused', words, { compactedRevision: compacted }), next: null };
    } else if (isCanceled) this.#failed = this.#endpoints.refused(cancelOf(reason), endpoint, null);
    else {
      if (isCreated) this.#isCreated = true;
      for (const change of changes) {
        if (this.#pending[0] !== undefined && this.#pending[0].modRevision !== change.modRevision)
          this.#deliver();
        if (this.#isClosed) return;
        this.#pending.push(change);
      }
      if (!isFragment) this.#deliver();
    }
  }

  #deliver(): void {
    const changes = this.#pending;
    this.#pending = [];
    if (changes[0] !== undefined) this.#listener.changes(changes, changes[0].modRevision);
  }
}

/** One object of the stream. */
interface Result {
  readonly isCreated: boolean;
  readonly isCanceled: boolean;
  readonly reason: string;
  readonly compacted: number;
  readonly isFragment: boolean;
  readonly changes: readonly Change[];
}

function readResult(result: unknown): Result | null {
  if (!isJsonObject(result)) return null;
  try {
    return {
      isCreated: result.created === true,
      isCanceled: result.canceled === true,
      reason: String(result.cancel_reason ?? 'the watch has been cancelled'),
      compacted: numberOf(result.compact_revision),
      isFragment: result.fragment === true,
      changes: objectsOf(result.events).map(changeOf),
    };
  } catch {
    return null;
  }
}

function changeOf({ type, kv }: JsonObject): Change {
  if (!isJsonObject(kv)) throw new Error('no key');
  return { kind: type === 'DELETE' ? 'delete' : 'put', ...keyValueOf(kv) };
}
