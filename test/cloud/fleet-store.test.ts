/** Both stores of the cloud's state behave alike. */
import t from 'tap';
import { People } from '../../src/cloud/document.js';
import { openEtcdFleet } from '../../src/cloud/etcd/fleet.js';
import { openFileFleet } from '../../src/cloud/files/fleet.js';
import { FakeEtcd } from '../support/fake-etcd.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom } from '../support/random.js';
import { drawn, keptLog } from '../support/system.js';
import { DELAYS, type OpenStore, testStore } from './fleet-store-behaviour.js';

/** The store's own outside, which lasts over restarts: one for each test. */
function opener<Kept>(
  make: (outside: Parameters<OpenStore>[0]) => Kept,
  open: (kept: Kept, outside: Parameters<OpenStore>[0]) => ReturnType<OpenStore>,
): OpenStore {
  const kept = new WeakMap<object, Kept>();
  return (outside) => {
    const mine = kept.get(outside) ?? make(outside);
    kept.set(outside, mine);
    return open(mine, outside);
  };
}

const { log } = keptLog();
const { randomBytes } = drawn(1);

t.test('files', async (t) => {
  testStore(
    t,
    opener(
      () => new FaultyDisk({ directories: ['/var/lib'] }),
      (disk, { clock, tell, accept }) =>
        openFileFleet({
          disk,
          clock,
          log,
          randomBytes,
          directory: '/var/lib/cloud',
          delays: DELAYS,
          people: new People(),
          accept,
          tell,
        }),
    ),
  );
});

t.test('etcd', async (t) => {
  testStore(
    t,
    opener(
      ({ clock }) => new FakeEtcd(clock, seededRandom(1)),
      (server, { clock, tell, accept }) =>
        openEtcdFleet({
          etcd: server.client('a'),
          clock,
          log,
          randomBytes,
          hostname: 'a',
          delays: DELAYS,
          people: new People(),
          accept,
          tell,
        }),
    ),
  );
});
