/** The built program when no mail leaves: what the commands say, and what the API tells the page. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { DaemonState } from '../../src/base/state-lines.js';
import { EMAIL } from '../support/api.js';
import { needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const SMS = { type: 2, destination: '+31612345678', message: 'Alarm' };
/** Nothing listens there. */
const NOWHERE = 'smtp://127.0.0.1:9';
const NO_CLOUD = {
  FIELDPOST_CLOUD: 'http://127.0.0.1:9',
  FIELDPOST_DEVICE_ID: 'pump-3',
  FIELDPOST_CLOUD_KEY: 'k',
};

/** A daemon, and its headline. */
async function start(t: Test, env: Readonly<Record<string, string>>) {
  const daemon = await startIn(t, env);
  return {
    ...daemon,
    /** Both commands say this once the state is so. */
    async says(words: RegExp, isSo: (state: DaemonState) => boolean = () => true) {
      let state: DaemonState;
      do state = (await daemon.api('state')).json;
      while (!isSo(state));
      t.match(daemon.run('status').stdout.split('\n')[0], words);
      t.match(daemon.run('queue').stdout, words);
    },
  };
}

const stateIn = (t: Test) => ({ FIELDPOST_STATE_DIR: join(t.testdir(), 'state') });
const isDown = ({ relay }: DaemonState) => relay?.state === 'failing';
const isCut = ({ link }: DaemonState) => link?.reason !== null;

t.test('a relay that cannot be reached is the reason, and not the cloud', needsProgram, async (t) => {
  const daemon = await start(t, { ...stateIn(t), FIELDPOST_RELAY: NOWHERE, ...NO_CLOUD });
  await daemon.says(/nothing waits; the cloud link has been .*: .*ECONNREFUSED/, isCut);
  t.equal((await daemon.api('messages', Array(40).fill(EMAIL))).status, 202);
  await daemon.says(
    /40 waiting: 127\.0\.0\.1:9: [^;]*ECONNREFUSED.* since [^;]*(?:; next try [^;]*)?$/m,
    isDown,
  );
  t.equal((await daemon.api('messages', [SMS])).status, 202);
  await daemon.says(/41 waiting: 127\.0\.0\.1:9: .*; the cloud link has been .*ECONNREFUSED/);
  const { queue, clock } = (await daemon.api('state')).json;
  t.equal(queue.forCloud, 1);
  t.ok(Math.abs(Date.parse(clock.now) - Date.now()) < 60_000, 'the clock of the device');
});

t.test('without a relay that is the reason, without a cloud that', needsProgram, async (t) => {
  const env = stateIn(t);
  const before = await start(t, { ...env, ...NO_CLOUD });
  await before.api('messages', [EMAIL]);
  await before.says(/1 waiting: no relay is configured \(FIELDPOST_RELAY\)$/m, isCut);
  await before.api('messages', [SMS]);
  t.equal(await before.end('SIGTERM'), 0);
  const after = await start(t, { ...env, FIELDPOST_RELAY: NOWHERE });
  await after.says(/2 waiting: 127\.0\.0\.1:9: .*; no cloud is configured \(FIELDPOST_CLOUD\)$/m, isDown);
});

t.test('failed messages are counted beside those that wait', needsProgram, async (t) => {
  await using relay = await fakeRelay({
    rcpt: ({ command }) => (command.includes('bad') ? '550 5.1.1 No such user' : '450 4.2.1 Not now'),
  });
  const daemon = await start(t, { ...stateIn(t), FIELDPOST_RELAY: relay.url });
  const mails = Array.from({ length: 15 }, (_, i) => ({
    ...EMAIL,
    destination: `${i < 8 ? 'bad' : 'later'}${i}@example.com`,
  }));
  await daemon.api('messages', mails);
  await daemon.says(
    /7 waiting, 7 of them deferred; 8 failed$/m,
    ({ queue }) => queue?.deferred === 7 && queue.failed === 8,
  );
});

t.test('a full queue tells its cause', needsProgram, async (t) => {
  const daemon = await start(t, { ...stateIn(t), FIELDPOST_RELAY: NOWHERE, FIELDPOST_MAX_QUEUE: '3' });
  await daemon.api('messages', Array(3).fill(EMAIL));
  await daemon.says(
    /messages are refused: the queue is full: .*takes at most 3; 3 waiting: 127\.0\.0\.1:9: .*ECONNREFUSED/,
    isDown,
  );
});

t.test(
  'a relay of 50 mails a day and a storm of 300: one sentence, also after a restart',
  needsProgram,
  async (t) => {
    await using relay = await fakeRelay();
    const env = { ...stateIn(t), FIELDPOST_RELAY: relay.url, FIELDPOST_RELAY_RATE: '50/1d' };
    const ordinary = ({ relay, queue }: DaemonState) =>
      queue?.queued === 253 && queue.sending === 0 && relay?.rate?.used[0]?.sent === 47;
    const words =
      /^.*253 waiting: the relay gets at most 50 mails a day \(FIELDPOST_RELAY_RATE\); the next may go at [^;]*$/m;
    const before = await start(t, env);
    for (let hundred = 0; hundred < 3; hundred++) await before.api('messages', Array(100).fill(EMAIL));
    await before.says(words, ordinary);
    const { relay: view, queue } = (await before.api('state')).json;
    t.match([view.state, view.reason, queue.failed, queue.deferred], ['ok', null, 0, 0]);
    t.match(view.rate, { used: [{ limit: 50, windowMs: 86_400_000, sent: 47 }], nextAt: /^2/ });
    t.match(
      before.run('status').stdout,
      /^ +rate: 47 of 50 in 1 d \(the other 3 for urgent mails\); the next may go at /m,
    );
    t.equal(await before.end('SIGTERM'), 0);
    const after = await start(t, env);
    await after.says(words, ordinary);
    await after.api('messages', Array(4).fill({ ...EMAIL, priority: 'high' }));
    await after.says(/254 waiting: /, ({ queue }) => queue?.queued === 254 && queue.sending === 0);
    t.equal(relay.mails.length, 50);
  },
);
