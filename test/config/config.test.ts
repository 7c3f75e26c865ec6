import t from 'tap';
import { parseEnvFile } from '../../src/base/config/env-file.js';
import { formatProblem } from '../../src/base/config/settings.js';
import type { Environment } from '../../src/base/config/types.js';
import { DEV_SETTINGS, type DevConfig } from '../../src/dev/settings.js';
import type { RelayConfig } from '../../src/mail/settings.js';
import { makeCertificate } from '../support/certificate.js';
import { systemError } from '../support/system-error.js';

const PEM = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----';
/** A certificate whose key is known. */
const OWN = makeCertificate({ name: 'device' });

/** Parses `env` with `files` on the device `gateway-7`. */
function parse(env: Environment, files: Record<string, string> = {}, hostname = 'gateway-7') {
  const read = (path: string) => {
    const text = files[path];
    if (text === undefined) throw systemError('ENOENT', `ENOENT: no such file, open '${path}'`);
    return text;
  };
  const parsed = DEV_SETTINGS.parse(env, read, { hostname });
  return 'problems' in parsed
    ? { config: null, warnings: [], problems: parsed.problems.map(formatProblem) }
    : { config: parsed.config, warnings: [...parsed.warnings], problems: [] };
}

/** The DevConfig of `env`, which must be good. */
function good(env: Environment, files: Record<string, string> = {}): DevConfig {
  const { config, problems } = parse(env, files);
  if (config === null) throw new Error(problems.join('\n'));
  return config;
}

t.test('with nothing set there is nothing to complain about, and the defaults are good values', async (t) => {
  const { config, warnings, problems } = parse({});
  t.same([warnings, problems], [[], []]);
  const told = DEV_SETTINGS.describe(good({}), 'gateway-7');
  const { FIELDPOST_LISTEN, FIELDPOST_FROM: _, FIELDPOST_HELO_NAME: __, ...rest } = told;
  t.equal(FIELDPOST_LISTEN, '127.0.0.1:43770', 'nobody else reaches it');
  t.strictSame(good(rest), config);
});

t.test('an empty value is no value; blanks around one do not count', async (t) => {
  t.equal(good({ FIELDPOST_RETRY_MIN: ' ' }).retryMinMs, 60_000);
  t.equal(good({ FIELDPOST_RETRY_MIN: ' 2m ' }).retryMinMs, 120_000);
});

