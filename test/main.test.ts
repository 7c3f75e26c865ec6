/** The process: exit codes and signals, as systemd and shells see them. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { CLOUD_MAIN, isBuilt, MAIN, startDaemon, startIn } from './support/daemon.js';
import { fakeRelay } from './support/relay.js';
import { socketPath } from './support/short-directory.js';

const options = { skip: isBuilt ? false : 'the program is not built' };

function run(args: readonly string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(MAIN, args, {
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

/** Posts `count` mails in one request. */
function post(port: number, count: number): Promise<Response> {
  const mail = { type: 1, destination: 'john@example.com', subject: 'x' };
  const headers = { 'Content-Type': 'application/json' };
  const body = JSON.stringify(Array(count).fill(mail));
  return fetch(`http://127.0.0.1:${port}/api/internal/messages`, { method: 'POST', headers, body });
}

/** Has the daemon read its settings again; gives its next line. */
function reload(daemon: Awaited<ReturnType<typeof startDaemon>>): Promise<string> {
  const said = daemon.nextLine();
  daemon.child.kill('SIGHUP');
  return said;
}

t.test('the version is that of the package', options, async (t) => {
  t.match(run(['version']), {
    status: 0,
    stdout: /^fieldpost \d+\.\d+\.\d+(?:~git\d{8}\.[0-9a-f]{7}(?:\.dirty)?)?\n$/,
  });
});

