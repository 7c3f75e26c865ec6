/**
 * Programs on a device that loses its power: they post, list, cancel and hold until the device is off.
 */
import type { Chance } from '../simulation/chance.js';
import type { Model, Posted } from '../simulation/model.js';
import { type Listed, Programs } from '../simulation/programs.js';
import { NOBODY } from '../simulation/relay.js';
import type { Answer, Request } from '../simulation/wire.js';

const MESSAGES = '/api/internal/messages';
const FILES_MAX = 3;
const WEIGHTS = {
  post: 5,
  batch: 4,
  form: 5,
  'cut form': 1,
  'post again': 2,
  cancel: 2,
  list: 1,
  flush: 0.5,
  hold: 0.4,
  release: 0.8,
};

export interface PowerProgramsOptions {
  readonly ask: (request: Request) => Promise<Answer | null>;
  readonly model: Model;
  readonly chance: Chance;
}

export class PowerPrograms {
  /** Messages whose outcome is synced: none of them may be sent again. */
  readonly settled = new Set<Posted>();
  readonly #options: PowerProgramsOptions;
  readonly #programs: Programs;
  /** Listed as sent since the last cut; settled once something later is promised. */
  readonly #seen = new Set<Posted>();

  constructor(options: PowerProgramsOptions) {
    this.#options = options;
    this.#programs = new Programs({
      ...options,
      ask: (request) => this.#ask(request),
      watch: null,
      timeline: {
        get nowMs() {
          return performance.now();
        },
      },
      types: [1],
      filesMax: FILES_MAX,
    });
  }

  /** Does one action, chosen at random. */
  async act(): Promise<void> {
    const { chance, model } = this.#options;
    const action = chance.weighted(WEIGHTS);
    const isKeyed = chance.is(0.5);
    switch (action) {
      case 'post':
        return await this.#programs.post(1, isKeyed);
      case 'batch':
        return await this.#programs.post(2 + chance.below(8), isKeyed);
      case 'form':
        return await this.#programs.postForm(isKeyed, false);
      case 'cut form':
        return await this.#programs.postForm(isKeyed, true);
      case 'post again':
        return await this.postAgain();
      case 'cancel': {
        const open = [...model.messages.values()].filter(({ id, final }) => id !== null && final === null);
        if (open.length > 0) await this.#cancel(chance.one(open));
        return;
      }
      case 'list':
        await this.list();
        return;
      default:
        await this.steer(action);
    }
  }

  async steer(how: 'hold' | 'release' | 'flush'): Promise<void> {
    const answer = await this.#programs.steer(how);
    if (answer !== null && answer.status !== 202 && answer.status !== 503)
      this.#options.model.violation(`${how} is answered ${answer.status}`);
  }

  /** Repeats a request that had an Idempotency-Key. */
  async postAgain(): Promise<void> {
    await this.#programs.postAgain();
  }

  /** Compares the device's state after a cut with its earlier answers. */
  async check(): Promise<void> {
    const { model } = this.#options;
    const state = await this.state();
    const { storage, queue } = state ?? {};
    // Outcomes that were not synced may be lost.
    this.#seen.clear();
    if (storage?.state !== 'ok' || storage.damaged !== 0)
      model.violation(`the storage is ${JSON.stringify(storage)} after the cut`);
    if (model.isHeld !== null && queue?.held !== model.isHeld)
      model.violation(`held was answered ${model.isHeld} and is ${queue?.held}`);
    const listed = await this.list();
    const ids = new Set(listed.map(({ id }) => id));
    const all = [...model.messages.values()];
    for (const posted of all)
      if (posted.id !== null && !ids.delete(posted.id)) model.violation(`${nameOf(posted)} is not found`);
    const unanswered = all.filter(({ id, request }) => id === null && request.standing === 'asked');
    if (ids.size > unanswered.length)
      model.violation(`${ids.size} messages are listed that nobody was promised, ${unanswered.length} asked`);
  }

  /** The answer of the state endpoint. */
  async state(): ReturnType<Programs['state']> {
    return await this.#programs.state();
  }

  /** Lists all messages, and checks that each may have its status. */
  async list(): Promise<Listed[]> {
    const byId = new Map([...this.#options.model.messages.values()].map((posted) => [posted.id, posted]));
    // A message that is cancelled during this call may have been listed before.
    const cancelled = new Set([...byId.values()].filter(({ cancelledMs }) => cancelledMs !== null));
    const all = (await this.#programs.list()) ?? [];
    for (const one of all) {
      const posted = byId.get(one.id);
      if (posted !== undefined) this.#told(posted, one, cancelled.has(posted));
    }
    return all;
  }

  #told(posted: Posted, { status, lastReply }: Listed, isCancelled: boolean): void {
    const { model } = this.#options;
    const wrong = (words: string) =>
      model.violation(`${nameOf(posted)} is ${status}: ${words}, ${lastReply}`);
    if (isCancelled && !['cancelled', 'failed', 'sent'].includes(status)) wrong('it was cancelled');
    if (status === 'sent' && posted.arrivals.length === 0) wrong('it has not arrived');
    if (status === 'cancelled' && !posted.isCancelAsked) wrong('nobody cancelled it');
    if (status === 'failed' && !posted.destination.startsWith(NOBODY)) wrong('its address is known');
    if (status === 'expired') wrong('it is young');
    if (['sent', 'cancelled', 'failed'].includes(status)) posted.final = status;
    if (status === 'sent') this.#seen.add(posted);
  }

  async #cancel(posted: Posted): Promise<void> {
    await this.#programs.cancel([posted]);
    // Another DELETE of it may be under way, whatever this one was answered.
    posted.isCancelAsked = true;
  }

  /** Asks. A new 202 means that everything written before it is synced, too. */
  async #ask(request: Request): Promise<Answer | null> {
    const isPost = request.method === 'POST' && request.path === MESSAGES;
    const seen = isPost ? [...this.#seen] : [];
    const answer = await this.#options.ask(request);
    if (answer?.status === 202 && answer.headers['idempotency-replayed'] !== 'true')
      for (const posted of seen) this.settled.add(posted);
    return answer;
  }
}

function nameOf({ token, id }: Posted): string {
  return `${token} (${id})`;
}
