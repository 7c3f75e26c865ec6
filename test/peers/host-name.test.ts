/** A device whose host name is mended while the daemon runs: the built program under a host name of its own. */
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { fakeRelay, type Now } from '../support/relay.js';
import { named, skipWithout, startFieldpost } from './peers.js';

const NAME = 'pump-3.field.example';
const MAIL = { destination: 'john@example.com', subject: 'Pump 3', plain: 'The pressure is low.' };
const skip = skipWithout('/usr/bin/unshare', '/usr/bin/nsenter');

/** A relay that takes mail only from a full name. */
function strictRelay() {
  let isFull = false;
  return fakeRelay({
    ehlo({ command }: Now) {
      isFull = command === `EHLO ${NAME}`;
      return undefined;
    },
    rcpt: () => (isFull ? undefined : '504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname'),
  });
}

t.test('a host name that is mended needs no restart, and the sender follows it', { skip }, async (t) => {
  await using relay = await strictRelay();
  const env = { FIELDPOST_RELAY: relay.url, FIELDPOST_FROM: '' };
  const daemon = await startFieldpost(t, env, named('vm'));
  await daemon.post(MAIL);
  await daemon.said(/relay failing .*set FIELDPOST_HELO_NAME/, 0, 60_000);
  execFileSync('/usr/bin/nsenter', ['--uts', '--target', `${daemon.pid}`, 'hostname', NAME]);
  await daemon.said(/ sent /, 0, 60_000);
  const from = daemon.lines.length;
  await daemon.post(MAIL);
  await daemon.said(/ sent /, from);
  t.same(
    relay.mails.map((mail) => mail.from),
    [`fieldpost@${NAME}`, `fieldpost@${NAME}`],
    'what was refused has the present sender, too',
  );
});

t.test('where the host name cannot be mended the setting does it', { skip }, async (t) => {
  await using relay = await strictRelay();
  const env = { FIELDPOST_RELAY: relay.url, FIELDPOST_HELO_NAME: NAME };
  const daemon = await startFieldpost(t, env, named('vm'));
  await daemon.post(MAIL);
  await daemon.said(/ sent /, 0, 60_000);
});
