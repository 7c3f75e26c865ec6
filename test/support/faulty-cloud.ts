/**
 * Stands between a device and a good cloud and spoils what a fault says: so a cloud can break any one point of the
 * contract and hold all others.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { serve } from './serve.js';

export interface Call {
  readonly method: string;
  readonly device: string;
  /** `heartbeat`, `destinations`, `messages`, `mails`, `quiet`, `drill`. */
  readonly what: string;
  headers: Record<string, string>;
  body: string;
}

export interface Spoilt {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer;
}

export interface Fault {
  /** Answers in place of the good cloud, unless it gives undefined. */
  readonly instead?: (call: Call) => Spoilt | undefined;
  /** Delays what the good cloud is asked. */
  readonly holds?: (call: Call) => Promise<void>;
  /** Changes what the good cloud is asked. */
  readonly asks?: (call: Call) => void;
  /** Changes what it answered. */
  readonly answers?: (answer: Spoilt, call: Call) => void;
}

const KEPT = ['authorization', 'content-type', 'if-match', 'if-none-match', 'idempotency-key'];

/** A cloud with this fault in front of the one at `target`. */
export function faultyCloud(target: string, fault: Fault): ReturnType<typeof serve> {
  return serve(async (request, response) => {
    let body = '';
    request.setEncoding('utf8');
    for await (const chunk of request) body += chunk;
    const { method = '', url = '' } = request;
    const [, , device = '', what = ''] = url.split('?', 1)[0]?.split('/') ?? [];
    const call: Call = { method, device, what, headers: pick(request.headers), body };
    await fault.holds?.(call);
    fault.asks?.(call);
    const answer = fault.instead?.(call) ?? (await ask(`${target}${url}`, call));
    fault.answers?.(answer, call);
    response.writeHead(answer.status, answer.headers).end(answer.status === 304 ? undefined : answer.body);
  });
}

async function ask(url: string, { method, headers, body }: Call): Promise<Spoilt> {
  const answer = await fetch(url, { method, headers, ...(body !== '' && { body }) });
  const { 'content-type': type, etag } = Object.fromEntries(answer.headers);
  return {
    status: answer.status,
    headers: { ...(type !== undefined && { 'content-type': type }), ...(etag !== undefined && { etag }) },
    body: await answer.text(),
  };
}

function pick(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    KEPT.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]])),
  );
}
