/** Mails by relays that want an access token: the whole daemon, its token endpoint, reloads and restarts. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { Environment } from '../../src/base/config/types.js';
import { systemClock } from '../../src/base/system/clock.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { createDaemon, type Daemon } from '../../src/device/daemon.js';
import { apiAt } from '../support/ask.js';
import { until } from '../support/delivery.js';
import { type FakeRelay, fakeRelay, type Script } from '../support/relay.js';
import { configOf, testSystem } from '../support/system.js';
import {
  CLIENT_ID,
  CLIENT_SECRET,
  refusal,
  type TokenEndpoint,
  tokenEndpoint,
} from '../support/token-endpoint.js';

const USER = 'pump@x.test';
/** Nothing that a person reads may match it. */
const SECRETS = /the-secret-of|access-\d|refresh-\d|YWNjZXNzL|auth=Bearer/;

/** A relay that takes the tokens of this endpoint for which `isGood` holds. */
function relayOf(
  endpoint: TokenEndpoint,
  script: Script = {},
  isGood = (token: string) => endpoint.given.includes(token),
) {
  return fakeRelay(script, { user: USER, mechanisms: 'XOAUTH2 OAUTHBEARER', takes: isGood });
}

function settingsFor(directory: string, relay: FakeRelay, endpoint: TokenEndpoint): Environment {
  return {
    FIELDPOST_STATE_DIR: directory,
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_RELAY_USER: USER,
    FIELDPOST_BACKOFF_MIN: '100ms',
    FIELDPOST_BACKOFF_MAX: '1s',
    FIELDPOST_RELAY_OAUTH_TOKEN_URL: endpoint.url,
    FIELDPOST_RELAY_OAUTH_CLIENT_ID: CLIENT_ID,
    FIELDPOST_RELAY_OAUTH_CLIENT_SECRET: CLIENT_SECRET,
  };
}

function world() {
  return testSystem({ disk: systemDisk(), clock: systemClock() });
}

async function start(settings: Environment, files: Record<string, string> = {}) {
  const { system, lines } = world();
  const config = (env: Environment) => configOf(env, (path) => files[path] ?? '');
  const daemon: Daemon = await createDaemon(config(settings), system);
  const api = apiAt(daemon.addresses.map(addressOf).join());
  return {
    lines,
    stop: () => daemon.stop(),
    reload: (env: Environment) => daemon.reload(config(env)),
    post: async (count = 1): Promise<string[]> => {
      const mails = Array.from({ length: count }, () => ({
        type: 1,
        destination: 'john@example.com',
        subject: 'x',
      }));
      return (await api('messages', mails)).json.map(({ id }: { id: string }) => id);
    },
    message: async (id: string | undefined) => (await api(`messages/${id}`)).json,
    state: async () => (await api('state')).json,
    /** All that people can read. */
    told: async () => {
      const parts = await Promise.all(['state', 'messages', '../../metrics'].map((path) => api(path)));
      for (const { status } of parts) if (status !== 200) throw new Error(`answered ${status}`);
      return `${lines.join('\n')}${parts.map(({ text }) => text).join('\n')}${daemon.status()}`;
    },
  };
}

t.test('one token serves all connections, and secrets are told to nobody', async (t) => {
  await using endpoint = await tokenEndpoint();
  await using relay = await relayOf(endpoint);
  const env = { ...settingsFor(t.testdir(), relay, endpoint), FIELDPOST_RELAY_CONNECTIONS: '4' };
  const made = await start(env);
  await made.post(40);
  await relay.arrived(40);
  t.ok(relay.connections > 1);
  t.equal(endpoint.forms.length, 1);
  t.notMatch(await made.told(), SECRETS);
  // What needs no other token keeps it.
  await made.reload({ ...env, FIELDPOST_FROM: 'other@x.test' });
  await made.post();
  await relay.arrived(41);
  t.equal(relay.mails.at(-1)?.from, 'other@x.test');
  t.equal(endpoint.forms.length, 1);
  await made.reload({ ...env, FIELDPOST_RELAY_OAUTH_SCOPE: 'mail' });
  await made.post();
  await relay.arrived(42);
  t.match(endpoint.forms.slice(1), [{ scope: 'mail' }]);
  await made.stop();
});

