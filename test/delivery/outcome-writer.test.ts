import t from 'tap';
import { HOUR_MS, SECOND_MS, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { bench, reply, TAKEN } from '../support/delivery.js';
import type { Fault } from '../support/faulty-disk.js';

const refuses = (): Fault => 'error:EIO';

t.test('an outcome that cannot be recorded stops delivery; nothing is sent twice', async (t) => {
  const { clock, disk, relays, delivery, post, status, lines } = await bench();
  const ids = await post(3);
  relays.onSend = () => {
    disk.onOperation = refuses;
    return TAKEN;
  };
  delivery.start();
  await clock.advance(HOUR_MS);
  t.same(relays.offered, ids.slice(0, 1));
  t.same(ids.map(status), ['sending', 'queued', 'queued']);
  t.same([relays.open, clock.pending], [0, 1], 'one timer, for the storage');
  t.equal(clock.fired, HOUR_MS / STORAGE_RETRY_MS + 1, 'and the one that closed the connection');
  relays.onSend = () => TAKEN;
  disk.onOperation = () => 'ok';
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
});

t.test('a nudge is a reason to try again; the connections already sending may end', async (t) => {
  const { clock, disk, relays, delivery, post, status } = await bench({ settings: { relayConnections: 2 } });
  const [first] = await post();
  delivery.start();
  await clock.advance(0);
  t.equal(status(first), 'sent');
  const [a = '', b = '', c = ''] = await post(3);
  relays.onSend = async (id) => {
    if (id === b) await new Promise<void>((answer) => clock.after(SECOND_MS, answer));
    disk.onOperation = refuses;
    return id === a ? reply('rcpt', '450 4.2.0 later') : TAKEN;
  };
  delivery.nudge();
  await clock.advance(2 * SECOND_MS);
  t.same([a, b, c].map(status), ['sending', 'sending', 'queued']);
  disk.onOperation = () => 'ok';
  relays.onSend = () => TAKEN;
  delivery.nudge();
  await clock.advance(0);
  t.same([a, b, c].map(status), ['deferred', 'sent', 'sent']);
  await clock.advance(HOUR_MS);
  t.same([a, b, c].map(status), ['sent', 'sent', 'sent']);
  t.equal(clock.pending, 0);
});

t.test('a stop tries once more', async (t) => {
  const { clock, disk, relays, delivery, writer, post, status } = await bench();
  const [id] = await post();
  disk.onOperation = refuses;
  relays.onSend = () => TAKEN;
  delivery.start();
  await clock.advance(0);
  t.equal(status(id), 'sending');
  disk.onOperation = () => 'ok';
  await delivery.stop();
  await writer.stop();
  t.same([status(id), clock.pending], ['sent', 0]);
});

t.test('an outcome that cannot be recorded waits through a reload; nothing is sent', async (t) => {
  const made = await bench();
  const { clock, disk, relays, post, status, lines } = made;
  const [id = '', next = ''] = await post(2);
  relays.onSend = () => {
    disk.onOperation = refuses;
    return TAKEN;
  };
  made.delivery.start();
  await clock.advance(0);
  await made.reload();
  await clock.advance(STORAGE_RETRY_MS);
  t.same([status(id), status(next)], ['sending', 'queued'], 'it waits for the storage as before');
  disk.onOperation = () => 'ok';
  relays.onSend = () => TAKEN;
  await clock.advance(STORAGE_RETRY_MS);
  t.same([status(id), status(next)], ['sent', 'sent']);
  t.same(relays.offered, [id, next], 'nothing is sent twice');
  t.same(made.writer.outcomes, { sent: 2, deferred: 0, failed: 0, expired: 0 });
  t.equal(lines.filter(({ event }) => event === 'sent').length, 2);
});
