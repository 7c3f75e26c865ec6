/**
 * The record of a simulated world: the requests of programs, the answers to them, and the messages that arrived. It
 * checks the promises of the product without knowledge of the implementation. Each message has its own token in its
 * text.
 */
import { DAY_MS } from '../../src/base/limits.js';
import type { MessageType } from '../../src/mail/message/message.js';

/**
 * `asked`: no answer came, so it may be accepted. `promised`: 202. `refused`: an error that says that nothing was done.
 */
type Standing = 'asked' | 'promised' | 'refused';

/** One message that a program has posted. */
export interface Posted {
  readonly token: string;
  readonly type: MessageType;
  readonly destination: string;
  /** SHA-256 over the text and files that its recipient must get. */
  readonly digest: string;
  readonly atMs: number;
  /** The token in its text, if it is a copy of another recipient's mail. */
  readonly mail?: string;
  readonly isUrgent?: boolean;
  readonly isReadyMade?: boolean;
  /** It expires at this age. */
  readonly lifeMs?: number;
  /** All messages of one request are accepted, or none. */
  readonly request: Requested;
  id: string | null;
  /** When its DELETE was answered with 204: later offers break a promise. */
  cancelledMs: number | null;
  /** A client has sent a DELETE that may have worked. */
  isCancelAsked: boolean;
  /** When a client asked to retry it. */
  retriedMs: number | null;
  readonly arrivals: Arrival[];
  /** How many more times it may arrive, because the device may not know that it has arrived. */
  pardons: number;
  final: string | null;
}

export interface Requested {
  readonly key: string | null;
  readonly content: string;
  readonly posted: Posted[];
  standing: Standing;
  readonly atMs: number;
  answeredMs: number | null;
  /** When it was sent last, */
  sentMs: number;
  /** how many times it was sent, */
  tries: number;
  /** and how many of these have not ended. */
  underWay: number;
}

export interface Arrival {
  readonly atMs: number;
  readonly sinceMs: number;
  readonly messageId: string | null;
}

/** How many outcomes a power cut may lose: they are synced within a second, or with the 32nd. */
const LAZY_MS = 1500;
const LAZY_COUNT = 33;

export class Model {
  readonly messages = new Map<string, Posted>();
  /** How many finished messages the device keeps. */
  historyMax = Number.POSITIVE_INFINITY;
  /** Whether the queue is held, by the last answer to a client; null: unknown. */
  isHeld: boolean | null = false;
  /** Every broken promise, in words. */
  readonly found: string[] = [];
  /** In the order in which they arrived. */
  readonly #arrived: Posted[] = [];
  readonly #keys = new Map<string, Requested>();
  /** Since when the disk has been failing; null while it is well. */
  #troubledMs: number | null = null;

  violation(words: string): void {
    this.found.push(words);
  }

  /** A program posts. */
  asked(
    key: string | null,
    content: string,
    drafts: readonly Pick<
      Posted,
      'token' | 'type' | 'destination' | 'digest' | 'mail' | 'isUrgent' | 'isReadyMade' | 'lifeMs'
    >[],
    atMs: number,
  ): Requested {
    const before = key === null ? undefined : this.#keys.get(key);
    if (before !== undefined && before.content === content) return before;
    const request: Requested = {
      key,
      content,
      posted: [],
      standing: 'asked',
      atMs,
      answeredMs: null,
      sentMs: atMs,
      tries: 0,
      underWay: 0,
    };
    for (const draft of drafts) {
      const posted: Posted = {
        ...draft,
        atMs,
        request,
        id: null,
        cancelledMs: null,
        isCancelAsked: false,
        retriedMs: null,
        arrivals: [],
        pardons: 0,
        final: null,
      };
      request.posted.push(posted);
      this.messages.set(draft.token, posted);
    }
    if (key !== null) this.#keys.set(key, request);
    return request;
  }

  /** A program repeats the request: it may be accepted now. */
  asksAgain(request: Requested): void {
    if (request.standing === 'refused') request.standing = 'asked';
  }

  /** It was answered with 202 and these ids. */
  promised(request: Requested, ids: readonly string[], isReplayed: boolean, nowMs: number): void {
    if (ids.length !== request.posted.length) {
      this.violation(`${request.posted.length} messages were posted and ${ids.length} ids given`);
      return;
    }
    const isFresh = request.answeredMs === null || nowMs - request.answeredMs < DAY_MS;
    for (const [i, posted] of request.posted.entries()) {
      if (posted.id !== null && posted.id !== ids[i] && isFresh)
        this.violation(`${posted.token} was ${posted.id} and is ${ids[i]} with the same key`);
      if (isReplayed && posted.id === null && request.standing === 'refused')
        this.violation(`${posted.token} is replayed, although it was refused`);
      posted.id = ids[i] as string;
    }
    request.standing = 'promised';
    request.answeredMs ??= nowMs;
  }

  /** It was answered with an error. Certain: none of its tries so far is accepted. */
  refused(request: Requested, isCertain: boolean): void {
    if (request.standing === 'asked' && isCertain) request.standing = 'refused';
  }

