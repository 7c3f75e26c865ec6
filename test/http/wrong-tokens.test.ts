/** Wrong secrets in the log: one line at once, then one an hour. */
import t from 'tap';
import { WrongSecrets } from '../../src/base/http/access.js';
import { HOUR_MS } from '../../src/base/limits.js';
import { FakeClock } from '../support/clock.js';

t.test('the first at once, the others once an hour, the rest at the end', async (t) => {
  const clock = new FakeClock();
  const logged: object[] = [];
  const tokens = new WrongSecrets({ clock, log: { warn: (_, fields = {}) => void logged.push(fields) } });
  for (const peer of ['a', 'b', 'c']) tokens.note({ peer });
  t.strictSame(logged, [{ count: 1, peer: 'a' }]);
  await clock.advance(HOUR_MS - 2);
  t.equal(logged.length, 1);
  await clock.advance(2);
  t.strictSame(logged[1], { count: 2, peer: 'c' });
  await clock.advance(10 * HOUR_MS);
  t.equal(logged.length, 2, 'nothing came');
  tokens.note({ peer: 'd' });
  tokens.note({ peer: 'e' });
  tokens.end();
  t.strictSame(logged.slice(2), [
    { count: 1, peer: 'd' },
    { count: 1, peer: 'e' },
  ]);
  await clock.advance(10 * HOUR_MS);
  t.equal(logged.length, 4);
});

t.test('a service says what its secrets are', async (t) => {
  const logged: string[] = [];
  const parts = { clock: new FakeClock(), log: { warn: (event: string) => void logged.push(event) } };
  new WrongSecrets(parts).note({});
  const logWrong = ({ count }: { count?: unknown }) => void logged.push(`wrong keys ${count}`);
  new WrongSecrets({ ...parts, logWrong }).note({});
  t.strictSame(logged, ['wrong tokens', 'wrong keys 1']);
});
