import { readFileSync } from 'node:fs';
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { bytesInWords, counted, span } from '../../src/base/text.js';
import type { CommandError } from '../../src/cli/command.js';
import { failure, fieldpost, type World } from './terminal.js';

const SERVICE_FILE = '/etc/fieldpost/fieldpost.env';

t.test('without a command it lists the commands; this is a usage error', async (t) => {
  const bare = await fieldpost([]);
  t.equal(bare.code, 64);
  const asked = await fieldpost(['--help']);
  t.equal(asked.code, 0);
  t.equal(asked.err, '');
  t.equal(asked.out, bare.err);
  t.match(
    asked.out,
    /^Every day\n {2}send .*\n {2}status .*\n {2}queue .*\n {2}quiet .*\n {2}check .*\n\nLooking closer\n/m,
  );
  for (const name of ['run', 'check', 'status', 'queue', 'destinations', 'send', 'help', 'version']) {
    t.match(asked.out, new RegExp(`^  ${name} +\\w`, 'm'));
    const help = await fieldpost([name, '--help']);
    t.equal(help.code, 0, name);
    t.match(help.out, new RegExp(`^fieldpost ${name}`));
    t.strictSame(await fieldpost([name, '-h']), help);
    t.strictSame(await fieldpost(['help', name]), help);
  }
});

t.test('help explains a setting', async (t) => {
  const { code, out } = await fieldpost(['help', 'fieldpost_keep_failed']);
  t.equal(code, 0);
  t.match(out, /^FIELDPOST_KEEP_FAILED\n.*^default +7d$/ms);
  t.match(await fieldpost(['help', 'FIELDPOST_KEEP_FALED']), {
    code: 64,
    err: /did you mean FIELDPOST_KEEP_FAILED\?/,
  });
});

t.test('help searches commands and settings, by the beginnings of words', async (t) => {
  const search = (...words: string[]) => fieldpost(['help', ...words]);
  const firsts = ({ out }: { out: string }) => out.split('\n').map((line) => line.split(' ')[0]);
  const logs = await search('log');
  t.equal(logs.code, 0);
  t.equal(firsts(logs)[0], 'FIELDPOST_LOG', 'a name goes before texts');
  t.match((await search('starttls')).out, /^check +.* it has no STARTTLS/m, 'the line that has it');
  t.notOk(firsts(await search('port')).includes('report'), 'not the end of a word');
  t.ok(firsts(await search('RELAY', 'passw')).includes('FIELDPOST_RELAY_PASSWORD'));
  t.strictSame(firsts(await search('postfix')), ['sendmail', '']);
  t.match(await search('queue'), { code: 0, out: /^fieldpost queue/ }, 'a command has its help');
  for (const [word, guess] of [
    ['sned', 'send'],
    ['retyr', 'retry'],
    ['passwrod', 'password'],
    ['((', null],
    ['__proto__', null],
  ] as const) {
    const { code, out, err } = await search(word);
    t.strictSame([code, out], [64, ''], word);
    t.match(err, guess === null ? /^fieldpost: nothing is found for \S+\n/ : `; did you mean ${guess}?\n`);
  }
});

