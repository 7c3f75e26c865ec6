/** Where the reference cloud's etcd is, and who the instance is there. */
import t from 'tap';
import { formatProblem } from '../../src/base/config/settings.js';
import type { Environment } from '../../src/base/config/types.js';
import { DEV_SETTINGS } from '../../src/dev/settings.js';
import { makeCertificate } from '../support/certificate.js';

const [OWN, OTHER] = [makeCertificate({ name: 'a' }), makeCertificate({ name: 'b' })];
const FILES: Record<string, string> = {
  '/cert': OWN.cert,
  '/key': OWN.key,
  '/other': OTHER.key,
  '/password': 'hunter2\n',
};
const KEY = 'FIELDPOST_CLOUD_SERVER_STORE';

/** Settings below FIELDPOST_CLOUD_SERVER_STORE. */
function parse(some: Record<string, string>) {
  const env: Environment = Object.fromEntries(
    Object.entries(some).map(([name, value]) => [`${KEY}${name === '' ? '' : `_${name}`}`, value]),
  );
  const parsed = DEV_SETTINGS.parse(env, (path) => FILES[path] ?? '', { hostname: 'a' });
  if ('problems' in parsed) return { problems: parsed.problems.map(formatProblem) };
  return { config: parsed.config, shown: DEV_SETTINGS.describe(parsed.config, 'a'), problems: [] };
}

t.test('the members of an etcd', async (t) => {
  for (const [text, endpoints] of [
    ['etcd:https://a:2379', ['https://a:2379']],
    ['etcd:https://a:2379, https://b:2379 ,https://c', ['https://a:2379', 'https://b:2379', 'https://c']],
    ['etcd:https://A.Example:443/', ['https://a.example']],
    ['etcd:https://[2001:db8::1]:2379', ['https://[2001:db8::1]:2379']],
    ['etcd:http://127.0.0.1:2379', ['http://127.0.0.1:2379']],
    ['etcd:http://[::1]:2379', ['http://[::1]:2379']],
    ['etcd:http://localhost:2379', ['http://localhost:2379']],
  ] as const) {
    const { config, shown, problems } = parse({ '': text });
    t.strictSame(problems, [], text);
    t.strictSame(config?.cloudServerStore, endpoints, text);
    t.equal(shown?.[KEY], `etcd:${endpoints.join(',')}`, 'as it is shown');
  }
});

t.test('what is no etcd is refused in words', async (t) => {
  for (const [text, words] of [
    ['https://a:2379', /it does not begin with etcd:/],
    ['etcd:', /it does not begin with etcd:/],
    ['consul:https://a', /it does not begin with etcd:/],
    ['etcd:a:2379', /a: ?\/\/ is not allowed|a:\/\/ is not allowed to this host/],
    ['etcd:a', /not a URL/],
    ['etcd:https://a,,https://b', /there is an empty entry in the list/],
    ['etcd:https://a,', /there is an empty entry in the list/],
    ['etcd:http://a:2379', /http:\/\/ is not allowed to this host/],
    ['etcd:https://u:p@a:2379', /a user or password does not belong here/],
    ['etcd:https://a:2379/v3', /a URL of a member has no path/],
    ['etcd:https://a:2379?x=1', /a URL of a member has no path/],
    ['etcd:https://a:2379#x', /it has a fragment/],
  ] as const) {
    const { problems } = parse({ '': text });
    t.equal(problems.length, 1, text);
    t.match(problems[0], words, text);
    t.match(problems[0], new RegExp(KEY), 'names its setting');
    t.notMatch(problems[0], /u:p@/, 'a password is not shown');
  }
});

t.test('the prefix is visible ASCII', async (t) => {
  t.equal(parse({}).config?.cloudServerStorePrefix, 'fieldpost/');
  t.equal(parse({ PREFIX: '/site-1/' }).config?.cloudServerStorePrefix, '/site-1/');
  for (const bad of ['a b', 'ä', 'x'.repeat(101)])
    t.match(parse({ PREFIX: bad }).problems, [/it has blanks or other characters, or it is too long/], bad);
});

t.test('a user needs a password, a certificate its key, and the reverse', async (t) => {
  const AT = { '': 'etcd:https://a:2379' };
  t.strictSame(parse({ ...AT, USER: 'u', PASSWORD_FILE: '/password' }).problems, []);
  t.match(parse({ ...AT, USER: 'u' }).problems, [
    /PASSWORD_FILE: FIELDPOST_CLOUD_SERVER_STORE_USER needs it/,
  ]);
  t.match(parse({ ...AT, PASSWORD_FILE: '/password' }).problems, [
    /STORE_USER: FIELDPOST_CLOUD_SERVER_STORE_PASSWORD\w* needs it/,
  ]);
  t.strictSame(parse({ ...AT, CERT_FILE: '/cert', KEY_FILE: '/key' }).problems, []);
  t.match(parse({ ...AT, CERT_FILE: '/cert' }).problems, [
    /STORE_KEY_FILE: FIELDPOST_CLOUD_SERVER_STORE_CERT_FILE needs it: the file with the certificate's private key/,
  ]);
  t.match(parse({ ...AT, KEY_FILE: '/key' }).problems, [
    /STORE_CERT_FILE: FIELDPOST_CLOUD_SERVER_STORE_KEY_FILE needs it/,
  ]);
  t.match(parse({ ...AT, CERT_FILE: '/cert', KEY_FILE: '/other' }).problems, [
    /is not that of the certificate/,
  ]);
});

t.test('a certificate or a user for etcd needs an etcd: else the state would go to files', async (t) => {
  for (const some of [
    { CA_FILE: '/cert' },
    { CERT_FILE: '/cert', KEY_FILE: '/key' },
    { USER: 'u', PASSWORD_FILE: '/password' },
  ])
    t.match(parse(some).problems, [
      /^FIELDPOST_CLOUD_SERVER_STORE: FIELDPOST_CLOUD_SERVER_STORE_\w+ needs it$/,
    ]);
  t.strictSame(parse({ PREFIX: 'a/' }).problems, [], 'a prefix means no harm');
});
