/**
 * The inbox of `fieldpost dev`: a page for browsers on this machine, and the calls that it uses.
 */
import { FieldpostError } from '../base/errors.js';
import { createLocalCheck } from '../base/http/access.js';
import { sendTagged } from '../base/http/etag.js';
import type { Exchange } from '../base/http/exchange.js';
import { sendPage } from '../base/http/html-page.js';
import { createHttp, type Routed } from '../base/http/http.js';
import { MIB, SECOND_MS } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { cut } from '../base/text.js';
import page from '../pages/inbox.html';
import type { Caught, Inbox } from './inbox.js';
import { listen } from './listen.js';
import {
  attachmentNamed,
  type MailFile,
  readMail,
  readMailHeaders,
  SAFE_HEADERS,
  safeFileName,
  withImages,
} from './reader.js';

/** A longer text is cut for the page; the source has all of it. */
const TEXT_CHARS_MAX = MIB;
const STOP_MS = SECOND_MS;
/** What a browser draws and does not run. SVG is a document. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

interface InboxServerOptions {
  readonly inbox: Inbox;
  /** Taken if it is free. */
  readonly port: number;
  /** Names of this machine beside the loopback ones. */
  readonly allowedHosts: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

interface InboxRoute extends Routed {
  readonly handle: (exchange: Exchange, inbox: Inbox) => void | Promise<void>;
}

const ROUTES: readonly InboxRoute[] = [
  {
    method: 'GET',
    path: '/',
    handle: (exchange) => sendPage(exchange, page, { asksToken: false, frames: true }),
  },
  { method: 'GET', path: '/messages', handle: list },
  { method: 'DELETE', path: '/messages', handle: clear },
  { method: 'GET', path: '/messages/{id}', handle: open },
  { method: 'DELETE', path: '/messages/{id}', handle: remove },
  { method: 'GET', path: '/messages/{id}/html', handle: getHtml },
  { method: 'GET', path: '/messages/{id}/source', handle: getSource },
  // The id is that of the message, a dot, and the place of the file in it.
  { method: 'GET', path: '/files/{id}', handle: getFile },
  { method: 'GET', path: '/pictures/{id}', handle: getPicture },
];

/** Serves the inbox on loopback. Rejects with the system's error. */
export async function serveInbox({ inbox, port, allowedHosts, clock, log }: InboxServerOptions) {
  const http = createHttp({
    routes: ROUTES,
    guard: createLocalCheck(allowedHosts),
    handle: (route, exchange) => route.handle(exchange, inbox),
    clock,
    log,
  });
  const { port: taken, close } = await listen(http.makeServer('tcp'), port, () => http.stop(STOP_MS));
  return { address: `127.0.0.1:${taken}`, close };
}

function list(exchange: Exchange, inbox: Inbox): void {
  sendTagged(exchange, JSON.stringify({ messages: inbox.list() }));
}

async function clear(exchange: Exchange, inbox: Inbox): Promise<void> {
  await inbox.clear();
  exchange.nothing();
}

async function remove(exchange: Exchange, inbox: Inbox): Promise<void> {
  if (!(await inbox.remove(exchange.id))) throw gone();
  exchange.nothing();
}

async function open(exchange: Exchange, inbox: Inbox): Promise<void> {
  const caught = await inbox.get(exchange.id);
  if (caught === null) throw gone();
  if (caught.kind === 'short') {
    const { line, short } = caught;
    const { type: _, destination: __, message, ...rest } = short;
    const headers = Object.entries(rest).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]);
    const answer = { ...line, to: short.destination, text: message, isCut: false, hasHtml: false };
    return exchange.json(200, { ...answer, headers, envelope: null, files: [] });
  }
  const { line, raw, envelope } = caught;
  const { plain, html, attachments } = readMail(raw);
  exchange.json(200, {
    ...line,
    text: plain === null ? null : cut(plain, TEXT_CHARS_MAX),
    isCut: (plain?.length ?? 0) > TEXT_CHARS_MAX,
    hasHtml: html !== null,
    headers: readMailHeaders(raw),
    envelope,
    files: attachments.map(({ name, type, octets }, index) => ({
      name: safeFileName(name, `file-${index + 1}`),
      type,
      bytes: octets.length,
      isPicture: PICTURES.includes(type),
    })),
  });
}

async function getHtml(exchange: Exchange, inbox: Inbox): Promise<void> {
  const { raw } = await mailOf(exchange.id, inbox);
  const { html, attachments } = readMail(raw);
  if (html === null) throw new FieldpostError('not-found', 'This mail has no HTML');
  exchange.send(200, 'text/html; charset=utf-8', withImages(html, attachments), SAFE_HEADERS);
}

async function getSource(exchange: Exchange, inbox: Inbox): Promise<void> {
  const { raw } = await mailOf(exchange.id, inbox);
  exchange.send(200, 'text/plain; charset=utf-8', raw, SAFE_HEADERS);
}

async function getFile(exchange: Exchange, inbox: Inbox): Promise<void> {
  const { file, number } = await fileOf(exchange.id, inbox);
  const name = safeFileName(file.name, `file-${number}`);
  // Its own type could make a browser show it.
  exchange.send(200, 'application/octet-stream', file.octets, {
    ...SAFE_HEADERS,
    'Content-Disposition': attachmentNamed(name),
  });
}

/** A file to look at: only pictures. Their type is that of the answer, and no browser looks for another in the octets. */
async function getPicture(exchange: Exchange, inbox: Inbox): Promise<void> {
  const { file } = await fileOf(exchange.id, inbox);
  if (!PICTURES.includes(file.type)) throw new FieldpostError('not-found', 'This file is no picture');
  exchange.send(200, file.type, file.octets, SAFE_HEADERS);
}

async function fileOf(place: string, inbox: Inbox): Promise<{ file: MailFile; number: number }> {
  const [, id = '', index = ''] = /^(\d+)\.(\d{1,4})$/.exec(place) ?? [];
  const { raw } = await mailOf(id, inbox);
  const file = readMail(raw).attachments[Number(index)];
  if (file === undefined) throw new FieldpostError('not-found', 'This mail has no such file');
  return { file, number: Number(index) + 1 };
}

async function mailOf(id: string, inbox: Inbox): Promise<Extract<Caught, { kind: 'mail' }>> {
  const caught = await inbox.get(id);
  if (caught?.kind !== 'mail') throw gone();
  return caught;
}

function gone(): FieldpostError {
  return new FieldpostError('not-found', 'This message is gone');
}
