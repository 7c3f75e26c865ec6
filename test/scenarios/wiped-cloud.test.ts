/** The built program beside a cloud whose document is wiped and made anew, or restored from a backup. */
import t from 'tap';
import { DEVICE, fakeCloud, KEY } from '../support/cloud.js';
import { isBuilt, startDaemon } from '../support/daemon.js';
import { until } from '../support/delivery.js';

const john = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const jane = { ...john, destination: 'jane@example.com', name: 'Jane' };
const boss = {
  ...john,
  uid: '11111111-0000-4000-8000-00000000000b',
  destination: 'boss@example.com',
  name: 'Boss',
};

t.test('nobody is dropped', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  await using cloud = await fakeCloud();
  const daemon = await startDaemon({
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_CLOUD: cloud.url,
    FIELDPOST_DEVICE_ID: DEVICE,
    FIELDPOST_CLOUD_KEY: KEY,
  });
  t.teardown(() => daemon.child.kill('SIGKILL'));
  const call = async (path: string, value?: object) => {
    const answer = await fetch(`http://127.0.0.1:${daemon.port}/api/internal/${path}`, {
      method: value ? 'POST' : 'GET',
      ...(value && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(value) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
    return (await answer.json()) as any;
  };
  const inCloud = () =>
    cloud.document?.entries
      .map((entry) => (entry as { name: string }).name)
      .sort()
      .join();
  const reason = async () => (await call('state')).destinations.reason as string | null;
  const flush = () => fetch(`http://127.0.0.1:${daemon.port}/api/internal/queue/flush`, { method: 'POST' });
  await call('offline_notification_destinations', john);
  await call('offline_notification_destinations', jane);
  await until(() => inCloud() === 'Jane,John');
  const backup = cloud.document;

  cloud.document = { etag: '"anew"', entries: [boss] };
  await flush();
  await until(() => inCloud() === 'Boss,Jane,John');
  t.equal(
    (await call('offline_notification_destinations')).length,
    3,
    'who is missing in a new document stays',
  );

  cloud.document = { ...backup, etag: '"restored"', entries: backup?.entries ?? [] };
  await flush();
  await until(() => inCloud() === 'Boss,Jane,John');
  t.equal((await call('offline_notification_destinations')).length, 3, 'and who is missing in a backup');
  // A sync that was under way may have to be tried again first.
  let told: string | null = null;
  do told = await reason();
  while (!/nobody was dropped/.test(told ?? ''));
  t.match(told, /another one than .* nobody was dropped/);
});
