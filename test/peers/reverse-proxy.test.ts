/**
 * The built daemon behind Debian's Caddy and nginx, with the configurations of the manual page: TLS, a token, the status page
 * in a browser, the stream of events, large bodies.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { startIn } from '../support/daemon.js';
import { sectionOf } from '../support/pages.js';
import { CHROMIUM, open, openBrowser } from './browser.js';
import { freePorts, sharedDirectory, skipWithout, startServer } from './peers.js';

const CADDY = '/usr/bin/caddy';
const NGINX = '/usr/sbin/nginx';
const NAME = 'pump-3.example';
const TOKEN = 'a-token-that-nobody-guesses';
/** How long an answer and its end may take. */
const PATIENCE_MS = 30_000;
const options = { skip: skipWithout(CADDY, NGINX, CHROMIUM), timeout: 180_000 };

/** Its configuration from the block of the manual page, and how to start it on a port. */
interface Proxy {
  readonly block: RegExp;
  /** What the manual page says, and what the test puts in its place. */
  readonly address: readonly [string, (port: number) => string];
  readonly around: (block: string, directory: string) => string;
  readonly start: (file: string, directory: string) => readonly [string, ...string[]];
}

const PROXIES: Readonly<Record<string, Proxy>> = {
  Caddy: {
    block: /^```\n(pump-3\.example \{\n[\s\S]*?)```$/m,
    address: [`${NAME} {`, (port) => `${NAME}:${port} {`],
    around: (block) => `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${block}`,
    // It keeps files below HOME.
    start: (file, directory) => [
      '/usr/bin/env',
      `HOME=${directory}`,
      CADDY,
      'run',
      '--adapter',
      'caddyfile',
      '--config',
      file,
    ],
  },
  nginx: {
    block: /^```\n(server \{\n[\s\S]*?)```$/m,
    address: ['listen 443 ssl', (port) => `listen 127.0.0.1:${port} ssl`],
    around: (block, directory) => `user root;
daemon off;
pid ${directory}/pid;
error_log ${directory}/log;
events {}
http {
access_log off;
client_body_temp_path ${directory}/bodies;
proxy_temp_path ${directory}/answers;
${block}}
`,
    start: (file, directory) => [NGINX, '-p', directory, '-c', file],
  },
};

/** The text with `from` replaced, which must be in it. */
function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`the manual page does not have ${from}`);
  return text.replaceAll(from, to);
}

/** The daemon with the settings of the manual page, and this proxy in front. */
async function startBehind(t: Test, { block, address, around, start }: Proxy) {
  const directory = sharedDirectory(t);
  const path = (name: string) => join(directory, name);
  const ca = makeCertificate({ name: 'Field CA' });
  const { key, cert } = makeCertificate({ name: NAME, hosts: [NAME], issuer: ca });
  for (const [name, text] of Object.entries({ key, cert, token: TOKEN }))
    writeFileSync(path(name), text, { mode: 0o600 });
  const page = sectionOf('build/man/fieldpost-api.7.md', '### Ways to it');
  const [, settings = ''] = /^```\n(FIELDPOST_[\s\S]*?)```$/m.exec(page) ?? [];
  const env = replaced(settings, '/etc/fieldpost/api-token', path('token'))
    .split('\n')
    .map((line) => line.split('=', 2));
  const daemon = await startIn(t, {
    ...Object.fromEntries(env.slice(0, -1)),
    FIELDPOST_STATE_DIR: t.testdir(),
  });
  const [port = 0] = await freePorts(1);
  let text = block.exec(page)?.[1] ?? '';
  text = replaced(text, address[0], address[1](port));
  text = replaced(text, '127.0.0.1:43770', `127.0.0.1:${daemon.port}`);
  text = replaced(text, '/etc/ssl/certs/pump-3.pem', path('cert'));
  text = replaced(text, '/etc/ssl/private/pump-3.key', path('key'));
  writeFileSync(path('conf'), around(text, directory));
  const [program, ...args] = start(path('conf'), directory);
  const server = await startServer(program, args, port);
  t.teardown(() => server.stop());
  const origin = `https://${NAME}:${port}`;
  /** Its answer, as soon as the head is there. */
  const call = async (
    target: string,
    headers: Readonly<Record<string, string>> = {},
    body?: string | Buffer,
  ): Promise<IncomingMessage> => {
    const outgoing = request({
      host: '127.0.0.1',
      port,
      servername: NAME,
      ca: ca.cert,
      path: target,
      method: body === undefined ? 'GET' : 'POST',
      headers: { Host: `${NAME}:${port}`, Authorization: `Bearer ${TOKEN}`, ...headers },
      agent: false,
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    outgoing.end(body);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    return answer.setEncoding('utf8');
  };
  return { origin, call };
}

const API = '/api/internal';
const JSON_TYPE = { 'Content-Type': 'application/json' };
const MAIL = JSON.stringify({ type: 1, destination: 'john@example.com', subject: 'Pump 3', plain: 'Low.' });

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of answer) text += chunk;
  return text;
}

