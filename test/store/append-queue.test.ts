/** The queue before the journal: what is written together, and who is left the reserve. */
import t from 'tap';
import { OUTCOME_RESERVE_BYTES, SEGMENT_BYTES } from '../../src/limits.js';
import { AppendQueue, type Entry, type Urgency } from '../../src/store/append-queue.js';
import { seal } from '../../src/store/record.js';

function entry(urgency: Urgency, bytes: number): Entry {
  const record = { ...seal({ events: [], contents: [] }), bytesMax: bytes };
  return { record, urgency, resolve: () => undefined, reject: () => undefined };
}

function queueOf(...entries: Entry[]): AppendQueue {
  const queue = new AppendQueue();
  for (const it of entries) queue.push(it);
  return queue;
}

t.test('what fits is taken from the head, in order', async (t) => {
  const entries = [entry('synced', 100), entry('synced', 200), entry('synced', 300), entry('synced', 1)];
  const queue = queueOf(...entries);
  t.same(queue.takeFitting(OUTCOME_RESERVE_BYTES + 599), entries.slice(0, 2), 'nobody overtakes');
  t.same(queue.takeFitting(OUTCOME_RESERVE_BYTES + 299), []);
  t.same(queue.takeFitting(OUTCOME_RESERVE_BYTES + 301), entries.slice(2));
  t.ok(queue.isEmpty);
});

t.test('the reserve is for outcomes alone', async (t) => {
  const [message, outcome] = [entry('synced', 100), entry('written', 100)];
  t.same(queueOf(message).takeFitting(OUTCOME_RESERVE_BYTES + 99), []);
  t.same(queueOf(outcome).takeFitting(100), [outcome]);
  t.same(queueOf(outcome).takeFitting(99), []);
});

t.test('a new segment is begun with at least the head, and not filled at once', async (t) => {
  const huge = entry('synced', 3 * SEGMENT_BYTES);
  const quarters = Array.from({ length: 4 }, () => entry('synced', SEGMENT_BYTES / 4));
  const queue = queueOf(huge, ...quarters);
  t.same(queue.takeForNew(), [huge]);
  t.same(queue.takeForNew(), quarters.slice(0, 2));
  t.same(queue.takeAll(), quarters.slice(2));
  t.same(queue.takeForNew(), []);
});

t.test(
  'outcomes go back to where they came from; the head never does, or it would come round for ever',
  async (t) => {
    const [first, second, later] = [entry('written', 1), entry('written', 2), entry('written', 3)];
    const message = entry('synced', 4);
    const queue = queueOf(later);
    t.same(queue.putBackOutcomes([first, message, second]), [first, message]);
    t.same(queue.takeAll(), [second, later]);
  },
);
