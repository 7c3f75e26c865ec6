/**
 * The programs on a device that loses its power: they post, look, cancel and hold until it is off, each answer booked in
 * the model. Used by history.ts.
 */
import type { Chance } from '../simulation/chance.js';
import { type Composed, compose, digestOf, formOf } from '../simulation/mail.js';
import type { Model, Posted, Requested } from '../simulation/model.js';
import { NOBODY } from '../simulation/relay.js';
import type { Answer, Request } from '../simulation/wire.js';

const MESSAGES = '/api/internal/messages';
const QUEUE = '/api/internal/queue';
const PAGE = 200;
const FILES_MAX = 3;
/** Answers that leave it open whether something was done. */
const UNCERTAIN = /storage-failed|stopping|conflict/;
/** What a post that is right may be refused with. */
const REFUSALS = /queue-full|storage-full/;
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

/** A message as the device lists it. */
export interface Listed {
  readonly id: string;
  readonly status: string;
  readonly lastReply: string | null;
  readonly attachments: readonly unknown[];
}

export interface ProgramsOptions {
  readonly ask: (request: Request) => Promise<Answer | null>;
  readonly model: Model;
  readonly chance: Chance;
}

export class Programs {
  /** Messages whose outcome is on the disk: none of them may be sent again. */
  readonly settled = new Set<Posted>();
  readonly #options: ProgramsOptions;
  /** Listed as sent since the last cut; settled once something later is promised. */
  readonly #seen = new Set<Posted>();
  #composed = 0;
  readonly #keyed: { readonly request: Request; readonly requested: Requested }[] = [];
  /** Under way. */
  readonly #posting = new Set<Requested>();
  /** Whether the queue is held, as it was answered; null while that is open. */
  #isHeld: boolean | null = false;

  constructor(options: ProgramsOptions) {
    this.#options = options;
  }

  /** Does something. Only the first of those who act at the same time holds and releases: so it is known which was last. */
  async act(isFirst: boolean): Promise<void> {
    const { chance, model } = this.#options;
    const action = chance.weighted(WEIGHTS);
    switch (action) {
      case 'post':
        return await this.#postJson(1);
      case 'batch':
        return await this.#postJson(2 + chance.below(8));
      case 'form':
        return await this.#postForm(false);
      case 'cut form':
        return await this.#postForm(true);
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
        if (isFirst) await this.steer(action);
    }
  }

  async steer(how: 'hold' | 'release' | 'flush'): Promise<void> {
    if (how !== 'flush') this.#isHeld = null;
    const answer = await this.#options.ask({ method: 'POST', path: `${QUEUE}/${how}` });
    if (answer?.status === 202) this.#isHeld = how === 'flush' ? this.#isHeld : how === 'hold';
    else if (answer !== null && answer.status !== 503)
      this.#options.model.violation(`${how} is answered ${answer.status}`);
  }

  /** Posts a request with a key once more, as it was. */
  async postAgain(): Promise<void> {
    const { chance, model } = this.#options;
    const free = this.#keyed.filter(({ requested }) => !this.#posting.has(requested));
    if (free.length === 0) return;
    const { request, requested } = chance.one(free);
    model.asksAgain(requested);
    await this.#post(request, requested);
  }

