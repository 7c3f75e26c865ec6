/**
 * The programs at a device: they call its local API, and record each answer in the model.
 */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { MessageType } from '../../src/mail/message/message.js';
import type { Chance } from './chance.js';
import { type Composed, compose, copied, digestOf, formOf, readyMade } from './mail.js';
import type { Model, Posted, Requested } from './model.js';
import type { Timeline } from './timeline.js';
import type { Watch } from './watch.js';
import type { Answer, Request } from './wire.js';

const MESSAGES = '/api/internal/messages';
/** Messages of one page of the list. */
const PAGE = 200;
const QUEUE = '/api/internal/queue';
/** Problems that may replace the answer to a known key. */
const UNWELL: readonly string[] = ['storage-failed', 'storage-full', 'stopping', 'busy'];
const ALONE_MS = 10 * MINUTE_MS;
/** A key is remembered for a day. */
const AGAIN_MS = 23 * HOUR_MS;
/** Problems that leave it open whether the request worked. */
const UNCERTAIN: readonly string[] = ['storage-failed', 'internal', 'busy', 'timeout', 'conflict'];

/** A message as clients are shown it. */
export interface Listed {
  readonly id: string;
  readonly status: string;
  readonly final: boolean;
  readonly lastReply: string | null;
  readonly attempts: number;
  readonly acceptedAt: string;
  readonly attachments: readonly { readonly name: string }[];
}

/** The outcome of a message that the device no longer knows. */
const FORGOTTEN = 'forgotten';

export interface ProgramsOptions {
  readonly ask: (request: Request) => Promise<Answer | null>;
  readonly model: Model;
  /** Null if offers are not checked. */
  readonly watch: Watch | null;
  readonly chance: Chance;
  readonly timeline: Pick<Timeline, 'nowMs'>;
  readonly types: readonly MessageType[];
  readonly filesMax: number;
}

export class Programs {
  readonly #options: ProgramsOptions;
  #composed = 0;
  #keys = 0;
  /** Holds and releases under way. */
  #turning = 0;
  #turns = 0;
  /** Requests with a key, to be sent again. */
  readonly #keyed: { readonly request: Request; readonly requested: Requested }[] = [];

  constructor(options: ProgramsOptions) {
    this.#options = options;
  }

