/**
 * A provider with a daily quota that checks the From header, and the mails that system programs write. All arrive, however
 * many days it takes.
 */
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { DAY_MS, MINUTE_MS } from '../../src/base/limits.js';
import { createDaemon } from '../../src/device/daemon.js';
import { ask } from '../support/ask.js';
import { FakeClock, settled } from '../support/clock.js';
import { needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';
import { configOf, testSystem } from '../support/system.js';

const OURS = 'pump@fleet.example';
const QUOTA = 50;
const MAILS = 130;
const OVER_QUOTA = '550 5.4.5 Daily user sending limit exceeded.';
/** Words that no table knows. */
const UNKNOWN = '550 Nope, come back tomorrow';

/** As these programs write them: cron, mdadm (Monitor.c), fail2ban (action.d/sendmail.conf), mutt and logwatch. */
const PROGRAMS: readonly ((n: number) => string)[] = [
  (n) =>
    `From: root (Cron Daemon)\nTo: root\nSubject: Cron <root@pump-3> job ${n}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\nPrecedence: bulk\nX-Cron-Env: <SHELL=/bin/sh>\n\ndisk is full\n`,
  (n) =>
    `From: mdadm monitoring <root>\nTo: root\nSubject: DegradedArray event on /dev/md${n}:pump-3\n\nThis is an automatically generated mail message.\n`,
  (n) =>
    `Subject: [Fail2Ban] sshd: banned 10.0.0.${n} from pump-3\nDate: Fri, 20 Nov 2026 10:00:00 +0000\nFrom: Fail2Ban <root@pump-3.local>\nTo: root\n\n${'x'.repeat(1200)}\n`,
  (n) => `From: root <root@pump-3>\nTo: root@device.example\nSubject: mutt ${n}\n\nhello\n`,
  (n) => `To: root\nFrom: logwatch@localhost\nSubject: Logwatch ${n}\nMime-Version: 1.0\n\nall is well\n`,
];

/** What such a provider would say to a mail; undefined: it takes it. */
function refusalOf(mail: string): string | undefined {
  const [head = ''] = mail.split('\r\n\r\n');
  if (!/^From: .*<pump@fleet\.example>\r$/m.test(head))
    return '554 5.2.252 SendAsDenied; not allowed to send as this sender';
  if (/^To: (?!.*@)/m.test(head)) return '550 5.1.3 The To header has no valid address';
  return mail.split('\r\n').some((line) => line.length > 998) ? '500 5.5.2 Line too long' : undefined;
}

for (const words of [OVER_QUOTA, UNKNOWN])
  t.test(
    `mails of system programs arrive over several days of a quota, and none fails: ${words}`,
    async (t) => {
      const clock = new FakeClock();
      let today = -1;
      let taken = 0;
      await using relay = await fakeRelay({
        dot() {
          const day = Math.floor(clock.uncounted.bootMs() / DAY_MS);
          if (day !== today) [today, taken] = [day, 0];
          return taken++ < QUOTA ? undefined : words;
        },
      });
      const env = {
        FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
        FIELDPOST_RELAY: relay.url,
        FIELDPOST_FROM: OURS,
        FIELDPOST_LOCAL_MAIL: 'ops@fleet.example',
      };
      const daemon = await createDaemon(configOf(env), testSystem({ clock }).system);
      const api = `http://${daemon.addresses.map(addressOf).join()}/api/internal`;
      for (let n = 0; n < MAILS; n++) {
        const body = PROGRAMS[n % PROGRAMS.length]?.(n) ?? '';
        const headers = { 'Content-Type': 'message/rfc822' };
        const { status } = await ask(`${api}/messages?to=headers&repair=yes`, 'POST', { body, headers });
        if (status !== 202) t.fail(`mail ${n}: ${status}`);
      }
      const states = new Set<string>();
      let days = 0;
      for (let left = MAILS; left > 0; ) {
        await clock.advance(MINUTE_MS);
        await settled();
        const { relay: peer, queue } = (await ask(`${api}/state`)).json;
        if (queue.failed > 0) t.fail(`${queue.failed} failed`);
        if (!t.passing()) break;
        states.add(peer.state);
        left = queue.queued + queue.sending + queue.deferred;
        days = clock.uncounted.bootMs() / DAY_MS;
        if (days > 9) break;
      }
      await daemon.stop();
      t.equal(relay.mails.length, MAILS, `in ${days.toFixed(1)} days`);
      t.ok(states.has('refusing') && states.has('ok'), [...states].join());
      t.same(
        relay.mails
          .map((mail) => refusalOf(String(mail.content)))
          .filter(Boolean)
          .slice(0, 3),
        [],
      );
    },
  );

t.test('a quota in the middle of a backlog fails nothing', needsProgram, async (t) => {
  let quota = 5;
  let refusals = 0;
  await using relay = await fakeRelay({ dot: () => (quota-- > 0 ? undefined : refused()) });
  const daemon = await startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_FROM: OURS,
  });
  const body = Array.from({ length: 25 }, (_, n) => ({ type: 1, destination: `r${n}@x.org`, subject: 'x' }));
  let whenRefused = () => {};
  const isRefused = new Promise<void>((resolve) => (whenRefused = resolve));
  function refused(): string {
    refusals++;
    whenRefused();
    return OVER_QUOTA;
  }
  t.equal((await daemon.api('messages', body)).status, 202);
  await isRefused;
  while (!daemon.lines.some((line) => / relay refusing | failed /.test(line))) await daemon.nextLine();
  const { relay: peer, queue } = (await daemon.api('state')).json;
  t.match(peer, { state: 'refusing', reason: /daily limit is reached.*550 5\.4\.5/, nextTryAt: /^20/ });
  t.match(queue, { queued: 20, deferred: 0, failed: 0 });
  const status = daemon.run('status');
  t.match(status.stdout, /20 waiting: .*daily limit is reached.*; next try /);
  t.equal(refusals, 1, 'one probe, then a pause');
  quota = 25;
  t.equal(daemon.run('queue', 'flush').status, 0);
  // Else they never come.
  if (t.passing()) await relay.arrived(25);
});
