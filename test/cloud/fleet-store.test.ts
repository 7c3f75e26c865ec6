/** Both stores of the cloud's state behave alike. */
import t from 'tap';
import { PLACES } from '../support/fleet-stores.js';
import { testStore } from './fleet-store-behaviour.js';

for (const [name, open] of Object.entries(PLACES)) t.test(name, async (t) => testStore(t, open));
