/** The listening sockets: all or none, a stale unix socket is replaced, a living one is not. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { test } from 'tap';
import type { ListenConfig } from '../../src/base/config/types.js';
import { LISTEN_AGAIN_MS, LISTEN_TRY_MS, openListeners } from '../../src/base/system/listen.js';
import { FakeClock } from '../support/clock.js';
import { shortDirectory } from '../support/short-directory.js';
import { keptLog } from '../support/system.js';

const ANY_PORT: ListenConfig = { kind: 'tcp', host: '127.0.0.1', port: 0 };
// A client that only tries whether somebody answers is gone before the greeting.
const greeter = ({ kind }: ListenConfig): Server =>
  createServer((socket) => socket.on('error', () => undefined).end(kind));

async function greetingOf(address: ListenConfig): Promise<string> {
  const socket = connect(address.kind === 'unix' ? { path: address.path } : { ...address });
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

test('listens on everything asked for', async (t) => {
  const path = `${shortDirectory(t)}/api.sock`;
  const listeners = await openListeners([ANY_PORT, { kind: 'unix', path }, ANY_PORT], greeter);
  const greetings = await Promise.all(listeners.addresses.map(greetingOf));
  t.same(greetings, ['tcp', 'unix', 'tcp']);
  const ports = listeners.addresses.map((address) => (address.kind === 'tcp' ? address.port : 0));
  t.ok(ports[0] !== ports[2] && ports[0] !== 0 && ports[2] !== 0, 'the ports that were found');
  t.equal(statSync(path).mode & 0o777, 0o660);
  await listeners.close();
  t.notOk(existsSync(path));
  await t.rejects(greetingOf(listeners.addresses[0] ?? ANY_PORT), { code: 'ECONNREFUSED' });
});

test('at no instant another user may call a unix socket', async (t) => {
  const path = `${shortDirectory(t)}/api.sock`;
  const before = process.umask(0);
  t.teardown(() => process.umask(before));
  const seen: number[] = [];
  const makeServer = (address: ListenConfig) =>
    // It hears before anybody else that the socket is there.
    greeter(address).once('listening', () => seen.push(statSync(path).mode & 0o777, process.umask()));
  const listeners = await openListeners([{ kind: 'unix', path }], makeServer);
  t.same(seen, [0o600, 0], 'the mode of the new socket, and the mask of whatever is made next');
  t.equal(statSync(path).mode & 0o777, 0o660);
  await listeners.close();
  const missing: ListenConfig = { kind: 'unix', path: `${path}/nowhere` };
  await t.rejects(openListeners([missing], greeter));
  t.equal(process.umask(), 0, 'after a failure, too');
});

test('all or none', async (t) => {
  const path = `${shortDirectory(t)}/api.sock`;
  const taken = await openListeners([ANY_PORT], greeter);
  const [address] = taken.addresses;
  const opening = openListeners([{ kind: 'unix', path }, address ?? ANY_PORT], greeter);
  const port = address?.kind === 'tcp' ? address.port : 0;
  await t.rejects(opening, { code: 'unavailable', message: new RegExp(`127.0.0.1:${port}.*EADDRINUSE`) });
  t.notOk(existsSync(path), 'the first one is closed again');
  const again = openListeners([address ?? ANY_PORT], greeter, [], 'FIELDPOST_SMTP_LISTEN');
  const refusal = await again.catch((error: unknown) => error);
  t.match(refusal, { hint: /listening there; FIELDPOST_SMTP_LISTEN sets the address/ });
  await taken.close();
  const long: ListenConfig = { kind: 'unix', path: `${path}${'x'.repeat(108 - path.length)}` };
  await t.rejects(openListeners([long], greeter), { code: 'unavailable', message: /107 bytes/ });
  t.notOk(existsSync(long.path.slice(0, -1)));
  const nowhere: ListenConfig = { kind: 'unix', path: `${path}/no/such/directory` };
  await t.rejects(openListeners([nowhere], greeter), { code: 'unavailable', message: /unix:/ });
});

test('a port that is taken is tried for LISTEN_TRY_MS, and logged once', async (t) => {
  for (const isFreed of [true, false]) {
    const clock = new FakeClock();
    const { log, lines } = keptLog();
    const taken = await openListeners([ANY_PORT], greeter);
    const [address = ANY_PORT] = taken.addresses;
    const opening = openListeners([address], greeter, [], 'FIELDPOST_LISTEN', { clock, log });
    const outcome = opening.then(
      () => 'opened',
      ({ code, message }) => `${code}: ${message}`,
    );
    const pauses = LISTEN_TRY_MS / LISTEN_AGAIN_MS;
    for (let pause = 0; pause < pauses; pause++) {
      while (clock.pending === 0) await nextTurn();
      if (isFreed && pause === pauses - 1) await taken.close();
      await clock.advance(LISTEN_AGAIN_MS);
    }
    t.match(await outcome, isFreed ? 'opened' : /^unavailable: .*EADDRINUSE/);
    t.equal(lines.length, 1, lines.join('\n'));
    t.match(lines[0], /^<4>port taken listen=127\.0\.0\.1:\d+ triedForMs=10000$/m);
    if (isFreed) await (await opening).close();
    else await taken.close();
  }
});

test('a stale unix socket is replaced; a file, or a socket that answers, stays', async (t) => {
  const directory = shortDirectory(t);
  writeFileSync(`${directory}/file`, 'precious');
  const stale = `${directory}/stale.sock`;
  // A process that is killed leaves its socket behind.
  const script = `require('net').createServer().listen(${JSON.stringify(stale)}, () => process.kill(process.pid, 9))`;
  t.throws(() => execFileSync(process.execPath, ['-e', script]));
  t.ok(statSync(stale).isSocket());
  const config: ListenConfig = { kind: 'unix', path: stale };
  const first = await openListeners([config], greeter);
  t.equal(await greetingOf(config), 'unix');
  await t.rejects(openListeners([config], greeter), { code: 'unavailable', hint: /another daemon/ });
  t.equal(await greetingOf(config), 'unix', 'one that answers is left alone');
  await first.close();

  const file: ListenConfig = { kind: 'unix', path: `${directory}/file` };
  await t.rejects(openListeners([file], greeter), { code: 'unavailable' });
  t.equal(readFileSync(file.path, 'utf8'), 'precious');
});

test('closing waits for open connections', async (t) => {
  const listeners = await openListeners([ANY_PORT], () => createServer());
  const [address] = listeners.addresses;
  const socket = connect({ host: '127.0.0.1', port: address?.kind === 'tcp' ? address.port : 0 });
  await once(socket, 'connect');
  let isClosed = false;
  const closed = listeners.close().then(() => {
    isClosed = true;
  });
  await t.rejects(greetingOf(address ?? ANY_PORT), { code: 'ECONNREFUSED' });
  t.notOk(isClosed);
  socket.destroy();
  await closed;
});
