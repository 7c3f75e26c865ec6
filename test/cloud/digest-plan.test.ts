/** What a person is told at the end of a batch: every history of three news of a device, and the number for a digest. */
import t from 'tap';
import { type PlannedNews, planFor } from '../../src/cloud/telling.js';

function one(device: string, kind: 'silent' | 'stopped' | 'back', isTold = false): PlannedNews {
  const id = `${device} ${kind}`;
  const news =
    kind === 'back'
      ? { kind, id, device, sinceMs: null, lastedMs: null }
      : { kind, id, device, sinceMs: null };
  return { news, isTold };
}

const toldOf = (all: readonly PlannedNews[]) => planFor(all, () => false).single.map(({ news }) => news.kind);

t.test('a person hears the last news of a device, if it is other than what they know', async (t) => {
  t.same(toldOf([one('a', 'silent')]), ['silent']);
  t.same(toldOf([one('a', 'back')]), ['back']);
  t.same(toldOf([one('a', 'silent'), one('a', 'back')]), [], 'silent and back, and told of neither');
  t.same(toldOf([one('a', 'stopped', true), one('a', 'back')]), ['back']);
  t.same(toldOf([one('a', 'silent', true), one('a', 'back', true)]), []);
  t.same(toldOf([one('a', 'back'), one('a', 'silent')]), [], 'it is offline, as they know');
  t.same(toldOf([one('a', 'back', true), one('a', 'stopped')]), ['stopped']);
  t.same(toldOf([one('a', 'silent'), one('a', 'back'), one('a', 'stopped')]), ['stopped']);
  t.same(toldOf([one('a', 'silent', true), one('a', 'back'), one('a', 'silent')]), []);
  const several = [one('a', 'silent'), one('b', 'back'), one('a', 'back'), one('c', 'stopped')];
  t.same(new Set(toldOf(several)), new Set(['stopped', 'back']));
});

t.test('more than twenty news of one direction are a digest, once', async (t) => {
  const silent = (count: number) =>
    Array.from({ length: count }, (_, n) => one(`s${n}`, n % 2 ? 'silent' : 'stopped'));
  const back = (count: number) => Array.from({ length: count }, (_, n) => one(`b${n}`, 'back'));
  const shape = (all: readonly PlannedNews[], has: readonly string[] = []) => {
    const { single, digests } = planFor(all, (direction) => has.includes(direction));
    return [single.length, ...digests.map(({ direction, news }) => [direction, news.length])];
  };
  t.same(shape(silent(20)), [20]);
  t.same(shape(silent(21)), [0, ['offline', 21]]);
  t.same(shape([...silent(20), ...back(20)]), [40]);
  t.same(shape([...silent(21), ...back(300)]), [0, ['offline', 21], ['back', 300]]);
  t.same(shape([...silent(21), ...back(3)], ['offline']), [3], 'the digest was accepted before');
  t.same(shape([...silent(20), one('x', 'silent', true)]), [20], 'one was told at once');
});
