/** The built program and a port that another socket has: a start waits for it, and a client does not call itself. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import t from 'tap';
import { MAIN, needsProgram } from '../support/daemon.js';

/** A server that has a port. */
async function holder() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { server, listen: `127.0.0.1:${port}` };
}

t.test('a start waits for a port that is taken', needsProgram, async (t) => {
  const { server, listen } = await holder();
  const directory = t.testdir();
  const child = spawn(MAIN, ['run'], {
    env: { PATH: process.env.PATH, FIELDPOST_STATE_DIR: directory, FIELDPOST_LISTEN: listen },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    if (/ port taken /.test(line)) server.close();
    if (/ started /.test(line)) break;
  }
  t.match(
    said.join('\n'),
    new RegExp(`warn {2}port taken listen=${listen} [^]* started .*listen=${listen} `),
  );
  child.kill('SIGTERM');
  t.same(await once(child, 'exit'), [0, null]);
});

t.test('SIGTERM ends a start that waits for a port at once', needsProgram, async (t) => {
  const { server, listen } = await holder();
  const child = spawn(MAIN, ['run'], {
    env: { PATH: process.env.PATH, FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_LISTEN: listen },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout });
  const said: string[] = [];
  lines.on('line', (line) => {
    said.push(line);
    if (/ port taken /.test(line)) child.kill('SIGTERM');
  });
  t.same(await once(child, 'exit'), [128 + 15, null], 'as any start');
  t.notMatch(said.join('\n'), /cannot start/, 'it does not wait for the end of its tries');
  server.close();
});

/** Runs it in a network of its own, where the kernel has one port to draw: that of the daemon, which is down. */
function inNetwork(...args: readonly string[]) {
  const script =
    'ip link set lo up && echo "43770 43770" > /proc/sys/net/ipv4/ip_local_port_range && exec "$@"';
  return spawnSync('unshare', ['--map-root-user', '--net', 'sh', '-c', script, 'sh', ...args], {
    env: { PATH: process.env.PATH, FIELDPOST_LISTEN: '127.0.0.1:43770' },
    encoding: 'utf8',
  });
}

const hasNetwork = inNetwork('true').status === 0;
const needsNetwork = hasNetwork ? needsProgram : { skip: 'needs a network namespace' };

t.test('a command whose connection goes to itself says that no daemon answers', needsNetwork, async (t) => {
  const { status, stderr } = inNetwork(MAIN, 'status');
  t.equal(status, 69);
  const words = /^fieldpost: no daemon answers on 127\.0\.0\.1:43770\n/;
  t.match(stderr, words, 'and not that its answer is no HTTP');
});
