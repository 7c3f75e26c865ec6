/** The settings of each program: what it has itself, and what it has heard of. */
import t from 'tap';
import type { Settings } from '../../src/base/config/settings.js';
import type { Environment } from '../../src/base/config/types.js';
import { CLOUD_SETTINGS, DEVICE_KEYS as KNOWN_TO_CLOUD } from '../../src/cloud/settings.js';
import { DEV_SETTINGS } from '../../src/dev/settings.js';
import { DEVICE_SETTINGS } from '../../src/device/settings.js';

const DEVICE_KEYS = [...DEVICE_SETTINGS.secretByKey.keys()];
const CLOUD_KEYS = [...CLOUD_SETTINGS.secretByKey.keys()];

/** The warnings about `env`, or the keys that are a problem. */
function found<C>(settings: Settings<C>, env: Environment): readonly string[] {
  const parsed = settings.parse(env, () => '', { hostname: 'gateway-7' });
  return 'problems' in parsed ? parsed.problems.map(({ key }) => key) : parsed.warnings;
}

t.test('each program has the settings of the mail engine, and its own', async (t) => {
  const common = DEVICE_KEYS.filter((key) => CLOUD_KEYS.includes(key));
  for (const key of ['FIELDPOST_RELAY', 'FIELDPOST_STATE_DIR', 'FIELDPOST_LOG', 'FIELDPOST_MAX_QUEUE'])
    t.ok(common.includes(key), key);
  t.strictSame(
    CLOUD_KEYS.filter((key) => !common.includes(key)).filter(
      (key) => !key.startsWith('FIELDPOST_CLOUD_SERVER_'),
    ),
    [],
  );
  t.notOk(DEVICE_KEYS.some((key) => key.startsWith('FIELDPOST_CLOUD_SERVER_')));
  t.strictSame(
    [...DEV_SETTINGS.secretByKey.keys()].sort(),
    [...new Set([...DEVICE_KEYS, ...CLOUD_KEYS])].sort(),
    'the development program has all',
  );
});

t.test('a setting of the other program is a warning, so that one file can serve both', async (t) => {
  for (const [settings, others, program] of [
    [DEVICE_SETTINGS, CLOUD_KEYS, 'fieldpost-cloud'],
    [CLOUD_SETTINGS, DEVICE_KEYS, 'fieldpost'],
  ] as const) {
    const theirs = others.filter((key) => !settings.secretByKey.has(key));
    t.ok(theirs.length > 10);
    for (const key of theirs) {
      const own = found(settings as Settings<unknown>, {});
      t.strictSame(found(settings as Settings<unknown>, { [key]: 'x' }), [
        `${key} is for ${program}`,
        ...own,
      ]);
      t.equal(settings.programOf(key), program);
    }
  }
});

t.test('a mistyped key is a problem, and an own setting is never that of another program', async (t) => {
  for (const settings of [DEVICE_SETTINGS, CLOUD_SETTINGS, DEV_SETTINGS]) {
    t.strictSame(found(settings as Settings<unknown>, { FIELDPOST_RELAI: 'x' }), ['FIELDPOST_RELAI']);
    t.strictSame(
      [...settings.secretByKey.keys()].filter((key) => settings.programOf(key) !== null),
      [],
    );
  }
  t.strictSame(found(DEV_SETTINGS, { FIELDPOST_CLOUD_SERVER_LISTNE: 'x' }), [
    'FIELDPOST_CLOUD_SERVER_LISTNE',
  ]);
  for (const key of ['FIELDPOST_CLOUD_SERVER_LISTNE', 'FIELDPOST_MAX_QUEU', 'FIELDPOST_SMTP_TIMEOT'])
    t.strictSame(found(CLOUD_SETTINGS, { [key]: 'x' }), [key]);
});

t.test(
  'the cloud knows exactly the settings of a device, and guesses which one a mistyped key means',
  async (t) => {
    const theirs = DEVICE_KEYS.filter((key) => !CLOUD_KEYS.includes(key));
    t.strictSame([...KNOWN_TO_CLOUD].sort(), theirs.sort());
    for (const [mistyped, meant] of [
      ['FIELDPOST_HEARTBAET', 'FIELDPOST_HEARTBEAT'],
      ['FIELDPOST_CLOUD_SERVER_LISTNE', 'FIELDPOST_CLOUD_SERVER_LISTEN'],
    ] as const) {
      const parsed = CLOUD_SETTINGS.parse({ [mistyped]: 'x' }, () => '', { hostname: 'cloud' });
      t.match(parsed, { problems: [{ key: mistyped, detail: `no such setting; did you mean ${meant}?` }] });
    }
  },
);

t.test('the relay cloud needs a cloud, and is one of devices alone', async (t) => {
  const link = { FIELDPOST_CLOUD: 'https://c.example', FIELDPOST_DEVICE_ID: 'x', FIELDPOST_CLOUD_KEY: 'k' };
  const problems = (env: Environment) => {
    const parsed = DEVICE_SETTINGS.parse(env, () => '', { hostname: 'gateway-7' });
    return 'problems' in parsed ? parsed.problems.map(({ key }) => key) : [];
  };
  for (const relay of ['cloud', 'smtp://a.example,cloud', 'cloud, smtp://a.example']) {
    t.strictSame(problems({ ...link, FIELDPOST_RELAY: relay }), [], relay);
    t.strictSame(problems({ FIELDPOST_RELAY: relay }), ['FIELDPOST_RELAY'], `${relay} without a cloud`);
    t.strictSame(
      problems({ FIELDPOST_RELAY: relay, FIELDPOST_CLOUD: 'https://c.example' }),
      ['FIELDPOST_DEVICE_ID', 'FIELDPOST_CLOUD_KEY_FILE'],
      `${relay} without a key`,
    );
    t.strictSame(found(CLOUD_SETTINGS, { FIELDPOST_RELAY: relay }), ['FIELDPOST_RELAY']);
  }
  t.strictSame(problems({ ...link, FIELDPOST_RELAY: 'Cloud' }), ['FIELDPOST_RELAY']);
  const parsed = DEVICE_SETTINGS.parse({ ...link, FIELDPOST_RELAY: 'cloud,smtp://a.example' }, () => '', {
    hostname: 'gateway-7',
  });
  t.match(parsed, { config: { relays: ['cloud', { host: 'a.example' }] } });
  t.strictSame(found(CLOUD_SETTINGS, { FIELDPOST_CLOUD_SERVER_MAILS: '5' }), [
    'FIELDPOST_CLOUD_SERVER_MAILS',
  ]);
});
