/** When tokens are fetched, shared, renewed, thrown away; and what becomes of refresh tokens. */
import t from 'tap';
import type { HttpAnswer, HttpRequest } from '../../../src/base/system/https.js';
import { FetchedTokens, TOKEN_RETRY_MS } from '../../../src/mail/delivery/oauth/token-endpoint.js';
import { RefreshToken } from '../../../src/mail/store/refresh-token.js';
import { FakeClock, settled } from '../../support/clock.js';
import { FaultyDisk } from '../../support/faulty-disk.js';
import { keptLog } from '../../support/system.js';

const MINUTE_MS = 60_000;

function answerOf(body: object, status = 200, headers: HttpAnswer['headers'] = {}): HttpAnswer {
  return { status, headers, body: Buffer.from(JSON.stringify(body)) };
}

interface Bench {
  readonly clock: FakeClock;
  readonly disk: FaultyDisk;
  readonly lines: string[];
  /** The bodies of the requests, and their signals. */
  readonly forms: string[];
  readonly signals: AbortSignal[];
  lifeS: number;
  answer(n: number): Promise<HttpAnswer>;
  readonly tokens: FetchedTokens;
  refreshTokens(): (string | null)[];
  warnings(): string[];
}

/** Tokens `t1`, `t2`, … that live for an hour, of an endpoint that a test may script. */
function bench({
  refreshToken = null as string | null,
  disk = new FaultyDisk({ directories: ['/dir'] }),
} = {}) {
  const clock = new FakeClock();
  const { log, lines } = keptLog();
  const made: Bench = {
    clock,
    disk,
    lines,
    forms: [],
    signals: [],
    lifeS: 3600,
    answer: async (n: number): Promise<HttpAnswer> =>
      answerOf({ access_token: `t${n}`, expires_in: made.lifeS }),
    tokens: new FetchedTokens({
      request: {
        url: 'https://l.test/token',
        clientId: 'app',
        clientSecret: 's3cret-of-app',
        scope: null,
        refreshToken,
      },
      refresh: new RefreshToken({ disk, clock, log, directory: '/dir' }),
      send: async ({ body, signal }: HttpRequest): Promise<HttpAnswer> => {
        made.signals.push(signal);
        return await made.answer(made.forms.push(body ?? ''));
      },
      clock,
      random: () => 0,
      log,
    }),
    refreshTokens: () => made.forms.map((form) => new URLSearchParams(form).get('refresh_token')),
    warnings: () => lines.filter((line) => !line.startsWith('<7>') && !/fetched/.test(line)),
  };
  return made;
}

const fails = async (words = 'temporarily_unavailable', headers = {}) =>
  answerOf({ error: words }, 400, headers);

t.test('one fetch serves all sessions, also those that ask meanwhile', async (t) => {
  const made = bench();
  t.same(await Promise.all([1, 2, 3].map(() => made.tokens.token())), ['t1', 't1', 't1']);
  t.equal(await made.tokens.token(), 't1');
  t.equal(made.forms.length, 1);
});

t.test('a token is renewed ahead of its end, by the clock that runs through suspend', async (t) => {
  for (const pass of ['advance', 'suspend'] as const) {
    const made = bench();
    await made.tokens.token();
    made.clock.leap(90 * MINUTE_MS);
    await made.clock[pass](55 * MINUTE_MS - 1);
    t.equal(await made.tokens.token(), 't1', 'five minutes before its end it is good');
    await made.clock[pass](1);
    t.equal(await made.tokens.token(), 't2');
  }
  const short = bench();
  short.lifeS = 60;
  await short.tokens.token();
  await short.clock.advance(47_999);
  t.equal(await short.tokens.token(), 't1', 'a short life is used for four fifths');
  await short.clock.advance(1);
  t.equal(await short.tokens.token(), 't2');
  const none = bench();
  none.lifeS = 0;
  t.equal(await none.tokens.token(), 't1');
  t.equal(await none.tokens.token(), 't2', 'a token without a life is for one session');
});

t.test('if the renewal fails, the old token is used until its end; that is told once', async (t) => {
  const made = bench();
  await made.tokens.token();
  made.answer = () => fails('temporarily_unavailable');
  await made.clock.advance(56 * MINUTE_MS);
  t.equal(await made.tokens.token(), 't1');
  t.equal(made.forms.length, 2);
  t.equal(await made.tokens.token(), 't1');
  t.equal(made.forms.length, 2, 'not for each session');
  await made.clock.advance(TOKEN_RETRY_MS);
  t.equal(await made.tokens.token(), 't1');
  t.equal(made.forms.length, 3);
  t.match(made.warnings(), [
    /access token not renewed reason="the token endpoint says temporarily_unavailable"/,
  ]);
  t.equal(made.warnings().length, 1);
  await made.clock.advance(4 * MINUTE_MS - TOKEN_RETRY_MS);
  await t.rejects(made.tokens.token(), { message: 'the token endpoint says temporarily_unavailable' });
  made.answer = async () => answerOf({ access_token: 'new' });
  t.equal(await made.tokens.token(), 'new');
});

