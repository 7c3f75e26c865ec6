/** The three built programs: each is one file, and the device's has nothing of the others. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import t from 'tap';
import { MAIN, needsProgram } from '../support/daemon.js';

const FILES = { cloud: 'cloud-main.cjs', dev: 'dev-main.cjs' };

/** What a program says; its file lies beside these others. */
function said(directory: string, args: readonly string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(join(directory, 'main.cjs'), args, {
    cwd: directory,
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

t.test('`fieldpost cloud` and `fieldpost dev` say where these programs are', needsProgram, async (t) => {
  const directory = t.testdir();
  copyFileSync(MAIN, join(directory, 'main.cjs'));
  for (const [name, words] of [
    ['cloud', /^fieldpost: the cloud is a program of its own: fieldpost-cloud\n$/],
    ['dev', /^fieldpost: the development program is a program of its own: npm start/],
  ] as const)
    t.match(said(directory, [name, '--env-file', '/nowhere']), { status: 64, stdout: '', stderr: words });
});

t.test('they become these programs, if their files lie beside the device', needsProgram, async (t) => {
  const directory = t.testdir();
  for (const file of [basename(MAIN), ...Object.values(FILES)])
    copyFileSync(join(dirname(MAIN), file), join(directory, file));
  t.match(said(directory, ['cloud', '--help']), {
    status: 0,
    stdout: /^fieldpost-cloud serve \[--env-file FILE\]/,
  });
  t.match(said(directory, ['dev', '--help']), { status: 0, stdout: /^fieldpost dev \[--env-file FILE\]/ });
  t.match(said(directory, ['help', 'cloud']), { status: 0, stdout: /^fieldpost-cloud serve \[/ });
  t.match(said(directory, ['help', 'dev']), { status: 0, stdout: /^fieldpost dev \[/ });
  const bad = { FIELDPOST_CLOUD_SERVER_DELAY: 'soon', FIELDPOST_STATE_DIR: directory };
  t.match(said(directory, ['cloud'], bad), {
    status: 78,
    stderr: /^fieldpost-cloud: FIELDPOST_CLOUD_SERVER_DELAY=soon/,
  });
});

t.test(
  'the file of the device has no code of the cloud or of dev, and the cloud none of the others',
  needsProgram,
  async (t) => {
    const of = (file: string, room: string) => {
      const { sections } = JSON.parse(readFileSync(join(dirname(MAIN), `${file}.map`), 'utf8')) as {
        sections: { map: { sources: string[] } }[];
      };
      return sections.flatMap(({ map }) => map.sources).filter((source) => source.includes(`src/${room}`));
    };
    t.ok(of('main.cjs', 'device/').length > 10);
    t.strictSame([...of('main.cjs', 'cloud'), ...of('main.cjs', 'dev/')], []);
    t.ok(of('cloud-main.cjs', 'cloud/').length > 10);
    t.strictSame([...of('cloud-main.cjs', 'device/'), ...of('cloud-main.cjs', 'dev/')], []);
  },
);
