import t from 'tap';
import { peopleIn, queryFor } from '../../src/pages/fleet/devices.js';

t.test('devices: the query', async (t) => {
  const asked = (words: string, state: string) => `${queryFor(words, state, 100)}`;
  const all = 'order=attention&limit=100';
  t.equal(asked('', ''), all);
  t.equal(asked(' a&b ', 'moved'), `${all}&q=a%26b&state=moved`);
  t.equal(asked('', 'attention'), `${all}&attention=true`);
});

t.test('devices: the people of a document, whatever else is in it', async (t) => {
  const jan = { uid: 'u', type: 1, destination: 'jan@example.com', lang: 'nl', name: 'Jan' };
  const { uid: _, ...rest } = jan;
  const shown = { ...rest, rules: '', confirmedAt: null };
  t.same(peopleIn([jan, { ...jan, name: 'Jan again' }, { ...jan, type: 2, destination: '+31612345678' }]), {
    people: [shown, { ...shown, type: 2, destination: '+31612345678' }],
    others: 0,
  });
  const confirmedAt = '2026-11-20T09:00:00.000Z';
  t.match(peopleIn([{ ...jan, confirmedAt }]).people, [{ confirmedAt }]);
  const hours = 'Mo-Fr 07:00-18:00';
  const rules = { after_min: 60, hours, zone: 'Europe/Berlin', weekly: true };
  for (const [given, words] of [
    [rules, `after 60 min; only ${hours} (Europe/Berlin); a report each Monday`],
    [{ hours }, `only ${hours}`],
    [{ after_min: 'x', hours: 7, zone: 'Europe/Berlin', weekly: 'no' }, ''],
  ] as const)
    t.match(peopleIn([{ ...jan, ...given }]).people, [{ rules: words }]);
  t.match(peopleIn([{ ...jan, confirmedAt: 7 }]).people, [{ confirmedAt: null }]);
  t.same(peopleIn([null, 1, 'x', [], {}, { ...jan, type: 9 }, { ...jan, destination: 1 }]), {
    people: [],
    others: 7,
  });
  for (const none of [undefined, null, 'x', { length: 1 }]) t.same(peopleIn(none), { people: [], others: 0 });
});
