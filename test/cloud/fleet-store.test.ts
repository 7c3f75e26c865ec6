/** Both stores of the cloud's state behave alike. */
import t from 'tap';
import { testStore } from './fleet-store-behaviour.js';
import { PLACES } from './fleet-stores.js';

for (const [name, open] of Object.entries(PLACES)) t.test(name, async (t) => testStore(t, open));
