/** Another user listens where the daemon should be: no command of the built program gives that program the token. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { isBuilt, MAIN } from '../support/daemon.js';

const isRoot = process.getuid?.() === 0;
const options = {
  skip: !isBuilt ? 'the program is not built' : isRoot ? false : 'only root can be two users',
};

const NOBODY = 65_534;

/** Prints its port, then all that its clients send; answers as a daemon does. */
const LISTENER = `
  const server = require('node:http').createServer((request, response) => {
    console.log(JSON.stringify(request.headers));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  server.on('connection', () => console.log('called'));
  server.listen(0, process.argv[1], () => console.log(String(server.address().port)));`;

/** A program of this user that listens on `host`. */
async function listener(t: Test, uid: number, host = '127.0.0.1') {
  const child = spawn(process.execPath, ['-e', LISTENER, host], {
    uid,
    gid: uid,
    cwd: '/',
    env: {},
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const output = createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const [port] = (await once(output, 'line')) as [string];
  return {
    port,
    lines,
    /** All that it has printed. */
    async end() {
      child.kill();
      await once(output, 'close');
      return lines.join('\n');
    },
  };
}

const run = (port: string, args: readonly string[], env: Record<string, string> = {}) =>
  spawnSync(MAIN, args, {
    env: {
      PATH: process.env.PATH,
      FIELDPOST_LISTEN: `127.0.0.1:${port}`,
      FIELDPOST_API_TOKEN: 'token-of-an-operator',
      ...env,
    },
    input: 'Subject: x\n\nx\n',
    encoding: 'utf8',
    timeout: 60_000,
  });

const COMMANDS = [
  ['status'],
  ['queue'],
  ['queue', 'flush'],
  ['destinations'],
  ['purge'],
  ['send', '--to', 'a@b.example', '--subject', 'x'],
  ['sendmail', 'a@b.example'],
  ['mailq'],
];

for (const host of ['127.0.0.1', '0.0.0.0', '::']) {
  t.test(`a program of another user on ${host} gets no token`, options, async (t) => {
    const other = await listener(t, NOBODY, host);
    for (const args of COMMANDS) {
      const { status, stderr } = run(other.port, args);
      t.equal(status, 77, args.join(' '));
      t.match(
        stderr,
        `a program of user ${NOBODY} listens on 127.0.0.1:${other.port}: it does not get the token`,
      );
    }
    const report = join(t.testdir(), 'report');
    t.equal(run(other.port, ['report', '--out', report]).status, 0);
    t.notMatch(readFileSync(report, 'utf8'), 'token-of-an-operator');
    t.equal(await other.end(), other.port, 'nobody has called it');
  });
}

t.test('a daemon of the user that owns the state directory gets it', options, async (t) => {
  const daemon = await listener(t, NOBODY);
  const directory = t.testdir();
  chownSync(directory, NOBODY, NOBODY);
  t.equal(run(daemon.port, ['queue', 'hold'], { FIELDPOST_STATE_DIR: directory }).status, 0);
  t.match(await daemon.end(), 'token-of-an-operator');
});

t.test('so does one of this user', options, async (t) => {
  const daemon = await listener(t, 0);
  t.equal(run(daemon.port, ['queue', 'hold']).status, 0);
  t.match(await daemon.end(), 'token-of-an-operator');
});