t.test('trouble with the token is trouble of the relay, and no mail is charged', async (t) => {
  await using endpoint = await tokenEndpoint();
  await using relay = await relayOf(endpoint);
  endpoint.answer = () => refusal(401, 'invalid_client', `AADSTS7000215: ${CLIENT_SECRET} is wrong`);
  const made = await start(settingsFor(t.testdir(), relay, endpoint));
  const ids = await made.post(3);
  const words = 'the token endpoint says invalid_client: AADSTS7000215: (hidden) is wrong';
  await until(() => endpoint.forms.length >= 3);
  t.match((await made.state()).relay, { state: 'failing', reason: `127.0.0.1:${relay.port}: ${words}` });
  for (const id of ids) t.match(await made.message(id), { status: 'queued', attempts: 0, lastReply: null });
  t.equal(relay.connections, 0, 'the relay is not called for nothing');
  t.ok(made.lines.some((line) => line.includes('relay failing') && line.includes(words)));
  endpoint.answer = () => undefined;
  await relay.arrived(3);
  t.notMatch(await made.told(), SECRETS);
  await made.stop();
});

t.test('a token that the relay refuses is thrown away, and fetched once more', async (t) => {
  await using endpoint = await tokenEndpoint();
  const good = new Set(['access-2', 'access-3']);
  await using relay = await relayOf(endpoint, {}, (token) => good.has(token));
  const made = await start(settingsFor(t.testdir(), relay, endpoint));
  await made.post();
  await relay.arrived(1);
  t.equal(endpoint.forms.length, 2);
  t.equal(relay.connections, 2);
  t.notOk(made.lines.some((line) => line.includes('relay failing')));
  good.clear();
  await until(() => relay.open === 0);
  const [id] = await made.post();
  await until(() => made.lines.some((line) => line.includes('relay failing')));
  t.match(
    (await made.state()).relay.reason,
    /it answered our access token with "535 5\.7\.8 token refused \(invalid_token\)"/,
  );
  t.match(await made.message(id), { status: 'queued', attempts: 0 });
  t.notMatch(await made.told(), SECRETS);
  await made.stop();
});

t.test('a token that ends in the middle of a session', async (t) => {
  await using endpoint = await tokenEndpoint();
  let isOver = false;
  const mail = ({ connection }: { connection: number }) =>
    isOver && connection === 1 ? '530 5.7.0 Authentication required' : undefined;
  await using relay = await relayOf(
    endpoint,
    { mail },
    (token) => token === (isOver ? 'access-2' : 'access-1'),
  );
  const made = await start(settingsFor(t.testdir(), relay, endpoint));
  await made.post();
  await relay.arrived(1);
  isOver = true;
  const [id] = await made.post();
  await relay.arrived(2);
  await until(() => made.lines.some((line) => line.includes(`sent id=${id}`)));
  t.match(await made.message(id), { status: 'sent', attempts: 1 });
  t.equal(endpoint.forms.length, 2);
  t.notOk(made.lines.some((line) => /relay failing|put behind|deferred id/.test(line)));
  await made.stop();
});

t.test('a rotated refresh token survives restarts, until a person gives a newer one', async (t) => {
  await using endpoint = await tokenEndpoint({ refreshToken: 'refresh-0', rotates: true });
  await using relay = await relayOf(endpoint);
  const directory = t.testdir();
  const env = {
    ...settingsFor(directory, relay, endpoint),
    FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN_FILE: '/r',
  };
  for (const run of [1, 2]) {
    const made = await start(env, { '/r': 'refresh-0\n' });
    await made.post();
    await relay.arrived(run);
    t.notMatch(await made.told(), SECRETS);
    await made.stop();
  }
  const path = join(directory, 'relay-token.json');
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.match(readFileSync(path, 'utf8'), /"token":"refresh-2"/);
  endpoint.refreshToken = 'of-a-person';
  const files = { '/r': 'refresh-0\n' };
  const made = await start(env, files);
  await made.post();
  await until(() => made.lines.some((line) => line.includes('the token endpoint says invalid_grant')));
  files['/r'] = 'of-a-person\n';
  await made.reload(env);
  await relay.arrived(3);
  t.same(
    endpoint.forms.map((form) => form.refresh_token).filter((token, n, all) => token !== all[n - 1]),
    ['refresh-0', 'refresh-1', 'refresh-2', 'of-a-person'],
  );
  await made.stop();
});

t.test('a token file is read for each session', async (t) => {
  await using endpoint = await tokenEndpoint();
  const directory = t.testdir({ token: 'access-old\n' });
  await using relay = await relayOf(endpoint, {}, (token) => token === 'access-new');
  const path = join(directory, 'token');
  const made = await start({
    FIELDPOST_STATE_DIR: join(directory, 'state'),
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_RELAY_USER: USER,
    FIELDPOST_RELAY_TOKEN_FILE: path,
    FIELDPOST_BACKOFF_MIN: '100ms',
  });
  await made.post();
  await until(() => made.lines.some((line) => line.includes('relay failing')));
  writeFileSync(path, 'access-new\n');
  await relay.arrived(1);
  t.notMatch(await made.told(), /access-old|access-new/);
  await made.stop();
});
