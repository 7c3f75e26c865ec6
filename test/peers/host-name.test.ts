/** The host name of a device is corrected while the daemon runs. */
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { fakeRelay, type Now } from '../support/relay.js';
import { MAIL, named, skipWithout, startFieldpost } from './peers.js';

const NAME = 'pump-3.field.example';
const skip = skipWithout('/usr/bin/unshare', '/usr/bin/nsenter');

/** A relay that accepts mail only after EHLO with the full name. */
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

t.test('a corrected host name needs no restart, and changes the sender', { skip }, async (t) => {
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
    'the mail that was refused has the new sender, too',
  );
});

t.test('FIELDPOST_HELO_NAME replaces a short host name', { skip }, async (t) => {
  await using relay = await strictRelay();
  const env = { FIELDPOST_RELAY: relay.url, FIELDPOST_HELO_NAME: NAME };
  const daemon = await startFieldpost(t, env, named('vm'));
  await daemon.post(MAIL);
  await daemon.said(/ sent /, 0, 60_000);
});
