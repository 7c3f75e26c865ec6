import t from 'tap';
import { headline } from '../src/base/state-lines.js';
import { HEADLINES } from './support/headlines.js';

t.test('the headline, row by row', async (t) => {
  for (const [state, mood, words] of HEADLINES)
    t.same(
      headline(state, (iso) => iso.slice(11, 16)),
      [mood, words],
    );
});

t.test('the headline of a daemon that tells less', async (t) => {
  t.equal(headline({ version: '9' }, String), null);
  const storage = {
    state: 'full',
    reason: 'no room',
    freeBytes: 0,
    damaged: 0,
    newer: [],
    unusable: [],
  } as const;
  t.same(headline({ storage }, String), ['bad', 'messages are refused: the storage is full: no room']);
  // Emails are the rule: what waits is said to wait for the relay.
  const queue = { queued: 1, sending: 0, deferred: 0, failed: 0, oldestAgeMs: 0, bytes: 0, held: false };
  t.same(headline({ queue, relay: { state: 'none', since: null, reason: null } }, String), [
    'uneasy',
    '1 waiting: no relay is configured (FIELDPOST_RELAY)',
  ]);
});
