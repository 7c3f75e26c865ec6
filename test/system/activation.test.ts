/** Sockets from the service manager: the built daemon is given some, as systemd would, and serves on them. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { get, type RequestOptions } from 'node:http';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Test, test } from 'tap';
import { handedOver } from '../../src/base/system/listen.js';
import { isBuilt, MAIN } from '../support/daemon.js';
import { socketPath } from '../support/short-directory.js';

const hasPython = spawnSync('python3', ['--version']).status === 0;
const options = {
  skip: !isBuilt ? 'the program is not built' : !hasPython ? 'needs python3 to hold the sockets' : false,
};

test('only sockets for this process are taken', async (t) => {
  t.same(handedOver({ LISTEN_FDS: '3', LISTEN_PID: '7', LISTEN_FDNAMES: 'fieldpost.socket:send:smtp' }, 7), [
    { fd: 3, use: 'api' },
    { fd: 4, use: 'send' },
    { fd: 5, use: 'smtp' },
  ]);
  t.match(handedOver({ LISTEN_FDS: '1', LISTEN_PID: '7' }, 7), [{ fd: 3, use: 'api' }]);
  t.same(handedOver({ LISTEN_FDS: '2', LISTEN_PID: '8' }, 7), []);
  t.same(handedOver({ LISTEN_FDS: '2' }, 7), []);
  for (const LISTEN_FDS of [undefined, '', '0', '-1', '1.5', 'x'])
    t.same(handedOver({ LISTEN_FDS, LISTEN_PID: '7' }, 7), []);
});

/** Sockets that somebody else holds, and the daemon with them. */
async function activator(t: Test, sockets: readonly string[], env: Record<string, string> = {}) {
  const program = [fileURLToPath(new URL('activator.py', import.meta.url)), sockets.join(',')];
  const child = spawn('python3', [...program, process.execPath, MAIN, 'run'], {
    env: { PATH: process.env.PATH, FIELDPOST_STATE_DIR: t.testdir(), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => child.stdin.end());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => (await lines.next()).value as string;
  const addresses = (await next()).split(',');
  const lineWith = async (pattern: RegExp) => {
    for (;;) {
      const line = await next();
      if (line === undefined || pattern.test(line)) return line;
    }
  };
  return {
    addresses,
    /** The first such line: by default in which the daemon says that it has started, or why not. */
    start(pattern = /started|cannot start/) {
      child.stdin.write('start\n');
      return lineWith(pattern);
    },
    async stop() {
      child.stdin.write('stop\n');
      return Number((await lineWith(/^ended/)).split(' ')[1]);
    },
  };
}

async function healthOf(where: RequestOptions): Promise<number | undefined> {
  const [answer] = await once(get({ ...where, path: '/healthz', agent: false }), 'response');
  answer.resume();
  return answer.statusCode;
}

test('the daemon serves on handed sockets of TCP and unix, which stay open after it', options, async (t) => {
  const path = socketPath(t);
  const { addresses, start, stop } = await activator(t, ['127.0.0.1', path]);
  const tcp = { host: '127.0.0.1', port: Number(addresses[0]) };
  t.match(await start(), ` listen=127.0.0.1:${tcp.port},${path} `);
  t.equal(await healthOf(tcp), 200);
  t.equal(
    await healthOf({ socketPath: path, headers: { host: 'elsewhere.example' } }),
    200,
    'as a unix socket',
  );
  t.equal(await stop(), 0);
  const waiting = [healthOf(tcp), healthOf({ socketPath: path })];
  await start();
  t.same(await Promise.all(waiting), [200, 200], 'clients that came in between have waited');
  t.equal(await stop(), 0);
});

test('a socket of fieldpost-smtp.socket is for SMTP, and leaves the API its default', options, async (t) => {
  const env = { LISTEN_FDNAMES: 'api:smtp', FIELDPOST_HELO_NAME: 'pump.example' };
  const { addresses, start, stop } = await activator(t, ['127.0.0.1', '127.0.0.1'], env);
  t.match(await start(), ` listen=127.0.0.1:${addresses[0]} smtp=127.0.0.1:${addresses[1]} `);
  const socket = connect({ host: '127.0.0.1', port: Number(addresses[1]) });
  t.equal(String((await once(socket, 'data'))[0]), '220 pump.example ESMTP Fieldpost\r\n');
  socket.end('QUIT\r\n').resume();
  await once(socket, 'close');
  t.equal(await stop(), 0);
  const exposed = await activator(t, ['0.0.0.0'], {
    LISTEN_FDNAMES: 'smtp',
    FIELDPOST_LISTEN: '127.0.0.1:0',
  });
  t.match(await exposed.start(), /cannot start .* handed over by systemd for SMTP, .* needs a token/);
  t.equal(await exposed.stop(), 78);
  const inClear = await activator(t, ['0.0.0.0'], {
    LISTEN_FDNAMES: 'smtp',
    FIELDPOST_LISTEN: '127.0.0.1:0',
    FIELDPOST_API_TOKEN: 'a-long-random-token',
  });
  t.match(await inClear.start(/tokens travel|cannot start/), /:\d+ \(FIELDPOST_SMTP_LISTEN\) in clear text/);
  await inClear.stop();
});

test('the addresses of FIELDPOST_LISTEN are opened as well', options, async (t) => {
  const { start, stop } = await activator(t, ['127.0.0.1'], { FIELDPOST_LISTEN: '127.0.0.1:0' });
  const [, own] = / listen=127\.0\.0\.1:\d+,127\.0\.0\.1:(\d+) /.exec(await start()) ?? [];
  t.equal(await healthOf({ host: '127.0.0.1', port: Number(own) }), 200);
  t.equal(await stop(), 0);
});

test('an address that was handed over is not opened twice', options, async (t) => {
  const path = socketPath(t);
  const { start, stop } = await activator(t, [path], { FIELDPOST_LISTEN: `unix:${path}` });
  t.match(await start(), ` listen=${path} `);
  t.equal(await stop(), 0);
});

test('a socket that others can reach needs a token', options, async (t) => {
  const refused = await activator(t, ['0.0.0.0']);
  t.match(await refused.start(), /cannot start .*0\.0\.0\.0:\d+, handed over by systemd, .* needs a token/);
  t.equal(await refused.stop(), 78, 'a setting is wrong: not to be tried again');
  const guarded = await activator(t, ['0.0.0.0'], { FIELDPOST_API_TOKEN: 'secret' });
  const warning = /configuration warning="tokens travel to 0\.0\.0\.0:\d+ \(FIELDPOST_LISTEN\) in clear text/;
  t.match(await guarded.start(/tokens travel|cannot start/), warning);
  t.equal(await healthOf({ host: '127.0.0.1', port: Number(guarded.addresses[0]) }), 200);
  t.equal(await guarded.stop(), 0);
});

test('a descriptor that is no listening socket is an error', options, async (t) => {
  const script = 'LISTEN_PID=$$ exec "$@" 3</dev/null';
  const { status, stdout } = spawnSync('/bin/sh', ['-c', script, 'sh', process.execPath, MAIN, 'run'], {
    env: { PATH: process.env.PATH, LISTEN_FDS: '1', FIELDPOST_STATE_DIR: t.testdir() },
    encoding: 'utf8',
  });
  t.match(stdout, /cannot start .*Descriptor 3, handed over by systemd, cannot be used/);
  t.equal(status, 69);
});
