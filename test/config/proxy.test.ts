/** The proxy on the way to the cloud: its URL, and the variables that other programs use, too. */
import t from 'tap';
import { formatProblem } from '../../src/base/config/settings.js';
import type { Environment } from '../../src/base/config/types.js';
import { DEV_SETTINGS } from '../../src/dev/settings.js';

const CLOUD = {
  FIELDPOST_CLOUD: 'https://cloud.field.example/v1',
  FIELDPOST_DEVICE_ID: 'pump-3',
  FIELDPOST_CLOUD_KEY_FILE: '/key',
};

function parse(env: Environment, files: Readonly<Record<string, string>> = {}) {
  const parsed = DEV_SETTINGS.parse(
    { ...CLOUD, ...env },
    (path) => files[path] ?? (path.startsWith('/c/') ? '(not given)' : 'a-long-random-key'),
    { hostname: 'gateway-7' },
  );
  if ('problems' in parsed) return { problems: parsed.problems.map(formatProblem) };
  const { config, warnings } = parsed;
  const shown = DEV_SETTINGS.describe(config, 'gateway-7').FIELDPOST_CLOUD_PROXY;
  return { proxy: config.cloudProxy, warnings, shown, problems: [] };
}

const proxyOf = (env: Environment) => parse(env).proxy;

t.test('the URL of a proxy', async (t) => {
  for (const [text, host, port, login, shown] of [
    ['http://proxy.example:3128', 'proxy.example', 3128, null, 'http://proxy.example:3128'],
    ['http://Proxy.example/', 'proxy.example', 80, null, 'http://proxy.example:80'],
    ['http://[2001:db8::1]:8080', '2001:db8::1', 8080, null, 'http://[2001:db8::1]:8080'],
    ['HTTP://u@h', 'h', 80, { user: 'u', password: '' }, 'http://u@h:80'],
    ['http://:p@h', 'h', 80, { user: '', password: 'p' }, 'http://:***@h:80'],
    [
      'http://pump%203:p%3A%40%2F%c3%a4@h:1',
      'h',
      1,
      { user: 'pump 3', password: 'p:@/ä' },
      'http://pump%203:***@h:1',
    ],
  ] as const) {
    const { proxy, warnings, shown: told } = parse({ FIELDPOST_CLOUD_PROXY: text });
    const hint =
      'stands in the environment, where other programs may see it; prefer FIELDPOST_CLOUD_PROXY_FILE';
    const expected = login?.password ? [`FIELDPOST_CLOUD_PROXY ${hint}`] : [];
    t.strictSame([proxy, warnings, told], [{ host, port, login }, expected, shown], text);
    const ofFile = parse({ FIELDPOST_CLOUD_PROXY_FILE: '/etc/proxy' }, { '/etc/proxy': `${text}\n` });
    t.strictSame([ofFile.proxy, ofFile.warnings, ofFile.shown], [{ host, port, login }, [], shown]);
    const ofSystemd = parse({ CREDENTIALS_DIRECTORY: '/c' }, { '/c/cloud-proxy': text });
    t.strictSame([ofSystemd.proxy, ofSystemd.warnings], [{ host, port, login }, []]);
  }
  t.equal(proxyOf({}), null);
  const HTTPS_PROXY = 'http://other:1';
  const absent = { CREDENTIALS_DIRECTORY: '/c', HTTPS_PROXY };
  t.match(parse(absent, { '/c/cloud-proxy': '(not given)' }).proxy, { host: 'other' });
  t.equal(parse({ HTTPS_PROXY, FIELDPOST_CLOUD_PROXY_FILE: '/p' }, { '/p': 'none' }).proxy, 'none');
  const { problems } = parse(
    { HTTPS_PROXY, FIELDPOST_CLOUD_PROXY_FILE: '/p' },
    { '/p': 'http://u:secret@h/x' },
  );
  t.match(problems, [/^FIELDPOST_CLOUD_PROXY_FILE: the file \/p cannot be used: nothing may follow/]);
  t.notMatch(problems.join(), /secret/);
  t.equal(parse({}).shown, '');
});

t.test('a bad URL is a problem, which never shows it', async (t) => {
  for (const [text, why] of [
    [
      'https://u:secret@h:1',
      /a proxy starts with http:\/\/; proxies that speak TLS or SOCKS are not supported/,
    ],
    ['socks5://u:secret@h:1', /not supported/],
    ['u:secret@h:3128', /a proxy starts with http/],
    ['http://u:secret#1@h', /not a URL; in a password write/],
    ['http://u:secret/1@h', /not a URL; in a password write/],
    ['http://u:secret@h/x', /nothing may follow/],
    ['http://u:secret@h?x', /nothing may follow/],
    ['http://u:secret@h:0', /port 0/],
    ['http://u:secret@h_o!st', /host/],
    ['http://u%3Ax:secret@h', /the user has a colon/],
    ['http://u:secret%ff@h', /followed by two hex digits of UTF-8/],
    ['http://u:secret%0d%0aX@h', /control character/],
  ] as const) {
    const { problems } = parse({ FIELDPOST_CLOUD_PROXY: text, HTTPS_PROXY: 'http://other.example' });
    t.equal(problems.length, 1, text);
    t.match(problems[0], why, text);
    t.match(problems[0], /^FIELDPOST_CLOUD_PROXY: /);
    t.notMatch(problems[0], /secret/, text);
  }
});

