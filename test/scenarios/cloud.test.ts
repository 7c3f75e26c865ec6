/** The built reference cloud reads its keys again on SIGHUP, and refuses a wrong file. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
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
  const beat = async (id: string, key: string) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    return (await fetch(`${url}/${id}/heartbeat`, { method: 'PUT', headers, body: '{"state":"running"}' }))
      .status;
  };
  const reread = async (text: string, answer: RegExp) => {
    writeFileSync(keys, text);
    cloud.child.kill('SIGHUP');
    while (!answer.test(await cloud.nextLine()));
  };
  t.same([await beat('pump-3', 'three'), await beat('pump-4', 'four')], [200, 401]);
  await reread('pump-4 four\n* boss\n', / reloaded taken=FIELDPOST_CLOUD_SERVER_KEYS_FILE/);
  t.same([await beat('pump-3', 'three'), await beat('pump-4', 'four')], [401, 200]);
  await reread('nonsense\n', /reload refused/);
  t.same([await beat('pump-3', 'three'), await beat('pump-4', 'four')], [401, 200]);
  const listed = await fetch(url, { headers: { Authorization: 'Bearer boss' } });
  const { devices } = (await listed.json()) as { devices: { id: string }[] };
  t.same(
    devices.map(({ id }) => id),
    ['pump-3', 'pump-4'],
    'the cloud still lists both devices',
  );
  t.equal(await cloud.end('SIGTERM'), 0);
});
