/**
 * The link from a simulated device to its cloud. A request reaches the cloud's own server, gets lost, or gets the answer
 * of a proxy.
 */
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { HttpAnswer, HttpRequest, Https } from '../../src/base/system/https.js';
import type { Chance } from './chance.js';
import { die } from './deaths.js';
import type { Answer, Request } from './wire.js';
import type { World } from './world.js';

/**
 * The fates of a request. `late`: it arrives after its time-out. `meddled`: somebody edits the book at one side just
 * before it arrives. `cut`: the device loses its power before the request arrives, or after.
 */
export const FATES = [
  'good',
  'slow',
  'lost request',
  'lost answer',
  'late',
  'error',
  'stray',
  'portal',
  'meddled',
  'cut',
] as const;
export type Fate = (typeof FATES)[number];

/** What a request is for. */
export const CALLS = ['heartbeat', 'destinations', 'messages'] as const;
export type CallKind = (typeof CALLS)[number];

/** The calls that may fail: all of a kind, or only the PUTs of the document. */
export const ILLS = [...CALLS, 'edits'] as const;
export type Ill = (typeof ILLS)[number];

/** One request of the device, and its fate. */
export interface Call {
  readonly kind: CallKind;
  readonly method: string;
  readonly url: string;
  readonly body: string | null;
  readonly fate: Fate;
}

/** Observes the requests over the link. */
export interface LinkWatcher {
  /** The device asks. */
  asked?(call: Call): void;
  /** The cloud has answered it, whether or not the device is told. */
  answered?(call: Call, answer: Answer): void;
  /** The device has the answer; null: it learns that none comes. */
  told?(call: Call, answer: HttpAnswer | null): void;
}

/** How long after the time-out a late request arrives. */
const LATE_MS = 20 * SECOND_MS;
const LATE_MS_MAX = 20 * MINUTE_MS;

export class CloudLink {
  isUp = true;
  /** The weight of each fate. */
  weights: Readonly<Record<Fate, number>> = weightsOf({});
  /** The calls that may fail. */
  ill: readonly Ill[] = CALLS;
  readonly watchers: LinkWatcher[] = [];
  /** The number of open calls of each kind, those of ended processes included. */
  readonly #open = new Map<CallKind, number>();
  readonly #world: World;
  readonly #chance: Chance;

  constructor(world: World, chance: Chance) {
    this.#world = world;
    this.#chance = chance;
  }

