/** Both stores decide alike what people are to hear. */
import t from 'tap';
import { PLACES } from './fleet-stores.js';
import { testPeople } from './people-behaviour.js';

for (const [name, open] of Object.entries(PLACES)) t.test(name, async (t) => testPeople(t, open));