t.test('every setting reaches its own field', async (t) => {
  const files = {
    '/k/pw': 'hunter2\n',
    '/k/send': 'def',
    '/k/token': 'abc',
    '/k/cloud': 'key\r\n',
    '/k/proxy': 'http://p:1\n',
    '/k/ca': PEM,
    '/k/cert': OWN.cert,
    '/k/key': OWN.key,
    '/k/keys': 'dev-1 abc',
    '/k/auth': 'Bearer abc',
  };
  const env: Record<string, [value: string, member: keyof DevConfig, wanted: unknown]> = {
    FIELDPOST_RELAY: ['smtp://u@r:26', 'relays', [{ host: 'r', port: 26, tls: 'starttls', user: 'u' }]],
    FIELDPOST_RELAY_USER: ['other', 'relayUser', 'other'],
    FIELDPOST_RELAY_PASSWORD_FILE: ['/k/pw', 'relayPassword', 'hunter2'],
    FIELDPOST_RELAY_CA_FILE: ['/k/ca', 'relayCa', PEM],
    FIELDPOST_RELAY_CERT_FILE: ['/k/cert', 'relayCert', OWN.cert.trimEnd()],
    FIELDPOST_RELAY_KEY_FILE: ['/k/key', 'relayKey', OWN.key.trimEnd()],
    FIELDPOST_RELAY_CONNECTIONS: ['3', 'relayConnections', 3],
    FIELDPOST_RELAY_RATE: [
      '30/1m, 500 / 1d',
      'relayRate',
      [
        { limit: 30, windowMs: 60_000 },
        { limit: 500, windowMs: 86_400_000 },
      ],
    ],
    FIELDPOST_SMTP_TIMEOUT: ['2s', 'smtpTimeoutMs', 2000],
    FIELDPOST_FROM: ['Łódź 3 <a@b.example>', 'from', { name: 'Łódź 3', address: 'a@b.example' }],
    FIELDPOST_FROM_ALLOWED: [
      'A@B.example, C.example, @d.example',
      'fromAllowed',
      ['A@b.example', '@c.example', '@d.example'],
    ],
    FIELDPOST_HELO_NAME: ['a.b.example', 'heloName', 'a.b.example'],
    FIELDPOST_LISTEN: ['[::1]:1', 'listen', [{ kind: 'tcp', host: '::1', port: 1 }]],
    FIELDPOST_ALLOWED_HOSTS: ['Gate.Local, 10.0.0.1', 'allowedHosts', ['gate.local', '10.0.0.1']],
    FIELDPOST_API_TOKEN_FILE: ['/k/token', 'apiToken', 'abc'],
    FIELDPOST_SEND_TOKEN_FILE: ['/k/send', 'sendToken', 'def'],
    FIELDPOST_SMTP_LISTEN: ['[::1]:25', 'smtpListen', [{ kind: 'tcp', host: '::1', port: 25 }]],
    FIELDPOST_SMTP_CERT_FILE: ['/k/cert', 'smtpCert', OWN.cert.trimEnd()],
    FIELDPOST_SMTP_KEY_FILE: ['/k/key', 'smtpKey', OWN.key.trimEnd()],
    FIELDPOST_FROM_HEADER: ['keep', 'fromHeader', 'keep'],
    FIELDPOST_LOCAL_MAIL: [
      'Root=me@b.example, *=people',
      'localMail',
      new Map([
        ['root', 'me@b.example'],
        ['*', 'people'],
      ]),
    ],
    FIELDPOST_URGENT_HEADERS: ['yes', 'urgentHeaders', 'yes'],
    FIELDPOST_FAILURES_TO: ['ops@b.example', 'failuresTo', 'ops@b.example'],
    FIELDPOST_RETURN_REPORT: [
      '90m, me@b.example',
      'returnReport',
      { afterMs: 5_400_000, to: 'me@b.example' },
    ],
    FIELDPOST_LATE_NOTE: ['yes', 'lateNote', 'yes'],
    FIELDPOST_STATE_DIR: ['/s', 'stateDir', '/s'],
    FIELDPOST_LOG: ['warn', 'logLevel', 'warn'],
    FIELDPOST_BACKOFF_MIN: ['3s', 'backoffMinMs', 3000],
    FIELDPOST_BACKOFF_MAX: ['4s', 'backoffMaxMs', 4000],
    FIELDPOST_RETRY_MIN: ['5s', 'retryMinMs', 5000],
    FIELDPOST_RETRY_MAX: ['6s', 'retryMaxMs', 6000],
    FIELDPOST_MAX_AGE_EMAIL: ['1m', 'maxAgeEmailMs', 60_000],
    FIELDPOST_MAX_AGE_SMS: ['2m', 'maxAgeSmsMs', 120_000],
    FIELDPOST_MAX_AGE_PHONE: ['3m', 'maxAgePhoneMs', 180_000],
    FIELDPOST_MAX_AGE_PUSH: ['4m', 'maxAgePushMs', 240_000],
    FIELDPOST_CLOUD: ['https://c.example/v1/', 'cloudUrl', 'https://c.example/v1'],
    FIELDPOST_DEVICE_ID: ['dev-1', 'deviceId', 'dev-1'],
    FIELDPOST_CLOUD_KEY_FILE: ['/k/cloud', 'cloudKey', 'key'],
    FIELDPOST_CLOUD_CA_FILE: ['/k/ca', 'cloudCa', PEM],
    FIELDPOST_CLOUD_CERT_FILE: ['/k/cert', 'cloudCert', OWN.cert.trimEnd()],
    FIELDPOST_CLOUD_CERT_KEY_FILE: ['/k/key', 'cloudCertKey', OWN.key.trimEnd()],
    FIELDPOST_CLOUD_PROXY_FILE: ['/k/proxy', 'cloudProxy', { host: 'p', port: 1, login: null }],
    FIELDPOST_HEARTBEAT: ['7s', 'heartbeatMs', 7000],
    FIELDPOST_CLOUD_SERVER_LISTEN: ['[::1]:2', 'cloudServerListen', [{ kind: 'tcp', host: '::1', port: 2 }]],
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: ['/k/keys', 'cloudServerKeys', new Map([['dev-1', ['abc']]])],
    FIELDPOST_CLOUD_SERVER_DELAY: ['8s', 'cloudServerDelayMs', 8000],
    FIELDPOST_CLOUD_SERVER_STOP_DELAY: ['9s', 'cloudServerStopDelayMs', 9000],
    FIELDPOST_CLOUD_SERVER_WEBHOOK: ['https://h.example/x', 'cloudServerWebhook', 'https://h.example/x'],
    FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE: ['/k/auth', 'cloudServerWebhookAuth', 'Bearer abc'],
    FIELDPOST_CLOUD_SERVER_HOOK: ['https://t.example/x', 'cloudServerHook', 'https://t.example/x'],
    FIELDPOST_CLOUD_SERVER_HOOK_AUTH_FILE: ['/k/auth', 'cloudServerHookAuth', 'Bearer abc'],
    FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT: ['7', 'cloudServerHourlyLimit', 7],
    FIELDPOST_CLOUD_SERVER_MAILS: ['8', 'cloudServerMails', 8],
    FIELDPOST_CLOUD_SERVER_TIME_ZONE: ['Europe/Paris', 'cloudServerTimeZone', 'Europe/Paris'],
    FIELDPOST_CLOUD_SERVER_PUBLIC_URL: ['https://p.example/', 'cloudServerPublicUrl', 'https://p.example/'],
    FIELDPOST_CLOUD_SERVER_STORE: [
      'etcd:https://e.example:2379',
      'cloudServerStore',
      ['https://e.example:2379'],
    ],
    FIELDPOST_CLOUD_SERVER_STORE_PREFIX: ['p/', 'cloudServerStorePrefix', 'p/'],
    FIELDPOST_CLOUD_SERVER_STORE_CA_FILE: ['/k/ca', 'cloudServerStoreCa', PEM],
    FIELDPOST_CLOUD_SERVER_STORE_CERT_FILE: ['/k/cert', 'cloudServerStoreCert', OWN.cert.trimEnd()],
    FIELDPOST_CLOUD_SERVER_STORE_KEY_FILE: ['/k/key', 'cloudServerStoreKey', OWN.key.trimEnd()],
    FIELDPOST_CLOUD_SERVER_STORE_USER: ['u', 'cloudServerStoreUser', 'u'],
    FIELDPOST_CLOUD_SERVER_STORE_PASSWORD_FILE: ['/k/pw', 'cloudServerStorePassword', 'hunter2'],
    FIELDPOST_MAX_BODY: ['2KiB', 'maxBodyBytes', 2048],
    FIELDPOST_MAX_BATCH: ['9', 'maxBatch', 9],
    FIELDPOST_MAX_ATTACHMENTS: ['0', 'maxAttachments', 0],
    FIELDPOST_MAX_MESSAGE: ['3MiB', 'maxMessageBytes', 3_145_728],
    FIELDPOST_MAX_SHARE: ['30%', 'maxShare', 30],
    FIELDPOST_MAX_QUEUE: ['11', 'maxQueue', 11],
    FIELDPOST_MAX_SPOOL: ['1GiB', 'maxSpoolBytes', 1_073_741_824],
    FIELDPOST_MIN_FREE: ['4MiB', 'minFreeBytes', 4 * 2 ** 20],
    FIELDPOST_KEEP_FAILED: ['0s', 'keepFailedMs', 0],
    FIELDPOST_HISTORY: ['12', 'history', 12],
  };
  const oauth: typeof env = {
    FIELDPOST_RELAY_OAUTH_TOKEN_URL: ['https://l.example/t?a=b', 'relayTokenUrl', 'https://l.example/t?a=b'],
    FIELDPOST_RELAY_OAUTH_CLIENT_ID: ['app', 'relayClientId', 'app'],
    FIELDPOST_RELAY_OAUTH_CLIENT_SECRET_FILE: ['/k/pw', 'relayClientSecret', 'hunter2'],
    FIELDPOST_RELAY_OAUTH_SCOPE: ['a b', 'relayScope', 'a b'],
    FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN_FILE: ['/k/token', 'relayRefreshToken', 'abc'],
    FIELDPOST_RELAY_OAUTH_CA_FILE: ['/k/ca', 'relayTokenCa', PEM],
  };
  const tokenFile: typeof env = { FIELDPOST_RELAY_TOKEN_FILE: ['/run/t', 'relayTokenFile', '/run/t'] };
  const configOf = (some: typeof env) =>
    good(Object.fromEntries(Object.entries(some).map(([key, [value]]) => [key, value])), files);
  const config = configOf(env);
  // One login excludes the others.
  for (const some of [env, oauth, tokenFile])
    for (const [key, [, member, wanted]] of Object.entries(some))
      t.strictSame(configOf(some)[member], wanted, key);
  t.strictSame(config.maxAgeMs, { 1: 60_000, 2: 120_000, 3: 180_000, 4: 240_000 });
  t.strictSame(config.cloud, {
    url: 'https://c.example/v1',
    deviceId: 'dev-1',
    key: 'key',
    ca: PEM,
    clientCertificate: { cert: OWN.cert.trimEnd(), key: OWN.key.trimEnd() },
  });
  const secrets = [
    ...['RELAY_PASSWORD', 'RELAY_OAUTH_CLIENT_SECRET', 'RELAY_OAUTH_REFRESH_TOKEN'],
    ...['API_TOKEN', 'SEND_TOKEN', 'CLOUD_KEY', 'CLOUD_PROXY'],
  ];
  const direct = secrets.map((name) => `FIELDPOST_${name}`);
  t.strictSame(
    [...DEV_SETTINGS.secretByKey.keys()].sort(),
    [...Object.keys({ ...env, ...oauth, ...tokenFile }), ...direct].sort(),
    'no setting is left out here',
  );
});

