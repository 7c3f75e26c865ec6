/**
 * Delivery through Debian's Postfix: ways to log in, ways to be refused, and the mails that arrive. curl posts the mails
 * to the built daemon; the log and the Maildir of Postfix are the evidence.
 */
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { t } from 'tap';
import { startIn } from '../support/daemon.js';
import { arriveAsPosted, readByPostalMime } from './nasty.js';
import {
  named,
  type Posted,
  refusedThenSent,
  sharedDirectory,
  skipWithout,
  startFieldpost,
} from './peers.js';
import { POSTFIX_PROGRAMS, SMALL_BYTES, startPostfix } from './postfix.js';

/** A short mail whose recipient, subject and text are its name. */
const to = (name: string): Posted => ({
  destination: `${name}@post.example`,
  subject: name,
  plain: `${name}\n`,
});

t.test('Postfix', { skip: skipWithout(...POSTFIX_PROGRAMS) }, async (t) => {
  const postfix = await startPostfix(t);

  for (const { door, protocol, log } of [
    { door: 'plain', protocol: 'ESMTP', log: /client=[^,]*$/ },
    {
      door: 'submission',
      protocol: 'ESMTPSA',
      log: /sasl_method=PLAIN, sasl_username=device@relay\.example/,
    },
    { door: 'login', protocol: 'ESMTPSA', log: /sasl_method=LOGIN, sasl_username=device@relay\.example/ },
    { door: 'smtps', protocol: 'ESMTPSA', log: /sasl_method=PLAIN, sasl_username=device@relay\.example/ },
  ] as const) {
    t.test(`a mail passes the door ${door}`, async (t) => {
      const fieldpost = await startFieldpost(t, postfix.settings(door));
      const [id = ''] = await fieldpost.post(to(door));
      const line = await fieldpost.said(/ (?:sent|failed|deferred|failing) /);
      t.match(line, ` sent id=${id} `);
      const { trace, bytes } = await postfix.mail.mail(id);
      const queueId = new RegExp(`with ${protocol} id (\\w+)`).exec(trace)?.[1] ?? '?';
      t.match(line, `queued as ${queueId}"`, 'the log has the reply of Postfix', { trace });
      t.match(await postfix.logged(new RegExp(`${queueId}: client=`)), log);
      t.match(trace, 'Return-Path: <device@field.example>');
      t.same(await readByPostalMime(bytes), { subject: door, plain: `${door}\r\n`, html: null });
      const { relay, queue } = await fieldpost.state();
      t.match(relay, { state: 'ok', reason: null });
      t.match(queue, { queued: 0, sending: 0, deferred: 0, failed: 0 });
    });
  }

  for (const { door, ...refusal } of [
    {
      door: 'submission',
      wrong: { FIELDPOST_RELAY_PASSWORD_FILE: '', FIELDPOST_RELAY_PASSWORD: 'wrong' },
      state: 'failing',
      reason: /our user name and password with "535 5\.7\.8 /,
    },
    {
      door: 'fullName',
      wrong: {},
      right: { FIELDPOST_HELO_NAME: 'pump-3.field.example' },
      reason: /FIELDPOST_HELO_NAME.*a recipient with "504 5\.5\.2 <vm>: Helo command rejected/,
    },
    {
      door: 'fullSender',
      wrong: { FIELDPOST_FROM: '' },
      reason: /FIELDPOST_FROM.*a recipient with "504 5\.5\.2 <fieldpost@vm>: Sender address rejected/,
    },
    {
      door: 'knownSender',
      wrong: { FIELDPOST_FROM: 'device@nowhere.invalid' },
      right: { FIELDPOST_FROM: 'device@post.example' },
      // A 4xx: the name server may only be away.
      state: 'failing',
      reason:
        /FIELDPOST_FROM.*a recipient with "\d{3} \d\.1\.8 <device@nowhere\.invalid>: Sender address rejected/,
    },
  ] as const) {
    t.test(`a refusal by ${door} is reported, and counts against no mail`, async (t) => {
      const ids = await refusedThenSent(t, postfix.settings(door), refusal, named('vm'));
      for (const id of ids) await postfix.mail.mail(id);
    });
  }

  t.test('a recipient that Postfix does not relay to is deferred while others are sent', async (t) => {
    const fieldpost = await startFieldpost(t, postfix.settings('plain'));
    postfix.answers.set('denied@elsewhere.example', '554 5.7.1 Relay access denied');
    const mails = Array.from({ length: 40 }, (_, index) =>
      index % 10 === 5 ? { ...to('x'), destination: 'denied@elsewhere.example' } : to(`n${index}`),
    );
    const ids = await fieldpost.post(...mails);
    for (const [index, id] of ids.entries()) {
      const becomes = index % 10 === 5 ? 'deferred' : 'sent';
      await fieldpost.said(new RegExp(` ${becomes} id=${id} `));
    }
    t.notOk(fieldpost.lines.some((line) => / relay failing /.test(line)));
    t.match((await fieldpost.state()).relay, { state: 'ok', reason: null });
  });

  for (const { name, door, ca, reason } of [
    {
      name: 'a certificate of an unknown CA',
      door: 'submission',
      ca: '',
      reason:
        /no authority .* its certificate \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\); see FIELDPOST_RELAY_CA_FILE/,
    },
    {
      name: 'a certificate for another host',
      door: 'misnamed',
      reason: /localhost.*mail\.elsewhere\.example.*\(ERR_TLS_CERT_ALTNAME_INVALID/,
    },
  ] as const) {
    t.test(`${name} is reported, and its owner gets no password`, async (t) => {
      const settings = postfix.settings(door);
      if (ca !== undefined) settings.FIELDPOST_RELAY_CA_FILE = ca;
      const fieldpost = await startFieldpost(t, settings);
      const [id = ''] = await fieldpost.post(to('secret'));
      await fieldpost.said(/relay failing/);
      const { relay } = await fieldpost.state();
      t.equal(relay.state, 'failing');
      t.match(relay.reason, reason);
      t.match(await fieldpost.message(id), { status: 'queued', attempts: 0, lastReply: null });
      t.notOk(postfix.recipients.includes('secret@post.example'), 'no mail is offered');
    });
  }

  t.test('mails posted while Postfix is down are sent in order when it is up again', async (t) => {
    const fieldpost = await startFieldpost(t, postfix.settings('plain'));
    const [first = ''] = await fieldpost.post(to('before'));
    await fieldpost.said(new RegExp(` sent id=${first} `));
    // The session that is kept open for further mails ends, too.
    await postfix.stop();
    const names = Array.from({ length: 200 }, (_, i) => `q${i}@discarded.example`);
    const mails = names.map((destination) => ({ destination, plain: 'x' }));
    const ids = [
      ...(await fieldpost.post(...mails.slice(0, 100))),
      ...(await fieldpost.post(...mails.slice(100))),
    ];
    await fieldpost.said(/relay failing/);
    t.match((await fieldpost.state()).relay.reason, /the connection was refused/);
    t.match((await fieldpost.state()).queue, { queued: 200, deferred: 0 });
    t.match(await fieldpost.message(ids[0] ?? ''), { status: 'queued', attempts: 0, lastReply: null });

    await postfix.start();
    await fieldpost.said(new RegExp(` sent id=${ids.at(-1)} `));
    t.same(postfix.recipients.slice(-200), names, 'each is offered once, the oldest first');
    const sent = fieldpost.lines.flatMap((line) => / sent id=(\S+)/.exec(line)?.[1] ?? []);
    t.same(sent, [first, ...ids]);
    t.notOk(
      fieldpost.lines.some((line) => / (?:deferred|put behind) /.test(line)),
      'the outage counts against no mail',
    );
    t.match((await fieldpost.state()).relay, { state: 'ok', reason: null });
  });

  t.test('greylisting defers a mail, and the message shows the reply', async (t) => {
    const fieldpost = await startFieldpost(t, { ...postfix.settings('plain'), FIELDPOST_RETRY_MIN: '2s' });
    postfix.answers.set('grey@post.example', '450 4.2.0 Greylisted, come again');
    const [id = ''] = await fieldpost.post(to('grey'));
    await fieldpost.said(new RegExp(` deferred id=${id} `));
    t.match(await fieldpost.message(id), {
      status: 'deferred',
      attempts: 1,
      lastReply: /^450 4\.2\.0 .*grey@post\.example.*Greylisted, come again/,
    });
    t.match((await fieldpost.state()).relay, { state: 'ok' }, 'the relay still counts as ok');
    postfix.answers.delete('grey@post.example');
    await fieldpost.said(new RegExp(` sent id=${id} `));
    t.match(await fieldpost.message(id), { status: 'sent' });
    t.equal((await postfix.mail.mail(id)).trace.includes('for <grey@post.example>'), true);
  });

  t.test('a mail to an unknown recipient fails, the others are sent', async (t) => {
    const fieldpost = await startFieldpost(t, postfix.settings('plain'));
    postfix.answers.set('gone@post.example', '550 5.1.1 No such user here');
    const mails = ['a', 'b', 'gone', 'c', 'd'].map(to);
    const ids = await fieldpost.post(...mails);
    await fieldpost.said(new RegExp(` sent id=${ids.at(-1)} `));
    const found = await Promise.all(ids.map((id) => fieldpost.message(id)));
    t.same(
      found.map(({ status }) => status),
      ['sent', 'sent', 'failed', 'sent', 'sent'],
    );
    t.match(found[2]?.lastReply, /^550 5\.1\.1 .*gone@post\.example.*No such user here/);
    t.match((await fieldpost.state()).relay, { state: 'ok' });
    for (const id of ids.filter((_, index) => index !== 2)) await postfix.mail.mail(id);
  });

  for (const { door, reply } of [
    {
      door: 'small',
      reply: new RegExp(`takes at most ${SMALL_BYTES} bytes \\(SIZE\\), and the mail has \\d{5}`),
    },
    { door: 'shy', reply: /^552 5\.3\.4 / },
  ] as const) {
    t.test(`a mail too large for ${door} fails, and the next one is sent`, async (t) => {
      const fieldpost = await startFieldpost(t, postfix.settings(door));
      const [large = '', next = ''] = await fieldpost.post(
        { ...to('large'), plain: 'too much\n'.repeat(SMALL_BYTES / 4) },
        to('next'),
      );
      await fieldpost.said(new RegExp(` sent id=${next} `));
      t.match(await fieldpost.message(large), { status: 'failed', lastReply: reply });
      t.match((await fieldpost.state()).relay, { state: 'ok' });
      await postfix.mail.mail(next);
      t.same(postfix.mail.mails(large), []);
    });
  }

  t.test('addresses outside ASCII arrive, or fail if the relay cannot take them', async (t) => {
    const destinations = ['zażółć@post.example', 'ωμέγα@poczta-łódź.example'];
    const mails = destinations.map((destination) => ({ destination, subject: 'łódź', plain: 'łódź' }));
    const fieldpost = await startFieldpost(t, postfix.settings('plain'));
    const ids = await fieldpost.post(...mails);
    for (const [index, id] of ids.entries()) {
      t.match(await fieldpost.said(new RegExp(`(?:sent|failed|deferred|behind) id=${id} `)), ' sent ');
      const { trace, bytes } = await postfix.mail.mail(id);
      const decoded = Buffer.from(trace, 'latin1').toString();
      t.match(decoded, 'with UTF8SMTP id ');
      t.match(decoded, `Delivered-To: ${destinations[index]}\n`);
      t.match(bytes.toString(), `To: <${destinations[index]}>\r\n`);
      t.same(await readByPostalMime(bytes), { subject: 'łódź', plain: 'łódź', html: null });
    }
    const ascii = await startFieldpost(t, {
      ...postfix.settings('ascii'),
      FIELDPOST_STATE_DIR: sharedDirectory(t),
    });
    const [refused = '', next = ''] = await ascii.post(mails[0] as Posted, to('ascii'));
    await ascii.said(new RegExp(` sent id=${next} `));
    t.match(await ascii.message(refused), { status: 'failed', lastReply: /beyond ASCII \(no SMTPUTF8\)/ });
  });

  t.test('mails arrive as they were posted', async (t) => {
    const fieldpost = await startFieldpost(t, postfix.settings('submission'));
    for (const [, bytes] of await arriveAsPosted(t, fieldpost, postfix.mail))
      t.notMatch(bytes.toString('latin1'), /\r(?!\n)|(?<!\r)\n|[^\r\n\x20-\x7e]/, 'only CRLF and ASCII');
    t.notOk(postfix.recipients.includes('other@post.example'), 'no content is taken for a mail of its own');
  });

  t.test('mails arrive as they were posted through the cloud, from its operator', async (t) => {
    const directory = sharedDirectory(t);
    const cloud = await startIn(
      t,
      {
        ...postfix.settings('submission'),
        FIELDPOST_STATE_DIR: join(directory, 'cloud'),
        FIELDPOST_FROM: 'cloud@operator.example',
        FIELDPOST_CLOUD_SERVER_MAILS: '1000',
      },
      ['cloud'],
    );
    const fieldpost = await startFieldpost(t, {
      FIELDPOST_STATE_DIR: join(directory, 'device'),
      FIELDPOST_RELAY: 'cloud',
      FIELDPOST_FROM: 'Pump 3 <device@field.example>',
      FIELDPOST_CLOUD: `http://127.0.0.1:${cloud.port}`,
      FIELDPOST_DEVICE_ID: 'pump-3',
      FIELDPOST_CLOUD_KEY: 'any',
    });
    for (const [id, bytes] of await arriveAsPosted(t, fieldpost, postfix.mail)) {
      const { from, replyTo } = await PostalMime.parse(bytes);
      t.match(from, { name: 'Pump 3', address: 'cloud@operator.example' });
      t.match(replyTo, [{ address: 'device@field.example' }]);
      t.match(postfix.mail.mails(id)[0]?.trace, 'Return-Path: <cloud@operator.example>');
    }
    // A mail in parts, one of them a file of several slices.
    const file = Buffer.from(Array.from({ length: 300_000 }, (_, n) => (n * n) % 251));
    const form = new FormData();
    const mail = {
      type: '1',
      destination: 'parts@post.example',
      subject: 'Części',
      plain: 'Żółw\n',
      html: '<p>Żółw</p>',
    };
    for (const [name, value] of Object.entries(mail)) form.set(name, value);
    form.append('file', new Blob([new Uint8Array(file)]), 'dane.bin');
    const api = `http://127.0.0.1:${fieldpost.port}/api/internal/messages`;
    const posted = await fetch(api, { method: 'POST', body: form });
    const [{ id }] = (await posted.json()) as [{ id: string }];
    const { bytes } = await postfix.mail.mail(id);
    const read = await PostalMime.parse(bytes);
    t.match(read, { subject: 'Części', text: 'Żółw\n', html: '<p>Żółw</p>' });
    t.match(read.attachments, [{ filename: 'dane.bin' }]);
    t.ok(file.equals(Buffer.from(read.attachments[0]?.content as ArrayBuffer)));
  });
});
