/**
 * The way from a simulated device to its cloud: requests of the device's https, brought to the cloud's own server, or
 * lost on the way, or answered by somebody else. Used by world.ts.
 */
import { MINUTE_MS } from '../../src/limits.js';
import type { HttpAnswer, HttpRequest, Https } from '../../src/system/https.js';
import type { Chance } from './chance.js';
import type { Timeline } from './timeline.js';
import type { Answer, Request } from './wire.js';

/** What may become of one request. `late`: it arrives after everybody has given it up. */
export const FATES = [
  'good',
  'slow',
  'lost request',
  'lost answer',
  'late',
  'error',
  'stray',
  'portal',
] as const;
export type Fate = (typeof FATES)[number];

export interface LinkOptions {
  readonly timeline: Timeline;
  readonly chance: Chance;
  /** The cloud; null where it does not answer. */
  readonly ask: (request: Request) => Promise<Answer | null>;
}

export class CloudLink {
  isUp = true;
  /** How often which fate befalls a request. */
  weights: Readonly<Record<Fate, number>> = weightsOf({});
  requests = 0;
  readonly #options: LinkOptions;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** What the device is given in place of its https. With its process its requests end. */
  https(isAlive: () => boolean): Https {
    return { send: (request) => this.#send(request, isAlive), close: () => undefined };
  }

  async #send(request: HttpRequest, isAlive: () => boolean): Promise<HttpAnswer> {
    this.requests++;
    const { timeline, chance } = this.#options;
    return await new Promise<HttpAnswer>((resolve, reject) => {
      const fail = (code: string, words: string) => {
        over();
        reject(Object.assign(new Error(words), { code }));
      };
      const giveUp = () => fail('ABORT_ERR', 'given up');
      const deadline = timeline.after(request.timeoutMs, () => isAlive() && fail('DEADLINE', 'no answer'));
      const over = () => {
        deadline.stop();
        request.signal.removeEventListener('abort', giveUp);
      };
      request.signal.addEventListener('abort', giveUp);
      if (request.signal.aborted) return giveUp();
      const answer = (found: HttpAnswer) => {
        over();
        if (isAlive()) resolve(found);
      };
      if (!this.isUp) return fail('ENETUNREACH', 'connect ENETUNREACH');
      const bring = async () => {
        const found = await this.#options.ask(asked(request));
        return found;
      };
      const whole = (found: Answer | null) => {
        if (!isAlive()) return;
        if (found === null) fail('ECONNRESET', 'the connection was reset');
        else answer(found);
      };
      switch (chance.weighted(this.weights)) {
        case 'good':
          void bring().then(whole);
          break;
        case 'slow':
          timeline.after(chance.below(request.timeoutMs), () => void bring().then(whole));
          break;
        case 'lost request':
          break;
        case 'lost answer':
          void bring();
          break;
        case 'late':
          timeline.after(request.timeoutMs + chance.below(20 * MINUTE_MS), () => void bring());
          break;
        case 'error': {
          const headers = chance.is(0.5) ? { 'retry-after': String(chance.below(600)) } : {};
          answer(problem(503, headers));
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
      }
    });
  }
}

/** Weights in which all that is not named is 0, but for the good fate. */
export function weightsOf(some: Partial<Record<Fate, number>>): Record<Fate, number> {
  const all = Object.fromEntries(FATES.map((fate) => [fate, 0])) as Record<Fate, number>;
  return { ...all, good: 1, ...some };
}

function asked({ method, url, headers, body }: HttpRequest): Request {
  const { pathname, search } = new URL(url);
  return { method, path: `${pathname}${search}`, headers, body };
}

function problem(status: number, headers: HttpAnswer['headers']): HttpAnswer {
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: Buffer.from(JSON.stringify({ type: 'about:blank', title: 'no', status, detail: 'not now' })),
  };
}
