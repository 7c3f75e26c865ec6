import t from 'tap';
import { type Environment, parseConfig } from '../../src/config.js';
import { LastSettings } from '../../src/daemon/last-settings.js';
import type { Disk } from '../../src/system/disk.js';
import { systemDisk } from '../../src/system/disk.js';
import { keptLog } from '../support/system.js';

const parse = (env: Environment, accepted: ReadonlySet<string>) =>
  parseConfig(env, () => '', { hostname: 'pump-3' }, accepted);

/** The kept settings of `directory`, and what is logged about them. */
async function open(directory: string, { disk = systemDisk(), keeps = true } = {}) {
  const { log, lines: said } = keptLog();
  const last = await LastSettings.open({ parse, keeps, disk, log, directory, version: '1.0.0' });
  return { last, said };
}

t.test('good settings are used, not the kept ones', async (t) => {
  const directory = t.testdir();
  const { last } = await open(directory);
  await last.keep({ FIELDPOST_MAX_BATCH: '2' });
  const env = { FIELDPOST_MAX_BATCH: '3', PATH: '/bin' };
  t.match(last.choose(env, null, true), { parsed: { config: { maxBatch: 3 } }, env, refused: null });
});

t.test('after a fault the kept settings are used, in the present environment', async (t) => {
  const directory = t.testdir();
  await (await open(directory)).last.keep({ FIELDPOST_MAX_BATCH: '2', PATH: '/old' });
  const { last } = await open(directory);
  const env = { FIELDPOST_MAX_BATCH: 'many', FIELDPOST_LOG: 'debug', PATH: '/bin' };
  t.match(last.choose(env, null, true), {
    parsed: { config: { maxBatch: 2, logLevel: 'info' } },
    env: { FIELDPOST_MAX_BATCH: '2', PATH: '/bin' },
    refused: /FIELDPOST_MAX_BATCH=many/,
  });
  t.match(last.choose({}, 'the file cannot be read', true), { refused: 'the file cannot be read' });
  t.match(last.choose(env, null, false), { problems: [/many/] }, 'not where somebody can mend it');
});

t.test('without kept settings, or with bad ones, all problems are reported', async (t) => {
  const directory = t.testdir();
  const { last } = await open(directory);
  const env = { FIELDPOST_MAX_BATCH: 'many' };
  t.match(last.choose(env, null, true), { problems: { length: 1 } });
  await last.keep({ FIELDPOST_HISTORY: 'long' });
  t.match(last.choose(env, 'f', true), { problems: ['f', /many/, /either: FIELDPOST_HISTORY=long/] });
});

t.test('a key that a newer version has accepted warns, any other unknown one is a fault', async (t) => {
  const { last } = await open(t.testdir());
  await last.keep({ FIELDPOST_OF_TOMORROW: '1' });
  t.match(last.choose({ FIELDPOST_OF_TOMORROW: '2' }, null, true), {
    parsed: { warnings: [/FIELDPOST_OF_TOMORROW is not known to this version/] },
    refused: null,
  });
  t.match(last.choose({ FIELDPOST_RELAI: '2' }, null, false), { problems: [/RELAI/] });
});

t.test('a service that keeps no settings reads those of the daemon', async (t) => {
  const directory = t.testdir();
  await (await open(directory)).last.keep({ FIELDPOST_OF_TOMORROW: '1' });
  const reader = (await open(directory, { keeps: false })).last;
  await reader.keep({});
  for (const last of [reader, (await open(directory)).last])
    t.match(last.parse({ FIELDPOST_OF_TOMORROW: '2' }), { warnings: [/FIELDPOST_OF_TOMORROW/] });
});

t.test('the same settings are not written again', async (t) => {
  const disk = systemDisk();
  let opened = 0;
  const counting: Disk = {
    ...disk,
    open(path, how) {
      if (how === 'create') opened++;
      return disk.open(path, how);
    },
  };
  const directory = t.testdir();
  const { last } = await open(directory, { disk: counting });
  await last.keep({ FIELDPOST_LOG: 'debug', FIELDPOST_HISTORY: '1' });
  await last.keep({ FIELDPOST_HISTORY: '1', HOME: '/', FIELDPOST_LOG: 'debug' });
  await (await open(directory, { disk: counting })).last.keep({
    FIELDPOST_HISTORY: '1',
    FIELDPOST_LOG: 'debug',
  });
  t.equal(opened, 1);
});

t.test('a disk that refuses, a damaged file and a directory are reported and stop nothing', async (t) => {
  const disk = systemDisk();
  const full: Disk = {
    ...disk,
    open: (path, how) => (how === 'create' ? Promise.reject(new Error('ENOSPC')) : disk.open(path, how)),
  };
  const { last, said } = await open(t.testdir(), { disk: full });
  await last.keep({ FIELDPOST_LOG: 'debug' });
  t.match(said, [/settings not kept .*reason=ENOSPC/]);
  for (const content of ['', 'x', '00000000 {}\n', {}] as const) {
    const { last, said } = await open(t.testdir({ 'settings.json': content }));
    t.match(said, [/settings not kept /], JSON.stringify(content));
    t.match(last.choose({ FIELDPOST_HISTORY: 'x' }, null, true), { problems: { length: 1 } });
  }
});
