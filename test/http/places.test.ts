/** The places of the servers fit into the files that the process may open. */
import t from 'tap';
import { CONNECTIONS_MAX } from '../../src/base/http/connection.js';
import {
  CONNECTIONS_OPEN_MAX,
  CONNECTIONS_WAITING_MAX,
  placesIn,
  SMTP_CONNECTIONS_MAX,
} from '../../src/base/http/connections.js';

t.test(
  'all connections at once, each with its file, fit into any number of descriptors from 6 on',
  async (t) => {
    for (let descriptors = 6; descriptors < 2000; descriptors++) {
      const { served, waiting, open, sessions } = placesIn(descriptors);
      if (open + served + 2 * sessions > descriptors) t.fail(`${descriptors} are not enough`);
      if (served + waiting >= open) t.fail(`with ${descriptors} none is left for refusals`);
      if (served * waiting * sessions === 0) t.fail(`with ${descriptors} somebody has no place`);
    }
  },
);

t.test('where there are enough, the limits hold; with none, one client has a place', async (t) => {
  const all = {
    served: CONNECTIONS_MAX,
    waiting: CONNECTIONS_WAITING_MAX,
    open: CONNECTIONS_OPEN_MAX,
    sessions: SMTP_CONNECTIONS_MAX,
  };
  for (const descriptors of [undefined, 100_000, 1200]) t.same(placesIn(descriptors), all);
  for (const descriptors of [-5, 0, 5])
    t.same(placesIn(descriptors), { served: 1, waiting: 1, open: 3, sessions: 1 });
});
