/** Sessions with access tokens: one more try after a refusal, trouble of the relay, and reloads. */
import t from 'tap';
import { RelayTokens } from '../../../src/delivery/oauth/relay-tokens.js';
import { TokenError, type TokenSettings } from '../../../src/delivery/oauth/token-source.js';
import type { Ending } from '../../../src/delivery/smtp/reply.js';
import { type Session, SessionError } from '../../../src/delivery/smtp/session.js';

const RELAY = { host: 'h', port: 587, tls: 'starttls', user: 'u' } as const;
const SETTINGS: TokenSettings = {
  relayTokenUrl: 'https://l.test/token',
  relayClientId: 'app',
  relayClientSecret: 's',
  relayScope: null,
  relayRefreshToken: null,
  relayTokenCa: null,
  relayCa: null,
  relayTokenFile: null,
};
const refusal = (code: number, phase: Ending['phase'] = 'token'): Ending => ({
  phase,
  reply: { code, enhanced: null, text: `${code} no` },
});

/** Gives the tokens in order; opening a session ends as `endings` say, or well. */
function bench(tokens: (string | TokenError)[], endings: (Ending | null)[] = [], config = { ...SETTINGS }) {
  const opened: string[] = [];
  const used: (string | null)[] = [];
  const refused: string[] = [];
  let closed = 0;
  const made = new RelayTokens(config, async ({ relayTokenUrl }) => {
    opened.push(String(relayTokenUrl));
    return {
      async token() {
        const [token = 'none'] = tokens;
        if (tokens.length > 1) tokens.shift();
        if (typeof token !== 'string') throw token;
        return token;
      },
      refused: (token) => void refused.push(token),
      async close() {
        closed++;
      },
    };
  });
  const session = (relay: Parameters<RelayTokens['session']>[0] = RELAY) =>
    made.session(relay, async (token) => {
      used.push(token);
      const ending = endings.shift() ?? null;
      if (ending !== null) throw new SessionError(ending);
      return {} as Session;
    });
  return { made, session, config, opened, used, refused, closed: () => closed };
}

/** How the attempt ended, which must have failed. */
const failure = (attempt: Promise<unknown>): Promise<unknown> =>
  attempt.then(
    () => 'opened',
    (error) => (error instanceof SessionError ? error.ending : error),
  );

t.test('without a source or a user no token is asked for', async (t) => {
  const none = bench([], [], { ...SETTINGS, relayTokenUrl: null });
  await none.session();
  const noUser = bench(['a']);
  await noUser.session({ ...RELAY, user: null });
  for (const { used, opened } of [none, noUser]) {
    t.same(used, [null]);
    t.same(opened, []);
  }
});

t.test('a refused token is replaced once', async (t) => {
  const { session, used, refused } = bench(['a', 'b', 'c'], [refusal(535)]);
  await session();
  t.same(used, ['a', 'b']);
  t.same(refused, ['a']);
  const always = bench(['a', 'b', 'c', 'd'], [refusal(535), refusal(535), refusal(535)]);
  t.same(await failure(always.session()), refusal(535));
  t.same(always.used, ['a', 'b'], 'never a loop');
  t.same(always.refused, ['a'], 'the next attempt begins with the newer one');
  const same = bench(['a'], [refusal(535)]);
  t.same(await failure(same.session()), refusal(535));
  t.same(same.used, ['a'], 'the same token would be refused again');
});

t.test('another refusal says nothing about the token', async (t) => {
  for (const ending of [refusal(454), refusal(535, 'mail'), refusal(421), refusal(504)]) {
    const { session, used, refused } = bench(['a', 'b'], [ending]);
    t.same(await failure(session()), ending);
    t.same([used, refused], [['a'], []]);
  }
});

t.test('trouble with the token is trouble before the session', async (t) => {
  const words = 'the token endpoint says invalid_client';
  const ending = { phase: 'token', trouble: { kind: 'no-token', words } };
  const first = bench([new TokenError(words)]);
  t.same(await failure(first.session()), ending);
  t.same(first.used, [], 'the relay is not called for nothing');
  const second = bench(['a', new TokenError(words)], [refusal(535)]);
  t.same(await failure(second.session()), ending);
});

t.test('a reload opens a new source only for new settings', async (t) => {
  const { made, session, config, opened, closed } = bench(['a']);
  await session();
  await session();
  await made.reload();
  await session();
  t.equal(opened.length, 1);
  Object.assign(config, { relayTokenUrl: 'https://m.test/token' });
  await session();
  t.equal(opened.length, 1, 'not before the reload');
  await made.reload();
  t.equal(closed(), 1);
  await session();
  t.same(opened, ['https://l.test/token', 'https://m.test/token']);
  await made.close();
  await made.close();
  t.equal(closed(), 2);
});
