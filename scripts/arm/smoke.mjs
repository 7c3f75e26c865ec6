/**
 * `node smoke.mjs PROGRAM ARGUMENT…`: PROGRAM is the daemon, run in whatever way. It must accept mails, keep them when it
 * is killed, and deliver them to a relay, one with an attachment among them. Says how long that took; throws otherwise.
 */
import assert from 'node:assert';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { SMTPServer } from 'smtp-server';

const MAILS = 200;
const FILE_BYTES = 1024 * 1024;

const [program, ...args] = process.argv.slice(2);
const directory = await mkdtemp(join(tmpdir(), 'fieldpost-arm-'));
const arrived = new Map();
const relay = new SMTPServer({
  disabledCommands: ['AUTH', 'STARTTLS'],
  onData(stream, _session, done) {
    const chunks = [];
    stream.on('data', (chunk) => chunks.push(chunk));
    stream.on('end', () => {
      const text = Buffer.concat(chunks).toString('latin1');
      arrived.set(/^Message-ID: <([^.]+)\./m.exec(text)?.[1], text);
      done();
    });
  },
});
// A daemon that ends in the middle of a mail may reset the connection.
relay.on('error', () => undefined);
relay.listen(0, '127.0.0.1');
await once(relay.server, 'listening');
const relayPort = relay.server.address().port;

try {
  const version = spawnSync(program, [...args, 'version'], { encoding: 'utf8' });
  assert.equal(version.status, 0, version.stderr);
  const began = performance.now();
  const first = await start();
  const startMs = performance.now() - began;
  const mail = (subject) => ({ type: 1, destination: 'john@example.com', subject, plain: 'x'.repeat(1000) });
  const ids = [];
  const posting = performance.now();
  for (let i = 0; i < MAILS; i++) ids.push(...(await first.post(JSON.stringify([mail(`mail ${i}`)]))));
  const postMs = performance.now() - posting;
  const file = randomBytes(FILE_BYTES);
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'a file');
  form.set('file', new Blob([file]), 'pump.log');
  ids.push(...(await first.post(form)));
  await first.end('SIGKILL');
  const delivering = performance.now();
  const second = await start({ FIELDPOST_RELAY: `smtp://127.0.0.1:${relayPort}?tls=never` });
  while ((await second.queued()) > 0) await new Promise((go) => setTimeout(go, 20));
  const deliverMs = performance.now() - delivering;
  assert.deepEqual([...arrived.keys()].sort(), [...ids].sort(), 'all that was accepted, and nothing twice');
  const base64 = file
    .toString('base64')
    .match(/.{1,76}/g)
    .join('\r\n');
  assert.ok(arrived.get(ids.at(-1)).includes(base64), 'the file came whole');
  assert.equal(await second.end('SIGTERM'), 0);
  const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;
  console.log(
    `${program.replace(/.*\//, '')}: started in ${seconds(startMs)}, ${MAILS} mails accepted in ${seconds(postMs)}, ` +
      `killed, ${ids.length} delivered in ${seconds(deliverMs)}`,
  );
} finally {
  relay.close();
  await rm(directory, { recursive: true, force: true });
}

async function start(env = {}) {
  const child = spawn(program, [...args, 'run'], {
    env: {
      PATH: process.env.PATH,
      FIELDPOST_STATE_DIR: join(directory, 'state'),
      FIELDPOST_LISTEN: '127.0.0.1:0',
      FIELDPOST_FROM: 'gateway@example.com',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let port = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    port = Number(/started .*listen=127\.0\.0\.1:(\d+)/.exec(line)?.[1] ?? 0);
    if (port !== 0) break;
  }
  assert.notEqual(port, 0, 'it does not start');
  child.stdout.resume();
  const api = `http://127.0.0.1:${port}/api/internal`;
  return {
    async post(body) {
      const headers = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
      const answer = await fetch(`${api}/messages`, { method: 'POST', headers, body });
      assert.equal(answer.status, 202, await answer.clone().text());
      return (await answer.json()).map(({ id }) => id);
    },
    async queued() {
      const { queue } = await (await fetch(`${api}/state`)).json();
      return queue.queued + queue.sending + queue.deferred;
    },
    async end(signal) {
      child.kill(signal);
      return (await ended)[0];
    },
  };
}
