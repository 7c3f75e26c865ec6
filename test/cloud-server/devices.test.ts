/** The limit on devices. */
import t from 'tap';
import { Devices } from '../../src/cloud-server/devices.js';
import { CLOUD_DEVICES_MAX } from '../../src/limits.js';
import { keptLog } from '../support/system.js';

t.test('one device too many is refused, logged once and counted, until one is removed', async (t) => {
  const known = new Set(['a', 'b']);
  const { log, lines } = keptLog();
  const others = Array.from({ length: CLOUD_DEVICES_MAX - 2 }, (_, n) => `other-${n}`);
  const sighting = { id: 'a', state: 'online', heardMs: null, sinceMs: null } as const;
  const devices = new Devices({
    watch: {
      ids: ['a'],
      has: (id) => id === 'a' && known.has('a'),
      sightings: () => [sighting].filter(({ id }) => known.has(id)),
      forget: async (id) => void known.delete(id),
    },
    documents: {
      ids: ['b', ...others],
      about: (id) => (id === 'b' ? { etag: '"1"', destinations: 0 } : null),
      remove: async () => undefined,
    },
    log,
  });
  t.match(devices.list().slice(0, 2), [
    { id: 'a', state: 'online' },
    { id: 'b', state: 'unheard' },
  ]);
  for (const id of ['a', 'b']) devices.admit(id);
  for (const id of ['c', 'd', 'c']) t.throws(() => devices.admit(id), { code: 'unavailable' });
  t.equal(devices.refused, 3);
  t.equal(lines.filter((line) => line.includes('device refused')).length, 1);
  await devices.remove('a');
  t.throws(() => devices.admit('e'), { code: 'unavailable' }, 'the stub still lists it');
  t.equal(lines.filter((line) => line.includes('device refused')).length, 2, 'said anew');
});