  async post(count: number, isKeyed: boolean): Promise<void> {
    const all = Array.from({ length: count }, () => this.#compose(0));
    const body = JSON.stringify(all.map(({ fields }) => fields));
    await this.#send({ 'Content-Type': 'application/json' }, body, all, isKeyed);
  }

  async postForm(isKeyed: boolean, isCut: boolean): Promise<void> {
    const { chance, filesMax } = this.#options;
    const one = this.#compose(filesMax, 1);
    const { headers, body } = formOf(one);
    const cut = isCut ? { cutAfterBytes: chance.below(body.length) } : {};
    await this.#send(headers, body, [one], isKeyed, cut);
  }

  /** One mail to several recipients, as JSON or as a form. */
  async postToSeveral(isKeyed: boolean): Promise<void> {
    const { chance, filesMax } = this.#options;
    const isForm = chance.is(0.5);
    const wishes = this.#wishes();
    const all = copied(this.#compose(isForm ? filesMax : 0, 1), this.#others(), wishes);
    const [first, ...others] = all;
    const [to = [], cc = [], bcc = []] = [0, 1, 2].map((i) =>
      others.filter((_, at) => at % 3 === i).map(({ destination }) => destination),
    );
    const lists = Object.entries({ to, cc, bcc }).filter(([, list]) => list.length > 0);
    const { isUrgent, lifeMs } = wishes;
    const fields = {
      ...(isUrgent && { priority: 'high' }),
      ...(lifeMs !== undefined && { expires_in_s: lifeMs / SECOND_MS }),
      ...first.fields,
      ...Object.fromEntries(lists),
    };
    if (isForm) {
      const { headers, body } = formOf({ ...first, fields });
      return await this.#send(headers, body, all, isKeyed);
    }
    await this.#send({ 'Content-Type': 'application/json' }, JSON.stringify([fields]), all, isKeyed);
  }

  async postReadyMade(isKeyed: boolean): Promise<void> {
    const { chance } = this.#options;
    const isUrgent = chance.is(0.2);
    const first = this.#compose(0, 1);
    const { body, digest } = readyMade(first, chance.is(0.5));
    const all = copied({ ...first, digest }, this.#others(), { isUrgent, isReadyMade: true });
    const to = all.map(({ destination }) => `to=${destination}`).join('&');
    const path = `${MESSAGES}?${to}${isUrgent ? '&priority=high' : ''}`;
    await this.#send({ 'Content-Type': 'message/rfc822' }, body, all, isKeyed, { path });
  }

  #others(): Composed[] {
    return Array.from({ length: this.#options.chance.below(4) }, () => this.#compose(0, 1));
  }

  #wishes(): Pick<Composed, 'isUrgent' | 'lifeMs'> {
    const { chance } = this.#options;
    const lifeMs = chance.is(0.2) ? Math.ceil(chance.span(60, 7200)) * SECOND_MS : undefined;
    return { isUrgent: chance.is(0.3), ...(lifeMs !== undefined && { lifeMs }) };
  }

  /** Sends one of the requests with a key again, as it was. */
  async postAgain(): Promise<void> {
    const { chance, timeline, model } = this.#options;
    const young = this.#keyed.filter(({ requested }) => timeline.nowMs - requested.atMs < AGAIN_MS);
    if (young.length === 0) return;
    const { request, requested } = chance.one(young);
    model.asksAgain(requested);
    // Every answer comes within this time, so no other request with this key is in progress.
    const isAlone = timeline.nowMs - requested.sentMs > ALONE_MS;
    requested.sentMs = timeline.nowMs;
    const wasPromised = requested.standing === 'promised';
    const answer = await this.#try(requested, request);
    if (answer === null || answer.status === 202 || !isAlone) return;
    const code = codeOf(answer);
    if (wasPromised ? !UNWELL.includes(code) : code === 'conflict')
      model.violation(`what was ${requested.standing} is answered ${code} with the same key`);
  }

  async cancel(pick: readonly Posted[]): Promise<void> {
    const { model, timeline, watch } = this.#options;
    for (const posted of pick) {
      const wasAsked = posted.isCancelAsked;
      posted.isCancelAsked = true;
      const askedMs = timeline.nowMs;
      const answer = await this.#ask('DELETE', `${MESSAGES}/${posted.id}`);
      const wasOpen = posted.final === null || posted.final === 'failed';
      // Over a real socket the moment is unknown in which the device reads the request.
      const sinceMs = watch === null ? timeline.nowMs : askedMs;
      if (answer?.status === 204 && wasOpen) model.cancelled(posted, sinceMs);
      else if (answer?.status === 409) posted.isCancelAsked = wasAsked;
      else if (answer?.status === 404 && !this.mayBeForgotten({ ...posted, isCancelAsked: wasAsked }))
        model.violation(`${posted.token} is not found`);
    }
  }

  async retry(posted: Posted): Promise<void> {
    const { model, timeline, watch } = this.#options;
    watch?.offers.hurried(posted);
    const answer = await this.#ask('POST', `${MESSAGES}/${posted.id}/retry`);
    watch?.offers.hurried(posted);
    if (answer?.status === 202 || answer === null || answer.status >= 500) {
      posted.retriedMs = timeline.nowMs;
      // It may have failed after a loss at the dot.
      model.retried(posted);
      watch?.offers.renewed(posted);
    }
  }

  async steer(how: 'flush' | 'hold' | 'release' | 'purge'): Promise<Answer | null> {
    const { model, watch } = this.#options;
    const turns = how === 'hold' || how === 'release';
    // Of two calls at the same time either may come last.
    const isAlone = turns && this.#turning === 0;
    if (turns) {
      watch?.weather.upset();
      model.isHeld = null;
      this.#turning++;
    }
    const turn = turns ? ++this.#turns : 0;
    if (how === 'flush') watch?.offers.hurried();
    const answer = await this.#ask('POST', `${QUEUE}/${how}`);
    if (how === 'flush') watch?.offers.hurried();
    if (turns) this.#turning--;
    if (isAlone && turn === this.#turns && answer?.status === 202) model.isHeld = how === 'hold';
    return answer;
  }

  /** A client asks for the status of a message. */
  async look(posted: Posted): Promise<void> {
    const { model } = this.#options;
    const answer = await this.#ask('GET', `${MESSAGES}/${posted.id}`);
    if (answer === null || answer.status === 503) return;
    if (answer.status === 404) {
      if (!this.mayBeForgotten(posted)) model.violation(`${posted.token} (${posted.id}) is not found`);
      posted.final ??= FORGOTTEN;
      return;
    }
    if (answer.status !== 200)
      return model.violation(`a look at ${posted.token} is answered ${answer.status}`);
    this.seen(posted, JSON.parse(answer.body.toString()) as Listed);
  }

  /** All messages that the device lists, newest first; null: it does not answer. */
  async list(): Promise<Listed[] | null> {
    const all: Listed[] = [];
    for (let after: string | null = ''; after !== null; ) {
      const query = after === '' ? '' : `&after=${after}`;
      const answer = await this.#ask('GET', `${MESSAGES}?limit=${PAGE}${query}`);
      if (answer?.status !== 200) return null;
      const page = JSON.parse(answer.body.toString()) as { messages: Listed[]; next: string | null };
      all.push(...page.messages);
      after = page.next;
    }
    return all;
  }

  async get(path: string): Promise<Answer | null> {
    return await this.#ask('GET', path);
  }

  /** The answer of the state endpoint; null: the device does not answer. */
  async state(): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>> | null> {
    const answer = await this.#ask('GET', '/api/internal/state');
    if (answer === null) return null;
    if (answer.status !== 200) {
      this.#options.model.violation(`the state is answered ${answer.status}`);
      return null;
    }
    return JSON.parse(answer.body.toString());
  }

  /** A client gets the status of a message. */
  seen(posted: Posted, { status, final, lastReply }: Listed): void {
    const { model, watch } = this.#options;
    watch?.offers.seen(posted, status);
    const isOther = posted.final !== null && posted.final !== status;
    if (isOther && posted.final !== 'failed' && posted.final !== FORGOTTEN && posted.pardons === 0)
      model.violation(`${posted.token} was ${posted.final} and is ${status}`);
    if (posted.cancelledMs !== null && !['cancelled', 'failed', 'sent', 'expired'].includes(status))
      model.violation(`${posted.token} was cancelled and is ${status}`);
    if (status === 'sent' && posted.arrivals.length === 0 && posted.type === 1)
      model.violation(`${posted.token} is said to be sent and has not arrived`);
    if (status === 'failed' && /damaged|damage/.test(lastReply ?? ''))
      model.violation(`${posted.token} failed: ${lastReply}`);
    if (final) posted.final = status;
  }

  /** Only the last finished messages stay readable. */
  mayBeForgotten({ final, arrivals, isCancelAsked }: Posted): boolean {
    return final !== null || arrivals.length > 0 || isCancelAsked || this.#options.model.mayForget;
  }

  async #send(
    headers: Record<string, string>,
    body: Buffer | string,
    all: readonly Composed[],
    isKeyed: boolean,
    more: { cutAfterBytes?: number; path?: string } = {},
  ): Promise<void> {
    const { model, timeline, watch } = this.#options;
    const key = isKeyed ? `key-${++this.#keys}` : null;
    const content = digestOf(all.map(({ digest }) => digest).join(), []);
    const requested = model.asked(key, content, all, timeline.nowMs);
    const request: Request = {
      method: 'POST',
      path: more.path ?? MESSAGES,
      headers: { ...headers, ...(key !== null && { 'Idempotency-Key': key }) },
      body,
    };
    if (key !== null) this.#keyed.push({ request, requested });
    watch?.offers.posted(requested.posted);
    const { cutAfterBytes } = more;
    await this.#try(requested, { ...request, ...(cutAfterBytes !== undefined && { cutAfterBytes }) });
  }

  /** Sends the request, for the first time or again, and records the answer. */
  async #try(requested: Requested, request: Request): Promise<Answer | null> {
    const isFirst = requested.underWay++ === 0;
    const number = ++requested.tries;
    const answer = await this.#options.ask(request);
    requested.underWay--;
    this.#answered(requested, answer, isFirst && requested.tries === number);
    return answer;
  }

  /** `wasAlone`: no other try of it was under way meanwhile. Else one may be refused and another accepted. */
  #answered(requested: Requested, answer: Answer | null, wasAlone: boolean): void {
    const { model, timeline } = this.#options;
    if (answer === null) return;
    if (answer.status === 202) {
      const ids = (JSON.parse(answer.body.toString()) as { id: string }[]).map(({ id }) => id);
      const isReplayed = answer.headers['idempotency-replayed'] === 'true';
      model.promised(requested, ids, isReplayed, timeline.nowMs);
      return;
    }
    const code = codeOf(answer);
    if (!ALLOWED.includes(code))
      model.violation(`a post is answered ${answer.status} ${code}: ${answer.body}`);
    model.refused(requested, wasAlone && !UNCERTAIN.includes(code));
  }

  #compose(filesMax: number, given?: MessageType): Composed {
    const { chance, types } = this.#options;
    return compose(++this.#composed, given ?? chance.one(types), chance, filesMax);
  }

  async #ask(method: string, path: string): Promise<Answer | null> {
    return await this.#options.ask({ method, path });
  }
}

/** Problems that a valid post may be refused with. */
const ALLOWED = ['queue-full', 'storage-full', 'storage-failed', 'stopping', 'conflict', 'busy'];

export function codeOf(answer: Answer): string {
  try {
    const { type } = JSON.parse(answer.body.toString()) as { type: string };
    return type.replace('urn:fieldpost:problem:', '');
  } catch {
    return `no problem: ${answer.body}`;
  }
}
