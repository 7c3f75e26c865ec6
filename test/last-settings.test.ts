import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Environment } from '../src/base/config/types.js';
import { DurableFile } from '../src/base/durable-file.js';
import type { Disk } from '../src/base/system/disk.js';
import { systemDisk } from '../src/base/system/disk.js';
import { CLOUD_SETTINGS } from '../src/cloud/settings.js';
import { DEVICE_SETTINGS } from '../src/device/settings.js';
import { LastSettings } from '../src/mail/last-settings.js';
import { makeCertificate } from './support/certificate.js';
import { keptLog } from './support/system.js';

const OWN = makeCertificate({ name: 'device' });

const parse = (env: Environment, accepted: ReadonlySet<string>) =>
  DEVICE_SETTINGS.parse(
    env,
    (path) => ({ '/cert': OWN.cert, '/key': OWN.key })[path] ?? 'of-the-file-0123456789',
    { hostname: 'pump-3' },
    accepted,
  );

/** The kept settings of `directory`, and what is logged about them. */
async function open(directory: string, { disk = systemDisk(), mayFallBack = true } = {}) {
  const { log, lines: said } = keptLog();
  const last = await LastSettings.open({
    settings: DEVICE_SETTINGS,
    parse,
    mayFallBack,
    disk,
    log,
    directory,
    version: '1.0.0',
  });
  return { last, said };
}

t.test('good settings are used, not the kept ones', async (t) => {
  const directory = t.testdir();
  const { last } = await open(directory);
  await last.keep({ FIELDPOST_MAX_BATCH: '2' });
  const env = { FIELDPOST_MAX_BATCH: '3', PATH: '/bin' };
  t.match(last.choose(env, null), { parsed: { config: { maxBatch: 3 } }, env, refused: null });
});

t.test('after a fault the kept settings are used, in the present environment', async (t) => {
  const directory = t.testdir();
  await (await open(directory)).last.keep({ FIELDPOST_MAX_BATCH: '2', PATH: '/old' });
  const { last } = await open(directory);
  const env = { FIELDPOST_MAX_BATCH: 'many', FIELDPOST_LOG: 'debug', PATH: '/bin' };
  t.match(last.choose(env, null), {
    parsed: { config: { maxBatch: 2, logLevel: 'info' } },
    env: { FIELDPOST_MAX_BATCH: '2', PATH: '/bin' },
    refused: /FIELDPOST_MAX_BATCH=many/,
  });
  t.match(last.choose({}, 'the file cannot be read'), { refused: 'the file cannot be read' });
  const shown = await open(directory, { mayFallBack: false });
  t.match(shown.last.choose(env, null), { problems: [/many/] }, 'not where somebody can mend it');
});

t.test('without kept settings, or with bad ones, all problems are reported', async (t) => {
  const directory = t.testdir();
  const { last } = await open(directory);
  const env = { FIELDPOST_MAX_BATCH: 'many' };
  t.match(last.choose(env, null), { problems: { length: 1 } });
  await last.keep({ FIELDPOST_HISTORY: 'long' });
  t.match(last.choose(env, 'f'), { problems: ['f', /many/, /either: FIELDPOST_HISTORY=long/] });
});

t.test('a key that a newer version has accepted warns, any other unknown one is a fault', async (t) => {
  const { last } = await open(t.testdir());
  await last.keep({ FIELDPOST_OF_TOMORROW: '1' });
  t.match(last.choose({ FIELDPOST_OF_TOMORROW: '2' }, null), {
    parsed: { warnings: [/FIELDPOST_OF_TOMORROW is not known to this version/] },
    refused: null,
  });
  t.match(last.parse({ FIELDPOST_RELAI: '2' }), { problems: [{ key: 'FIELDPOST_RELAI' }] });
});