t.test('durations and sizes', async (t) => {
  const timeouts = { '1500ms': 1500, '60s': 60_000, '10m': 600_000 };
  for (const [text, ms] of Object.entries(timeouts))
    t.equal(good({ FIELDPOST_SMTP_TIMEOUT: text }).smtpTimeoutMs, ms);
  t.equal(good({ FIELDPOST_KEEP_FAILED: '36h' }).keepFailedMs, 129_600_000);
  t.equal(good({ FIELDPOST_KEEP_FAILED: '2d' }).keepFailedMs, 172_800_000);
  t.equal(good({ FIELDPOST_MAX_BODY: '65536' }).maxBodyBytes, 65_536);
  for (const bad of ['5', '5 s', '-5s', '1.5m', '5S', 's', '0x5s', '1h30m', '999ms', '11m', '1e3s']) {
    t.equal(parse({ FIELDPOST_SMTP_TIMEOUT: bad }).problems.length, 1, `timeout ${bad}`);
  }
  for (const bad of ['1MB', '1mib', '1.5MiB', '-1', '1 MiB', '1023', '17MiB', 'KiB', '1KiBs']) {
    t.equal(parse({ FIELDPOST_MAX_BODY: bad }).problems.length, 1, `body ${bad}`);
  }
  for (const bad of ['0', '5', '1.0', 'one', '1s', '+1']) {
    t.equal(parse({ FIELDPOST_RELAY_CONNECTIONS: bad }).problems.length, 1, `connections ${bad}`);
  }
  for (const [bad, why] of [
    ['500', 'a limit is a number, a slash and a duration: 500/1d'],
    ['500/1d/2', 'a limit is a number, a slash and a duration: 500/1d'],
    ['/1d', 'not a whole number'],
    ['0/1d', 'less than 1'],
    ['100001/1d', 'more than 100000'],
    ['5/1', 'the unit is missing'],
    ['5/999ms', 'less than 1s'],
    ['5/32d', 'more than 31d'],
    ['5/1d,', 'there is an empty entry in the list'],
    ['5/1d,6/24h', 'there are two limits for one duration'],
    ['1/1s,1/2s,1/3s,1/4s,1/5s', 'more than 4 limits'],
  ] as const) {
    const { problems } = parse({ FIELDPOST_RELAY_RATE: bad });
    t.equal(problems.length, 1, `rate ${bad}`);
    t.ok(problems[0]?.includes(why), bad);
  }
});

t.test('relay URLs', async (t) => {
  const password = { FIELDPOST_RELAY_PASSWORD: 'x' };
  const one = (url: string, env: Environment = {}) =>
    good({ FIELDPOST_RELAY: url, ...env }).relays[0] as RelayConfig;
  const relay = (host: string, port: number, tls: string, user: string | null) => ({ host, port, tls, user });
  t.strictSame(one('smtp://Mail.Example'), relay('mail.example', 25, 'starttls', null));
  t.strictSame(one('smtp://mail.example/'), relay('mail.example', 25, 'starttls', null));
  t.strictSame(one('smtp://joe@mail.example', password), relay('mail.example', 587, 'starttls', 'joe'));
  t.strictSame(
    one('smtp://mail.example', { ...password, FIELDPOST_RELAY_USER: 'joe' }),
    relay('mail.example', 587, 'starttls', 'joe'),
  );
  t.strictSame(one('smtps://joe@mail.example', password), relay('mail.example', 465, 'implicit', 'joe'));
  t.strictSame(one('smtp://mail.example:2525?tls=never'), relay('mail.example', 2525, 'never', null));
  t.strictSame(one('smtp://localhost'), relay('localhost', 25, 'offered', null));
  t.strictSame(one('smtp://127.0.0.2:26'), relay('127.0.0.2', 26, 'offered', null));
  t.strictSame(one('smtp://127.evil.example'), relay('127.evil.example', 25, 'starttls', null));
  t.strictSame(one('smtp://[::1]:26'), relay('::1', 26, 'offered', null));
  t.strictSame(one('smtp://[2001:db8::1]:26'), relay('2001:db8::1', 26, 'starttls', null));
  t.strictSame(one('smtp://joe@localhost', password), relay('localhost', 587, 'starttls', 'joe'));
  t.equal(one('smtp://joe%40example.com@h', password)?.user, 'joe@example.com');
  t.equal(one('smtp://joe@example.com@h', password)?.user, 'joe@example.com');
  t.equal(one('smtp://j%C3%B6@h', password)?.user, 'jö');
  const two = good({ FIELDPOST_RELAY: 'smtp://a , smtps://b:1' }).relays;
  t.strictSame(two, [relay('a', 25, 'starttls', null), relay('b', 1, 'implicit', null)]);
});

t.test('relay URLs that are refused', async (t) => {
  const bad: Record<string, RegExp> = {
    'mail.example': /starts with smtp:/,
    'SMTP//mail.example': /starts with smtp:/,
    'https://mail.example': /starts with smtp:/,
    'smtp://': /not a URL|host is missing/,
    'smtp://a b': /not a URL|host/,
    'smtp://h:0': /port 0/,
    'smtp://h:70000': /not a URL/,
    'smtp://h/path': /nothing but/,
    'smtp://h?tls=no': /only option/,
    'smtp://h?tls=never&x=1': /only option/,
    'smtp://h#x': /nothing but/,
    'smtps://h?tls=never': /contradicts/,
    'smtp://%zz@h': /hex digits/,
    'smtp://a%0d%0ab@h': /control character/,
    'smtp://a,': /empty entry/,
    'smtp://a,,smtp://b': /empty entry/,
    'smtp://a_%20b': /host/,
    'smtp://[::g]': /not a URL|host/,
  };
  for (const [url, words] of Object.entries(bad)) {
    const { problems } = parse({ FIELDPOST_RELAY: url });
    t.equal(problems.length, 1, url);
    t.match(problems[0], words, url);
    t.match(problems[0], /allowed: smtp:/, url);
  }
});

t.test('a password in a relay URL is refused with a hint, and never shown', async (t) => {
  const urls = [
    'smtp://joe:hunter2@h',
    'smtps://a@b,smtp://joe:hunter2@h:25',
    'smtp://joe:hun,ter2@h',
    'smtp://joe:hun@ter2@h',
    'smtp://joe:hun/ter2@h',
    'smtp:joe:hunter2@h',
    'joe:hunter2@h',
    'smtp://:hunter2@h',
    'smtp://a@b,joe:hunter2@h',
    'smtp://joe://hunter2@h',
  ];
  for (const url of urls) {
    const { problems } = parse({ FIELDPOST_RELAY: url });
    t.not(problems.length, 0, url);
    t.notMatch(problems.join(), /hun|ter2/, url);
  }
  t.match(parse({ FIELDPOST_RELAY: 'smtp://joe:hunter2@h' }).problems[0], /FIELDPOST_RELAY_PASSWORD_FILE/);
  t.notMatch(parse({ FIELDPOST_CLOUD: 'https://joe:hunter2@h' }).problems.join(), /hunter2/);
});