  /** Holds what the device says after a cut against what it said before. */
  async check(): Promise<void> {
    const { model } = this.#options;
    const state = await this.state();
    const { storage, queue } = state ?? {};
    // What was not settled may be lost.
    this.#seen.clear();
    if (storage?.state !== 'ok' || storage.damaged !== 0)
      model.violation(`the storage is ${JSON.stringify(storage)} after the cut`);
    if (this.#isHeld !== null && queue?.held !== this.#isHeld)
      model.violation(`held was answered ${this.#isHeld} and is ${queue?.held}`);
    const listed = await this.list();
    const byId = new Map(listed.map((one) => [one.id, one]));
    const all = [...model.messages.values()];
    for (const posted of all) {
      if (posted.id !== null && !byId.has(posted.id)) model.violation(`${nameOf(posted)} is not found`);
      if (posted.id !== null) byId.delete(posted.id);
    }
    const unanswered = all.filter(({ id, request }) => id === null && request.standing === 'asked');
    if (byId.size > unanswered.length)
      model.violation(
        `${byId.size} messages are listed that nobody was promised, ${unanswered.length} asked`,
      );
  }

  /** What the state endpoint says. */
  async state(): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>> | null> {
    const { ask, model } = this.#options;
    const answer = await ask({ method: 'GET', path: '/api/internal/state' });
    if (answer?.status === 200) return JSON.parse(answer.body.toString());
    model.violation(`the state is answered ${answer?.status}`);
    return null;
  }

  /** What the device lists; each of them is as it may be. */
  async list(): Promise<Listed[]> {
    const { ask, model } = this.#options;
    const all: Listed[] = [];
    const byId = new Map([...model.messages.values()].map((posted) => [posted.id, posted]));
    // What is cancelled while this is under way may have been listed before.
    const cancelled = new Set([...byId.values()].filter(({ cancelledMs }) => cancelledMs !== null));
    for (let after: string | null = ''; after !== null; ) {
      const query: string = after === '' ? '' : `&after=${after}`;
      const answer: Answer | null = await ask({ method: 'GET', path: `${MESSAGES}?limit=${PAGE}${query}` });
      if (answer?.status !== 200) return all;
      const page = JSON.parse(answer.body.toString()) as { messages: Listed[]; next: string | null };
      all.push(...page.messages);
      after = page.next;
    }
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
    const { ask, model } = this.#options;
    posted.isCancelAsked = true;
    const answer = await ask({ method: 'DELETE', path: `${MESSAGES}/${posted.id}` });
    if (answer?.status === 204 && posted.final === null) model.cancelled(posted, performance.now());
    if (answer?.status === 404) model.violation(`${nameOf(posted)} is not found`);
  }

  async #postJson(count: number): Promise<void> {
    const all = Array.from({ length: count }, () => this.#compose(0));
    const body = JSON.stringify(all.map(({ fields }) => fields));
    await this.#postNew({ 'Content-Type': 'application/json' }, body, all);
  }

  async #postForm(isCut: boolean): Promise<void> {
    const one = this.#compose(FILES_MAX);
    const { headers, body } = formOf(one);
    const more = isCut ? { cutAfterBytes: this.#options.chance.below(body.length) } : {};
    await this.#postNew(headers, body, [one], more);
  }

  async #postNew(
    headers: Record<string, string>,
    body: Buffer | string,
    all: readonly Composed[],
    more: { cutAfterBytes?: number } = {},
  ): Promise<void> {
    const { chance, model } = this.#options;
    const key = chance.is(0.5) ? `key-${this.#composed}` : null;
    const content = digestOf(all.map(({ digest }) => digest).join(), []);
    const requested = model.asked(key, content, all, performance.now());
    const keyed = { ...headers, ...(key !== null && { 'Idempotency-Key': key }) };
    const request: Request = { method: 'POST', path: MESSAGES, headers: keyed, body };
    if (key !== null) this.#keyed.push({ request, requested });
    await this.#post({ ...request, ...more }, requested);
  }

  async #post(request: Request, requested: Requested): Promise<void> {
    const { ask, model } = this.#options;
    const seen = [...this.#seen];
    this.#posting.add(requested);
    const answer = await ask(request);
    this.#posting.delete(requested);
    if (answer === null) return;
    const isReplayed = answer.headers['idempotency-replayed'] === 'true';
    if (answer.status === 202) {
      const ids = (JSON.parse(answer.body.toString()) as { id: string }[]).map(({ id }) => id);
      model.promised(requested, ids, isReplayed, performance.now());
      // The sync behind a promise syncs all that was written before it.
      if (!isReplayed) for (const posted of seen) this.settled.add(posted);
      return;
    }
    const words = answer.body.toString();
    if (UNCERTAIN.test(words)) return model.refused(requested, false);
    if (!REFUSALS.test(words)) model.violation(`a post is answered ${answer.status} ${words}`);
    model.refused(requested, true);
  }

  #compose(filesMax: number): Composed {
    return compose(++this.#composed, 1, this.#options.chance, filesMax);
  }
}

function nameOf({ token, id }: Posted): string {
  return `${token} (${id})`;
}
