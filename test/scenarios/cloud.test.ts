/** The built reference cloud and keys: a reload of their file, a damaged file, and a cloud without a file behind a proxy. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ask } from '../support/ask.js';
import { CLOUD_MAIN, needsProgram, startIn } from '../support/daemon.js';

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
    const from = cloud.lines.length;
    cloud.child.kill('SIGHUP');
    // Two lines may come at once.
    while (!cloud.lines.slice(from).some((line) => answer.test(line))) await cloud.nextLine();
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

t.test("the built cloud's commands find it by its settings", needsProgram, async (t) => {
  const directory = t.testdir({
    keys: '* boss\n',
    env: `FIELDPOST_CLOUD_SERVER_KEYS_FILE=${t.testdirName}/keys\n`,
  });
  const env = { FIELDPOST_STATE_DIR: join(directory, 'state') };
  const cloud = await startIn(t, { ...env, FIELDPOST_CLOUD_SERVER_KEYS_FILE: join(directory, 'keys') }, [
    'cloud',
  ]);
  const listen = { PATH: process.env.PATH, FIELDPOST_CLOUD_SERVER_LISTEN: `127.0.0.1:${cloud.port}` };
  const said = (...words: string[]) => {
    const args = [...words, '--env-file', join(directory, 'env')];
    const { status, stdout } = spawnSync(CLOUD_MAIN, args, {
      env: listen,
      encoding: 'utf8',
      timeout: 60_000,
    });
    t.equal(status, 0, words.join(' '));
    return stdout;
  };
  const { key } = JSON.parse(said('key', 'pump-3', '--json'));
  const beat = await ask(`http://127.0.0.1:${cloud.port}/devices/pump-3/heartbeat`, 'PUT', {
    headers: { Authorization: `Bearer ${key}` },
    body: { state: 'running' },
  });
  t.equal(beat.status, 200);
  t.match(said('status'), /^Fieldpost cloud .*: 1 device, online\n/);
  t.match(said('devices'), /\npump-3 +online /);
  t.match(said('device', 'pump-3'), /^id +pump-3\n/);
  t.equal(said('remove', 'pump-3'), 'pump-3 is removed\n');
  t.equal(await cloud.end('SIGTERM'), 0);
});

t.test('the built cloud does not start with a damaged keys.json, and leaves it alone', needsProgram, (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  mkdirSync(join(FIELDPOST_STATE_DIR, 'cloud'));
  const path = join(FIELDPOST_STATE_DIR, 'cloud/keys.json');
  writeFileSync(path, '00000000 {"pump-3":{"key":"x"}}\n');
  const env = { PATH: process.env.PATH, FIELDPOST_STATE_DIR, FIELDPOST_CLOUD_SERVER_LISTEN: '127.0.0.1:0' };
  for (const start of ['first', 'second']) {
    const { status, stdout } = spawnSync(CLOUD_MAIN, ['serve'], { env, encoding: 'utf8', timeout: 60_000 });
    t.equal(status, 74, start);
    t.match(
      stdout,
      /error cannot start reason=".*keys\.json .*is damaged, and so is its copy.*" hint=".*keys\.json\.1/,
    );
  }
  t.match(readFileSync(path, 'utf8'), /^00000000 /);
  t.end();
});

t.test('the built cloud without a keys file takes no request from a proxy', needsProgram, async (t) => {
  const cloud = await startIn(t, { FIELDPOST_STATE_DIR: t.testdir() }, ['cloud']);
  const list = async (headers: Record<string, string>) =>
    (
      await ask(`http://127.0.0.1:${cloud.port}/devices`, 'GET', {
        headers: { Authorization: 'Bearer any', ...headers },
      })
    ).status;
  t.equal(await list({}), 200);
  t.equal(await list({ 'X-Forwarded-For': '203.0.113.7' }), 403);
  t.equal(await cloud.end('SIGTERM'), 0);
});
