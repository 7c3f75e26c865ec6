import { type Test, test } from 'tap';
import type { ListenConfig } from '../../src/base/config/types.js';
import { EMAIL, isProblem, MESSAGES, requestText, startApi, type TestApi } from '../support/api.js';
import { socketPath } from '../support/short-directory.js';

const LIST = '/api/internal/offline_notification_destinations';
const JOHN = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };

/** Does everything an operator may do; gives what was logged of it, by level and in words. */
async function operate(t: Test, api: TestApi): Promise<string[]> {
  const [{ id }] = (await api.post([EMAIL])).json as [{ id: string }];
  const json = { headers: { 'Content-Type': 'application/json' } };
  const calls: [method: string, path: string, body?: object][] = [
    ['POST', '/api/internal/queue/hold'],
    ['POST', '/api/internal/queue/flush'],
    ['POST', '/api/internal/queue/release'],
    ['POST', '/api/internal/queue/purge'],
    ['POST', `${MESSAGES}/${id}/retry`],
    ['DELETE', `${MESSAGES}/${id}`],
    ['POST', LIST, JOHN],
    ['PUT', `${LIST}/1`, { ...JOHN, name: 'J' }],
    ['DELETE', `${LIST}/1`],
    // What is refused has not been done.
    ['DELETE', `${MESSAGES}/${id}`],
    ['DELETE', `${LIST}/1`],
  ];
  for (const [method, path, body] of calls)
    await api.call(method, path, body ? { ...json, body: JSON.stringify(body) } : {});
  t.match(id, /./);
  return api.lines.filter((line) => / by=/.test(line)).map((line) => line.trim().replaceAll(id, 'ID'));
}

const done = (by: string) => [
  `<6>queue held by=${by}`,
  `<6>queue flushed by=${by}`,
  `<6>queue released by=${by}`,
  `<6>purged by=${by} damaged=false`,
  `<6>retried id=ID by=${by}`,
  `<6>cancelled id=ID by=${by}`,
  `<6>destination added destination=1 by=${by}`,
  `<6>destination changed destination=1 by=${by}`,
  `<6>destination removed destination=1 by=${by}`,
];

test('actions of an operator are logged with the user', async (t) => {
  await using known = await startApi({ peerUid: async () => 1000 });
  t.same(await operate(t, known), done('"uid 1000"'));
  await using unknown = await startApi();
  t.same(await operate(t, unknown), done('127.0.0.1'));
  const path = socketPath(t);
  const listen: ListenConfig = { kind: 'unix', path };
  await using unix = await startApi({ listen, peerUid: async () => 1000 });
  t.same(await operate(t, unix), done(`unix:${path}`));
});

test('a bounded share is counted under a name, looked up once a connection', async (t) => {
  const path = socketPath(t);
  const tokens = { apiToken: 'all', sendToken: 'send' };
  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
  const rows: [
    settings: object,
    listen: ListenConfig | null,
    uid: number | null,
    headers: object,
    name: string,
  ][] = [
    [{}, null, 1000, {}, 'uid 1000'],
    [{}, null, null, {}, '127.0.0.1'],
    [tokens, null, 1000, bearer('all'), 'uid 1000'],
    [tokens, null, null, bearer('all'), 'token'],
    [tokens, null, null, bearer('send'), 'send token'],
    [tokens, { kind: 'unix', path }, 1000, {}, `unix:${path}`],
    [{}, { kind: 'unix', path, sendOnly: true }, 1000, {}, `unix:${path}`],
  ];
  for (const [settings, listen, uid, headers, name] of rows) {
    const peerUid = async () => uid;
    await using api = await startApi({
      settings: { maxShare: 50, ...settings },
      budget: { maxQueue: 4, maxShare: 50 },
      peerUid,
      ...(listen && { listen }),
    });
    const answers: number[] = [];
    for (let i = 0; i < 2; i++) answers.push((await api.post([EMAIL], { ...headers })).status);
    t.same(answers, [202, 202], name);
    const refused = await api.post([EMAIL], { ...headers });
    isProblem(t, refused, 429, 'queue-full', name);
    t.match(
      refused.json.detail,
      /^\S.* has 2 messages in the queue and gets at most half of it, 2; .*FIELDPOST_MAX_SHARE$/,
      name,
    );
    t.ok(refused.json.detail.startsWith(`${name} has 2 `));
    t.same(callersIn(api), [name, name]);
  }
});

const callersIn = ({ store }: TestApi) => [...store.queued()].map(({ extras }) => extras?.caller);

test('forms and ready-made mails count like JSON, and a connection is asked once', async (t) => {
  let asked = 0;
  const peerUid = async () => ++asked;
  await using api = await startApi({ settings: { maxShare: 50 }, budget: { maxShare: 50 }, peerUid });
  await using client = await api.connect();
  const form =
    '--x\r\nContent-Disposition: form-data; name="destination"\r\n\r\njohn@example.com\r\n--x\r\nContent-Disposition: form-data; name="subject"\r\n\r\nHi\r\n--x--\r\n';
  for (const [at, type, body] of [
    [MESSAGES, 'application/json', JSON.stringify([EMAIL])],
    [MESSAGES, 'multipart/form-data; boundary=x', form],
    [`${MESSAGES}?to=john@example.com`, 'message/rfc822', 'Subject: x\r\n\r\nhi\r\n'],
  ] as const) {
    client.write(requestText('POST', at, { 'Content-Type': type }, body.length) + body);
    t.equal((await client.answer()).status, 202, type);
  }
  t.same(callersIn(api), ['uid 1', 'uid 1', 'uid 1']);
  await api.post([EMAIL]);
  t.equal(callersIn(api)[3], 'uid 2', 'another connection');
});

test('with the whole queue for each caller nobody asks who it is', async (t) => {
  await using api = await startApi({ peerUid: () => t.fail('asked') as never });
  await api.post([EMAIL]);
  t.same(
    [...api.store.queued()].map(({ extras }) => extras),
    [undefined],
    'and no message says it',
  );
});