t.test('the environment counts if the setting is absent', async (t) => {
  const { proxy, shown } = parse({ HTTPS_PROXY: 'http://u:secret@h:3128' });
  t.strictSame(proxy, { host: 'h', port: 3128, login: { user: 'u', password: 'secret' } });
  t.equal(shown, 'http://u:***@h:3128', 'check shows what takes effect');
  t.match(proxyOf({ HTTPS_PROXY: 'http://big', https_proxy: 'http://small' }), { host: 'small' });
  t.match(proxyOf({ HTTPS_PROXY: 'proxy.example:3128' }), { host: 'proxy.example', port: 3128 });
  t.equal(proxyOf({ HTTP_PROXY: 'http://h', ALL_PROXY: 'http://h' }), null);
  t.match(proxyOf({ HTTPS_PROXY: 'http://h', FIELDPOST_CLOUD_PROXY: 'http://mine' }), { host: 'mine' });
  const off = parse({ HTTPS_PROXY: 'http://h', FIELDPOST_CLOUD_PROXY: 'none' });
  t.strictSame([off.proxy, off.shown], ['none', 'none']);
  t.match(proxyOf({ FIELDPOST_CLOUD_PROXY: 'http://mine', NO_PROXY: '*' }), { host: 'mine' });
  for (const env of [{ FIELDPOST_CLOUD: 'http://localhost:43780' }, { FIELDPOST_CLOUD: '' }])
    t.equal(proxyOf({ HTTPS_PROXY: 'http://h', ...env }), null, 'not without a cloud elsewhere');
});

t.test('a proxy of the environment that cannot be used is a warning without the URL', async (t) => {
  for (const text of ['https://u:secret@h', 'socks5h://u:secret@h', 'http://u:secret#@h', 'u:secret/@h']) {
    const { proxy, warnings, problems } = parse({ https_proxy: text });
    t.strictSame([proxy, problems], [null, []], text);
    t.match(warnings, [
      /^https_proxy is not used, so the cloud is called directly: .*FIELDPOST_CLOUD_PROXY$/,
    ]);
    t.notMatch(warnings?.join(), /secret/);
  }
});

t.test('NO_PROXY is read as curl reads it', async (t) => {
  const isExcepted = (NO_PROXY: string, FIELDPOST_CLOUD: string = CLOUD.FIELDPOST_CLOUD) =>
    proxyOf({ HTTPS_PROXY: 'http://h', NO_PROXY, FIELDPOST_CLOUD }) === null;
  for (const list of [
    '*',
    'cloud.field.example',
    'CLOUD.field.example.',
    'field.example',
    '.field.example',
    'a.example, .example',
    'a.example .example',
    'cloud.field.example:443',
    '.example:443',
  ])
    t.ok(isExcepted(list), list);
  for (const list of [
    '',
    ',',
    'example.com',
    'loud.field.example',
    'd.example',
    '*.example',
    '.example:8443',
    'cloud',
  ])
    t.notOk(isExcepted(list), list);
  t.ok(isExcepted('a:8443', 'https://a:8443/v1'));
  t.notOk(isExcepted('a:443', 'https://a:8443/v1'));
  for (const list of ['10.1.2.3', '10.0.0.0/8', '10.1.2.3/32', '10.1.2.3:443'])
    t.ok(isExcepted(list, 'https://10.1.2.3'), list);
  for (const list of ['10.1.2', '2.3', '.3', '11.0.0.0/8', '10.0.0.0/33', '::/0', '10.1.2.3:80', 'x/8'])
    t.notOk(isExcepted(list, 'https://10.1.2.3'), list);
  for (const list of ['2001:db8::1', '[2001:db8::1]', '[2001:db8::1]:443', '2001:db8::/32'])
    t.ok(isExcepted(list, 'https://[2001:db8::1]'), list);
  for (const list of ['2001:db8::2', '[2001:db8::1]:80', '2001:db9::/32', '0.0.0.0/0'])
    t.notOk(isExcepted(list, 'https://[2001:db8::1]'), list);
  t.equal(proxyOf({ HTTPS_PROXY: 'http://h', no_proxy: 'field.example', NO_PROXY: 'x' }), null);
});
