import t from 'tap';
import { fleetHeadline, peopleIn, queriesFor, troubleOf } from '../../src/pages/fleet/devices.js';

t.test('devices: one query for each state that is wanted, those that are offline first', async (t) => {
  const asked = (words: string, state: string) => queriesFor(words, state).map(([, query]) => `${query}`);
  const states = ['state=offline', 'state=online', 'state=moved', 'state=unheard'];
  t.strictSame(asked('', ''), states);
  t.strictSame(asked(' a&b ', 'moved'), ['state=moved&q=a%26b']);
  t.strictSame(
    asked('', 'attention'),
    states.map((state) => `${state}&attention=true`),
  );
});

t.test('devices: the headline tells the worst', async (t) => {
  const none = { offline: 0, online: 0, moved: 0, unheard: 0 };
  t.same(fleetHeadline(none), ['soft', 'no device has called yet']);
  t.same(fleetHeadline({ ...none, online: 1 }), ['good', '1 device, online']);
  t.same(fleetHeadline({ ...none, online: 2 }), ['good', '2 devices, all online']);
  t.same(fleetHeadline({ ...none, online: 1, offline: 1 }), ['bad', '1 of 2 devices is offline']);
  t.same(fleetHeadline({ ...none, offline: 2, moved: 1 }), ['bad', '2 of 3 devices are offline']);
  t.same(fleetHeadline({ ...none, online: 1, moved: 1 }), [
    'good',
    '1 of 2 devices is online, none is offline',
  ]);
});

t.test('devices: a failing relay and failed messages are trouble, and nothing else', async (t) => {
  const queue = { queued: 5, deferred: 5, failed: 0 };
  t.equal(troubleOf({ relay: 'ok', queue }), null);
  t.equal(troubleOf({ relay: null, queue: null }), null);
  t.equal(troubleOf({ relay: 'failing', queue }), 'relay failing');
  t.equal(troubleOf({ relay: 'failing', queue: { ...queue, failed: 1 } }), 'relay failing, 1 message failed');
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
