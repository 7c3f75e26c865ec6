/**
 * Kills the daemon at random, again and again, while programs work on it and the relay comes and goes: every promise is
 * kept, and a mail arrives twice only where the process or the connection died while it was being sent. The relay is one
 * that others wrote.
 */
import t from 'tap';
import { plainDisk } from '../power/device.js';
import { History } from '../power/history.js';
import { isBuilt } from '../support/daemon.js';
import { testSeed } from '../support/random.js';

const KILLS = process.env.FIELDPOST_TEST_LONG === '1' ? 80 : 8;
const seed = testSeed();

t.comment(`seed ${seed}`);

t.test('killed under load', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  const ended = await new History(seed, plainDisk(t.testdir())).live(Array(KILLS).fill('kill'));
  const { found, log, cuts, unplugged, promised, edits, twice } = ended;
  t.comment(
    `${cuts} kills, relay unplugged ${unplugged} times, ${promised} promised, ${twice} arrived twice`,
  );
  if (!t.same(found, [], 'every promise is kept')) t.comment(log.slice(-50).join('\n'));
  t.equal(cuts, KILLS);
  t.ok(promised > 0 && edits > 0);
  // One message at a time is under way, so an interruption can double one at the most.
  t.ok(twice <= cuts + unplugged, 'twice only where it was interrupted');
});
