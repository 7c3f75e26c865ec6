/** Delivery through Debian's Exim. It is stricter than Postfix about a client that does not wait for its turn. */
import { t } from 'tap';
import { EXIM, EXIM_BYTES_MAX, startExim } from './exim.js';
import { meant, NASTY, readByPostalMime, readByPython } from './nasty.js';
import { skipWithout, startFieldpost } from './peers.js';

t.test('Exim', { skip: skipWithout(EXIM) }, async (t) => {
  const exim = await startExim(t);
  const names = Object.keys(NASTY);
  const nasty = Object.values(NASTY).map((mail) => ({ destination: 'nasty@post.example', ...mail }));

  for (const { door, mark } of [
    { door: 'pipelining', mark: 'L ' },
    { door: 'stepwise', mark: '' },
  ] as const) {
    t.test(`mails arrive as they were posted, ${door}`, async (t) => {
      const fieldpost = await startFieldpost(t, { FIELDPOST_RELAY: exim[door] });
      const ids = await fieldpost.post(...nasty);
      const mails = await Promise.all(ids.map((id) => exim.mail.mail(id)));
      const byPython = readByPython(mails.map(({ bytes }) => bytes));
      for (const [index, mail] of nasty.entries()) {
        const { bytes } = mails[index] as (typeof mails)[0];
        t.same(await readByPostalMime(bytes), meant(mail), `${names[index]}: as postal-mime reads it`);
        t.same(byPython[index], meant(mail), `${names[index]}: as Python reads it`);
        await exim.logged(new RegExp(` declared ${bytes.length} bytes$`));
      }
      for (const id of ids) {
        await fieldpost.said(new RegExp(` sent id=${id} `));
        t.match(await exim.logged(new RegExp(` <= .* id=${id}\\.`)), ` P=esmtp ${mark}S=`);
        t.equal(exim.mail.mails(id).length, 1, 'it arrives once');
      }
    });
  }

  t.test('a sender that Exim cannot verify is reported, and counts against no mail', async (t) => {
    const settings = { FIELDPOST_RELAY: exim.verifying, FIELDPOST_STATE_DIR: t.testdir() };
    const refused = await startFieldpost(t, { ...settings, FIELDPOST_FROM: 'fieldpost@vm' });
    const [id = ''] = await refused.post({ destination: 'john@post.example', plain: 'patience' });
    await refused.said(/relay failing/);
    const { relay } = await refused.state();
    t.match(relay.reason, /FIELDPOST_FROM.*a recipient with "550 .*Sender verify failed/);
    const untouched = { status: /^(?:queued|sending)$/, attempts: 0, lastReply: null };
    t.match(await refused.message(id), untouched);
    t.equal(await refused.stop(), 0);

    const admitted = await startFieldpost(t, settings);
    await admitted.said(new RegExp(` sent id=${id} `));
    await exim.mail.mail(id);
  });

  t.test('a mail larger than the announced SIZE fails unsent', async (t) => {
    const fieldpost = await startFieldpost(t, { FIELDPOST_RELAY: exim.pipelining });
    const [large = '', next = ''] = await fieldpost.post(
      { destination: 'large@post.example', plain: 'too much\r\n'.repeat(EXIM_BYTES_MAX / 10) },
      { destination: 'next@post.example', plain: 'next' },
    );
    await fieldpost.said(new RegExp(` sent id=${next} `));
    t.match(await fieldpost.message(large), {
      status: 'failed',
      lastReply: new RegExp(`takes ${EXIM_BYTES_MAX} bytes, the message has 10\\d{4}`),
    });
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