t.test('a mistyped key gets the right one as a hint', async (t) => {
  const cases: [string[], RegExp][] = [
    [['stauts'], /there is no command stauts; did you mean status\?\nfieldpost --help/],
    [['teapot'], /there is no command teapot\n/],
    [['help', 'sned'], /did you mean send/],
    [['status', '--jsno'], /there is no option --jsno; did you mean --json\?\nfieldpost status --help/],
    [['send', '--subjcet=x'], /did you mean --subject/],
    [['send', '-x'], /there is no option -x\n/],
    [['send', '--x'], /there is no option --x\n/],
    [['send', '-h', '-h'], / -h is given more than once\n/],
    [['send', '--subject'], /--subject.*argument missing/],
    [
      ['queue', '--limit', '-1'],
      /: --limit needs a value; one that begins with - is given as --limit=VALUE\n/,
    ],
    [['queue', '--limit=-1'], /--limit is a whole number from 1\n/],
    [['queue', 'cancel', 'x', ''], /: the id is missing: fieldpost queue list shows/],
    [['queue', 'canel', 'x'], /there is no queue canel; did you mean cancel/],
    [['destinations', 'delete', '1'], /there is no destinations delete/],
    [['queue', '__proto__'], /there is no queue __proto__/],
    [['run', 'fast'], /takes no "fast"/],
    [['status', 'extra'], /status takes no "extra"/],
    [['\u001b[31mred'], /no command \\u001b\[31mred/],
  ];
  for (const [argv, words] of cases) {
    const { code, out, err } = await fieldpost(argv);
    t.equal(code, 64, argv.join(' '));
    t.match(err, words);
    t.equal(out, '');
  }
});

t.test('version', async (t) => {
  for (const argv of [['version'], ['--version'], ['-V']])
    t.strictSame(await fieldpost(argv), { code: 0, out: 'fieldpost 1.2.3\n', err: '' });
  t.same(JSON.parse((await fieldpost(['version', '--json'])).out), { version: '1.2.3' });
});

/** The settings that the service gets now and after `change`. */
async function settingsOf(argv: readonly string[], world: World, change: () => void) {
  const seen: unknown[] = [];
  const serve: NonNullable<World['serve']> = async ({ env, fault, reread }) => {
    seen.push(env);
    if (fault !== null) seen.push(fault);
    change();
    try {
      seen.push(reread());
    } catch (error) {
      seen.push((error as CommandError).message);
    }
    return 7;
  };
  const { code, err } = await fieldpost(argv, { ...world, serve });
  return { code, err, seen };
}

t.test('a service gets its settings, and can read them again', async (t) => {
  const files: Record<string, string | Error> = {};
  const env = { A: '1', FIELDPOST_LOG: 'warn' };
  const before = () =>
    Object.assign(files, { '/f': 'FIELDPOST_LOG=debug\nB=1', [SERVICE_FILE]: 'FIELDPOST_LOG=warn' });
  const after = () => Object.assign(files, { '/f': 'C=1', [SERVICE_FILE]: 'C=2' });
  before();
  const alone = await settingsOf(['run'], { env, files }, after);
  t.strictSame(alone, { code: 7, err: '', seen: [env, env] });
  before();
  const named = await settingsOf(['run', '--env-file', '/f'], { env, files }, after);
  t.strictSame(named.seen, [
    { A: '1', FIELDPOST_LOG: 'debug', B: '1' },
    { A: '1', FIELDPOST_LOG: 'warn', C: '1' },
  ]);
  before();
  const unit = await settingsOf(['run'], { env, files, isUnit: true }, after);
  t.strictSame(
    unit.seen,
    [env, { A: '1', C: '2' }],
    'the settings that systemd copied from the file are gone with it',
  );
  before();
  const gone = await settingsOf(['run'], { env, files, isUnit: true }, () => delete files[SERVICE_FILE]);
  t.strictSame(gone.seen[1], { A: '1' }, 'no file is an empty one');
  const broken = await settingsOf(['run'], { env, files: { [SERVICE_FILE]: 'x' }, isUnit: true }, after);
  t.match(broken.seen, [env, /fieldpost.env:1/], 'the service decides about a fault of the file');
  files[SERVICE_FILE] = failure('EACCES', SERVICE_FILE);
  const closed = await settingsOf(['run'], { env, files, isUnit: true }, () => undefined);
  t.match(closed.seen, [env, /no permission to read .* restart/]);
  const opened = await settingsOf(['run'], { env, files, isUnit: true }, after);
  t.match(opened.seen[1], /restart/, 'it cannot know which settings of the start came from the file');
});

/** The EnvironmentFile= lines of the unit, as paths. */
const UNIT_FILES = [
  ...readFileSync('systemd/fieldpost.service', 'utf8').matchAll(/^EnvironmentFile=-(.*)$/gm),
].map(([, path = '']) => path);

t.test('commands and the service read the env files of the unit, in its order', async (t) => {
  t.equal(UNIT_FILES[0], SERVICE_FILE);
  const drop = (name: string) => (UNIT_FILES[1] ?? '').replace('*.env', name);
  const files: Record<string, string | Error> = {
    [drop('9-last.env')]: 'FIELDPOST_HISTORY=9',
    [drop('10-first.env')]: 'FIELDPOST_HISTORY=8\nFIELDPOST_MAX_QUEUE=8\nFIELDPOST_LOG=warn',
    [drop('Z.env')]: 'FIELDPOST_MAX_BATCH=2',
    [drop('a.env')]: 'FIELDPOST_MAX_BATCH=3',
    [SERVICE_FILE]: 'FIELDPOST_HISTORY=7\nFIELDPOST_MAX_QUEUE=7\nFIELDPOST_RETRY_MIN=2m\nFIELDPOST_LOG=error',
  };
  const leftovers = [
    '.env',
    '.hidden.env',
    'x.env~',
    'x.env.dpkg-old',
    'x.env.swp',
    '#x.env#',
    'xenv',
    'x.ENV',
  ];
  for (const name of leftovers) files[drop(name)] = 'no assignment';
  const { out, err } = await fieldpost(['check'], { files });
  t.notMatch(err, /assignment|KEY/);
  for (const line of ['HISTORY=9', 'MAX_QUEUE=8', 'RETRY_MIN=2m', 'LOG=warn', 'MAX_BATCH=3'])
    t.match(out, new RegExp(`^FIELDPOST_${line} +/etc/fieldpost/`, 'm'));

  // systemd has put the settings of all files into the environment.
  const env = { FIELDPOST_HISTORY: '9', FIELDPOST_MAX_QUEUE: '8', FIELDPOST_RETRY_MIN: '2m', A: '1' };
  const change = () => {
    delete files[drop('9-last.env')];
    files[drop('zz.env')] = 'FIELDPOST_MAX_QUEUE=5';
  };
  const { seen } = await settingsOf(['run'], { env, files, isUnit: true }, change);
  const before = { FIELDPOST_LOG: 'warn', FIELDPOST_MAX_BATCH: '3' };
  t.strictSame(seen[0], { ...env, ...before });
  t.strictSame(
    seen[1],
    { ...env, ...before, FIELDPOST_HISTORY: '8', FIELDPOST_MAX_QUEUE: '5' },
    'a reload follows a file that is new, and one that is gone',
  );
  const alone = await fieldpost(['check'], { files: { [drop('a.env')]: 'FIELDPOST_MAX_BATCH=3' } });
  t.match(
    alone.out,
    /^FIELDPOST_STATE_DIR=\/var\/lib\/fieldpost +STATE_DIRECTORY, environment$[\s\S]*^FIELDPOST_MAX_BATCH=3 /m,
    'one without the first',
  );
});

t.test('faults in drop-in files name the file and the line; what cannot be read is said', async (t) => {
  const drop = (name: string) => (UNIT_FILES[1] ?? '').replace('*.env', name);
  const faults = { [SERVICE_FILE]: 'A', [drop('a.env')]: 'B=1\nC', [drop('b.env')]: 'D' };
  const all = /fieldpost\.env:1: .*\n.*conf\.d\/a\.env:2: .*\n.*conf\.d\/b\.env:1: /;
  const checked = await fieldpost(['check'], { files: faults });
  t.equal(checked.code, 78);
  t.match(checked.err, all);
  const run = await settingsOf(['run'], { files: faults, isUnit: true }, () => undefined);
  t.match(run.seen[1], all, 'the service decides about the faults');
  const directory = { [drop('a.env')]: failure('EISDIR', drop('a.env')) };
  t.match(await fieldpost(['check'], { files: directory }), { code: 78, err: /a\.env/ });
  const gone = { [drop('a.env')]: failure('ENOENT', drop('a.env')), [drop('b.env')]: 'FIELDPOST_LOG=warn' };
  t.match(
    (await fieldpost(['check'], { files: gone })).out,
    /^FIELDPOST_LOG=warn .*b\.env:1$/m,
    'a link to nothing',
  );

  const relay = 'FIELDPOST_RELAY=smtp://mail.example.com\nFIELDPOST_FROM=a@b.example';
  for (const denied of [drop('a.env'), (UNIT_FILES[1] ?? '').replace('/*.env', '')]) {
    const files = { [SERVICE_FILE]: relay, [denied]: failure('EACCES', denied) };
    const some = await fieldpost(['check'], { files });
    t.equal(some.code, 0);
    t.match(some.out, /^FIELDPOST_RELAY=smtp:\/\/mail\.example\.com:25 /m, 'the others hold');
    t.equal(
      some.err,
      `fieldpost: this user has no permission to read ${denied}, so its settings are ignored\n`,
    );
    const closed = await settingsOf(['run'], { files, isUnit: true }, () => undefined);
    t.match(closed.seen, [{}, new RegExp(`no permission to read ${denied}: restart`)]);
  }
});

t.test('a bad env file ends any command, which names all wrong lines', async (t) => {
  const { code, err } = await fieldpost(['check', '--env-file', '/f'], {
    files: { '/f': 'A\nB=1\nC D=1\n' },
  });
  t.equal(code, 78);
  t.match(err, /\/f:1: .*\n\/f:3: /);
  const missing = await fieldpost(['check', '--env-file', '/gone']);
  t.equal(missing.code, 78);
  t.match(missing.err, /\/gone/);
});

t.test('check shows what takes effect, with secrets hidden', async (t) => {
  const env = { FIELDPOST_RELAY: 'smtp://u@h', FIELDPOST_RELAY_PASSWORD: 'hunter2' };
  const { code, out, err } = await fieldpost(['check'], { env });
  t.equal(code, 0);
  t.match(
    out.split('\n').map((line) => line.split(/ {2,}/)),
    [
      ['FIELDPOST_RELAY=smtp://u@h:587', 'environment'],
      ['FIELDPOST_RELAY_PASSWORD=(hidden)', 'environment'],
      [/^The other \d+ have their defaults: fieldpost check --all$/],
      [''],
    ],
  );
  const all = await fieldpost(['check', '--all'], { env });
  t.match(all.out, /^FIELDPOST_RELAY=smtp:.* environment$[\s\S]*^FIELDPOST_RETRY_MIN=1m +default$/m);
  t.notMatch(all.out, /--all/);
  t.match(err, /^warning: FIELDPOST_RELAY_PASSWORD/);
  const asJson = JSON.parse((await fieldpost(['check', '--json'], { env })).out);
  t.match(asJson, { config: { FIELDPOST_RETRY_MIN: '1m' }, warnings: [/FIELDPOST_RELAY_PASSWORD/] });
  t.notMatch(out + err + JSON.stringify(asJson), /hunter2/);
});

t.test('check tells where each setting stands, for scripts, too; and where a faulty one', async (t) => {
  const files = {
    [SERVICE_FILE]: '# a comment\nFIELDPOST_RELAY=smtp://u@h\nFIELDPOST_LOG=info\n',
    [(UNIT_FILES[1] ?? '').replace('*.env', 'a.env')]: '\nFIELDPOST_LOG="error"\nFIELDPOST_LOG=warn\n',
    '/run/credentials/fieldpost.service/api-token': '0123456789abcdef',
    '/run/credentials/fieldpost.service/relay-password': 'hunter2',
  };
  const { out } = await fieldpost(['check'], { files });
  t.match(out, /^FIELDPOST_RELAY=\S+ +\/etc\/fieldpost\/fieldpost\.env:2$/m);
  t.match(out, /^FIELDPOST_LOG=warn +\/etc\/fieldpost\/conf\.d\/a\.env:3$/m, 'the line that holds');
  t.match(
    out,
    /^FIELDPOST_RELAY_PASSWORD=\(hidden\) +\/run\/credentials\/fieldpost\.service\/relay-password, credential$/m,
  );
  const read = async (...args: string[]) =>
    JSON.parse((await fieldpost(['check', '--json', ...args], { files })).out);
  const { config, settings, warnings } = await read();
  t.ok(Array.isArray(warnings));
  t.strictSame(
    settings.filter(({ key }: { key: string }) => /RELAY|LOG/.test(key)),
    [
      { key: 'FIELDPOST_RELAY', value: 'smtp://u@h:587', source: { file: SERVICE_FILE, line: 2 } },
      { key: 'FIELDPOST_RELAY_PASSWORD', value: '(hidden)', source: 'credential' },
      { key: 'FIELDPOST_LOG', value: 'warn', source: { file: '/etc/fieldpost/conf.d/a.env', line: 3 } },
    ],
  );
  const all = (await read('--all')).settings as { key: string; value: string; source: unknown }[];
  t.strictSame(Object.fromEntries(all.map(({ key, value }) => [key, value])), config, 'with --all each');
  t.match(all.find(({ key }) => key === 'FIELDPOST_HISTORY')?.source, 'default');
  const inFile = { '/f': '\nFIELDPOST_LOG=loud\nFIELDPOST_API_TOKEN_FILE=/gone\n' };
  const bad = await fieldpost(['check', '--env-file', '/f'], {
    files: inFile,
    env: { FIELDPOST_TEAPOT: '1' },
  });
  t.match(bad.err, /^FIELDPOST_TEAPOT: .*\n\/f:3: FIELDPOST_API_TOKEN_FILE: .*\n\/f:2: FIELDPOST_LOG=loud: /);
  const asJson = await fieldpost(['check', '--env-file', '/f', '--json'], { files: inFile });
  t.match(JSON.parse(asJson.out), {
    problems: [{ source: { file: '/f', line: 3 } }, { key: 'FIELDPOST_LOG' }],
  });
});

t.test('check warns about a partition that is smaller than FIELDPOST_MIN_FREE', async (t) => {
  const fileSystemBytes = async (path: string) => (path === '/data/fieldpost' ? 16 * MIB : 1024 * MIB);
  const warningsOf = async (env: Record<string, string>) =>
    (await fieldpost(['check'], { env: { FIELDPOST_STATE_DIR: '/data/fieldpost', ...env }, fileSystemBytes }))
      .err;
  t.match(await warningsOf({}), /^warning: .*\/data\/fieldpost has 16 MiB.* lower FIELDPOST_MIN_FREE$/m);
  t.notMatch(await warningsOf({ FIELDPOST_MIN_FREE: '4MiB' }), /MIN_FREE/);
});

t.test('check warns about a missing relay, and a sender that many relays refuse', async (t) => {
  const warningsOf = async (env: Record<string, string>) => {
    const { code, out } = await fieldpost(['check', '--json'], { env });
    t.equal(code, 0);
    return (JSON.parse(out) as { warnings: string[] }).warnings;
  };
  const FIELDPOST_RELAY = 'smtp://mail.example.com';
  t.match(await warningsOf({ FIELDPOST_FROM: 'a@b.example' }), [/no relay.*FIELDPOST_RELAY/]);
  t.match(await warningsOf({ FIELDPOST_RELAY, FIELDPOST_FROM: 'a@vm' }), [/a@vm.*FIELDPOST_FROM/]);
  for (const from of ['a@b.example', 'a@[192.0.2.1]', 'a@[IPv6:2001:db8::1]'])
    t.same(await warningsOf({ FIELDPOST_RELAY, FIELDPOST_FROM: from }), [], from);
  const { err } = await fieldpost(['check'], { env: { FIELDPOST_FROM: 'a@vm' } });
  t.match(err, /^warning: no relay.*\nwarning: mails come from a@vm/);
});

t.test('check shows every problem, with the exit status of the daemon', async (t) => {
  const env = { FIELDPOST_LOG: 'loud\u001b[31m', FIELDPOST_TEAPOT: '1' };
  const { code, out, err } = await fieldpost(['check'], { env });
  t.equal(code, 78);
  t.equal(out, '');
  t.match(err, /FIELDPOST_TEAPOT.*\n.*FIELDPOST_LOG=loud\\u001b.*\n2 problems/);
  const asJson = await fieldpost(['check', '--json'], { env });
  t.equal(asJson.code, 78);
  t.equal(JSON.parse(asJson.out).problems.length, 2);
});

t.test('check uses the settings of the service if the environment has none', async (t) => {
  const files = { [SERVICE_FILE]: 'FIELDPOST_LOG=error\n', '/f': 'FIELDPOST_LOG=debug\n' };
  const credentials = { '/run/credentials/fieldpost.service/relay-password': 'x\n' };
  const service = await fieldpost(['check'], { files });
  t.match(service.out, /^FIELDPOST_LOG=error +\/etc\/fieldpost\/fieldpost\.env:1$/m);
  t.match(service.out, /^FIELDPOST_STATE_DIR=\/var\/lib\/fieldpost /m, 'and its state directory');
  t.match(
    (await fieldpost(['check', '--all'])).out,
    /^FIELDPOST_STATE_DIR=\.\/\.fieldpost +default$/m,
    'there is no service',
  );
  t.match((await fieldpost(['check', '--env-file', '/f'], { files })).out, /^FIELDPOST_LOG=debug +\/f:1$/m);
  t.match(
    (await fieldpost(['check', '--all'], { files, env: { FIELDPOST_HISTORY: '5' } })).out,
    /^FIELDPOST_LOG=info +default$/m,
  );
  const withUser = { [SERVICE_FILE]: 'FIELDPOST_RELAY=smtp://u@h\n' };
  t.equal((await fieldpost(['check'], { files: withUser })).code, 78, 'no password');
  t.equal(
    (await fieldpost(['check'], { files: { ...withUser, ...credentials } })).code,
    0,
    "the running service's credential",
  );
});

t.test(
  'check takes the user of the service for the owner of its state directory, whoever asks',
  async (t) => {
    const ownedBy = (uid: number) => (path: string) => ({
      uid: path === '/proc/self' ? 0 : uid,
      mode: 0o700,
    });
    const files = { [SERVICE_FILE]: 'FIELDPOST_LOG=error\n' };
    t.notMatch((await fieldpost(['check'], { files, statOf: ownedBy(996) })).err, /belongs to user/);
    t.match(
      (await fieldpost(['check'], { env: { FIELDPOST_STATE_DIR: '/s' }, statOf: ownedBy(996) })).err,
      /belongs to user 996/,
      'settings of the shell are those of its user',
    );
  },
);

t.test('check does not take the proxy of a shell for that of the service', async (t) => {
  const shell = { HTTPS_PROXY: 'http://user:secret@shell.example:1' };
  const cloud = 'FIELDPOST_CLOUD=https://c.example\nFIELDPOST_DEVICE_ID=a\nFIELDPOST_CLOUD_KEY=k\n';
  const shown = async (file: string) =>
    /^FIELDPOST_CLOUD_PROXY=(.*)$/m.exec(
      (await fieldpost(['check', '--all'], { files: { [SERVICE_FILE]: cloud + file }, env: shell })).out,
    )?.[1];
  t.match(await shown(''), /^ +default$/);
  t.match(
    await shown('HTTPS_PROXY=http://user:secret@proxy.example:1\n'),
    /^http:\/\/user:\*\*\*@proxy\.example:1 +HTTPS_PROXY, \/etc\/fieldpost\/fieldpost\.env:4$/,
  );
  const env = {
    ...shell,
    FIELDPOST_CLOUD: 'https://c.example',
    FIELDPOST_DEVICE_ID: 'a',
    FIELDPOST_CLOUD_KEY: 'k',
  };
  const { out } = await fieldpost(['check'], { env });
  t.match(out, 'FIELDPOST_CLOUD_PROXY=http://user:***@shell.example:1', 'a daemon of this shell has it');
});

t.test('a service file without read permission is a warning; such a credential is ignored', async (t) => {
  const denied = { [SERVICE_FILE]: failure('EACCES', SERVICE_FILE) };
  const { code, err } = await fieldpost(['check'], { files: denied });
  t.equal(code, 0);
  t.match(err, /no permission to read \/etc\/fieldpost/);
  const token = '/run/credentials/fieldpost.service/api-token';
  const env = { FIELDPOST_RELAY: 'smtp://mail.example.com', FIELDPOST_FROM: 'a@b.example' };
  const closed = await fieldpost(['check'], { env, files: { [token]: failure('EACCES', token) } });
  t.strictSame([closed.code, closed.err], [0, '']);
});

t.test('colour is used only on a terminal that wants it', async (t) => {
  const env = { FIELDPOST_LOG: 'loud' };
  const coloured = async (world: object) =>
    (await fieldpost(['check'], { env, ...world })).err.includes('\u001b[31m');
  t.equal(await coloured({ isTTY: true }), true);
  t.equal(await coloured({ isTTY: false }), false);
  t.equal(await coloured({ isTTY: true, env: { ...env, NO_COLOR: '1' } }), false);
  t.equal(await coloured({ isTTY: true, env: { ...env, NO_COLOR: '' } }), true);
  t.equal(await coloured({ isTTY: true, env: { ...env, TERM: 'dumb' } }), false);
});

t.test('lengths of time, sizes and counts in words', async (t) => {
  const spans = {
    0: '0 s',
    59999: '59 s',
    60000: '1 min',
    3599999: '59 min',
    3600000: '1 h',
    12345000: '3 h 25 min',
    183600000: '2 d 3 h',
    '-5': '0 s',
  };
  for (const [ms, words] of Object.entries(spans)) t.equal(span(Number(ms)), words);
  const sizes = {
    0: '0 bytes',
    1: '1 byte',
    1023: '1023 bytes',
    1536: '1.5 KiB',
    10240: '10 KiB',
    1048576: '1 MiB',
    5368709120: '5 GiB',
  };
  for (const [count, words] of Object.entries(sizes)) t.equal(bytesInWords(Number(count)), words);
  t.strictSame(
    [counted(0, 'mail'), counted(1, 'mail'), counted(2, 'mail')],
    ['0 mails', '1 mail', '2 mails'],
  );
});
