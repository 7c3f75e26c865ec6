/** Three instances of the cloud behind a load balancer that others wrote (HAProxy) keep the contract as one does. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { ETCD } from './etcd.js';
import { callAs, type Fleet, KEY, startFleet } from './fleet.js';
import { freePorts, sharedDirectory, skipWithout, startServer } from './peers.js';

const HAPROXY = '/usr/sbin/haproxy';
const CONFORMANCE = new URL('../../scripts/conformance', import.meta.url).pathname;
const skip = skipWithout(ETCD, '/usr/bin/etcdctl', '/usr/sbin/nft', HAPROXY);

/** Each request goes to the next instance; gives the URL. */
async function balance(t: Test, { urls }: Fleet): Promise<string> {
  const [port = 0] = await freePorts(1);
  const path = join(sharedDirectory(t), 'haproxy.cfg');
  const servers = urls.map((url, n) => `  server s${n} ${new URL(url).host} check inter 500ms`);
  writeFileSync(
    path,
    `defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option httpchk GET /healthz
frontend f
  bind 127.0.0.1:${port}
  default_backend b
backend b
  balance roundrobin
${servers.join('\n')}
`,
  );
  const server = await startServer(HAPROXY, ['-db', '-f', path], port);
  t.teardown(() => server.stop());
  return `http://127.0.0.1:${port}`;
}

async function keyOf(url: string, device: string): Promise<string> {
  const made = await callAs(`${url}/devices/${device}/key`, 'POST');
  if (made?.status !== 201) throw new Error(`no key: ${made?.status} ${made?.text}`);
  return JSON.parse(made.text).key;
}

/** Sends the same mail; resolves with the status. */
async function mailTo(url: string): Promise<number> {
  const { status } = await fetch(`${url}/devices/pump-3/mails?to=anna@example.com`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'message/rfc822', 'Idempotency-Key': 'm1' },
    body: 'From: pump-3@example.com\r\nTo: anna@example.com\r\nSubject: x\r\n\r\nx\r\n',
  });
  return status;
}

t.test('behind a load balancer', { skip }, async (t) => {
  const fleet = await startFleet(t, ['pump-3', 'pump-4'], {
    // Mails wait there.
    FIELDPOST_RELAY: 'smtp://127.0.0.1:1',
    FIELDPOST_CLOUD_SERVER_MAILS: '1000',
  });
  const { urls, sink } = fleet;
  const url = await balance(t, fleet);

  await t.test('the contract holds', async (t) => {
    const args = [url, ...['pump-1', await keyOf(url, 'pump-1')], ...['pump-2', await keyOf(url, 'pump-2')]];
    const run = promisify(execFile)('/bin/bash', [CONFORMANCE, ...args]);
    const { stdout } = await run.catch((error) => error as { stdout: string });
    t.comment(stdout.trimEnd().split('\n').at(-1) ?? '');
    t.match(stdout, /^hold: \d+, broken: 0, not checked: 0$/m, stdout);
  });

  await t.test('a message that two instances take is delivered once', async (t) => {
    const message = (key: string, text: string) => ({
      body: { id: key, type: 2, destination: '+12025550111', message: text },
      headers: { 'Idempotency-Key': key },
    });
    for (let n = 0; n < 20; n++) {
      const question = message(`k${n}`, `first ${n}`);
      const taken = await Promise.all(
        urls.map((one) => callAs(`${one}/devices/pump-3/messages`, 'POST', question)),
      );
      t.strictSame(
        taken.map((answer) => answer?.status),
        urls.map(() => 202),
      );
    }
    const last = await callAs(`${url}/devices/pump-3/messages`, 'POST', message('last', 'last'));
    t.equal(last?.status, 202);
    // The teller accepts messages in order.
    await sink.until('the last message', () => sink.messages.some(({ text }) => text === 'last'));
    const texts = () => sink.messages.filter(({ device }) => device === 'pump-3').map(({ text }) => text);
    const expected = [...Array.from({ length: 20 }, (_, n) => `first ${n}`), 'last'];
    await sink.until('all messages', () => texts().length >= expected.length);
    t.strictSame(texts().sort(), expected.sort());
    t.equal(sink.repeated, 0);
  });

  await t.test('a mail that comes again at another instance is taken once', async (t) => {
    const waiting = async () => {
      const all = await Promise.all(urls.map((one) => callAs(`${one}/metrics`, 'GET')));
      const counts = all.map((one) => /outbox_messages\{part="devices"\} (\d+)/.exec(one?.text ?? '')?.[1]);
      return counts.reduce((sum, count) => sum + Number(count), 0);
    };
    const before = await waiting();
    for (const one of [...urls, ...urls]) t.equal(await mailTo(one), 202);
    t.equal(await waiting(), before + 1);
  });

  await t.test('a document that one instance takes is read at the others', async (t) => {
    let etag: string | null = null;
    for (let n = 0; n < 30; n++) {
      const body = { destinations: [], n };
      const headers = etag === null ? { 'If-None-Match': '*' } : { 'If-Match': etag };
      const put = await callAs(`${urls[n % 3]}/devices/pump-4/destinations`, 'PUT', { body, headers });
      t.equal(put?.status, 204);
      etag = put?.etag ?? '';
      for (const one of urls) {
        const got = await callAs(`${one}/devices/pump-4/destinations`, 'GET');
        t.match(got, { status: 200, etag });
        t.equal(JSON.parse(got?.text ?? '{}').n, n);
      }
    }
  });
});