t.test('listeners', async (t) => {
  const listen = (text: string) => good({ FIELDPOST_LISTEN: text }).listen;
  t.strictSame(listen('127.0.0.1:0, [::1]:43770,unix:/run/fieldpost/api.sock, localhost:1'), [
    { kind: 'tcp', host: '127.0.0.1', port: 0 },
    { kind: 'tcp', host: '::1', port: 43770 },
    { kind: 'unix', path: '/run/fieldpost/api.sock' },
    { kind: 'tcp', host: 'localhost', port: 1 },
  ]);
  const hosts = [
    '43770',
    ':43770',
    '::1:43770',
    '256.0.0.1:1',
    'gate.local:1',
    '[::1]:1,',
    '[::1]:1,[::1]:1',
  ];
  const ports = ['127.0.0.1', '127.0.0.1:65536', '127.0.0.1:x'];
  for (const text of [...hosts, ...ports, `unix:/${'x'.repeat(107)}`, 'unix:', 'unix:x']) {
    t.equal(parse({ FIELDPOST_LISTEN: text, FIELDPOST_API_TOKEN: 'x' }).problems.length, 1, text);
  }
  for (const text of ['0.0.0.0:43770', '[::]:43770', '127.0.0.1:1,192.168.0.1:1']) {
    t.match(parse({ FIELDPOST_LISTEN: text }).problems, [/needs a token/], text);
    t.equal(
      parse({ FIELDPOST_LISTEN: text, FIELDPOST_API_TOKEN: 'x' }).problems.length,
      0,
      `${text} with a token`,
    );
  }
});

t.test('the sources of a secret', async (t) => {
  const files = {
    '/c/relay-password': 'from credential\n',
    '/c/cloud-key': '(not given)',
    '/f': 'from file\n\n',
    '/crlf': 'x\r\n',
  };
  const base = { FIELDPOST_RELAY: 'smtp://u@h' };
  const withFile = parse(
    { ...base, FIELDPOST_RELAY_PASSWORD_FILE: '/crlf', CREDENTIALS_DIRECTORY: '/c' },
    files,
  );
  t.equal(
    withFile.config?.relayPassword,
    'x',
    'the file that is named, before the credential; its line break dropped',
  );
  t.strictSame(withFile.warnings, []);
  const withCredential = parse({ ...base, CREDENTIALS_DIRECTORY: '/c' }, files);
  t.equal(withCredential.config?.relayPassword, 'from credential');
  t.equal(withCredential.config?.apiToken, null, 'a credential that was not given is no problem');
  t.match(
    parse(
      { ...base, FIELDPOST_CLOUD: 'https://x', FIELDPOST_DEVICE_ID: 'x', CREDENTIALS_DIRECTORY: '/c' },
      files,
    ).problems,
    [
      /^FIELDPOST_CLOUD_KEY_FILE: FIELDPOST_CLOUD needs it.*the systemd credential cloud-key, which a restart reads/,
    ],
    "nor is the unit's word for one",
  );
  t.match(
    parse({ ...base, CREDENTIALS_DIRECTORY: '/c' }, { ...files, '/c/api-token': '' }).problems,
    [/it is empty/],
    'an empty one is',
  );
  const direct = parse({ ...base, FIELDPOST_RELAY_PASSWORD: 'direct' });
  t.equal(direct.config?.relayPassword, 'direct');
  t.match(direct.warnings, [
    /FIELDPOST_RELAY_PASSWORD stands in the environment.*FIELDPOST_RELAY_PASSWORD_FILE/,
  ]);
  t.notMatch(direct.warnings.join(), /direct/);
  t.match(
    parse({ ...base, FIELDPOST_RELAY_PASSWORD_FILE: '/f' }, files).problems,
    [/line break/],
    'only one line break is dropped',
  );
});

