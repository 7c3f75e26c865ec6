/**
 * Keeps a page fresh: asks its service every 2 s while somebody can see the page, asks the person for a token where one is
 * set, and says when the service is gone.
 */

import { span } from '../base/text.js';
import { byId } from './dom.js';
import { clockTime, type FieldFault } from './words.js';

const REFRESH_MS = 2000;
const ANSWER_MS = 10_000;

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

/**
 * Calls `read` again and again. `service` is its name in a sentence. The page has #gone and #told, and #token if calls may
 * need one; `otherToken` is what calls take where none is set.
 */
export function keepFresh(
  service: string,
  read: () => Promise<void>,
  everyMs = REFRESH_MS,
  otherToken: string | null = null,
): Live {
  const needsToken = 'token' in document.documentElement.dataset;
  let token = needsToken ? null : otherToken;
  let goneMs = 0;
  let isReading = false;
  const call = createCall(() => token);
  const gone = byId('gone');
  const asked = createTokenDialog((given) => {
    token = given;
    void refresh();
  });

  async function refresh(): Promise<void> {
    if (isReading || document.hidden || asked.isOpen()) return;
    isReading = true;
    try {
      await read();
      goneMs = 0;
      gone.hidden = true;
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        asked.open(token === null ? '' : asked.wrong);
        token = null;
      } else {
        goneMs ||= Date.now();
        const why = error instanceof Gone ? `${service} does not answer` : wordsOf(error);
        gone.textContent = `${why}, since ${clockTime(new Date(goneMs).toISOString(), Date.now())}. The page tries again every ${span(everyMs)}.`;
        gone.hidden = false;
      }
    } finally {
      isReading = false;
    }
  }

  const tell = (words: string) => byId('told').replaceChildren(words);
  setInterval(() => void refresh(), everyMs);
  document.addEventListener('visibilitychange', () => void refresh());
  if (needsToken) asked.open('');
  queueMicrotask(() => void refresh());
  return {
    call,
    refresh: () => void refresh(),
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

/** The dialog that asks for the token. The page keeps the token in memory only. */
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
          ...(key !== null && { Authorization: `Bearer ${key}` }),
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