/** Reads a stream until this has come. */
async function read(stream: IncomingMessage, pattern: RegExp): Promise<void> {
  let text = '';
  const iterator = stream[Symbol.asyncIterator]();
  while (!pattern.test(text)) {
    const { value, done } = await iterator.next();
    if (done) throw new Error(`the stream ended without ${pattern}: ${text}`);
    text += value;
  }
}

for (const [name, proxy] of Object.entries(PROXIES)) {
  t.test(`${name}: calls of programs`, options, async (t) => {
    const { origin, call } = await startBehind(t, proxy);
    const without = await call(`${API}/state`, { Authorization: '' });
    t.equal(without.statusCode, 401);
    t.match(await textOf(without), /unauthorized|token/);
    const foreign = await call(`${API}/messages`, { ...JSON_TYPE, Origin: 'https://evil.example' }, MAIL);
    t.equal(foreign.statusCode, 403);
    t.match(await textOf(foreign), 'not-local');

    const events = await call(`${API}/events`);
    t.equal(events.headers['content-type'], 'text/event-stream');
    await read(events, /^event: state\n[\s\S]*?\n\n/m);
    const posted = await call(`${API}/messages`, { ...JSON_TYPE, Origin: origin }, MAIL);
    t.equal(posted.statusCode, 202);
    const [{ id }] = JSON.parse(await textOf(posted));
    await read(events, new RegExp(`^event: message\n[\\s\\S]*${id}[\\s\\S]*?\n\n`, 'm'));
    events.destroy();

    const file = Buffer.alloc(3 << 20, 'x');
    const head = (part: string) => `--b\r\nContent-Disposition: form-data; name="${part}"`;
    const form = Buffer.concat([
      Buffer.from(
        `${head('type')}\r\n\r\n1\r\n${head('destination')}\r\n\r\njohn@example.com\r\n${head('subject')}\r\n\r\nLog\r\n`,
      ),
      Buffer.from(`${head('file')}; filename="log.txt"\r\n\r\n`),
      file,
      Buffer.from('\r\n--b--\r\n'),
    ]);
    const large = await call(
      `${API}/messages`,
      { 'Content-Type': 'multipart/form-data; boundary=b', 'Content-Length': String(form.length) },
      form,
    );
    t.equal(large.statusCode, 202, await textOf(large));
  });

  t.test(`${name}: the status page`, options, async (t) => {
    const { origin } = await startBehind(t, proxy);
    const flags = [`--host-resolver-rules=MAP ${NAME} 127.0.0.1`, '--ignore-certificate-errors'];
    const { page, complaints, strays } = await open(await openBrowser(t, flags), `${origin}/`);
    const dialog = page.getByRole('dialog', { name: 'This daemon asks for a token' });
    await dialog.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Hold delivery' }).click();
    await page.getByText('Delivery is on hold, also after a restart.').waitFor();
    t.strictSame([complaints, strays], [[], []]);
  });
}
