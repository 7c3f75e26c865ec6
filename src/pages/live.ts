/**
 * Keeps a page fresh while somebody can see it: after each event of its service, or every 2 s where there is no stream of
 * events. Asks the person for a token where one is set, and says when the service is gone.
 */

import { span } from '../base/text.js';
import { byId } from './dom.js';
import { createStream, type EventSource } from './events.js';
import { clockTime, type FieldFault } from './words.js';

const REFRESH_MS = 2000;
const ANSWER_MS = 10_000;
/** With a stream of events the page reads once in a while all the same: ages of things grow without an event. */
const STREAMED_REFRESH_MS = 30_000;

/** The service has refused a call. The message is its own sentence. */
export class Refusal extends Error {
  readonly status: number;
  readonly faults: readonly FieldFault[];

  constructor(status: number, problem: { detail?: unknown; title?: unknown; errors?: unknown }) {
    super(String(problem.detail ?? problem.title ?? `It answers ${status}`));
    this.status = status;
    this.faults = Array.isArray(problem.errors) ? problem.errors : [];
  }
}

/** The service does not answer. */
export class Gone extends Error {}

interface CallOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** How long the answer may take. */
  readonly withinMs?: number;
}

/** What the service answers; `body` is null without one. */
export interface Answered {
  // biome-ignore lint/suspicious/noExplicitAny: each caller knows what it has asked for
  readonly body: any;
  readonly etag: string | null;
  readonly text: string;
  /** The header Link. */
  readonly link: string | null;
}

type Call = (method: string, path: string, options?: CallOptions) => Promise<Answered>;

/** What the parts of a page need. */
export interface Live {
  /** Makes one call. Throws Refusal or Gone. */
  readonly call: Call;
  /** Refreshes now. */
  refresh(): void;
  /** Does what a button says, shows `done` or why not, and refreshes. */
  act(work: () => Promise<unknown>, done: string): Promise<void>;
  /** Tells the person something. */
  tell(words: string): void;
}

interface FreshOptions {
  readonly everyMs?: number;
  /** What calls take where no token is set. */
  readonly otherToken?: string | null;
  /** The name under which the browser keeps the token until its window is closed; left out: it does not. */
  readonly keepsToken?: string;
  readonly events?: EventSource;
}

/**
 * Calls `read` again and again. `service` is its name in a sentence. The page has #gone and #told, and #token if calls may
 * need one.
 */
export function keepFresh(
  service: string,
  read: () => Promise<void>,
  { everyMs = REFRESH_MS, otherToken = null, keepsToken, events }: FreshOptions = {},
): Live {
  const token = createToken(keepsToken, otherToken);
  let readMs = 0;
  let isReading = false;
  let isAskedAgain = false;
  const gone = createGone(service, everyMs);
  const asked = createTokenDialog((given) => {
    token.set(given);
    again();
  });
  const again = () => void refresh();
  const stream = events && createStream(events, () => headersOf(token.get()), again);

  async function refresh(): Promise<void> {
    if (isReading) isAskedAgain = true;
    if (isReading || document.hidden || asked.isOpen()) return;
    isReading = true;
    isAskedAgain = false;
    readMs = performance.now();
    try {
      await read();
      gone.isBack();
      stream?.open();
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        asked.open(token.get() === null ? '' : asked.wrong);
        token.set(null);
      } else {
        gone.tell(error);
      }
    } finally {
      isReading = false;
    }
    if (isAskedAgain) void refresh();
  }

  /** With a stream most turns need no call. */
  function turn(): void {
    const everyMs = stream?.isOpen() ? STREAMED_REFRESH_MS : 0;
    if (performance.now() - readMs >= everyMs) void refresh();
  }

  setInterval(turn, everyMs);
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stream?.close();
    again();
  });
  if (token.isMissing()) asked.open('');
  queueMicrotask(again);
  return { call: createCall(token.get), refresh: again, ...createActs(service, refresh) };
}

