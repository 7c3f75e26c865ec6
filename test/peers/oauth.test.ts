/**
 * Access tokens through Debian's Postfix with Dovecot's SASL: XOAUTH2 and OAUTHBEARER, refusals, rotation, and a token
 * endpoint with faults. The log of Postfix is the evidence.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { t } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import {
  CLIENT_ID,
  CLIENT_SECRET,
  refusal,
  type TokenEndpoint,
  tokenEndpoint,
} from '../support/token-endpoint.js';
import { DOVECOT, startDovecot } from './dovecot.js';
import { type Posted, sharedDirectory, skipWithout, startFieldpost } from './peers.js';
import { POSTFIX_PROGRAMS, startPostfix, USER } from './postfix.js';

const MAIL: Posted = { destination: 'john@post.example', subject: 'x', plain: 'x\n' };
/** Of the size of Microsoft's, and longer than Postfix takes in a command. */
const LONG = `eyJ${'0123456789abcdef'.repeat(180)}`;
const SECRETS = /the-secret-of|access-\d|refresh-\d|eyJ0123|YWNjZXNzL|ZXlKMDEyM/;

/** The settings that name this endpoint. */
const settingsOf = ({ url }: TokenEndpoint) => ({
  FIELDPOST_RELAY_OAUTH_TOKEN_URL: url,
  FIELDPOST_RELAY_OAUTH_CLIENT_ID: CLIENT_ID,
  FIELDPOST_RELAY_OAUTH_CLIENT_SECRET: CLIENT_SECRET,
});

/** Returns once nobody is connected to this relay any more; it is on this machine. */
async function idleSessionEnds(relay: string | undefined): Promise<void> {
  const port = Number(new URL(relay ?? '').port)
    .toString(16)
    .toUpperCase()
    .padStart(4, '0');
  // The columns are number, local address, remote address, state; 01 is ESTABLISHED.
  const connected = new RegExp(`^ *\\d+: \\S+ [0-9A-F]+:${port} 01 `, 'm');
  const isConnected = () =>
    ['/proc/net/tcp', '/proc/net/tcp6'].some((path) => connected.test(readFileSync(path, 'latin1')));
  while (isConnected()) await pause(50);
}

