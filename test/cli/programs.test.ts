/** The command lines of the reference cloud and of the development program. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Environment } from '../../src/base/config/types.js';
import { type Program, runCommand } from '../../src/cli/cli.js';
import { CLOUD_PROGRAM } from '../../src/cli/cloud.js';
import type { ProgramContext } from '../../src/cli/command.js';
import { DEV_PROGRAM } from '../../src/cli/dev.js';
import { isUnitOf } from '../../src/cli/environment.js';
import { CLOUD_SETTINGS } from '../../src/cloud/settings.js';
import { failure, fieldpost } from './terminal.js';

/** Runs a program that finds the env file `/f`, `more`, and that of the device's service; `served` gets the settings of its service. */
async function call(
  program: Program<ProgramContext>,
  argv: readonly string[],
  env: Environment = {},
  more: Record<string, string> = {},
  isUnit = false,
) {
  const files: Record<string, string> = {
    ...more,
    '/f': 'FIELDPOST_LOG=warn',
    '/etc/fieldpost/fieldpost.env': 'FIELDPOST_LOG=error',
  };
  const [out, err, served]: [string[], string[], Environment[]] = [[], [], []];
  const code = await runCommand(program, argv, {
    env,
    settings: CLOUD_SETTINGS,
    stdout: { write: (text) => void out.push(text), isTTY: false },
    stderr: { write: (text) => void err.push(text), isTTY: false },
    read(path) {
      const text = files[path];
      if (text === undefined) throw failure('ENOENT', path);
      return text;
    },
    list: () => [],
    fileSystemBytes: async () => Number.POSITIVE_INFINITY,
    hostname: 'cloud.example',
    version: '1.2.3',
    service: program.name,
    isUnit,
    tryRelay: async () => null,
    async serve(settings) {
      served.push(settings.env, settings.reread());
      return 7;
    },
  });
  return { code, out: out.join(''), err: err.join(''), served };
}

t.test('the cloud lists its commands, and helps with each', async (t) => {
  const { code, out } = await call(CLOUD_PROGRAM, ['--help']);
  t.equal(code, 0);
  for (const name of ['serve', 'check', 'version']) {
    t.match(out, new RegExp(`^  ${name} +\\w`, 'm'));
    t.match(await call(CLOUD_PROGRAM, [name, '--help']), {
      code: 0,
      out: new RegExp(`^fieldpost-cloud ${name}`),
    });
  }
  t.match(await call(CLOUD_PROGRAM, ['version']), { out: 'fieldpost-cloud 1.2.3\n' });
  t.match(await call(CLOUD_PROGRAM, ['serv']), { code: 64, err: /^fieldpost-cloud: .*did you mean serve\?/ });
});

t.test('check and help of the cloud know its settings, and whose the others are', async (t) => {
  const { code, out, err } = await call(CLOUD_PROGRAM, ['check', '--all'], {
    FIELDPOST_LISTEN: '127.0.0.1:1',
  });
  t.equal(code, 0);
  t.match(out, /^FIELDPOST_CLOUD_SERVER_LISTEN=127\.0\.0\.1:43780 +default$/m);
  t.match(out, /^FIELDPOST_LOG=info +default$/m, 'the env files of the device are not read');
  t.notMatch(out, /^FIELDPOST_LISTEN=/m);
  t.match(err, 'warning: FIELDPOST_LISTEN is for fieldpost\n');
  t.match(err, /^warning: any key opens every call .*FIELDPOST_CLOUD_SERVER_KEYS_FILE$/m);
  const unit = readFileSync('systemd/fieldpost-cloud.service', 'utf8');
  const [first = '', dropIns] = [...unit.matchAll(/^EnvironmentFile=-(.*)$/gm)].map(([, path = '']) => path);
  t.equal(dropIns, first.replace(/[^/]*$/, 'conf.d/*.env'));
  const file = { [first]: 'FIELDPOST_LOG=debug' };
  const service = await call(CLOUD_PROGRAM, ['check'], {}, file);
  t.match(
    service.out,
    /^FIELDPOST_STATE_DIR=\/var\/lib\/fieldpost-cloud .*\nFIELDPOST_LOG=debug +\/etc\/fieldpost-cloud\/fieldpost-cloud\.env:1$/m,
    'those of the service of the cloud are',
  );
  t.match((await call(CLOUD_PROGRAM, ['serve'], {}, file, true)).served, [{}, { FIELDPOST_LOG: 'debug' }]);
  const own = await call(CLOUD_PROGRAM, ['check', '--env-file', '/f']);
  t.match(
    own.out,
    /^FIELDPOST_LOG=warn +\/f:1\nThe other \d+ have their defaults: fieldpost-cloud check --all\n$/,
  );
  const to = await call(CLOUD_PROGRAM, ['check', '--to', 'x@example.com']);
  t.match(to, { code: 64, err: 'fieldpost-cloud check --help\n' });
  t.match(await call(CLOUD_PROGRAM, ['help', 'FIELDPOST_CLOUD_SERVER_DELAY']), { out: /^default +90s$/m });
  const words = 'FIELDPOST_LISTEN is for fieldpost\nfieldpost help FIELDPOST_LISTEN tells more.';
  t.match(await call(CLOUD_PROGRAM, ['help', 'FIELDPOST_LISTEN']), { code: 64, err: words });
  t.match(await fieldpost(['help', 'FIELDPOST_CLOUD_SERVER_DELAY']), {
    code: 64,
    err: /is for fieldpost-cloud/,
  });
});

t.test('the services get the settings of --env-file, and never those of the device', async (t) => {
  const env = { A: '1' };
  for (const [program, name] of [
    [CLOUD_PROGRAM, 'serve'],
    [DEV_PROGRAM, 'dev'],
  ] as const) {
    t.match(await call(program, [name], env), { code: 7, served: [env, env] });
    const { served } = await call(program, [name, '--env-file', '/f'], env);
    t.strictSame(served[0], { A: '1', FIELDPOST_LOG: 'warn' });
  }
  t.match(await call(DEV_PROGRAM, ['dev', '--help']), { out: /^fieldpost dev \[--env-file FILE\]/ });
});

t.test('a program knows its own unit', async (t) => {
  const unit = { SYSTEMD_EXEC_PID: '7', STATE_DIRECTORY: '/var/lib/fieldpost-cloud' };
  t.ok(isUnitOf('fieldpost-cloud', { env: unit, pid: 7 }));
  t.ok(isUnitOf('fieldpost', { env: { ...unit, STATE_DIRECTORY: '/a:/var/lib/fieldpost' }, pid: 7 }));
  t.notOk(isUnitOf('fieldpost', { env: unit, pid: 7 }));
  t.notOk(isUnitOf('fieldpost-cloud', { env: unit, pid: 8 }), 'a child of it is not');
});
