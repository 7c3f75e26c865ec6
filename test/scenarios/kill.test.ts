/**
 * Kills the daemon at random moments while programs use it and the relay comes and goes. Every promise is kept. A mail
 * arrives twice only if the process or the connection died while it was being sent. The relay is by other people.
 */
// A process of its own: it takes long.
import t from 'tap';
import { plainDisk } from '../power/device.js';
import { History } from '../power/history.js';
import { needsProgram } from '../support/daemon.js';
import { testSeed } from '../support/random.js';

const KILLS = process.env.FIELDPOST_TEST_LONG === '1' ? 80 : 8;
const seed = testSeed();

t.comment(`seed ${seed}`);

t.test('kills under load break no promise', needsProgram, async (t) => {
  const ended = await new History(seed, plainDisk(t.testdir())).live(Array(KILLS).fill('kill'));
  const { found, log, cuts, unplugged, promised, edits, twice } = ended;
  t.comment(
    `${cuts} kills, relay unplugged ${unplugged} times, ${promised} promised, ${twice} arrived twice`,
  );
  if (!t.same(found, [], 'no promise is broken')) t.comment(log.slice(-50).join('\n'));
  t.equal(cuts, KILLS);
  t.ok(promised > 0 && edits > 0);
  // A kill doubles at most the message that is sent, and the one whose outcome is being recorded.
  t.ok(twice <= 2 * cuts + unplugged, 'a mail arrives twice only after an interruption');
});
