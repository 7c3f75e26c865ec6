/** A part of an etcd behaves as a whole one, and sees nothing of the rest. */
import t from 'tap';
import { prefixed } from '../../src/cloud/etcd/etcd.js';
import { FakeClock } from '../support/clock.js';
import { FakeEtcd } from '../support/fake-etcd.js';
import { seededRandom } from '../support/random.js';
import { etcdBehaviour, hear } from './behaviour.js';

t.test('behaviour', async (t) => {
  await etcdBehaviour(t, async () => {
    const clock = new FakeClock();
    const server = new FakeEtcd(clock, seededRandom(1));
    const part = (name: string) => prefixed(server.client(name), 'part/');
    return { a: part('a'), b: part('b'), prefix: 'test/', pass: (ms) => clock.advance(ms) };
  });
});

t.test('its keys begin with the prefix, and others are not there', async (t) => {
  const server = new FakeEtcd(new FakeClock(), seededRandom(1));
  const all = server.client('all');
  const part = prefixed(all, 'part/');
  await all.txn(
    [],
    [
      { put: 'k', value: 'other' },
      { put: 'parts', value: 'other' },
    ],
  );
  const heard = hear(part, '', 1);
  await part.txn([{ key: 'k', modRevision: 0 }], [{ put: 'k', value: 'mine' }]);
  t.equal(server.keyOf('part/k')?.value, 'mine');
  const listed: string[] = [];
  await part.list('', (found) => void listed.push(...found.map(({ key }) => key)));
  t.strictSame(listed, ['k']);
  await heard.until(({ revisions }) => revisions.length === 1);
  t.strictSame(heard.revisions.length, 1);
});
