import t from 'tap';
import { type FleetDevice, fleetHeadline, peopleIn, selected } from '../../src/pages/fleet/devices.js';

const device = (id: string, state: string): FleetDevice => ({
  id,
  state,
  lastHeartbeat: null,
  destinations: null,
});

t.test('devices: those that are offline come first, then by state and id', async (t) => {
  const devices = [
    device('pump-2', 'unheard'),
    device('Pump-10', 'online'),
    device('pump-1', 'online'),
    device('gate-1', 'moved'),
    device('pump-9', 'offline'),
    device('gate-2', 'offline'),
  ];
  const ids = (words: string, state = '') => selected(devices, words, state).map(({ id }) => id);
  t.same(ids(''), ['gate-2', 'pump-9', 'Pump-10', 'pump-1', 'gate-1', 'pump-2']);
  t.same(ids(' PUMP-1'), ['Pump-10', 'pump-1']);
  t.same(ids('pump', 'offline'), ['pump-9']);
  t.same(ids('.'), [], 'words are no pattern');
  t.equal(devices[0]?.id, 'pump-2', 'the list itself stays as it is');
});

t.test('devices: the headline tells the worst', async (t) => {
  const [on, off, moved] = ['online', 'offline', 'moved'].map((state) => device('x', state)) as [
    FleetDevice,
    FleetDevice,
    FleetDevice,
  ];
  t.same(fleetHeadline([]), ['soft', 'no device has called yet']);
  t.same(fleetHeadline([on]), ['good', '1 device, online']);
  t.same(fleetHeadline([on, on]), ['good', '2 devices, all online']);
  t.same(fleetHeadline([on, off]), ['bad', '1 of 2 devices is offline']);
  t.same(fleetHeadline([off, off, moved]), ['bad', '2 of 3 devices are offline']);
  t.same(fleetHeadline([on, moved]), ['good', '1 of 2 devices is online, none is offline']);
});

t.test('devices: the people of a document, whatever else is in it', async (t) => {
  const jan = { uid: 'u', type: 1, destination: 'jan@example.com', lang: 'nl', name: 'Jan' };
  const { uid: _, ...shown } = jan;
  t.same(peopleIn([jan, { ...jan, name: 'Jan again' }, { ...jan, type: 2, destination: '+31612345678' }]), {
    people: [shown, { ...shown, type: 2, destination: '+31612345678' }],
    others: 0,
  });
  t.same(peopleIn([null, 1, 'x', [], {}, { ...jan, type: 9 }, { ...jan, destination: 1 }]), {
    people: [],
    others: 7,
  });
  for (const none of [undefined, null, 'x', { length: 1 }]) t.same(peopleIn(none), { people: [], others: 0 });
});
