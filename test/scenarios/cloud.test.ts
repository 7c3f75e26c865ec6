/** The built reference cloud reads its keys again on SIGHUP, and refuses a wrong file. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ask } from '../support/ask.js';
import { needsProgram, startIn } from '../support/daemon.js';

t.test('the built cloud reads its keys again on SIGHUP', needsProgram, async (t) => {
  const directory = t.testdir();
  const keys = join(directory, 'keys');
  writeFileSync(keys, 'pump-3 three\n* boss\n');
  const cloud = await startIn(
    t,
    { FIELDPOST_STATE_DIR: join(directory, 'state'), FIELDPOST_CLOUD_SERVER_KEYS_FILE: keys },
    ['cloud'],
  );
  const url = `http://127.0.0.1:${cloud.port}/devices`;
  const call = (key: string, path = '', body?: object) =>
    ask(`${url}${path}`, body ? 'PUT' : 'GET', { headers: { Authorization: `Bearer ${key}` }, body });
  const statuses = async () => [
    (await call('three', '/pump-3/heartbeat', { state: 'running' })).status,
    (await call('four', '/pump-4/heartbeat', { state: 'running' })).status,
  ];
  const reread = async (text: string, answer: RegExp) => {
    writeFileSync(keys, text);
    cloud.child.kill('SIGHUP');
    while (!answer.test(await cloud.nextLine()));
  };
  t.same(await statuses(), [200, 401]);
  await reread('pump-4 four\n* boss\n', / reloaded taken=FIELDPOST_CLOUD_SERVER_KEYS_FILE/);
  t.same(await statuses(), [401, 200]);
  await reread('nonsense\n', /reload refused/);
  t.same(await statuses(), [401, 200]);
  const { json } = await call('boss');
  t.match(json.devices, [{ id: 'pump-3' }, { id: 'pump-4' }], 'the cloud still lists both devices');
  t.equal(await cloud.end('SIGTERM'), 0);
});
