/**
 * The program in one single file, with the four packages in it: it does the whole job where nothing else is, and starts
 * from V8's cache of its code, whatever has become of that.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import PostalMime from 'postal-mime';
import { SMTPServer } from 'smtp-server';
import t from 'tap';
import { startDaemon } from '../support/daemon.js';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
// Outside of the tree, where no node_modules is found.
const directory = mkdtempSync(`${tmpdir()}/fieldpost-single-`);
t.teardown(() => rmSync(directory, { recursive: true, force: true }));
execFileSync('bash', ['scripts/single', directory], { cwd: REPOSITORY });
const cache = `${directory}/fieldpost.cache`;

/** In the place of the program of this tree. */
const through = (file: string) => [
  ...['/bin/sh', '-c', `shift; exec "${process.execPath}" -- "${directory}/${file}" "$@"`, 'sh'],
];

function run(...args: string[]) {
  // As in a unit of this device.
  const env = {
    PATH: process.env.PATH,
    FIELDPOST_STATE_DIR: '/nowhere',
    JOURNAL_STREAM: '8:1',
    TMPDIR: directory,
  };
  return spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: 60_000 });
}

t.test('it takes a mail with a file and delivers it', async (t) => {
  const arrived: Buffer[] = [];
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    logger: false,
    async onData(stream, _session, done) {
      for await (const chunk of stream) arrived.push(chunk);
      done();
      server.emit('arrived');
    },
  });
  // A daemon that ends in the middle of a mail may reset the connection.
  server.on('error', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  t.teardown(() => new Promise<void>((resolve) => server.close(resolve)));
  const { port } = server.server.address() as { port: number };
  const env = {
    FIELDPOST_STATE_DIR: `${directory}/state`,
    FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never`,
  };
  const daemon = await startDaemon(env, ['run'], through('fieldpost.cjs'));
  t.teardown(() => daemon.child.kill('SIGKILL'));
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'Hello');
  form.set('file', new Blob(['some content']), 'a.txt');
  const arrival = once(server, 'arrived');
  const messages = `http://127.0.0.1:${daemon.port}/api/internal/messages`;
  t.equal((await fetch(messages, { method: 'POST', body: form })).status, 202);
  await arrival;
  const mail = await PostalMime.parse(Buffer.concat(arrived));
  t.equal(mail.subject, 'Hello');
  t.equal(new TextDecoder().decode(mail.attachments[0]?.content as ArrayBuffer), 'some content');
  const described = await fetch(`http://127.0.0.1:${daemon.port}/openapi.json`);
  t.equal(described.status, 200, 'what is asked for late is in it, too');
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test('it starts from the cache, and without one, or with one of no use', async (t) => {
  const version = /^fieldpost \d+\.\d+\.\d+\n$/;
  t.match(run(`${directory}/cached.cjs`, 'version'), { status: 0, stdout: version, stderr: '' });
  t.notOk(existsSync(cache));
  const made = run(`${directory}/cached.cjs`, '--make-cache');
  t.match(made, { status: 0, stderr: '' });
  t.match(made.stdout, `${cache}: written for Node.js ${process.version}`);
  t.match(run(`${directory}/cached.cjs`, '--make-cache'), { status: 0, stderr: '' }, 'once more');
  const bytes = readFileSync(cache);
  // What says that V8 has taken it.
  const asked = `
    const { Script } = require('vm');
    const source = require('fs').readFileSync('${directory}/fieldpost.cjs', 'latin1').replace(/^#!/, '//');
    const wrapped = '(function (exports, require, module, __filename, __dirname) {' + source + '\\n})';
    const cachedData = require('fs').readFileSync('${cache}').subarray(4);
    console.log(new Script(wrapped, { cachedData }).cachedDataRejected);`;
  const isRejected = () => JSON.parse(run('-e', asked).stdout);
  t.equal(isRejected(), false);
  t.match(run(`${directory}/cached.cjs`, 'version'), { status: 0, stdout: version, stderr: '' });
  const daemon = await startDaemon(
    { FIELDPOST_STATE_DIR: `${directory}/state` },
    ['run'],
    through('cached.cjs'),
  );
  t.teardown(() => daemon.child.kill('SIGKILL'));
  t.equal((await fetch(`http://127.0.0.1:${daemon.port}/healthz`)).status, 200);
  t.equal(await daemon.end('SIGTERM'), 0);

  const flipped = Buffer.from(bytes);
  flipped[200_000] = (flipped[200_000] as number) ^ 1;
  const painted = Buffer.from(bytes).fill(0xa5, bytes.length >> 1);
  for (const bad of [flipped, painted, bytes.subarray(0, 1000), Buffer.alloc(0), Buffer.from('no cache')]) {
    writeFileSync(cache, bad);
    t.match(run(`${directory}/cached.cjs`, 'version'), { status: 0, stdout: version, stderr: '' });
  }
  writeFileSync(cache, bytes);
  // Another program under the same name, as after an update of which the cache knows nothing.
  const program = readFileSync(`${directory}/fieldpost.cjs`, 'latin1');
  const updated = program.replaceAll('`fieldpost ', '`FIELDPOST ');
  t.not(updated, program);
  writeFileSync(`${directory}/fieldpost.cjs`, updated, 'latin1');
  t.match(
    run(`${directory}/cached.cjs`, 'version').stdout,
    /^FIELDPOST /,
    'V8 would take one of this length',
  );
});

t.test('a cache that cannot be written is told, and leaves nothing', async (t) => {
  rmSync(cache);
  mkdirSync(cache);
  const { status, stdout, stderr } = run(`${directory}/cached.cjs`, '--make-cache');
  t.match(
    { status, stdout, stderr },
    { status: 1, stdout: '', stderr: /^cached\.cjs: no cache was written: E/ },
  );
  t.same(
    readdirSync(directory).filter((name) => name.startsWith('fieldpost-cache-')),
    [],
  );
});