t.test('secrets and files that cannot be used', async (t) => {
  const other = makeCertificate({ name: 'other' });
  const files = {
    '/empty': '\n',
    '/blank': 'a b',
    '/comment': '# none yet',
    '/text': 'no pem',
    '/ca': PEM,
    '/cert': OWN.cert,
    '/key': OWN.key,
    '/other': other.key,
  };
  const cases: [Environment, RegExp][] = [
    [{ FIELDPOST_API_TOKEN_FILE: '/missing' }, /FIELDPOST_API_TOKEN_FILE: the file \/missing .*ENOENT/],
    [{ FIELDPOST_API_TOKEN_FILE: '/empty' }, /it is empty/],
    [{ FIELDPOST_API_TOKEN_FILE: '/blank' }, /blanks/],
    [{ FIELDPOST_API_TOKEN_FILE: 'hunter2' }, /^FIELDPOST_API_TOKEN_FILE: not a path/],
    [{ FIELDPOST_API_TOKEN: 'hunter2 x' }, /^FIELDPOST_API_TOKEN: .*blanks/],
    [{ FIELDPOST_API_TOKEN: 'hunter2', FIELDPOST_API_TOKEN_FILE: '/blank' }, /keep one of them/],
    [{ FIELDPOST_RELAY_CA_FILE: '/missing' }, /the file \/missing cannot be used: ENOENT/],
    [{ FIELDPOST_RELAY_CA_FILE: '/empty' }, /the file \/empty cannot be used: it is empty/],
    [{ FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/empty' }, /the file \/empty cannot be used: it is empty/],
    [{ FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/comment' }, /the file \/comment cannot be used: it has no key/],
    [
      { FIELDPOST_CLOUD_SERVER_LISTEN: '0.0.0.0:80', FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/missing' },
      /the file \/missing cannot be used: ENOENT/,
    ],
    [
      { FIELDPOST_CLOUD_SERVER_WEBHOOK: 'https://h', FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE: '/empty' },
      /the file \/empty cannot be used: it is empty/,
    ],
    [{ FIELDPOST_RELAY_CA_FILE: '/text' }, /no PEM/],
    [{ CREDENTIALS_DIRECTORY: '', FIELDPOST_CLOUD_CA_FILE: '/text' }, /no PEM/],
    [{ FIELDPOST_CLOUD_CERT_FILE: '/cert' }, /CERT_KEY_FILE: FIELDPOST_CLOUD_CERT_FILE needs it/],
    [{ FIELDPOST_CLOUD_CERT_KEY_FILE: '/key' }, /CERT_FILE: FIELDPOST_CLOUD_CERT_KEY_FILE needs it/],
    [{ FIELDPOST_CLOUD_CERT_FILE: '/cert', FIELDPOST_CLOUD_CERT_KEY_FILE: '/text' }, /no PEM private key/],
    [{ FIELDPOST_CLOUD_CERT_FILE: '/cert', FIELDPOST_CLOUD_CERT_KEY_FILE: '/other' }, /not that of the/],
    [{ FIELDPOST_CLOUD_CERT_FILE: '/ca', FIELDPOST_CLOUD_CERT_KEY_FILE: '/key' }, /cannot be used/],
    [{ FIELDPOST_SMTP_CERT_FILE: '/cert' }, /SMTP_KEY_FILE: FIELDPOST_SMTP_CERT_FILE needs it/],
    [{ FIELDPOST_SMTP_KEY_FILE: '/key' }, /SMTP_CERT_FILE: FIELDPOST_SMTP_KEY_FILE needs it/],
    [{ FIELDPOST_SMTP_CERT_FILE: '/cert', FIELDPOST_SMTP_KEY_FILE: '/other' }, /not that of the/],
    [
      { FIELDPOST_SMTP_LISTEN: '127.0.0.1:25,0.0.0.0:26' },
      /SMTP_LISTEN=.*: 0\.0\.0\.0:26 can .* needs a token/,
    ],
    [{ FIELDPOST_SMTP_LISTEN: 'unix:/x' }, /a unix socket/],
    [{ FIELDPOST_LOCAL_MAIL: 'root' }, /not an email address: root/],
    [{ FIELDPOST_LOCAL_MAIL: 'root=nobody' }, /not an email address: nobody/],
    [{ FIELDPOST_LOCAL_MAIL: 'a b=c@x.example' }, /not the name of a user: a b/],
    [{ FIELDPOST_LOCAL_MAIL: 'root=c@x.example,ROOT=people' }, /ROOT has two readers/],
    [{ FIELDPOST_LOCAL_MAIL: 'c@x.example,d@x.example' }, /all other users have two readers/],
    [{ FIELDPOST_RELAY_CERT_FILE: '/cert' }, /RELAY_KEY_FILE: FIELDPOST_RELAY_CERT_FILE needs it/],
    [{ FIELDPOST_RELAY_CERT_FILE: '/cert', FIELDPOST_RELAY_KEY_FILE: '/other' }, /not that of the/],
    [{ FIELDPOST_FAILURES_TO: 'a@b.example,c@b.example' }, /not an email address/],
    [{ FIELDPOST_RETURN_REPORT: '1h' }, /no address: add one behind a comma, or set FIELDPOST_FAILURES_TO/],
    [{ FIELDPOST_RETURN_REPORT: '30s,a@b.example' }, /less than 1m/],
    [{ FIELDPOST_RETURN_REPORT: '1h,ops' }, /not an email address/],
    [{ FIELDPOST_RETURN_REPORT: '1h,a@b.example,c' }, /more than a length of time and one address/],
    [{ FIELDPOST_LATE_NOTE: 'true' }, /not one of these/],
  ];
  for (const [env, words] of cases) {
    const { problems } = parse(env, files);
    t.match(problems, [words], JSON.stringify(env));
    t.equal(problems.length, 1, 'one cause, one problem');
    t.notMatch(problems.join(), /hunter2/);
  }
});

t.test('all problems at once, each with key, value and what is allowed', async (t) => {
  const { problems } = parse({
    FIELDPOST_RELAI: 'smtp://joe:hunter2@h',
    FIELDPOST_LOG: 'loud',
    FIELDPOST_RETRY_MIN: '5x',
    FIELDPOST_TEAPOT: 'x',
    FIELDPOST_API_TOKN: 'hunter2',
    PATH: '/bin',
  });
  t.strictSame(problems.sort(), [
    'FIELDPOST_API_TOKN: there is no such setting; did you mean FIELDPOST_API_TOKEN?',
    'FIELDPOST_LOG=loud: not one of these (allowed: debug, info, warn, error)',
    'FIELDPOST_RELAI: there is no such setting; did you mean FIELDPOST_RELAY?',
    'FIELDPOST_RETRY_MIN=5x: not a duration (allowed: a duration such as 500ms, 30s, 5m, 24h or 7d, from 1s to 1d)',
    'FIELDPOST_TEAPOT: there is no such setting',
  ]);
});

t.test('rules between settings', async (t) => {
  const cases: [Environment, RegExp][] = [
    [
      { FIELDPOST_BACKOFF_MIN: '10m' },
      /FIELDPOST_BACKOFF_MIN=10m: 10m is more than FIELDPOST_BACKOFF_MAX, which is 5m/,
    ],
    [
      { FIELDPOST_RETRY_MAX: '30s' },
      /FIELDPOST_RETRY_MIN: 1m is more than FIELDPOST_RETRY_MAX, which is 30s/,
    ],
    [{ FIELDPOST_MAX_SPOOL: '24MiB' }, /FIELDPOST_MAX_MESSAGE: 25MiB is more than FIELDPOST_MAX_SPOOL/],
    [
      { FIELDPOST_MAX_SPOOL: '27MiB' },
      /FIELDPOST_MAX_MESSAGE: 25MiB is more .* 27MiB, less 3MiB for the journal/,
    ],
    [
      { FIELDPOST_MAX_SPOOL: '4MiB', FIELDPOST_MAX_MESSAGE: '1MiB', FIELDPOST_MAX_BODY: '5MiB' },
      /FIELDPOST_MAX_BODY/,
    ],
    [{ FIELDPOST_RELAY: 'smtp://u@h' }, /FIELDPOST_RELAY=smtp:\/\/u@h: there is a user but no password/],
    [
      { FIELDPOST_RELAY: 'smtp://h', FIELDPOST_RELAY_USER: 'u' },
      /FIELDPOST_RELAY_USER=u: there is a user but no password/,
    ],
    [{ FIELDPOST_RELAY: 'smtp://h', FIELDPOST_RELAY_PASSWORD: 'x' }, /there is a password but no user/],
    [
      { FIELDPOST_CLOUD: 'https://c', FIELDPOST_CLOUD_KEY: 'x' },
      /FIELDPOST_DEVICE_ID: FIELDPOST_CLOUD needs it/,
    ],
    [
      { FIELDPOST_CLOUD: 'https://c', FIELDPOST_DEVICE_ID: 'x' },
      /FIELDPOST_CLOUD_KEY_FILE: FIELDPOST_CLOUD needs it/,
    ],
  ];
  for (const [env, words] of cases) t.match(parse(env).problems, [words], JSON.stringify(env));
  const chained = parse({
    FIELDPOST_CLOUD: 'https://c',
    FIELDPOST_DEVICE_ID: '..',
    FIELDPOST_CLOUD_KEY_FILE: '/gone',
  });
  t.equal(chained.problems.length, 2, 'what follows from a bad value is no problem of its own');
  t.equal(parse({ FIELDPOST_BACKOFF_MIN: '10m', FIELDPOST_BACKOFF_MAX: 'x' }).problems.length, 1);
  t.strictSame(
    parse({ FIELDPOST_RELAY_PASSWORD_FILE: '/f' }, { '/f': 'x' }).problems,
    [],
    'a password may wait for its relay',
  );
});

t.test('where access tokens come from', async (t) => {
  const url = { FIELDPOST_RELAY_OAUTH_TOKEN_URL: 'https://l.example/t' };
  const id = { FIELDPOST_RELAY_OAUTH_CLIENT_ID: 'app' };
  const secret = { FIELDPOST_RELAY_OAUTH_CLIENT_SECRET_FILE: '/s' };
  const refresh = { FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN_FILE: '/r' };
  const file = { FIELDPOST_RELAY_TOKEN_FILE: '/run/token' };
  const relay = { FIELDPOST_RELAY: 'smtp://u@h' };
  const files = {
    '/s': 's3cr3t-of-app\n',
    '/r': 'the-refresh\n',
    '/c/relay-client-secret': 'from systemd\n',
    '/d/relay-refresh-token': 'x',
  };
  for (const env of [
    { ...url, ...id, ...secret },
    { ...url, ...id, ...refresh },
    {
      ...url,
      ...id,
      ...secret,
      ...refresh,
      FIELDPOST_RELAY_OAUTH_SCOPE: 'https://a/.default offline_access',
    },
    { ...url, ...id, CREDENTIALS_DIRECTORY: '/c' },
    { ...url, ...id, CREDENTIALS_DIRECTORY: '/d' },
    file,
  ])
    t.same(parse({ ...relay, ...env }, files).problems, [], JSON.stringify(env));
  for (const [env, words] of [
    [{ ...url, ...secret }, /^FIELDPOST_RELAY_OAUTH_CLIENT_ID: FIELDPOST_RELAY_OAUTH_TOKEN_URL needs it/],
    [
      { ...url, ...id },
      /^FIELDPOST_RELAY_OAUTH_CLIENT_SECRET_FILE: .*TOKEN_URL needs it, or .*REFRESH_TOKEN_FILE, /,
    ],
    [{ ...file, ...id }, /^FIELDPOST_RELAY_OAUTH_CLIENT_ID=app: it needs FIELDPOST_RELAY_OAUTH_TOKEN_URL/],
    [{ ...file, ...secret }, /^FIELDPOST_RELAY_OAUTH_CLIENT_SECRET_FILE: it needs .*TOKEN_URL/],
    [{ ...file, ...refresh }, /^FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN_FILE: it needs .*TOKEN_URL/],
    [{ ...file, FIELDPOST_RELAY_OAUTH_SCOPE: 'a' }, /^FIELDPOST_RELAY_OAUTH_SCOPE=a: it needs .*TOKEN_URL/],
    [
      { ...file, FIELDPOST_RELAY_OAUTH_CA_FILE: '/ca' },
      /^FIELDPOST_RELAY_OAUTH_CA_FILE=\/ca: it needs .*TOKEN_URL/,
    ],
    [
      { ...url, ...id, ...secret, ...file },
      /^FIELDPOST_RELAY_TOKEN_FILE: it is set together with .*TOKEN_URL/,
    ],
    [
      { ...url, ...id, ...secret, FIELDPOST_RELAY_PASSWORD: 'x' },
      /^FIELDPOST_RELAY_OAUTH_TOKEN_URL=.*: there is a password/,
    ],
    [{ ...file, FIELDPOST_RELAY_PASSWORD: 'x' }, /^FIELDPOST_RELAY_TOKEN_FILE: there is a password/],
    [
      { ...file, FIELDPOST_RELAY: 'smtp://h' },
      /^FIELDPOST_RELAY=smtp:\/\/h: there is an access token but no user/,
    ],
    [{ FIELDPOST_RELAY_TOKEN_FILE: 'eyJ-a-token' }, /^FIELDPOST_RELAY_TOKEN_FILE: not a path with a slash/],
    [
      { ...file, FIELDPOST_RELAY_OAUTH_TOKEN_URL: 'http://l.example' },
      /TOKEN_URL=.*http:\/\/ is not allowed to this host/,
    ],
    [{ ...url, ...id, ...refresh, FIELDPOST_RELAY_OAUTH_SCOPE: 'a"b' }, /SCOPE=a"b: it has a quotation mark/],
  ] as const) {
    const { problems } = parse({ ...relay, ...env }, { ...files, '/ca': PEM });
    t.match(problems, [words], JSON.stringify(env));
    t.equal(problems.length, 1, problems.join('; '));
    t.notMatch(problems.join(), /eyJ|s3cr3t|the-refresh/);
  }
  const direct = parse({ ...relay, ...url, ...id, FIELDPOST_RELAY_OAUTH_CLIENT_SECRET: 'shh-secret' });
  t.match(direct.warnings, [
    /^FIELDPOST_RELAY_OAUTH_CLIENT_SECRET stands in the environment, .*_SECRET_FILE/,
  ]);
  const clear = parse({ ...file, FIELDPOST_RELAY: 'smtp://u@h?tls=never' });
  t.match(clear.warnings, [/\?tls=never sends the access token to h in clear text/]);
  const shown = DEV_SETTINGS.describe(good({ ...relay, ...url, ...id, ...secret, ...refresh }, files), 'h');
  t.match(shown, {
    FIELDPOST_RELAY_OAUTH_TOKEN_URL: 'https://l.example/t',
    FIELDPOST_RELAY_OAUTH_CLIENT_ID: 'app',
    FIELDPOST_RELAY_OAUTH_CLIENT_SECRET: '(hidden)',
    FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN: '(hidden)',
    FIELDPOST_RELAY_TOKEN_FILE: '',
  });
  t.notMatch(JSON.stringify(shown), /s3cr3t|the-refresh/);
});

t.test('cloud URLs', async (t) => {
  const cloud = (url: string) =>
    parse({ FIELDPOST_CLOUD: url, FIELDPOST_DEVICE_ID: 'd', FIELDPOST_CLOUD_KEY: 'k' });
  for (const url of ['https://c.example', 'http://127.0.0.1:1', 'http://localhost:1', 'http://[::1]:1/x']) {
    t.equal(cloud(url).config?.cloud?.url, url);
  }
  const bad = ['http://c.example', 'c.example', 'ftp://c', 'https://c/?a', 'https://c/#a', 'https://u@c'];
  for (const url of bad) t.equal(cloud(url).problems.length, 1, url);
});

t.test('the name in EHLO is a domain or an address literal', (t) => {
  for (const name of ['pump-3', 'pump-3.example.com', '[192.0.2.7]', '[IPv6:2001:db8::7]'])
    t.equal(good({ FIELDPOST_HELO_NAME: name }).heloName, name);
  for (const name of ['192.0.2.7', '2001:db8::7'])
    t.match(
      parse({ FIELDPOST_HELO_NAME: name }).problems,
      [/FIELDPOST_HELO_NAME=.*stands in brackets/],
      name,
    );
  const names = ['a b', 'a\r\nQUIT', 'my_gateway', '-a', 'a..b', 'a.', 'gerät'];
  for (const name of [...names, '[300.0.0.1]', '[2001:db8::7]', '[IPv6:x]', '[]'])
    t.match(parse({ FIELDPOST_HELO_NAME: name }).problems, [/neither a host name/], name);
  const shown = (env: Environment, hostname: string) =>
    DEV_SETTINGS.describe(good(env), hostname).FIELDPOST_HELO_NAME;
  t.equal(shown({}, 'pump-3'), 'pump-3');
  t.equal(shown({}, 'my_gateway'), '[127.0.0.1]');
  t.equal(shown({ FIELDPOST_HELO_NAME: 'a.example' }, 'pump-3'), 'a.example');
  t.end();
});

t.test('settings that work but are unwise, or were guessed, warn', async (t) => {
  const clear = (FIELDPOST_RELAY: string) =>
    parse({ FIELDPOST_RELAY, FIELDPOST_RELAY_PASSWORD_FILE: '/f' }, { '/f': 'x' }).warnings;
  t.match(clear('smtp://u@h?tls=never'), [/sends the password to h in clear text/]);
  t.strictSame(clear('smtp://u@[::1]?tls=never'), []);
  const named = parse({}, {}, 'my_gateway');
  t.match(named.warnings, [/my_gateway.*FIELDPOST_FROM/]);
  t.strictSame(parse({ FIELDPOST_FROM: 'a@b' }, {}, 'my_gateway').warnings, []);
});

t.test('the state directory is that of systemd, if it gives one', async (t) => {
  t.equal(good({ STATE_DIRECTORY: '/var/lib/fieldpost:/var/lib/x' }).stateDir, '/var/lib/fieldpost');
  t.equal(good({ STATE_DIRECTORY: '/var/lib/fieldpost', FIELDPOST_STATE_DIR: '/s' }).stateDir, '/s');
});

t.test('the keys of the reference cloud', async (t) => {
  const FIELDPOST_CLOUD_SERVER_KEYS_FILE = '/etc/keys';
  const files = { '/etc/keys': '# ours\n\npump-3  first \npump-3 second\r\n* boss\n*:read eye\n' };
  const { cloudServerKeys } = good({ FIELDPOST_CLOUD_SERVER_KEYS_FILE }, files);
  t.strictSame(Object.fromEntries(cloudServerKeys ?? []), {
    ...{ 'pump-3': ['first', 'second'] },
    ...{ '*': ['boss'], '*:read': ['eye'] },
  });
  const bad = (text: string) => parse({ FIELDPOST_CLOUD_SERVER_KEYS_FILE }, { '/etc/keys': text }).problems;
  t.match(bad('pump-3 first\npump-4\n'), [/line 2 is not a device and its key/]);
  t.match(bad('*:write key'), [/line 1: a device has up to 128 letters/]);
  t.match(bad('pump-3 two words'), [/line 1/]);
  t.match(bad('# ours\n/etc/passwd key'), [/line 2: a device has up to 128 letters/]);
  t.match(bad('pump-3 sch\u00fcssel'), [/line 1: the key .*visible ASCII/]);
  t.notMatch(bad('pump-3 sch\u00fcssel'), /sch/, 'the key is not told');
  t.match(parse({ FIELDPOST_CLOUD_SERVER_LISTEN: '0.0.0.0:80' }).problems, [
    /0\.0\.0\.0:80 can be reached from other machines: that needs FIELDPOST_CLOUD_SERVER_KEYS_FILE/,
  ]);
  good({ FIELDPOST_CLOUD_SERVER_LISTEN: '0.0.0.0:80', FIELDPOST_CLOUD_SERVER_KEYS_FILE }, files);
});

t.test('the credentials for a webhook', async (t) => {
  const FIELDPOST_CLOUD_SERVER_WEBHOOK = 'https://hooks.example.com/';
  const FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE = '/etc/auth';
  const problems = (text: string) =>
    parse({ FIELDPOST_CLOUD_SERVER_WEBHOOK, FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE }, { '/etc/auth': text })
      .problems;
  t.match(problems('s3cret'), [/does not hold a scheme and its credentials/]);
  t.notMatch(problems('s3cret'), /s3cret/);
  t.match(problems('Bearer a\r\nX: y'), [/does not hold/]);
  const files = { '/etc/auth': 'Bearer abc' };
  t.match(parse({ FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE }, files).problems, [
    /it needs FIELDPOST_CLOUD_SERVER_WEBHOOK/,
  ]);
  t.match(parse({ FIELDPOST_CLOUD_SERVER_HOOK_AUTH_FILE: '/etc/auth' }, files).problems, [
    /it needs FIELDPOST_CLOUD_SERVER_HOOK/,
  ]);
  const hook = { FIELDPOST_CLOUD_SERVER_HOOK: 'https://tool.example/secret' };
  const config = good({ ...hook, FIELDPOST_CLOUD_SERVER_HOOK_AUTH_FILE: '/etc/auth' }, files);
  t.match(config, { cloudServerHook: 'https://tool.example/secret', cloudServerHookAuth: 'Bearer abc' });
  t.notMatch(DEV_SETTINGS.describe(config, 'gateway-7'), /secret|abc/);
});

t.test('a webhook, a time zone', async (t) => {
  const env = {
    FIELDPOST_CLOUD_SERVER_WEBHOOK: 'https://hooks.example.com/secret?key=1',
    FIELDPOST_CLOUD_SERVER_TIME_ZONE: 'europe/amsterdam',
  };
  const config = good(env);
  t.equal(config.cloudServerWebhook, env.FIELDPOST_CLOUD_SERVER_WEBHOOK);
  t.equal(config.cloudServerTimeZone, 'Europe/Amsterdam');
  t.equal(
    DEV_SETTINGS.describe(config, 'gateway-7').FIELDPOST_CLOUD_SERVER_WEBHOOK,
    'https://hooks.example.com/(hidden)',
  );
  t.match(
    parse({
      FIELDPOST_CLOUD_SERVER_WEBHOOK: 'http://hooks.example.com/',
      FIELDPOST_CLOUD_SERVER_TIME_ZONE: 'Mars/Olympus',
    }).problems,
    [/http:\/\/ is not allowed/, /Mars\/Olympus: not a time zone/],
  );
});

t.test('the page that mails link to', async (t) => {
  const problems = (FIELDPOST_CLOUD_SERVER_PUBLIC_URL: string) =>
    parse({ FIELDPOST_CLOUD_SERVER_PUBLIC_URL }).problems;
  t.match(problems('cloud.example'), [/not a URL/]);
  t.match(problems('javascript:alert(1)'), [/neither https:\/\/ nor http:\/\//]);
  t.match(problems('https://jan:geheim@cloud.example/'), [/a user or password does not belong here/]);
  t.match(problems(`https://cloud.example/${'x'.repeat(500)}`), [/longer than 500 characters/]);
});

t.test('the description can be read back, and hides secrets', async (t) => {
  const env = {
    FIELDPOST_FROM: 'a@b.example',
    FIELDPOST_HELO_NAME: 'b.example',
    FIELDPOST_RELAY: 'smtp://joe%40x@h,smtps://[::1]:1,smtp://k?tls=never',
    FIELDPOST_RELAY_PASSWORD: 'hunter2',
    FIELDPOST_RETRY_MIN: '90s',
    FIELDPOST_MAX_BODY: '1536KiB',
    FIELDPOST_LISTEN: 'unix:/a,[::1]:1',
  };
  const described = DEV_SETTINGS.describe(good(env), 'gateway-7');
  t.match(described, {
    FIELDPOST_RELAY: 'smtp://joe%40x@h:587,smtps://[::1]:1,smtp://k:25?tls=never',
    FIELDPOST_RELAY_PASSWORD: '(hidden)',
    FIELDPOST_API_TOKEN: '',
    FIELDPOST_RETRY_MIN: '90s',
    FIELDPOST_MAX_BODY: '1536KiB',
    FIELDPOST_LISTEN: 'unix:/a,[::1]:1',
    FIELDPOST_SMTP_TIMEOUT: '1m',
    FIELDPOST_KEEP_FAILED: '7d',
  });
  t.notMatch(JSON.stringify(described), /hunter2/);
  const again = Object.entries(described).filter(([, value]) => !value.startsWith('('));
  const { relayUrls: _, ...config } = good({
    ...Object.fromEntries(again),
    FIELDPOST_RELAY_PASSWORD: 'hunter2',
  });
  const { relayUrls: __, ...wanted } = good(env);
  t.strictSame(config, wanted);
});

t.test('env files are read as systemd reads them', async (t) => {
  const cases: [text: string, values: Record<string, string>][] = [
    ['A=1\nB=2', { A: '1', B: '2' }],
    ['# A=1\n  ; B=2\n\nC=3\n', { C: '3' }],
    ['# comment ends here \\\nA=1', { A: '1' }],
    ['  A  =  b c  \n', { A: 'b c' }],
    ['A=a#b;c # d', { A: 'a#b;c # d' }],
    ['A=', { A: '' }],
    ['A=\nB=1', { A: '', B: '1' }],
    ['A=a\\\nb\nB=1', { A: 'ab', B: '1' }],
    ['A=a \\\n  b', { A: 'a   b' }],
    ['A=a\\ \\\\b\\n', { A: 'a \\bn' }],
    ['A="b c " ', { A: 'b c ' }],
    ["A='b\\n\"c' ", { A: 'b\\n"c' }],
    ['A="\\"\\\\\\`\\$\\n"', { A: '"\\`$\\n' }],
    ['A="b\nc"\nB=1', { A: 'b\nc', B: '1' }],
    ['A="b\\\nc"', { A: 'bc' }],
    ['A="b" \'c\' d', { A: 'bcd' }],
    ['A=b"c"', { A: 'b"c"' }],
    ['A=1\r\nB=2\r\n', { A: '1', B: '2' }],
    ['A=1\nA=2', { A: '2' }],
    ['\uFEFFA=1', { A: '1' }],
    ['A=a\\  \nB="a "  ', { A: 'a ', B: 'a ' }],
    ['A=\\a"b"', { A: 'a"b"' }],
    ['A=x=y', { A: 'x=y' }],
    ['A=tail\\', { A: 'tail' }],
  ];
  for (const [text, values] of cases) {
    const { lines, ...read } = parseEnvFile(text);
    t.strictSame(read, { values, problems: [] }, JSON.stringify(text));
    t.strictSame([...lines.keys()].sort(), Object.keys(values).sort());
  }
});

t.test('an env file is refused with the number of a line that systemd would ignore', async (t) => {
  const text = 'A=1\nB="x\ny"\nhunter2\nexport C=1\n1D=2\nE=\\\n\\\n3\n=4\nF="open\nG=1\n';
  const { values, lines, problems } = parseEnvFile(text);
  t.strictSame(
    [...lines],
    [
      ['A', 1],
      ['B', 2],
      ['E', 7],
      ['F', 11],
    ],
  );
  t.match(values, { A: '1', B: 'x\ny', E: '3' });
  t.strictSame(
    problems.map((p) => p.line),
    [4, 5, 6, 10, 11],
  );
  t.match(problems[1]?.detail, /without the word export/);
  t.match(problems[4]?.detail, /quote.*F.*never closed/);
  t.notMatch(JSON.stringify(problems), /hunter2/);
});

t.test(
  'a reload names the settings that changed: those that hold at once, and those that wait',
  async (t) => {
    const base = { FIELDPOST_RELAY: 'smtp://u@relay.example', FIELDPOST_RELAY_PASSWORD: 'one' };
    const cloud = {
      FIELDPOST_CLOUD: 'https://c.example',
      FIELDPOST_DEVICE_ID: 'a',
      FIELDPOST_CLOUD_KEY: 'k',
    };
    const files = { '/keys': 'pump-3 one', '/others': 'pump-3 two', '/same': '# a comment\npump-3 one' };
    const keys = (FIELDPOST_CLOUD_SERVER_KEYS_FILE: string) => ({ FIELDPOST_CLOUD_SERVER_KEYS_FILE });
    const cases: [before: Environment, after: Environment, taken: string[], waiting: string[]][] = [
      [{}, {}, [], []],
      [
        {},
        { FIELDPOST_RELAY_PASSWORD: 'two', FIELDPOST_MAX_AGE_SMS: '2h', FIELDPOST_LISTEN: '127.0.0.1:1' },
        ['FIELDPOST_RELAY_PASSWORD', 'FIELDPOST_MAX_AGE_SMS'],
        ['FIELDPOST_LISTEN'],
      ],
      [cloud, { ...cloud, FIELDPOST_DEVICE_ID: 'b' }, [], ['FIELDPOST_DEVICE_ID']],
      [cloud, { ...cloud, FIELDPOST_CLOUD_KEY: 'l' }, [], ['FIELDPOST_CLOUD_KEY']],
      [{}, { FIELDPOST_CLOUD_SERVER_DELAY: '2m' }, [], ['FIELDPOST_CLOUD_SERVER_DELAY']],
      [keys('/keys'), keys('/others'), ['FIELDPOST_CLOUD_SERVER_KEYS_FILE'], []],
      [keys('/keys'), keys('/same'), [], []],
      [{}, { FIELDPOST_SMTP_LISTEN: '127.0.0.1:25' }, [], ['FIELDPOST_SMTP_LISTEN']],
      [{}, { FIELDPOST_LOCAL_MAIL: 'a@b.example' }, ['FIELDPOST_LOCAL_MAIL'], []],
    ];
    for (const [one, other, taken, waiting] of cases) {
      const [before, after] = [good({ ...base, ...one }, files), good({ ...base, ...other }, files)];
      t.match(DEV_SETTINGS.changes(before, after), { taken, waiting }, JSON.stringify(other));
    }
    const { values } = DEV_SETTINGS.changes(good(base), good({ ...base, FIELDPOST_MAX_AGE_SMS: '2h' }));
    t.equal(values.maxAgeMs?.[2], 7_200_000);
  },
);

t.test('a token for sending only needs a full token, and differs from it', async (t) => {
  const both = { FIELDPOST_API_TOKEN: 'a', FIELDPOST_SEND_TOKEN: 'b' };
  t.equal(good(both).sendToken, 'b');
  t.equal(
    good({ FIELDPOST_API_TOKEN: 'a', FIELDPOST_SEND_TOKEN_FILE: '/k' }, { '/k': 'c\n' }).sendToken,
    'c',
    'from a file',
  );
  t.match(parse({ FIELDPOST_SEND_TOKEN: 'b' }).problems, [
    /SEND_TOKEN_FILE: it needs FIELDPOST_API_TOKEN_FILE/,
  ]);
  t.match(parse({ ...both, FIELDPOST_SEND_TOKEN: 'a' }).problems, [/SEND_TOKEN_FILE: it is the same token/]);
});

t.test('a unix socket for sending only', async (t) => {
  const { listen } = good({ FIELDPOST_LISTEN: 'unix:/a, unix-send:/b' });
  t.strictSame(listen, [
    { kind: 'unix', path: '/a' },
    { kind: 'unix', path: '/b', sendOnly: true },
  ]);
  t.equal(
    DEV_SETTINGS.describe(good({ FIELDPOST_LISTEN: 'unix-send:/b' }), 'gateway-7').FIELDPOST_LISTEN,
    'unix-send:/b',
  );
});