  /** The https of a device. Its requests end with its process. */
  https(isAlive: () => boolean): Https {
    return { send: (request) => this.#send(request, isAlive), close: () => undefined };
  }

  /** How many calls of this kind wait for an answer. */
  hanging(kind: CallKind): number {
    return this.#open.get(kind) ?? 0;
  }

  /** Every call succeeds from now on. */
  get isGood(): boolean {
    return (
      this.isUp && Object.entries(this.weights).every(([fate, weight]) => fate === 'good' || weight === 0)
    );
  }

  async #send(request: HttpRequest, isAlive: () => boolean): Promise<HttpAnswer> {
    const { timeline, cloud, people } = this.#world;
    const chance = this.#chance;
    const cut = () => die(this.#world, 'power cut', this.#world.chance.fork());
    const call = this.#call(request);
    this.#open.set(call.kind, this.hanging(call.kind) + 1);
    for (const watcher of this.watchers) watcher.asked?.(call);
    return await new Promise<HttpAnswer>((resolve, reject) => {
      const fail = (code: string, words: string, isReached = true) => {
        over(null);
        reject(Object.assign(new Error(words), { code, isReached }));
      };
      const giveUp = () => fail('ABORT_ERR', 'given up');
      const deadline = timeline.after(request.timeoutMs, () => {
        if (isAlive()) fail('DEADLINE', 'no answer');
        else over(null);
      });
      let isOver = false;
      const over = (answer: HttpAnswer | null) => {
        if (!isOver) this.#open.set(call.kind, this.hanging(call.kind) - 1);
        if (!isOver && isAlive()) for (const watcher of this.watchers) watcher.told?.(call, answer);
        isOver = true;
        deadline.stop();
        request.signal.removeEventListener('abort', giveUp);
      };
      request.signal.addEventListener('abort', giveUp);
      if (request.signal.aborted) return giveUp();
      const answer = (found: HttpAnswer) => {
        over(found);
        if (isAlive()) resolve(found);
      };
      if (!this.isUp) return fail('ENETUNREACH', 'connect ENETUNREACH', false);
      const bring = async () => {
        const found = await cloud.ask(asked(request));
        if (found !== null) for (const watcher of this.watchers) watcher.answered?.(call, found);
        return found;
      };
      const whole = (found: Answer | null) => {
        if (!isAlive()) return;
        if (found === null) fail('ECONNRESET', 'the connection was reset');
        else answer(found);
      };
      switch (call.fate) {
        case 'good':
          void bring().then(whole);
          break;
        case 'slow':
          timeline.after(chance.below(request.timeoutMs), () => void bring().then(whole));
          break;
        case 'lost request':
          break;
        case 'lost answer':
          // Somebody may edit before the device asks again.
          void bring().then(() => (call.method === 'PUT' && chance.is(0.5) ? people.meddle() : undefined));
          break;
        case 'late': {
          const afterMs = chance.is(0.5) ? LATE_MS : LATE_MS_MAX;
          timeline.after(request.timeoutMs + chance.below(afterMs), () => void bring());
          break;
        }
        case 'error': {
          const asksMs = chance.is(0.5) ? chance.below(10 * MINUTE_MS) : null;
          answer(problem(chance.one([429, 500, 502, 503, 503]), retryAfter(asksMs, chance)));
          break;
        }
        case 'stray':
          answer(problem(404, {}));
          break;
        case 'portal':
          answer({
            status: 200,
            headers: { 'content-type': 'text/html' },
            body: Buffer.from('<h1>Sign in</h1>'),
          });
          break;
        case 'meddled':
          void people.meddle().then(bring).then(whole);
          break;
        case 'cut':
          if (chance.is(0.5)) cut();
          else void bring().then(cut);
      }
    });
  }

  #call({ method, url, body }: HttpRequest): Call {
    const kind = CALLS.find((one) => new URL(url).pathname.endsWith(`/${one}`)) ?? 'messages';
    const drawn = this.#chance.weighted(this.weights);
    const isOfBook = kind === 'destinations';
    const isIll = this.ill.includes(kind) || (isOfBook && method === 'PUT' && this.ill.includes('edits'));
    const fate = !isIll || (drawn === 'meddled' && !isOfBook) ? 'good' : drawn;
    return { kind, method, url, body, fate };
  }
}

/** Weights of all fates: 1 for the good one, 0 for each one that is not named. */
export function weightsOf(some: Partial<Record<Fate, number>>): Record<Fate, number> {
  const all = Object.fromEntries(FATES.map((fate) => [fate, 0])) as Record<Fate, number>;
  return { ...all, good: 1, ...some };
}

function asked({ method, url, headers, body }: HttpRequest): Request {
  const { pathname, search } = new URL(url);
  return { method, path: `${pathname}${search}`, headers, body };
}

/** A Retry-After in seconds, or as a date by the clock of the one who answers. */
function retryAfter(askedMs: number | null, chance: Chance): HttpAnswer['headers'] {
  if (askedMs === null) return {};
  const seconds = Math.ceil(askedMs / SECOND_MS);
  if (chance.is(0.5)) return { 'retry-after': String(seconds) };
  const nowMs = Date.UTC(2027, 0, 1);
  const until = new Date(nowMs + seconds * SECOND_MS).toUTCString();
  return { date: new Date(nowMs).toUTCString(), 'retry-after': until };
}

function problem(status: number, headers: HttpAnswer['headers']): HttpAnswer {
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: Buffer.from(JSON.stringify({ type: 'about:blank', title: 'no', status, detail: 'not now' })),
  };
}
