/** The inbox over HTTP: what a browser gets, and who gets nothing. */
import { once } from 'node:events';
import { unlinkSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { Inbox, openMailbox } from '../../src/dev/inbox.js';
import { serveInbox } from '../../src/dev/inbox-server.js';
import { FakeClock } from '../support/clock.js';
import { keptLog } from '../support/system.js';

const ENVELOPE = { from: 'pump@example.com', to: ['jan@example.com'] };
const lines = (...of: readonly string[]) => Buffer.from(of.join('\r\n'));
const HARMFUL = '<script>parent.x=1</script><img src="http://evil.example/">';
const RICH = lines(
  'From: Pump 3 <pump@example.com>',
  'To: jan@example.com',
  'Subject: =?utf-8?Q?=C5=BB=C3=B3=C5=82w?=',
  'X-Folded: a',
  ' b',
  'Content-Type: multipart/mixed; boundary=m',
  '',
  '--m',
  'Content-Type: text/plain; charset=utf-8',
  '',
  'Żółw',
  '--m',
  'Content-Type: text/html; charset=iso-8859-2',
  'Content-Transfer-Encoding: quoted-printable',
  '',
  `=BF=F3=B3w <img src=3D"cid:i@x">${HARMFUL.replaceAll('=', '=3D')}`,
  '--m',
  'Content-Type: image/png; name=i.png',
  'Content-ID: <i@x>',
  'Content-Transfer-Encoding: base64',
  '',
  'cG5n',
  '--m',
  'Content-Type: text/html; name="../evil.html"',
  'Content-Disposition: attachment; filename="../evil.html"',
  '',
  '<script>',
  '--m--',
);

async function startInbox(t: Test, port = 0) {
  const directory = t.testdir();
  const mailbox = await openMailbox(systemDisk(), directory);
  const inbox = await Inbox.open(mailbox, () => Date.UTC(2026, 10, 20, 9));
  const { log, lines: logged } = keptLog();
  const served = await serveInbox({
    inbox,
    port,
    allowedHosts: ['gateway.lan'],
    clock: new FakeClock(),
    log,
  });
  t.teardown(() => served.close());
  const call = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    callRaw(served.address, path, headers, method);
  return { ...served, inbox, directory, call, logged };
}

/** fetch() would set Host and tidy up the path. */
async function callRaw(address: string, path: string, headers: Record<string, string>, method: string) {
  const [host, port] = address.split(':');
  const req = request({ host, port, path, method, headers, agent: false });
  req.end();
  const [res] = await once(req, 'response');
  const pieces: Buffer[] = [];
  for await (const piece of res) pieces.push(piece);
  const octets = Buffer.concat(pieces);
  const text = octets.toString();
  const json = /json/.test(res.headers['content-type'] ?? '') && text !== '' ? JSON.parse(text) : null;
  return {
    status: res.statusCode as number,
    headers: res.headers as Record<string, string>,
    octets,
    text,
    json,
  };
}

t.test('the page may use this service, may frame it, and may do nothing else', async (t) => {
  const { call } = await startInbox(t);
  const { status, headers, text } = await call('/');
  t.equal(status, 200);
  t.equal(headers['content-type'], 'text/html; charset=utf-8');
  const policy = (headers['content-security-policy'] ?? '').split('; ');
  for (const part of [
    "default-src 'none'",
    "connect-src 'self'",
    "frame-src 'self'",
    "img-src data: 'self'",
    "frame-ancestors 'none'",
  ]) {
    t.ok(policy.includes(part), part);
  }
  t.notMatch(text, /<html[^>]+data-token/);
});

t.test('the list: with an ETag, so that an unchanged one costs nothing', async (t) => {
  const { call, inbox } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  const list = await call('/messages');
  t.match(list.json.messages, [{ id: '1', subject: 'Żółw', to: 'jan@example.com', bytes: RICH.length }]);
  t.equal((await call('/messages', { 'If-None-Match': list.headers.etag ?? '' })).status, 304);
  inbox.keepShort({ type: 2, destination: '+31612345678', message: 'x' });
  t.equal((await call('/messages', { 'If-None-Match': list.headers.etag ?? '' })).json.messages.length, 2);
});

t.test('a mail: text, decoded headers, envelope and files', async (t) => {
  const { call, inbox } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  const { json } = await call('/messages/1');
  t.match(json, { id: '1', text: 'Żółw', isCut: false, hasHtml: true, envelope: ENVELOPE });
  t.same(json.headers.slice(0, 4), [
    ['From', 'Pump 3 <pump@example.com>'],
    ['To', 'jan@example.com'],
    ['Subject', 'Żółw'],
    ['X-Folded', 'a b'],
  ]);
  t.same(json.files, [
    { name: 'i.png', type: 'image/png', bytes: 3, isPicture: true },
    { name: 'evil.html', type: 'text/html', bytes: 8, isPicture: false },
  ]);
  inbox.keepShort({ type: 4, destination: 'OWNER', message: 'a\nb', title: 'T', app_data: { n: 1 } });
  t.match((await call('/messages/s1')).json, {
    ...{ id: 's1', type: 4, to: 'OWNER', text: 'a\nb', hasHtml: false, envelope: null, files: [] },
    headers: [
      ['title', 'T'],
      ['app_data', '{"n":1}'],
    ],
  });
  await inbox.keep({ ...ENVELOPE, raw: lines('', 'x'.repeat(2 * MIB)) });
  const long = (await call('/messages/2')).json;
  t.same([long.text.length, long.isCut], [MIB, true]);
});

/** Headers of every answer with content of a mail. */
function assertSafe(t: Test, headers: Record<string, string>) {
  const policy = headers['content-security-policy'] ?? '';
  const [sandbox, ...sources] = policy.split('; ');
  t.equal(sandbox, 'sandbox', 'no script, no form, no window, an origin of its own');
  t.same(sources, [
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    'img-src data:',
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ]);
  t.equal(headers['x-content-type-options'], 'nosniff');
  t.equal(headers['referrer-policy'], 'no-referrer');
  t.equal(headers['x-dns-prefetch-control'], 'off');
  t.equal(headers['cross-origin-resource-policy'], 'same-origin');
}

t.test('HTML is a document that can do nothing, with the images of the mail in it', async (t) => {
  const { call, inbox } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  const { status, headers, text } = await call('/messages/1/html');
  t.equal(status, 200);
  t.equal(headers['content-type'], 'text/html; charset=utf-8');
  assertSafe(t, headers);
  t.equal(text, `żółw <img src="data:image/png;base64,cG5n">${HARMFUL}`);
  await inbox.keep({ ...ENVELOPE, raw: lines('', 'text') });
  t.equal((await call('/messages/2/html')).status, 404);
});

t.test('a file is always a download, whatever it says it is', async (t) => {
  const { call, inbox } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  const { headers, octets } = await call('/files/1.1');
  t.equal(String(octets), '<script>');
  assertSafe(t, headers);
  t.equal(headers['content-type'], 'application/octet-stream');
  t.equal(headers['content-disposition'], `attachment; filename="evil.html"; filename*=UTF-8''evil.html`);
  for (const id of ['1.2', '1.-1', '1', '1.', '.1', '2.0', 's1.0', '1.99999', '1.0.0', '..%2F1.0']) {
    t.equal((await call(`/files/${id}`)).status, 404, id);
  }
});

t.test('a picture is shown as what it says it is, and nothing else is', async (t) => {
  const { call, inbox } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  const { status, headers, octets } = await call('/pictures/1.0');
  t.same([status, headers['content-type'], String(octets)], [200, 'image/png', 'png']);
  assertSafe(t, headers);
  for (const id of ['1.1', '1.2', '1', 's1.0']) t.equal((await call(`/pictures/${id}`)).status, 404, id);
  const typed = (type: string) =>
    lines('Content-Type: multipart/mixed; boundary=m', '', '--m', `Content-Type: ${type}`, '', 'x', '--m--');
  for (const [index, type] of [
    'image/svg+xml',
    'text/html',
    'image/PNG',
    'image/x',
    'image/webp',
  ].entries()) {
    await inbox.keep({ ...ENVELOPE, raw: typed(`${type}; name=a`) });
    const isPicture = /png|webp/i.test(type);
    // HTML without a disposition is the text of the mail.
    t.equal((await call(`/pictures/${index + 2}.0`)).status, isPicture ? 200 : 404, type);
  }
});

t.test('the source is what was received, octet by octet, up to the largest mail', async (t) => {
  const { call, inbox } = await startInbox(t);
  const raw = Buffer.concat([lines('Subject: big', '', ''), Buffer.alloc(25 * MIB, 0xe9), Buffer.from([0])]);
  await inbox.keep({ ...ENVELOPE, raw });
  const { headers, octets } = await call('/messages/1/source');
  t.equal(headers['content-type'], 'text/plain; charset=utf-8');
  assertSafe(t, headers);
  t.ok(octets.equals(raw));
  t.equal((await call('/messages/1')).json.text.length, MIB);
});

t.test('nothing outside the mailbox can be named', async (t) => {
  const { call, inbox, logged } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  for (const id of [
    '..%2F..%2Fetc%2Fpasswd',
    '..',
    '%00',
    '000001.eml',
    '1%2F..%2F1',
    '0x1',
    '1e0',
    '%201',
    '-1',
  ]) {
    for (const path of [`/messages/${id}`, `/messages/${id}/html`, `/messages/${id}/source`]) {
      t.equal((await call(path)).status, 404, path);
    }
    t.equal((await call(`/messages/${id}`, {}, 'DELETE')).status, 404, id);
  }
  t.equal((await call('/messages/%')).status, 400);
  t.equal((await call('/messages/1', {}, 'PUT')).status, 405);
  t.equal((await call('/../../etc/passwd')).status, 404);
  t.equal(inbox.list().length, 1);
  t.notMatch(logged.join(''), /request failed/);
});

t.test('a mail that is gone meanwhile', async (t) => {
  const { call, inbox, directory, logged } = await startInbox(t);
  for (let count = 0; count < 3; count++) await inbox.keep({ ...ENVELOPE, raw: RICH });
  unlinkSync(join(directory, '000001.eml'));
  for (const path of ['/messages/1', '/messages/1/html', '/messages/1/source', '/files/1.0']) {
    const gone = await call(path);
    t.same([gone.status, gone.json.detail], [404, 'This message is gone'], path);
  }
  t.equal((await call('/messages/2', {}, 'DELETE')).status, 204);
  t.equal((await call('/messages/2', {}, 'DELETE')).status, 404);
  t.match((await call('/messages')).json.messages, [{ id: '3' }]);
  t.equal((await call('/messages', {}, 'DELETE')).status, 204);
  t.same((await call('/messages')).json.messages, []);
  t.notMatch(logged.join(''), /request failed/);
});

t.test('a page from elsewhere gets nothing, and deletes nothing', async (t) => {
  const { call, inbox } = await startInbox(t);
  await inbox.keep({ ...ENVELOPE, raw: RICH });
  const calls: readonly (readonly [string, string])[] = [
    ['GET', '/'],
    ['GET', '/messages'],
    ['GET', '/messages/1'],
    ['GET', '/messages/1/html'],
    ['GET', '/messages/1/source'],
    ['GET', '/files/1.0'],
    ['DELETE', '/messages/1'],
    ['DELETE', '/messages'],
  ];
  for (const [method, path] of calls) {
    for (const headers of [
      { Host: 'evil.example' },
      { Host: 'evil.example:43790' },
      { Origin: 'http://evil.example' },
      { Origin: 'null' },
      { 'Sec-Fetch-Site': 'cross-site' },
      { 'Sec-Fetch-Site': 'same-site' },
    ]) {
      t.equal(
        (await call(path, headers, method)).status,
        403,
        `${method} ${path} ${JSON.stringify(headers)}`,
      );
    }
  }
  t.equal(inbox.list().length, 1);
  t.equal((await call('/messages', { Host: 'gateway.lan' })).status, 200, 'a name that the settings allow');
  t.equal((await call('/messages/1/html', { 'Sec-Fetch-Site': 'same-origin' })).status, 200);
});

t.test('a port that is taken does not stop it', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const { port } = other.address() as { port: number };
  const { address, call } = await startInbox(t, port);
  t.not(address, `127.0.0.1:${port}`);
  t.equal((await call('/')).status, 200);
});

t.test('the port that is wanted is taken if it is free', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  await new Promise((resolve) => other.close(resolve));
  const { address, close } = await startInbox(t, port);
  t.equal(address, `127.0.0.1:${port}`);
  await close();
  await t.rejects(callRaw(address, '/', {}, 'GET'), { code: 'ECONNREFUSED' });
});