/** Tells in #told what a button has done. */
function createActs(service: string, refresh: () => Promise<void>): Pick<Live, 'act' | 'tell'> {
  const tell = (words: string) => byId('told').replaceChildren(words);
  return {
    tell,
    async act(work, done) {
      tell('');
      try {
        await work();
        tell(done);
      } catch (error) {
        tell(error instanceof Gone ? `${service} does not answer: nothing is done.` : wordsOf(error));
      }
      await refresh();
    },
  };
}

/** What an error says, and the faults of the fields. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Refusal)) return error instanceof Error ? error.message : String(error);
  return [error.message, ...error.faults.map(({ pointer, detail }) => `${pointer}: ${detail}`)].join('. ');
}

/** Says in #gone that the service does not answer, and since when. */
function createGone(service: string, everyMs: number) {
  const place = byId('gone');
  let sinceMs = 0;
  return {
    isBack() {
      sinceMs = 0;
      place.hidden = true;
    },
    tell(error: unknown) {
      sinceMs ||= Date.now();
      const why = error instanceof Gone ? `${service} does not answer` : wordsOf(error);
      const since = clockTime(new Date(sinceMs).toISOString(), Date.now());
      place.textContent = `${why}, since ${since}. The page tries again every ${span(everyMs)}.`;
      place.hidden = false;
    },
  };
}

/**
 * The token of the calls. The browser keeps it for its session under the name `keeps`, and #forget ends that. `other` is used
 * where none is set.
 */
function createToken(keeps: string | undefined, other: string | null) {
  const needs = 'token' in document.documentElement.dataset;
  const isKept = needs && keeps !== undefined;
  const forget = document.getElementById('forget');
  let token = isKept ? sessionStorage.getItem(keeps) : needs ? null : other;
  function set(given: string | null): void {
    token = given;
    if (!isKept) return;
    if (forget !== null) forget.hidden = given === null;
    if (given === null) sessionStorage.removeItem(keeps);
    else sessionStorage.setItem(keeps, given);
  }
  forget?.addEventListener('click', () => {
    set(null);
    location.reload();
  });
  set(token);
  return { get: () => token, set, isMissing: () => needs && token === null };
}

function headersOf(token: string | null): Record<string, string> {
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

/** The dialog that asks for the token. */
function createTokenDialog(take: (token: string) => void) {
  const dialog = document.querySelector<HTMLDialogElement>('#token');
  if (dialog === null) return { wrong: '', isOpen: () => false, open: () => undefined };
  const input = dialog.querySelector('input') as HTMLInputElement;
  dialog.querySelector('form')?.addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close();
    take(input.value.trim());
    input.value = '';
  });
  // Without a token the page can show nothing.
  dialog.addEventListener('cancel', (event) => event.preventDefault());
  return {
    /** Said of a token that opens nothing. */
    wrong: dialog.dataset.wrong ?? 'This token is not the right one.',
    isOpen: () => dialog.open,
    open(fault: string) {
      byId('token-fault').textContent = fault;
      dialog.showModal();
    },
  };
}

/** `token` gives the token of the person, or null. */
function createCall(token: () => string | null): Call {
  return async (method, path, { body, headers, withinMs = ANSWER_MS } = {}) => {
    const key = token();
    let response: Response;
    let text: string;
    try {
      response = await fetch(path, {
        method,
        // The browser asks with the ETag that it knows.
        cache: 'no-cache',
        credentials: 'omit',
        signal: AbortSignal.timeout(withinMs),
        headers: {
          ...headersOf(key),
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      text = await response.text();
    } catch (error) {
      throw new Gone(String(error));
    }
    const isJson = /^application\/(?:problem\+)?json/.test(response.headers.get('content-type') ?? '');
    const answer = isJson ? JSON.parse(text) : null;
    if (!response.ok) throw new Refusal(response.status, answer ?? {});
    const of = (name: string) => response.headers.get(name);
    return { body: answer, etag: of('etag'), text, link: of('link') };
  };
}