t.test('Postfix with Dovecot', { skip: skipWithout(...POSTFIX_PROGRAMS, DOVECOT) }, async (t) => {
  /** The tokens that Dovecot takes. */
  const good = new Set<string>([LONG]);
  const dovecot = await startDovecot(t, USER, (token) => good.has(token));
  const postfix = await startPostfix(t, { dovecotPort: dovecot.port });
  /** Dovecot takes each token that the endpoint gives from now on. */
  const admitAll = (endpoint: TokenEndpoint) => {
    endpoint.answer = () => {
      good.add(`access-${endpoint.given.length + 1}`);
      return undefined;
    };
  };

  for (const { door, method } of [
    { door: 'oauth', method: 'OAUTHBEARER' },
    { door: 'xoauth2', method: 'XOAUTH2' },
  ] as const) {
    t.test(`a mail goes by ${method}`, async (t) => {
      await using endpoint = await tokenEndpoint();
      for (const token of ['access-1', LONG]) {
        good.add(token);
        endpoint.answer = () => ({ body: { access_token: token, token_type: 'Bearer' } });
        const env = {
          ...postfix.settings(door),
          ...settingsOf(endpoint),
          FIELDPOST_STATE_DIR: sharedDirectory(t),
        };
        const fieldpost = await startFieldpost(t, env);
        const [id = ''] = await fieldpost.post(MAIL);
        const line = await fieldpost.said(/ (?:sent id=|failing )/);
        t.match(line, / sent id=/);
        const queueId = /queued as (\w+)/.exec(line)?.[1] ?? '?';
        const login = new RegExp(`${queueId}: client=.*sasl_method=${method}, sasl_username=${USER}`, 'i');
        t.match(await postfix.logged(login), queueId);
        await postfix.mail.mail(id);
        t.equal(dovecot.asked.at(-1), token);
        t.notMatch(fieldpost.lines.join('\n'), SECRETS);
        await fieldpost.stop();
      }
      good.delete('access-1');
    });

    t.test(
      `a token that ends: the session goes on, the next one has another token, by ${method}`,
      async (t) => {
        await using endpoint = await tokenEndpoint();
        admitAll(endpoint);
        const settings = postfix.settings(door);
        const env = {
          ...settings,
          ...settingsOf(endpoint),
          FIELDPOST_STATE_DIR: sharedDirectory(t),
        };
        const fieldpost = await startFieldpost(t, env);
        const sends = async () => {
          const [id = ''] = await fieldpost.post(MAIL);
          t.match(await fieldpost.said(new RegExp(` sent id=${id} |failing`)), ' sent ');
        };
        await sends();
        good.clear();
        const asked = dovecot.asked.length;
        await sends();
        t.equal(dovecot.asked.length, asked, 'over the same session');
        t.equal(endpoint.forms.length, 1);
        await idleSessionEnds(settings.FIELDPOST_RELAY);
        await sends();
        t.equal(endpoint.forms.length, 2, 'the refused token was thrown away, and fetched once more');
        good.clear();
        endpoint.answer = () => undefined;
        await idleSessionEnds(settings.FIELDPOST_RELAY);
        const [id = ''] = await fieldpost.post(MAIL);
        await fieldpost.said(/relay failing/);
        const { relay } = await fieldpost.state();
        t.match(relay.reason, /it answered our access token with "535 5\.7\.8 .*\((?:401|invalid_token)\)"/);
        t.match(await fieldpost.message(id), { status: 'queued', attempts: 0, lastReply: null });
        admitAll(endpoint);
        // Perhaps the next try met the same fault.
        await fieldpost.said(new RegExp(` sent id=${id} `), 0, 30_000);
        t.notMatch(fieldpost.lines.join('\n'), SECRETS);
      },
    );
  }

  t.test('a rotated refresh token survives a kill', async (t) => {
    await using endpoint = await tokenEndpoint({ refreshToken: 'refresh-0', rotates: true });
    admitAll(endpoint);
    const directory = sharedDirectory(t);
    writeFileSync(join(directory, 'refresh'), 'refresh-0\n');
    const env = {
      ...postfix.settings('oauth'),
      ...settingsOf(endpoint),
      FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN_FILE: join(directory, 'refresh'),
      FIELDPOST_STATE_DIR: join(directory, 'state'),
    };
    for (let run = 1; run <= 3; run++) {
      const fieldpost = await startFieldpost(t, env);
      const [id = ''] = await fieldpost.post(MAIL);
      t.match(await fieldpost.said(new RegExp(` sent id=${id} |failing`)), ' sent ');
      await fieldpost.end('SIGKILL');
    }
    t.same(
      endpoint.forms.map((form) => form.refresh_token),
      ['refresh-0', 'refresh-1', 'refresh-2'],
    );
    const fieldpost = await startFieldpost(t, env);
    writeFileSync(join(directory, 'refresh'), 'of-a-person\n');
    endpoint.refreshToken = 'of-a-person';
    const from = fieldpost.lines.length;
    fieldpost.child.kill('SIGHUP');
    await fieldpost.said(/reloaded taken=FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN/, from);
    const [id = ''] = await fieldpost.post(MAIL);
    t.match(await fieldpost.said(new RegExp(` sent id=${id} |failing`), from), ' sent ');
  });

  t.test(
    'each fault of the token endpoint is told in words, and its mails are sent in the end',
    async (t) => {
      const ca = makeCertificate({ name: 'Token CA' });
      const tls = makeCertificate({ name: 'token', hosts: ['127.0.0.1'], issuer: ca });
      await using endpoint = await tokenEndpoint({ tls });
      const directory = t.testdir({ 'ca.pem': ca.cert });
      const env = {
        ...postfix.settings('xoauth2'),
        ...settingsOf(endpoint),
        FIELDPOST_STATE_DIR: join(directory, 'state'),
      };
      const distrustful = await startFieldpost(t, env);
      await distrustful.post(MAIL);
      t.match(await distrustful.said(/relay failing/), /no authority .*see FIELDPOST_RELAY_OAUTH_CA_FILE/);
      t.equal(endpoint.forms.length, 0);
      await distrustful.stop();
      for (const [answer, words] of [
        [
          refusal(401, 'invalid_client', 'no such app'),
          /the token endpoint says invalid_client: no such app/,
        ],
        [{ status: 302, headers: { Location: 'https://elsewhere.example/' } }, /302, a redirect to/],
        [{ status: 503, headers: { 'Retry-After': '1' } }, /the token endpoint failed \(503\)/],
        [{ body: '<html>' }, /no JSON object/],
        ['endless', /larger than 65536 bytes/],
        ['cut', /cut short/],
        ['silence', /no answer within 15 s/],
      ] as const) {
        endpoint.answer = () => answer;
        const fieldpost = await startFieldpost(t, {
          ...env,
          FIELDPOST_RELAY_OAUTH_CA_FILE: join(directory, 'ca.pem'),
          FIELDPOST_STATE_DIR: sharedDirectory(t),
        });
        const [id = ''] = await fieldpost.post(MAIL);
        t.match(await fieldpost.said(/relay failing/, 0, 20_000), words);
        t.match(await fieldpost.message(id), { status: 'queued', attempts: 0, lastReply: null });
        admitAll(endpoint);
        // Perhaps the next try met the same fault.
        await fieldpost.said(new RegExp(` sent id=${id} `), 0, 30_000);
        t.notMatch(fieldpost.lines.join('\n'), SECRETS);
        await fieldpost.stop();
      }
    },
  );
});
