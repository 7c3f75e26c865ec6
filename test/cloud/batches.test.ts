/** Which batch is told next: one after the other for each device, and a closed one only as a whole. */
import t from 'tap';
import { Batches, type PendingNews } from '../../src/cloud/files/watch.js';

const pending = (id: string, batch: string, isKept = true): PendingNews => ({
  news: { id, kind: 'silent', sinceMs: null },
  batch,
  isKept,
});

t.test('a closed batch waits as a whole for earlier news of one of its devices', async (t) => {
  const batches = new Batches(
    () => 0,
    () => 'x',
  );
  const first: [string, PendingNews[]] = ['a', [pending('1', 'old'), pending('2', 'new')]];
  const other: [string, PendingNews[]] = ['b', [pending('3', 'new')]];
  const offered = new Set<string>();
  t.match(batches.next([other, first], offered), {
    id: 'old',
    isClosed: true,
    news: [{ id: '1', device: 'a' }],
  });
  t.equal(batches.next([other, first], offered), null);
  first[1].shift();
  t.match(batches.next([other, first], offered), { id: 'new', news: [{ id: '3' }, { id: '2' }] });
  t.equal(
    batches.next([['c', [pending('4', 'kept'), pending('5', 'kept', false)]]], offered),
    null,
    'not on the disk',
  );
});