t.test('check --relay speaks with a relay as delivery does', options, async (t) => {
  await using relay = await fakeRelay();
  const FIELDPOST_RELAY = `smtp://127.0.0.1:${relay.port}?tls=never`;
  const child = spawn(MAIN, ['check', '--relay', '--to', 'john@example.com'], {
    env: { PATH: process.env.PATH, FIELDPOST_RELAY, FIELDPOST_FROM: 'device@field.example' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output, [status]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  t.equal(status, 0);
  t.match(output, /\nrelay smtp:.*\n {2}connection .*\n {2}mail +250 .*\n {2}good: /s);
  t.match(relay.mails, [{ from: 'device@field.example', to: ['john@example.com'] }]);
});

t.test('a link to the program is the command that it is named after', options, async (t) => {
  const dir = t.testdir({ newaliases: t.fixture('symlink', MAIN), sendmail: t.fixture('symlink', MAIN) });
  const call = (name: string, args: string[]) => spawnSync(`${dir}/${name}`, args, { encoding: 'utf8' });
  t.match(call('newaliases', []), { status: 0, stdout: '', stderr: '' });
  t.match(call('sendmail', ['-bz']), { status: 64, stdout: '', stderr: /^sendmail: there is no mode -bz/ });
});

t.test('sendmail waits for a daemon that starts late', options, async (t) => {
  const path = socketPath(t);
  const env = { PATH: process.env.PATH, FIELDPOST_LISTEN: `unix:${path}` };
  const sendmail = spawn(MAIN, ['sendmail', '-bp'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  sendmail.stdout.on('data', (chunk) => {
    out += chunk;
  });
  const ended = once(sendmail, 'close');
  await startIn(t, { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_LISTEN: `127.0.0.1:0,unix:${path}` });
  t.same(await ended, [0, null]);
  t.equal(out, 'Mail queue is empty\n');
});

t.test('a start loads little of Node.js', options, async (t) => {
  const dir = t.testdir({
    // Tells what is loaded when the first line is printed, which says that the daemon has started.
    'probe.cjs': `
      const { writeFileSync } = require('fs');
      const { write } = process.stdout;
      process.stdout.write = function (...args) {
        process.stdout.write = write;
        writeFileSync(__dirname + '/loaded', process.moduleLoadList.join('\\n'));
        return write.apply(process.stdout, args);
      };`,
  });
  // The test's own runner would load more into every Node.js that is started here.
  const through = ['env', '-u', 'NODE_OPTIONS', process.execPath, '--require', `${dir}/probe.cjs`];
  const daemon = await startDaemon({ FIELDPOST_STATE_DIR: `${dir}/state` }, ['run'], through);
  t.equal(await daemon.end('SIGTERM'), 0);
  const loaded = readFileSync(`${dir}/loaded`, 'utf8').split('\n');
  t.ok(loaded.includes('NativeModule http'));
  const late = ['assert', 'crypto', 'https', 'perf_hooks', 'tls', 'v8'];
  t.same(
    late.filter((name) => loaded.includes(`NativeModule ${name}`)),
    [],
  );
});

t.test('a bug prints its stack, and not the whole program', options, async (t) => {
  const dir = t.testdir({
    // A handler of the program that throws.
    'bug.cjs': "process.once('SIGUSR2', () => { const { message } = undefined; });",
  });
  const through = ['env', '-u', 'NODE_OPTIONS', process.execPath, '--require', `${dir}/bug.cjs`];
  const child = spawn(through[0] as string, [...through.slice(1), MAIN, 'run'], {
    env: { PATH: process.env.PATH, FIELDPOST_STATE_DIR: `${dir}/state`, FIELDPOST_LISTEN: '127.0.0.1:0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let told = '';
  child.stderr.on('data', (chunk) => {
    told += chunk;
  });
  await once(child.stdout, 'data');
  child.kill('SIGUSR2');
  const [code] = await once(child, 'exit');
  t.equal(code, 1);
  t.match(told, /^TypeError: Cannot destructure .*\n {4}at .*bug\.cjs:1/);
  t.ok(told.length < 2000, `${told.length} characters`);
});

t.test('a bad configuration ends with 78, all problems at once', options, async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  const bad = { FIELDPOST_STATE_DIR, FIELDPOST_RELAI: 'x', FIELDPOST_MAX_BATCH: 'many\u001b[2J' };
  const { status, stderr } = run(['run'], bad);
  t.equal(status, 78);
  t.match(stderr, /FIELDPOST_RELAI.*FIELDPOST_RELAY/);
  t.match(stderr, /FIELDPOST_MAX_BATCH=many\\u001b\[2J/, 'and none of it steers the terminal');
  const missing = run(['run', '--env-file', '/nowhere/env'], { FIELDPOST_STATE_DIR });
  t.match(missing, { status: 78, stderr: /the env file cannot be used: .*\/nowhere\/env/ });
});

t.test('a second daemon ends with 75, one that cannot listen with 69', options, async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR });
  const second = run(['run'], { FIELDPOST_STATE_DIR, FIELDPOST_LISTEN: '127.0.0.1:0' });
  t.match(second, { status: 75, stdout: /cannot start .*another daemon/ });
  const taken = `127.0.0.1:${daemon.port}`;
  // Each tries for ten seconds.
  const starts = (
    [
      [MAIN, 'run', 'FIELDPOST_LISTEN'],
      [MAIN, 'run', 'FIELDPOST_SMTP_LISTEN'],
      [CLOUD_MAIN, 'serve', 'FIELDPOST_CLOUD_SERVER_LISTEN'],
    ] as const
  ).map(async ([program, command, key], n) => {
    const own = {
      FIELDPOST_STATE_DIR: `${FIELDPOST_STATE_DIR}/other-${n}`,
      ...(program === MAIN && { FIELDPOST_LISTEN: '127.0.0.1:0' }),
      [key]: taken,
    };
    const child = spawn(program, [command], {
      env: { PATH: process.env.PATH, ...own },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [said, [status]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    t.equal(status, 69);
    t.match(
      said,
      new RegExp(`port taken listen=${taken} .*\n.*cannot start .*EADDRINUSE.*${key} sets the address`),
    );
  });
  await Promise.all(starts);
  t.equal(await daemon.end('SIGTERM'), 0, 'SIGTERM ends it with 0');
});

t.test('a state directory that cannot be used ends it with 74 and a sentence', options, async (t) => {
  const directory = t.testdir({ file: 'not a directory' });
  for (const FIELDPOST_STATE_DIR of ['/proc/fieldpost', `${directory}/file`, `${directory}/file/below`]) {
    const { status, stdout, stderr } = run(['run'], { FIELDPOST_STATE_DIR, FIELDPOST_LISTEN: '127.0.0.1:0' });
    t.equal(status, 74, FIELDPOST_STATE_DIR);
    t.match(
      stdout,
      /cannot start reason=.* hint="check that the state directory \(FIELDPOST_STATE_DIR\) .* its disk is healthy"/,
    );
    t.equal(stderr, '', 'no stack');
  }
});

t.test('a slow reader gets all of the output, and a closed terminal ends no daemon', options, async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR });
  daemon.child.kill('SIGHUP');
  for (let i = 0; i < 20; i++) await post(daemon.port, 100);
  const script = `"${process.execPath}" "${MAIN}" queue --json | (sleep 0.3; cat)`;
  const { stdout } = spawnSync('bash', ['-c', script], {
    env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}` },
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  t.ok(stdout.length > 2 ** 18, `${stdout.length} characters`);
  t.doesNotThrow(() => JSON.parse(stdout));
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test(
  'a start without a relay, or with a sender that many refuse, says so, and a reload that changes that',
  options,
  async (t) => {
    const directory = t.testdir({ env: 'FIELDPOST_FROM=fieldpost@vm' });
    const file = `${directory}/env`;
    // The daemon makes it: what is open to others has a warning of its own.
    const FIELDPOST_STATE_DIR = `${directory}/state`;
    const daemon = await startIn(t, { FIELDPOST_STATE_DIR }, ['run', '--env-file', file]);
    const [relay, sender] = daemon.lines;
    t.match(relay, /warn {2}configuration warning="no relay is configured.*FIELDPOST_RELAY/);
    t.match(sender, /warn {2}configuration warning="mails come from fieldpost@vm.*FIELDPOST_FROM/);
    const reloaded = async (words: RegExp) => {
      const from = daemon.lines.length;
      daemon.child.kill('SIGHUP');
      while (!daemon.lines.slice(from).some((line) => words.test(line))) await daemon.nextLine();
    };
    writeFileSync(file, 'FIELDPOST_FROM=fieldpost@vm\nFIELDPOST_RELAY=smtp://127.0.0.1:1');
    await reloaded(/reloaded taken=FIELDPOST_RELAY$/);
    writeFileSync(file, 'FIELDPOST_FROM=fieldpost@vm');
    await reloaded(/warn {2}configuration warning="no relay is configured/);
    const told = daemon.lines.filter((line) => / configuration /.test(line));
    t.equal(told.length, 3, 'what goes on is not said again');
    t.equal(await daemon.end('SIGTERM'), 0);
  },
);

t.test('SIGHUP: good settings are followed, bad ones change nothing', options, async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir({ env: 'FIELDPOST_MAX_QUEUE=3' });
  const file = `${FIELDPOST_STATE_DIR}/env`;
  const write = (...lines: string[]) => writeFileSync(file, lines.join('\n'));
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR }, ['run', '--env-file', file]);
  t.match(await reload(daemon), /reloaded taken=nothing$/);
  write('FIELDPOST_LOG=debug', 'FIELDPOST_MAX_BATCH=2', 'FIELDPOST_HISTORY=5');
  t.match(
    await reload(daemon),
    /reloaded taken=FIELDPOST_LOG,FIELDPOST_MAX_BATCH,FIELDPOST_MAX_QUEUE needsRestart=FIELDPOST_HISTORY$/,
  );
  const said = daemon.nextLine();
  t.equal((await post(daemon.port, 3)).status, 413, 'the new limit holds');
  t.match(await said, /debug request refused/, 'and the new level');
  write('FIELDPOST_MAX_BATCH=none', 'FIELDPOST_LOG=error');
  t.match(await reload(daemon), /error reload refused reason=.*FIELDPOST_MAX_BATCH=none/);
  write('no assignment');
  t.match(await reload(daemon), /error reload refused reason=.*env:1/);
  write('');
  t.match(
    await reload(daemon),
    /reloaded taken=FIELDPOST_LOG,FIELDPOST_MAX_BATCH$/,
    'what was taken away is as it was',
  );
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test(
  'a new fault in the settings does not end a device: the last good ones are used',
  options,
  async (t) => {
    const FIELDPOST_STATE_DIR = t.testdir({ env: '' });
    const file = `${FIELDPOST_STATE_DIR}/env`;
    const RUNTIME_DIRECTORY = t.testdir();
    const args = ['run', '--env-file', file] as const;
    const start = () => startDaemon({ FIELDPOST_STATE_DIR, RUNTIME_DIRECTORY }, args);
    const state = async (port: number) => {
      const answer = await fetch(`http://127.0.0.1:${port}/api/internal/state`);
      return (await answer.json()) as { settings: object };
    };
    writeFileSync(file, 'FIELDPOST_RELAY=smtp://[::1]:1\nFIELDPOST_MAX_BATCH=2');
    const first = await start();
    t.match(await state(first.port), { settings: { state: 'ok', reason: null } });
    t.equal(await first.end('SIGTERM'), 0);
    for (const fault of ['FIELDPOST_RELAY=smtp:/typo', 'FIELDPOST_RELAI=x', 'no assignment']) {
      writeFileSync(file, fault);
      const daemon = await start();
      t.teardown(() => daemon.child.kill('SIGKILL'));
      t.match(daemon.lines.join('\n'), /error settings refused reason=.*last good settings/);
      t.match(await state(daemon.port), { settings: { state: 'refused', reason: /RELAY|RELAI|KEY=value/ } });
      t.equal((await post(daemon.port, 3)).status, 413, 'FIELDPOST_MAX_BATCH is still 2');
      const metrics = await fetch(`http://127.0.0.1:${daemon.port}/metrics`);
      t.match(await metrics.text(), /^fieldpost_settings_refused 1$/m);
      t.equal(await daemon.end('SIGTERM'), 0);
    }
    const daemon = await start();
    t.teardown(() => daemon.child.kill('SIGKILL'));
    const answered = async () => {
      const path = `${RUNTIME_DIRECTORY}/reload`;
      while (!existsSync(path)) await new Promise((resolve) => setImmediate(resolve));
      const words = readFileSync(path, 'utf8');
      rmSync(path);
      return words;
    };
    t.match(await reload(daemon), /reload refused/);
    t.match(await answered(), /KEY=value/, 'the script that asked for it is told');
    writeFileSync(file, 'FIELDPOST_MAX_BATCH=3');
    t.match(await reload(daemon), /reloaded/);
    t.equal(await answered(), 'ok\n');
    t.match(await state(daemon.port), { settings: { state: 'ok', reason: null } }, 'mended');
    t.equal(await daemon.end('SIGTERM'), 0);
    rmSync(`${FIELDPOST_STATE_DIR}/settings.json`);
    writeFileSync(file, 'FIELDPOST_MAX_BATCH=many');
    t.equal(run(args, { FIELDPOST_STATE_DIR }).status, 78, 'nothing was ever good');
  },
);

t.test('the last good settings take their secrets from the present env file', options, async (t) => {
  await using relay = await fakeRelay({}, { user: 'pump', password: 'hunter2' });
  const FIELDPOST_STATE_DIR = t.testdir({ env: '' });
  const file = `${FIELDPOST_STATE_DIR}/env`;
  const good = [
    `FIELDPOST_RELAY=smtp://pump@127.0.0.1:${relay.port}?tls=never`,
    'FIELDPOST_RELAY_PASSWORD=hunter2',
  ].join('\n');
  const start = () => startIn(t, { FIELDPOST_STATE_DIR }, ['run', '--env-file', file]);
  writeFileSync(file, good);
  t.equal(await (await start()).end('SIGTERM'), 0);
  const kept = readFileSync(`${FIELDPOST_STATE_DIR}/settings.json`, 'utf8');
  t.match(kept, /smtp:/);
  t.notMatch(kept, /hunter2/);
  for (const fault of ['FIELDPOST_HISTORY=x', 'no assignment']) {
    writeFileSync(file, `${good.replace('smtp:', 'smtp:/')}\n${fault}`);
    const daemon = await start();
    t.match(daemon.lines.join('\n'), /error settings refused reason=.*last good settings/);
    const before = relay.mails.length;
    t.equal((await post(daemon.port, 1)).status, 202);
    while (relay.mails.length === before) await new Promise((resolve) => setImmediate(resolve));
    t.equal(await daemon.end('SIGTERM'), 0);
  }
});

t.test('a request in progress is answered before the end', options, async (t) => {
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: t.testdir() });
  const body = JSON.stringify([{ type: 1, destination: 'john@example.com', subject: 'late' }]);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  const call = request({ port: daemon.port, method: 'POST', path: '/api/internal/messages', headers });
  call.flushHeaders();
  call.write(body.slice(0, 10));
  await once(call, 'socket');
  // A request that came later and was answered shows that the first has begun.
  await new Promise((resolve) => request({ port: daemon.port, path: '/healthz' }, resolve).end());
  const ended = daemon.end('SIGTERM');
  while (!daemon.lines.some((line) => line.includes('stopping'))) await daemon.nextLine();
  call.end(body.slice(10));
  const [answer] = (await once(call, 'response')) as [{ statusCode: number }];
  t.equal(answer.statusCode, 202);
  t.equal(await ended, 0);
});

t.test('a second signal ends it at once', options, async (t) => {
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: t.testdir() });
  // Its body never comes, so the stop would wait for it.
  const call = request({ port: daemon.port, method: 'POST', path: '/api/internal/messages' });
  call.on('error', () => undefined);
  call.setHeader('Content-Type', 'application/json');
  call.setHeader('Content-Length', 100);
  call.flushHeaders();
  await once(call, 'socket');
  await new Promise((resolve) => request({ port: daemon.port, path: '/healthz' }, resolve).end());
  daemon.child.kill('SIGTERM');
  while (!daemon.lines.some((line) => line.includes('stopping'))) await daemon.nextLine();
  t.equal(await daemon.end('SIGTERM'), 128 + 15);
});
