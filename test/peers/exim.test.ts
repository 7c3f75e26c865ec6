/** Delivery through Debian's Exim. It is stricter than Postfix about a client that does not wait for its turn. */
import { t } from 'tap';
import { EXIM, startExim } from './exim.js';
import { arriveAsPosted } from './nasty.js';
import { refusedThenSent, skipWithout, startFieldpost } from './peers.js';

t.test('Exim', { skip: skipWithout(EXIM) }, async (t) => {
  const exim = await startExim(t);

  for (const { door, mark } of [
    { door: 'pipelining', mark: 'L ' },
    { door: 'stepwise', mark: '' },
  ] as const) {
    t.test(`mails arrive as they were posted, ${door}`, async (t) => {
      const fieldpost = await startFieldpost(t, { FIELDPOST_RELAY: exim[door] });
      for (const [id, bytes] of await arriveAsPosted(t, fieldpost, exim.mail)) {
        await exim.logged(new RegExp(` declared ${bytes.length} bytes$`));
        t.match(await exim.logged(new RegExp(` <= .* id=${id}\\.`)), ` P=esmtp ${mark}S=`);
      }
    });
  }

  t.test('a sender that Exim cannot verify is reported, and counts against no mail', async (t) => {
    const wrong = { FIELDPOST_FROM: 'fieldpost@vm' };
    const reason = /FIELDPOST_FROM.*a recipient with "550 .*Sender verify failed/;
    const ids = await refusedThenSent(t, { FIELDPOST_RELAY: exim.verifying }, { wrong, reason });
    for (const id of ids) await exim.mail.mail(id);
  });

  t.test('addresses outside ASCII arrive', async (t) => {
    const fieldpost = await startFieldpost(t, { FIELDPOST_RELAY: exim.pipelining });
    const [id = ''] = await fieldpost.post({
      destination: 'ζωή@παράδειγμα.example',
      subject: 'ζωή',
      plain: 'ζωή',
    });
    const { bytes } = await exim.mail.mail(id);
    t.match(bytes.toString(), 'To: <ζωή@παράδειγμα.example>\r\n');
    t.match(await exim.logged(new RegExp(` <= .* id=${id}\\.`)), ' P=utf8esmtp L ');
    await fieldpost.said(new RegExp(` sent id=${id} `));
  });
});
