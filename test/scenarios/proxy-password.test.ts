/** The built daemon behind a proxy with a password: in a file or in the environment, no text shows it. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { MAIN, needsProgram, startIn } from '../support/daemon.js';
import { fakeProxy } from '../support/proxy.js';

const SECRET = /hunter2|aHVudGVyM/;

for (const from of ['FIELDPOST_CLOUD_PROXY', 'FIELDPOST_CLOUD_PROXY_FILE'])
  t.test(`the password of ${from} is nowhere to be read`, needsProgram, async (t) => {
    await using proxy = await fakeProxy({ login: 'pump-3:other' });
    const directory = t.testdir();
    const path = join(directory, 'proxy');
    const url = `http://pump-3:hunter2@127.0.0.1:${proxy.port}`;
    writeFileSync(path, `${url}\n`);
    const env = {
      FIELDPOST_STATE_DIR: join(directory, 'state'),
      FIELDPOST_CLOUD: 'https://cloud.example',
      FIELDPOST_DEVICE_ID: 'pump-3',
      FIELDPOST_CLOUD_KEY: 'k',
      [from]: from.endsWith('_FILE') ? path : url,
    };
    const daemon = await startIn(t, env);
    // The line about the link comes after 30 s; test/device/proxy.test.ts reads it.
    let { text } = await daemon.api('state');
    while (!text.includes('refuses our password (407)')) ({ text } = await daemon.api('state'));
    const run = (...args: string[]) =>
      spawnSync(MAIN, args, {
        env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}`, ...env },
        encoding: 'utf8',
      });
    const [check, report, status] = [run('check'), run('report'), run('status')];
    t.match(check.stdout, `FIELDPOST_CLOUD_PROXY=http://pump-3:***@127.0.0.1:${proxy.port}`);
    const warning = /FIELDPOST_CLOUD_PROXY stands in the environment.*prefer FIELDPOST_CLOUD_PROXY_FILE/;
    t.equal(warning.test(check.stdout + check.stderr), !from.endsWith('_FILE'));
    t.match(report.stdout, 'refuses our password');
    const all = [text, ...daemon.lines, ...[check, report, status].flatMap((it) => [it.stdout, it.stderr])];
    t.notMatch(all.join('\n'), SECRET);
  });
