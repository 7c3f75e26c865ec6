/** How many devices' documents name a person. */
import t from 'tap';
import { People, peopleOf } from '../../src/cloud/document.js';
import { entry, JAN } from '../support/reference-cloud.js';

t.test('a person counts once for each device whose present document has them', async (t) => {
  const people = new People();
  people.set('a', ['jan', 'ewa']);
  people.set('b', ['jan']);
  t.same([people.devicesOf('jan'), people.devicesOf('ewa'), people.devicesOf('x')], [2, 1, 0]);
  people.set('a', ['jan', 'jim']);
  t.same([people.devicesOf('jan'), people.devicesOf('ewa'), people.devicesOf('jim')], [2, 0, 1]);
  people.set('b', []);
  people.set('a', null);
  people.set('c', null);
  t.same([people.devicesOf('jan'), people.devicesOf('jim')], [0, 0]);
});

t.test(
  'an address is one person in any case of its domain; a placeholder is nobody in particular',
  async (t) => {
    const destinations = [
      JAN,
      entry(1, { destination: 'jan@EXAMPLE.com' }),
      entry(2, { type: 2, destination: '+31612345678' }),
      entry(3, { type: 4, destination: 'OWNER' }),
      entry(4, { type: 4, destination: 'jan@example.com' }),
      { not: 'an entry' },
    ];
    t.same(peopleOf({ destinations }), ['1 jan@example.com', '2 +31612345678', '4 jan@example.com']);
  },
);
