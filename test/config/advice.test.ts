/** The warnings of settings with which others can learn a token, from `check` and the start of the built program. */
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Environment, StatOf } from '../../src/base/config/types.js';
import { DEV_SETTINGS } from '../../src/dev/settings.js';
import { makeCertificate } from '../support/certificate.js';
import { MAIN, needsProgram, startIn } from '../support/daemon.js';
import { systemError } from '../support/system-error.js';

const SMTP = makeCertificate({ name: 'device' });
const LONG = 'a'.repeat(16);

/** The warnings about `env`; `text` is in every file, and `mode` is that of every file. */
function warningsOf(env: Environment, mode = 0o600, text: (path: string) => string = () => LONG) {
  const parsed = DEV_SETTINGS.parse({ FIELDPOST_STATE_DIR: '/s', ...env }, text, {
    hostname: 'gateway-7',
    statOf: (path) => ({ uid: 0, mode: /^\/(?:s|proc\/self)$/.test(path) ? 0o40700 : mode }),
  });
  return 'problems' in parsed ? parsed.problems : parsed.warnings;
}

/** A file with this mode, whatever the umask. */
function fileOf(t: Test, text: string, mode: number): string {
  const path = join(t.testdir(), 'secret');
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

t.test('check and a start of the program warn of the same', needsProgram, async (t) => {
  const token = fileOf(t, 'short\n', 0o644);
  const env = {
    FIELDPOST_LISTEN: '0.0.0.0:0',
    FIELDPOST_API_TOKEN_FILE: token,
    FIELDPOST_STATE_DIR: join(t.testdirName, 'state'),
  };
  const wanted = [
    /other users can read or write the file .*\/secret \(FIELDPOST_API_TOKEN_FILE\): chmod g-w,o-rwx/,
    /FIELDPOST_API_TOKEN gives a secret of fewer than 16 characters, which can be guessed/,
    /tokens travel to 0\.0\.0\.0:0 \(FIELDPOST_LISTEN\) in clear text/,
  ];
  const check = spawnSync(MAIN, ['check'], { env: { PATH: process.env.PATH, ...env }, encoding: 'utf8' });
  t.equal(check.status, 0);
  const daemon = await startIn(t, env);
  await daemon.end('SIGTERM');
  const logged = daemon.lines.filter((line) => / configuration warning=/.test(line));
  for (const words of wanted) {
    t.match(check.stderr, words);
    t.equal(logged.filter((line) => words.test(line)).length, 1, String(words));
  }
  t.notMatch(check.stdout + check.stderr + daemon.lines.join(), /short/);
});

t.test('a token is too short below 16 characters, of every kind', async (t) => {
  const cloud = { FIELDPOST_CLOUD: 'https://cloud.example', FIELDPOST_DEVICE_ID: 'pump-3' };
  const api = { FIELDPOST_API_TOKEN_FILE: '/k/long' };
  const kinds: [string, Environment][] = [
    ['FIELDPOST_API_TOKEN', { FIELDPOST_API_TOKEN_FILE: '/k/token' }],
    ['FIELDPOST_SEND_TOKEN', { ...api, FIELDPOST_SEND_TOKEN_FILE: '/k/token' }],
    ['FIELDPOST_CLOUD_KEY', { ...cloud, FIELDPOST_CLOUD_KEY_FILE: '/k/token' }],
    ['FIELDPOST_CLOUD_SERVER_KEYS_FILE', { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/k/keys' }],
  ];
  const textFor = (token: string) => (path: string) =>
    path === '/k/long' ? 'b'.repeat(32) : path === '/k/keys' ? `* ${'c'.repeat(20)}\npump-3 ${token}` : token;
  for (const [key, env] of kinds) {
    t.match(warningsOf(env, 0o600, textFor(LONG.slice(1))), [
      new RegExp(`^${key} gives a secret of fewer than 16 .*openssl rand`),
    ]);
    t.same(warningsOf(env, 0o600, textFor(LONG)), [], key);
  }
});

t.test('every file with a secret is looked at, and no other', async (t) => {
  const cert = makeCertificate({ name: 'device' });
  const textOf = (path: string) =>
    path === '/k/keys'
      ? `* ${LONG}`
      : path === '/k/auth'
        ? 'Bearer abc'
        : /CERT_FILE|CA_FILE/.test(path)
          ? cert.cert
          : path.endsWith('KEY_FILE') && !path.endsWith('CLOUD_KEY_FILE')
            ? cert.key
            : LONG;
  const pathOf: Record<string, string> = {
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/k/keys',
    FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE: '/k/auth',
  };
  const keys = DEV_SETTINGS.rows.map(([, row]) => ({
    row,
    key: row.credential === null ? row.key : `${row.key}_FILE`,
  }));
  const files = keys.filter(({ key }) => key.endsWith('_FILE'));
  t.ok(files.filter(({ row }) => row.isSecret).length >= 12);
  for (const { key, row } of files) {
    const path = pathOf[key] ?? `/k/${key}`;
    const looked: string[] = [];
    // Without the settings that belong to it, it may be a problem: then there are no warnings.
    const statOf = (at: string) => {
      looked.push(at);
      return null;
    };
    DEV_SETTINGS.parse({ [key]: path }, textOf, { hostname: 'a', statOf });
    t.same(
      looked.filter((at) => at.startsWith('/k/')),
      row.isSecret ? [path] : [],
      key,
    );
  }
});

t.test('the group may read a secret; nobody else may read it, and only its owner may write', async (t) => {
  const env = { FIELDPOST_API_TOKEN_FILE: '/k/token' };
  for (const mode of [0o600, 0o400, 0o640, 0o100440]) t.same(warningsOf(env, mode), [], mode.toString(8));
  for (const mode of [0o644, 0o604, 0o602, 0o601, 0o660, 0o620]) {
    t.match(warningsOf(env, mode), [/\/k\/token \(FIELDPOST_API_TOKEN_FILE\)/], mode.toString(8));
  }
  t.match(warningsOf({ FIELDPOST_RELAY_TOKEN_FILE: '/k/renewed' }, 0o644), [/\/k\/renewed/]);
  const credentials = { CREDENTIALS_DIRECTORY: '/run/credentials/fieldpost.service' };
  const ofSystemd = (path: string) => {
    if (path.endsWith('/api-token')) return LONG;
    throw systemError('ENOENT', path);
  };
  t.same(warningsOf(credentials, 0o644, ofSystemd), [], 'systemd guards its credentials');
  const named = { ...credentials, FIELDPOST_API_TOKEN_FILE: '/run/credentials/fieldpost.service/api-token' };
  t.same(warningsOf(named, 0o644, ofSystemd), []);
});

t.test('the mode is that of the file behind a link', needsProgram, async (t) => {
  const path = fileOf(t, LONG, 0o600);
  const link = join(t.testdirName, 'link');
  symlinkSync(path, link);
  const env = { PATH: process.env.PATH, FIELDPOST_API_TOKEN_FILE: link, FIELDPOST_STATE_DIR: t.testdirName };
  const check = () => spawnSync(MAIN, ['check'], { env, encoding: 'utf8' }).stderr;
  t.notMatch(check(), `${link} (`);
  chmodSync(path, 0o604);
  t.match(check(), `${link} (`);
});

t.test('a listener beyond loopback without TLS is reported', async (t) => {
  const token = { FIELDPOST_API_TOKEN_FILE: '/k/token' };
  t.match(warningsOf({ ...token, FIELDPOST_LISTEN: '127.0.0.1:1,[::]:2,192.0.2.7:3' }), [
    /^tokens travel to \[::\]:2 \(FIELDPOST_LISTEN\) in clear text: .*proxy with TLS/,
    /^tokens travel to 192\.0\.2\.7:3 /,
  ]);
  const smtp = { ...token, FIELDPOST_SMTP_LISTEN: '0.0.0.0:587' };
  t.match(warningsOf(smtp), [/\(FIELDPOST_SMTP_LISTEN\) in clear text: set FIELDPOST_SMTP_CERT_FILE$/]);
  const text = (path: string) => (path === '/k/cert' ? SMTP.cert : path === '/k/key' ? SMTP.key : LONG);
  const secured = { ...smtp, FIELDPOST_SMTP_CERT_FILE: '/k/cert', FIELDPOST_SMTP_KEY_FILE: '/k/key' };
  t.same(warningsOf(secured, 0o600, text), []);
  const cloud = {
    FIELDPOST_CLOUD_SERVER_LISTEN: '0.0.0.0:1',
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/k/keys',
  };
  t.match(
    warningsOf(cloud, 0o600, () => `* ${LONG}`),
    [/\(FIELDPOST_CLOUD_SERVER_LISTEN\) in clear text/],
  );
  t.same(warningsOf({ FIELDPOST_LISTEN: 'unix:/run/x.sock,[::1]:1,localhost:2' }), []);
});

t.test('a state directory of another user, or open to others', needsProgram, async (t) => {
  const directory = t.testdir();
  const env = { PATH: process.env.PATH, FIELDPOST_STATE_DIR: directory };
  const check = () => spawnSync(MAIN, ['check'], { env, encoding: 'utf8' }).stderr;
  chmodSync(directory, 0o700);
  t.notMatch(check(), directory);
  chmodSync(directory, 0o750);
  t.match(check(), `warning: ${directory} is open to other users (mode 750): chmod 700\n`);
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: directory });
  await daemon.end('SIGTERM');
  t.match(
    daemon.lines.join('\n'),
    / configuration warning=".* is open to other users \(mode 750\): chmod 700"/,
  );
  const hasRoot = process.getuid?.() === 0;
  await t.test('of another user', { skip: hasRoot ? false : 'only root can give it away' }, async (t) => {
    chownSync(directory, 65_534, 65_534);
    t.match(
      check(),
      `${directory} belongs to user 65534, who can read and change all mails: give it to this user\n`,
    );
  });
});

t.test('the owner of the state directory is compared with our own user', async (t) => {
  const warnedOf = (statOf: StatOf) => {
    const parsed = DEV_SETTINGS.parse({ FIELDPOST_STATE_DIR: '/s' }, () => '', { hostname: 'a', statOf });
    return 'problems' in parsed ? parsed.problems : parsed.warnings;
  };
  const told = (stateDir: { uid: number; mode: number } | null, uid = 990) =>
    warnedOf((path) => (path === '/s' ? stateDir : { uid, mode: 0 }));
  t.same(told(null), [], 'there is none yet');
  t.same(told({ uid: 990, mode: 0o40700 }), []);
  t.match(told({ uid: 0, mode: 0o40777 }), [/^\/s belongs to user 0/, /^\/s is open .*\(mode 777\)/]);
  t.same(
    warnedOf((path) => (path === '/s' ? { uid: 1, mode: 0o777 } : null)),
    [],
    'without /proc',
  );
});

t.test('check warns of numbers of messages that do not fit into the bytes', needsProgram, async (t) => {
  const warningsWith = (env: Environment) => {
    const state = { FIELDPOST_STATE_DIR: join(t.testdirName, 'state'), PATH: process.env.PATH };
    return spawnSync(MAIN, ['check'], { env: { ...state, ...env }, encoding: 'utf8' }).stderr;
  };
  const small = { FIELDPOST_MAX_SPOOL: '4MiB', FIELDPOST_MAX_BODY: '1MiB', FIELDPOST_MAX_MESSAGE: '1MiB' };
  const history =
    /FIELDPOST_HISTORY=10000 does not fit into FIELDPOST_MAX_SPOOL, 4(?:\.0)? MiB: about 5\d\d finished messages do/;
  const queue =
    /FIELDPOST_MAX_QUEUE=10000 does not fit into FIELDPOST_MAX_SPOOL, .*: about 2048 messages of 1 KiB do/;
  const found = warningsWith({ ...small, FIELDPOST_HISTORY: '10000' });
  t.match(found, history);
  t.match(found, queue);
  t.notMatch(
    warningsWith({ ...small, FIELDPOST_HISTORY: '500', FIELDPOST_MAX_QUEUE: '2000' }),
    /does not fit/,
  );
  t.notMatch(warningsWith({}), /does not fit/, 'the defaults fit');
});
