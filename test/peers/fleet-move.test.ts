/** The move of the built cloud from files to a real etcd as the manual has it, and back: no device gets a new key. */
import t from 'tap';
import { WalkedCloud } from '../support/cloud-walk.js';
import { isBuilt } from '../support/daemon.js';
import { JAN } from '../support/reference-cloud.js';
import { ETCD, startEtcd } from './etcd.js';
import { skipWithout } from './peers.js';

const skip = isBuilt ? skipWithout(ETCD, '/usr/bin/etcdctl') : 'the program is not built';

t.test('from files to etcd, and back', { skip }, async (t) => {
  const cluster = await startEtcd(t);
  const cloud = new WalkedCloud(t);
  await cloud.start();
  const { key } = (await cloud.call('POST', 'pump-3/key')).json;
  const beat = async () => (await cloud.call('PUT', 'pump-3/heartbeat', key, { state: 'running' })).status;
  const document = async () => (await cloud.call('GET', 'pump-3/destinations', key)).json;
  const wanted = { name: 'Pómp 3', destinations: [JAN] };
  t.equal(await beat(), 200);
  t.equal((await cloud.call('PUT', 'pump-3/destinations', key, wanted)).status, 204);

  const store = `etcd:${cluster.endpoints.join()}`;
  await cloud.walk('backup');
  await cloud.walk('move', (line) => line.replace('etcd:https://a:2379', store));
  t.match(await cluster.etcdctl('get', '--print-value-only', 'fieldpost/layout'), /^\d+\n$/);
  t.equal(await beat(), 200, 'its key opens');
  t.strictSame(await document(), wanted);
  t.match((await cloud.call('GET', 'pump-3')).json, { state: 'online', name: 'Pómp 3' });
  t.match(await cloud.run('fieldpost-cloud import /var/backups/fieldpost-cloud/move'), {
    status: 75,
    stderr: /The cloud runs/,
  });

  t.match(await cloud.run('fieldpost-cloud export --out /var/backups/fieldpost-cloud/back'), { status: 0 });
  await cloud.stop();
  t.match(await cloud.run('fieldpost-cloud import /var/backups/fieldpost-cloud/back'), {
    status: 73,
    stderr: /not empty/,
  });
  cloud.set('FIELDPOST_CLOUD_SERVER_STORE', '');
  await cloud.run('mv /var/lib/fieldpost-cloud/cloud /var/lib/fieldpost-cloud/before');
  t.match(await cloud.run('fieldpost-cloud import /var/backups/fieldpost-cloud/back'), { status: 0 });
  await cloud.start();
  t.equal(await beat(), 200);
  t.strictSame(await document(), wanted);
  await cloud.stop();
});