  /** It has arrived at its recipient. */
  arrived(token: string, digest: string, arrival: Arrival): void {
    const posted = this.messages.get(token);
    if (posted === undefined) {
      this.violation(`${token} has arrived, which nobody posted`);
      return;
    }
    if (posted.digest !== digest) this.violation(`${token} has arrived otherwise than it was posted`);
    if (posted.request.standing === 'refused') this.violation(`${token} has arrived, which was refused`);
    if (isTooLate(posted, arrival)) this.violation(`${token} was offered after it was cancelled`);
    const [first] = posted.arrivals;
    if (first !== undefined && first.messageId !== arrival.messageId)
      this.violation(`${token} has arrived as ${first.messageId} and as ${arrival.messageId}`);
    for (const { messageId } of this.#copiesOf(posted)) {
      if (messageId !== arrival.messageId)
        this.violation(`${token} has arrived as ${arrival.messageId}, and a copy of it as ${messageId}`);
    }
    posted.arrivals.push(arrival);
    this.#arrived.push(posted);
    if (posted.arrivals.length > 1 && posted.pardons-- <= 0)
      this.violation(`${token} has arrived ${posted.arrivals.length} times`);
  }

  /** What other recipients of the same mail have got. */
  #copiesOf(posted: Posted): readonly Arrival[] {
    const mail = posted.mail ?? posted.token;
    return posted.request.posted
      .filter((one) => (one.mail ?? one.token) === mail)
      .flatMap(({ arrivals }) => arrivals);
  }

  /** Its DELETE was answered with 204: no offer of it may begin after `sinceMs`. */
  cancelled(posted: Posted, sinceMs: number): void {
    posted.cancelledMs ??= sinceMs;
    if (posted.arrivals.some((arrival) => isTooLate(posted, arrival)))
      this.violation(`${posted.token} was offered while it was being cancelled`);
  }

  /** A client retries it: a mail whose connection was lost at the dot may arrive once more. */
  retried(posted: Posted): void {
    posted.final = null;
    if (posted.arrivals.length > 0) posted.pardons++;
  }

  /** The sender does not know that it has arrived. */
  pardon(token: string): void {
    const posted = this.messages.get(token);
    if (posted !== undefined) posted.pardons++;
  }

  /**
   * The device's process has ended. A power cut loses what was not synced; otherwise only what was being sent, at most
   * `underWay` messages, and what the disk had refused to record.
   */
  ended(isCut: boolean, underWay: number, nowMs: number): void {
    const lazyMs = isCut ? LAZY_MS : 0;
    const lazyCount = isCut ? LAZY_COUNT : 0;
    const sinceMs = Math.min(this.#troubledMs ?? nowMs, nowMs - lazyMs);
    const last = this.#arrived.slice(-(lazyCount + underWay));
    const isDoubtful = (posted: Posted) => (posted.arrivals.at(-1)?.atMs ?? 0) >= sinceMs;
    const doubtful = new Set(this.#troubledMs === null ? last : this.#arrived.filter(isDoubtful));
    for (const posted of last.slice(-underWay)) doubtful.add(posted);
    for (const posted of doubtful) posted.pardons++;
  }

  /** True once the device may have taken so many messages that it has forgotten one that is finished. */
  get mayForget(): boolean {
    const taken = [...this.messages.values()].filter(({ request }) => request.standing !== 'refused');
    return taken.length > this.historyMax;
  }

  /** The disk fails, or is well again and has recorded what it had refused. */
  diskTrouble(isTroubled: boolean, nowMs: number): void {
    // A sync that fails loses what was written just before, too.
    this.#troubledMs = isTroubled ? (this.#troubledMs ?? nowMs - LAZY_MS) : null;
  }

  /** A copy of this state, to compare a later start with. */
  copy(): Model {
    const copy = new Model();
    copy.historyMax = this.historyMax;
    copy.isHeld = this.isHeld;
    copy.found.push(...this.found);
    // One clone of both, so that messages and keys still share their requests.
    const known = structuredClone({ messages: this.messages, keys: this.#keys });
    for (const [token, posted] of known.messages) copy.messages.set(token, posted);
    for (const [key, request] of known.keys) copy.#keys.set(key, request);
    return copy;
  }

  /** Requests whose key was answered with ids. */
  get remembered(): Requested[] {
    const isAnswered = ({ standing, answeredMs }: Requested) =>
      standing === 'promised' && answeredMs !== null;
    return [...this.#keys.values()].filter(isAnswered);
  }

  /** The promises that are broken if a start finds these messages, by their tokens. */
  broken(messages: ReadonlyMap<string, { readonly id: string }>): string[] {
    const found: string[] = [];
    for (const [token, posted] of this.messages) {
      const { request } = posted;
      const there = messages.get(token);
      if (request.standing === 'refused' && there) found.push(`${token} was refused and is there`);
      if (request.standing === 'promised' && !there) found.push(`${token} was promised and is lost`);
      if (there && posted.id !== null && there.id !== posted.id) found.push(`${token} has another id`);
      if (
        request.posted[0] === posted &&
        new Set(request.posted.map((one) => messages.has(one.token))).size > 1
      )
        found.push(`the request of ${token} is there in part`);
    }
    for (const token of messages.keys())
      if (!this.messages.has(token)) found.push(`${token} came from nowhere`);
    return found;
  }

  /** A start has found these messages and breaks no promise: open requests are decided. */
  decided(messages: ReadonlyMap<string, { readonly id: string }>): void {
    for (const [token, posted] of this.messages) {
      posted.id = messages.get(token)?.id ?? null;
      posted.request.standing = posted.id === null ? 'refused' : 'promised';
    }
  }
}

function isTooLate({ cancelledMs }: Posted, { sinceMs }: Arrival): boolean {
  return cancelledMs !== null && sinceMs > cancelledMs;
}
