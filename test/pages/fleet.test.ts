import t from 'tap';
import { fleetHeadline, troubleOf } from '../../src/base/fleet-lines.js';
import { peopleIn, queryFor } from '../../src/pages/fleet/devices.js';

t.test('devices: the query', async (t) => {
  const asked = (words: string, state: string) => `${queryFor(words, state, 100)}`;
  const all = 'order=attention&limit=100';
  t.equal(asked('', ''), all);
  t.equal(asked(' a&b ', 'moved'), `${all}&q=a%26b&state=moved`);
  t.equal(asked('', 'attention'), `${all}&attention=true`);
});

t.test('devices: the headline tells the worst', async (t) => {
  const none = { offline: 0, online: 0, moved: 0, unheard: 0, attention: 0 };
  const more = 'there are too many: 3 calls of others refused';
  for (const [counts, refused, mood, words] of [
    [{}, 0, 'soft', 'no device has called yet'],
    [{ unheard: 2 }, 0, 'soft', 'no device has called yet'],
    [{ online: 1, unheard: 2 }, 0, 'good', '1 of 3 devices is online, none is offline'],
    [{ online: 1 }, 0, 'good', '1 device, online'],
    [{ online: 2 }, 0, 'good', '2 devices, all online'],
    [{ online: 1, offline: 1 }, 0, 'bad', '1 of 2 devices is offline'],
    [{ offline: 2, moved: 1 }, 0, 'bad', '2 of 3 devices are offline'],
    [{ online: 1, moved: 1 }, 0, 'good', '1 of 2 devices is online, none is offline'],
    [{ online: 2, attention: 1 }, 0, 'uneasy', '2 devices, all online; 1 needs attention'],
    [
      { online: 1, moved: 1, attention: 2 },
      0,
      'uneasy',
      '1 of 2 devices is online, none is offline; 2 need attention',
    ],
    [{ online: 1, offline: 1, attention: 2 }, 0, 'bad', '1 of 2 devices is offline; 2 need attention'],
    [{ online: 2 }, 3, 'uneasy', `2 devices, all online; ${more}`],
    [{ online: 2, attention: 1 }, 3, 'uneasy', `2 devices, all online; 1 needs attention; ${more}`],
  ] as const)
    t.same(fleetHeadline({ ...none, ...counts }, refused), [mood, words]);
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