t.test('a secret is not kept: a fallback takes it from the present environment', async (t) => {
  const directory = t.testdir();
  const file = { FIELDPOST_SMTP_CERT_FILE: '/cert', FIELDPOST_SMTP_KEY_FILE: '/key' };
  const plain = {
    ...file,
    FIELDPOST_RELAY: 'smtp://pump@relay.example',
    FIELDPOST_CLOUD_PROXY: 'http://proxy.example:3128',
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:2525',
  };
  const secrets = {
    FIELDPOST_RELAY_PASSWORD: 'hunter2-of-relay',
    FIELDPOST_API_TOKEN: 'hunter2-of-the-door',
    FIELDPOST_OF_TOMORROW: 'hunter2-of-tomorrow',
    FIELDPOST_CLOUD_SERVER_WEBHOOK: 'https://hook.example/hunter2',
  };
  await (await open(directory)).last.keep({ ...plain, ...secrets });
  const written = readFileSync(`${directory}/settings.json`, 'utf8');
  t.notMatch(written, /hunter2/);
  for (const [key, value] of Object.entries(plain)) t.match(written, `"${key}":"${value}"`);
  for (const key of Object.keys(secrets))
    t.match(
      written,
      `"${key}":null`,
      'an earlier program takes no such file: it would open its API without the token',
    );

  const { last } = await open(directory);
  const bad = { FIELDPOST_HISTORY: 'x' };
  const taken = last.choose({ ...secrets, ...bad }, null);
  t.match(taken, {
    refused: /HISTORY/,
    parsed: {
      config: { relayPassword: 'hunter2-of-relay', apiToken: 'hunter2-of-the-door' },
      warnings: [/CLOUD_SERVER_WEBHOOK is for fieldpost-cloud/, /OF_TOMORROW is not known/],
    },
    env: secrets,
  });
  const { FIELDPOST_API_TOKEN, ...rest } = secrets;
  const ofFile = last.choose({ ...rest, ...bad, FIELDPOST_API_TOKEN_FILE: '/token' }, null);
  t.match(ofFile, { refused: /HISTORY/, env: { FIELDPOST_API_TOKEN_FILE: '/token' } });
  t.match(
    last.choose({ ...rest, ...bad }, null),
    { problems: [/HISTORY/, /cannot be used either: FIELDPOST_API_TOKEN: it was set/] },
    'no door opens because its token is gone',
  );
  t.match(last.choose(bad, null), { problems: [/HISTORY/, /no password/] });
});

t.test('a cloud falls back, too; without the secret that it had it does not', async (t) => {
  const directory = t.testdir();
  const parse = (env: Environment, accepted: ReadonlySet<string>) =>
    CLOUD_SETTINGS.parse(env, () => '* boss-0123456789abcdef', { hostname: 'cloud' }, accepted);
  const { log } = keptLog();
  const options = { mayFallBack: true, disk: systemDisk(), log, directory, version: '1.0.0' };
  const open = () => LastSettings.open({ settings: CLOUD_SETTINGS, parse, ...options });
  const good = {
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/keys',
    FIELDPOST_CLOUD_SERVER_LISTEN: '0.0.0.0:43780',
    FIELDPOST_CLOUD_SERVER_WEBHOOK: 'https://hook.example/hunter2',
  };
  await (await open()).keep(good);
  t.notMatch(readFileSync(`${directory}/settings.json`, 'utf8'), /hunter2/);
  const bad = { FIELDPOST_CLOUD_SERVER_DELAY: 'soon' };
  const { FIELDPOST_CLOUD_SERVER_WEBHOOK } = good;
  t.match((await open()).choose({ ...bad, FIELDPOST_CLOUD_SERVER_WEBHOOK }, null), {
    refused: /DELAY=soon/,
    parsed: { config: { cloudServerWebhook: 'https://hook.example/hunter2' } },
    env: { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/keys' },
  });
  t.match((await open()).choose(bad, null), { problems: [/DELAY=soon/, /WEBHOOK: it was set/] });
});

t.test('a key without a value in the file of an earlier program is no secret that is missing', async (t) => {
  const directory = t.testdir();
  const settings = {
    FIELDPOST_CLOUD: '',
    FIELDPOST_LOCAL_MAIL: '',
    FIELDPOST_RELAY_USER: '',
    FIELDPOST_MAX_BATCH: '2',
  };
  const path = `${directory}/settings.json`;
  const file = new DurableFile<object>({
    disk: systemDisk(),
    path,
    parse: () => null,
    onDamage: () => undefined,
  });
  await file.write({ version: '0.1.0', settings });
  const { last, said } = await open(directory);
  const chosen = last.choose({ FIELDPOST_MAX_BATCH: 'many', FIELDPOST_LOCAL_MAIL: 'nobody here' }, null);
  t.match(chosen, { refused: /many/, parsed: { config: { maxBatch: 2, localMail: null } } });
  t.same(said, []);
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
    t.match(last.choose({ FIELDPOST_HISTORY: 'x' }, null), { problems: { length: 1 } });
  }
});
