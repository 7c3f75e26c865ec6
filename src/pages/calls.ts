/**
 * Calls the service that the page came from.
 */

import type { FieldFault } from './faults.js';

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

/** What goes with a call, beside its path. */
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

/** Makes one call. Throws Refusal or Gone. */
export type Ask = (method: string, path: string, options?: CallOptions) => Promise<Answered>;

const ANSWER_MS = 10_000;

/** `token` gives the token of the person, or null. */
export function createAsk(token: () => string | null): Ask {
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
