import { type Test, test } from 'tap';
import type { ListenConfig } from '../../src/base/config/types.js';
import { EMAIL, MESSAGES, startApi, type TestApi } from '../support/api.js';
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
  const listen: ListenConfig = { kind: 'unix', path: socketPath(t) };
  await using unix = await startApi({ listen, peerUid: async () => 1000 });
  t.same(await operate(t, unix), done('"unix socket"'));
});
