import t from 'tap';
import { FieldpostError } from '../../src/errors.js';
import { HOUR_MS, SECOND_MS, STORAGE_RETRY_MS } from '../../src/limits.js';
import { bench, reply, TAKEN } from '../support/delivery.js';

const FULL = new FieldpostError('storage-full', 'no space left');

t.test(
  'what cannot be recorded stops delivery; nothing is sent twice, and it goes on by itself',
  async (t) => {
    const { clock, store, relays, delivery, post, status, lines } = bench();
    const ids = await post(3);
    relays.onSend = () => {
      store.failure = FULL;
      return TAKEN;
    };
    delivery.start();
    await clock.advance(HOUR_MS);
    t.same(relays.offered, ids.slice(0, 1));
    t.same(ids.map(status), ['sending', 'queued', 'queued']);
    t.same([relays.open, clock.pending], [0, 1], 'one timer, for the storage');
    t.equal(clock.fired, HOUR_MS / STORAGE_RETRY_MS + 1, 'and the one that closed the connection');
    relays.onSend = () => TAKEN;
    store.failure = null;
    await clock.advance(STORAGE_RETRY_MS);
    t.same(ids.map(status), ['sent', 'sent', 'sent']);
    t.same(relays.offered, ids);
    t.match(lines, [
      { event: 'relay ok' },
      { level: 'error', event: 'outcome not recorded', fields: { id: ids[0], outcome: 'sent' } },
      { event: 'sent', fields: { id: ids[0], relay: 'relay.example:587' } },
      { event: 'sent' },
      { event: 'sent' },
    ]);
  },
);

t.test('a nudge is a reason to try again; the connections already sending may end', async (t) => {
  const { clock, store, relays, delivery, post, status } = bench({ settings: { relayConnections: 2 } });
  const [first] = await post();
  delivery.start();
  await clock.advance(0);
  t.equal(status(first), 'sent');
  const [a = '', b = '', c = ''] = await post(3);
  relays.onSend = async (id) => {
    if (id === b) await new Promise<void>((answer) => clock.after(SECOND_MS, answer));
    store.failure = FULL;
    return id === a ? reply('rcpt', '450 4.2.0 later') : TAKEN;
  };
  delivery.nudge();
  await clock.advance(2 * SECOND_MS);
  t.same([a, b, c].map(status), ['sending', 'sending', 'queued']);
  store.failure = null;
  relays.onSend = () => TAKEN;
  delivery.nudge();
  await clock.advance(0);
  t.same([a, b, c].map(status), ['deferred', 'sent', 'sent']);
  await clock.advance(HOUR_MS);
  t.same([a, b, c].map(status), ['sent', 'sent', 'sent']);
  t.equal(clock.pending, 0);
});

t.test('a stop tries once more', async (t) => {
  const { clock, store, relays, delivery, post, status } = bench();
  const [id] = await post();
  store.failure = FULL;
  relays.onSend = () => TAKEN;
  delivery.start();
  await clock.advance(0);
  t.equal(status(id), 'sending');
  store.failure = null;
  await delivery.stop();
  t.same([status(id), clock.pending], ['sent', 0]);
});

t.test('what a delivery could not record, the one that takes its place does', async (t) => {
  const { clock, store, relays, delivery, post, status, lines } = bench();
  const [id = '', next = ''] = await post(2);
  relays.onSend = () => {
    store.failure = FULL;
    return TAKEN;
  };
  delivery.start();
  await clock.advance(0);
  const unrecorded = await delivery.stop();
  t.same(
    unrecorded.map((entry) => entry.id),
    [id],
  );
  const second = bench({ clock, store, unrecorded, outcomes: { ...delivery.outcomes, failed: 3 } });
  second.delivery.start();
  await clock.advance(STORAGE_RETRY_MS);
  t.same([status(id), status(next)], ['sending', 'queued'], 'it waits for the storage as the first did');
  store.failure = null;
  await clock.advance(STORAGE_RETRY_MS);
  t.same([status(id), status(next)], ['sent', 'sent']);
  t.same(second.relays.offered, [next], 'nothing is sent twice');
  t.same(second.delivery.outcomes, { sent: 2, deferred: 0, failed: 3, expired: 0 });
  t.equal(lines.filter(({ event }) => event === 'sent').length, 0);
});