t.test('without a token each session asks anew, but not before the end of a Retry-After', async (t) => {
  const made = bench();
  made.answer = () => fails('invalid_client');
  for (let n = 1; n <= 2; n++) {
    await t.rejects(made.tokens.token(), { message: 'the token endpoint says invalid_client' });
    t.equal(made.forms.length, n);
  }
  made.answer = () => fails('slow_down', { 'retry-after': '120' });
  await t.rejects(made.tokens.token(), { message: 'the token endpoint says slow_down' });
  await made.clock.advance(120_000 - 1);
  await t.rejects(made.tokens.token(), { message: 'the token endpoint says slow_down' });
  t.equal(made.forms.length, 3);
  made.answer = async () => answerOf({ access_token: 'x' });
  await made.clock.advance(1);
  t.equal(await made.tokens.token(), 'x');
  t.notMatch(made.lines.join(), /s3cret/);
});

t.test('a refused token is not given again; one that was replaced meanwhile stays', async (t) => {
  const made = bench();
  t.equal(await made.tokens.token(), 't1');
  made.tokens.refused('t1');
  t.equal(await made.tokens.token(), 't2');
  made.tokens.refused('t1');
  t.equal(await made.tokens.token(), 't2', 'another session has done it');
  made.answer = () => fails();
  made.tokens.refused('t2');
  await t.rejects(made.tokens.token(), { name: 'TokenError' }, 'also if there is no other');
});

t.test('a rotated refresh token is on the disk before the access token is used', async (t) => {
  const made = bench({ refreshToken: 'given' });
  made.answer = async (n) => answerOf({ access_token: `t${n}`, refresh_token: `r${n}` });
  let syncs = 0;
  made.disk.onOperation = (_, { kind }) => {
    if (kind === 'syncDirectory') syncs++;
    return 'ok';
  };
  t.equal(await made.tokens.token(), 't1');
  t.equal(syncs, 1);
  made.tokens.refused('t1');
  await made.tokens.token();
  t.same(made.refreshTokens(), ['given', 'r1']);
  const next = bench({ refreshToken: 'given', disk: made.disk.afterPowerCut('nothing') });
  await next.tokens.token();
  t.same(next.refreshTokens(), ['r2']);
});

t.test(
  'on a full disk the new refresh token is used all the same; the same one is not written again',
  async (t) => {
    const made = bench({ refreshToken: 'given' });
    made.answer = async () => answerOf({ access_token: 'x', refresh_token: 'r', expires_in: 0 });
    made.disk.onOperation = () => 'error:ENOSPC';
    t.equal(await made.tokens.token(), 'x');
    t.match(made.warnings(), [/refresh token not kept .*the disk is full/]);
    made.disk.onOperation = () => 'ok';
    await made.clock.advance(30_000);
    const { operations } = made.disk;
    await made.tokens.token();
    t.same(made.refreshTokens(), ['given', 'r']);
    t.equal(made.disk.operations, operations, 'idle flash');
    t.notMatch(made.lines.join(), /"r"|given/);
  },
);

t.test('a kept token that cannot be read stops the fetch: the old one may be taken for theft', async (t) => {
  const first = bench({ refreshToken: 'given' });
  first.answer = async () => answerOf({ access_token: 'x', refresh_token: 'r1' });
  await first.tokens.token();
  const made = bench({ refreshToken: 'given', disk: first.disk });
  made.disk.onRead = () => 'EIO';
  await t.rejects(made.tokens.token(), {
    name: 'TokenError',
    message: /^the kept refresh token cannot be read: /,
  });
  t.equal(made.forms.length, 0);
});

t.test('a stop waits for an answer with a refresh token, and for no other', async (t) => {
  const made = bench({ refreshToken: 'given' });
  let give = (_: HttpAnswer) => {};
  made.answer = () =>
    new Promise((resolve) => {
      give = resolve;
    });
  const token = made.tokens.token();
  await settled();
  let isClosed = false;
  const closed = made.tokens.close().then(() => {
    isClosed = true;
  });
  await settled();
  t.equal(isClosed, false);
  t.equal(made.signals[0]?.aborted, false);
  give(answerOf({ access_token: 'x', refresh_token: 'r1' }));
  await closed;
  t.equal(await token, 'x');
  const next = bench({ refreshToken: 'given', disk: made.disk });
  await next.tokens.token();
  t.same(next.refreshTokens(), ['r1']);

  const other = bench();
  other.answer = () =>
    new Promise((_, reject) => {
      other.signals[0]?.addEventListener('abort', () =>
        reject(Object.assign(new Error('given up'), { code: 'ABORT_ERR' })),
      );
    });
  const rejected = t.rejects(other.tokens.token(), { name: 'TokenError' });
  await settled();
  await other.tokens.close();
  await rejected;
});
