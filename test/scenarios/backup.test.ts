/** Backup and restore of the built cloud as the manual has it, with a device in the field; and what export and import refuse. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { WalkedCloud } from '../support/cloud-walk.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { EWA, JAN } from '../support/reference-cloud.js';

const BACKUP = '/var/backups/fieldpost-cloud/state';

/** A device in the field, which the cloud does not know yet. */
async function startDevice(t: Test, cloud: WalkedCloud): Promise<DaemonProcess> {
  const { status, json } = await cloud.call('POST', 'pump-3/key');
  t.equal(status, 201);
  const directory = cloud.path('/device');
  mkdirSync(directory, { mode: 0o700 });
  writeFileSync(join(directory, 'key'), json.key, { mode: 0o600 });
  return await startIn(t, {
    FIELDPOST_STATE_DIR: join(directory, 'state'),
    FIELDPOST_DEVICE_ID: 'pump-3',
    FIELDPOST_CLOUD: cloud.url,
    FIELDPOST_CLOUD_KEY_FILE: join(directory, 'key'),
    FIELDPOST_HEARTBEAT: '5s',
  });
}

/** Resolves when the device has logged this after line `from`. */
async function logged(device: DaemonProcess, words: RegExp, from: number): Promise<void> {
  while (!device.lines.slice(from).some((line) => words.test(line))) await device.nextLine();
}

async function add({ api, ...device }: DaemonProcess, person: typeof JAN | typeof EWA): Promise<void> {
  const from = device.lines.length;
  const { uid: _, ...fields } = person;
  const { status } = await api('offline_notification_destinations', fields);
  if (status !== 201) throw new Error(`not added: ${status}`);
  await logged({ api, ...device }, /destinations synced/, from);
}

t.test(
  'a backup of the running cloud is restored when it is older: nobody is dropped',
  needsProgram,
  async (t) => {
    const cloud = new WalkedCloud(t);
    await cloud.start();
    const device = await startDevice(t, cloud);
    const names = async () =>
      (await cloud.call('GET', 'pump-3/destinations')).json.destinations
        .map((one: typeof JAN) => one.name)
        .sort();
    await add(device, JAN);
    await cloud.walk('backup');
    t.equal(statSync(cloud.path(BACKUP)).mode & 0o777, 0o600);
    t.notMatch(readFileSync(cloud.path(BACKUP), 'utf8'), /the-key-of/);
    await add(device, EWA);
    t.strictSame(await names(), [EWA.name, JAN.name].sort());
    const { headers: late } = await cloud.call('GET', 'pump-3/destinations');
    // Of this device the backup knows nothing.
    const { json: lost } = await cloud.call('POST', 'pump-4/key');

    const from = device.lines.length;
    await cloud.walk('restore');
    await logged(device, /destinations synced/, from);
    t.ok(device.lines.slice(from).some((line) => /destinations joined reason=/.test(line)));
    t.strictSame(await names(), [EWA.name, JAN.name].sort(), 'whoever was added after the backup is there');
    const { headers: restored } = await cloud.call('GET', 'pump-3/destinations');
    t.not(restored.get('etag'), late.get('etag'));
    const { json: shown } = await device.api('offline_notification_destinations');
    t.equal(shown.length, 2);
    t.match((await cloud.call('GET', 'pump-3')).json, { state: 'online', destinations: 2 });
    t.equal((await cloud.call('PUT', 'pump-4/heartbeat', lost.key, { state: 'running' })).status, 401);
    t.equal(await device.end('SIGTERM'), 0);
    await cloud.stop();
  },
);

t.test('what export and import refuse, with their exit statuses', needsProgram, async (t) => {
  const cloud = new WalkedCloud(t);
  const run = async (line: string) => {
    const { status, stderr } = await cloud.run(line);
    return `${status} ${stderr}`;
  };
  t.match(await run('fieldpost-cloud export'), /^66 fieldpost-cloud: There is no state of a cloud in /);
  await cloud.start();
  await cloud.call('POST', 'pump-3/key');
  await cloud.walk('backup');
  t.match(
    await run('fieldpost-cloud export > /dev/full'),
    /^74 fieldpost-cloud: The export cannot be written: the disk is full/,
  );
  t.match(
    await run('fieldpost-cloud export --out /dev/null'),
    /^73 fieldpost-cloud: \/dev\/null is there, and is no regular/,
  );
  t.match(
    await run('fieldpost-cloud export --out /var/none/x'),
    /^74 .*\/var\/none\/x cannot be written: ENOENT/,
  );
  t.match(
    await run('fieldpost-cloud export | sha256sum'),
    /^0 Exported: 0 documents, keys of 1 device, presence of 0 devices\.\n$/,
  );
  t.match(await run('fieldpost-cloud import'), /^64 /);
  t.match(await run('fieldpost-cloud import /var/none'), /^66 .*ENOENT/);
  t.match(await run('fieldpost-cloud import /var/backups'), /^66 .*EISDIR/);
  t.match(
    await run(`fieldpost-cloud import ${BACKUP}`),
    /^75 fieldpost-cloud: a cloud uses .*\nstop it first: sudo systemctl stop /,
  );
  await cloud.stop();
  t.match(
    await run(`fieldpost-cloud import ${BACKUP}`),
    /^73 fieldpost-cloud: .*cloud is not empty: it has keys.json\nmove its /,
  );
  await cloud.run(`head -c -10 ${BACKUP} > ${BACKUP}.cut`);
  t.match(
    await run(`fieldpost-cloud import ${BACKUP}.cut`),
    /^65 fieldpost-cloud: This is no whole export: its last line is missing/,
  );
  cloud.set('FIELDPOST_RELAY', 'smtps://cloud@mail.example.com');
  t.match(await run('fieldpost-cloud export > /dev/null'), /^0 /, 'only the service has the password');
  // Port 9 discards, and nobody serves it.
  cloud.set('FIELDPOST_CLOUD_SERVER_STORE', 'etcd:http://127.0.0.1:9');
  t.match(
    await run('fieldpost-cloud export'),
    /^69 fieldpost-cloud: The fleet's store cannot be reached: etcd at 127.0.0.1:9: the connection was refused/,
  );
  cloud.set('FIELDPOST_CLOUD_SERVER_STROE', 'etcd:https://a');
  cloud.set('FIELDPOST_CLOUD_SERVER_STORE', 'soon');
  t.match(
    await run('fieldpost-cloud export'),
    /^78 .*_STROE: there is no such .*\n.*_STORE=soon: .*\nfieldpost-cloud check/,
  );
});
