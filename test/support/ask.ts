/** Calls over HTTP, as a program that speaks JSON makes them. */
import { assertDescribed } from './described.js';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly json: any;
}

export interface Question {
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON unless it is a string. */
  readonly body?: unknown;
}

export async function ask(url: string, method = 'GET', { headers, body }: Question = {}): Promise<Answer> {
  const answer = await fetch(url, {
    method,
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await answer.text();
  const isJson = /json/.test(answer.headers.get('content-type') ?? '') && text !== '';
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    json: isJson ? JSON.parse(text) : undefined,
  };
}

/**
 * Calls of the local API at `127.0.0.1:4711`; those with a body are POST unless they say otherwise. Each must be as the API
 * describes it.
 */
export function apiAt(address: string) {
  return async (
    path: string,
    body?: unknown,
    method = body === undefined ? 'GET' : 'POST',
  ): Promise<Answer> => {
    const url = new URL(`http://${address}/api/internal/${path}`);
    const answer = await ask(url.href, method, { body });
    assertDescribed({
      method,
      path: url.pathname + url.search,
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      status: answer.status,
      answerHeaders: Object.fromEntries(answer.headers),
      answerBody: answer.text,
    });
    return answer;
  };
}
