/**
 * Postfix' smtp-sink refuses, stalls and hangs up as its options say. A try counts against a mail only if the mail is
 * to blame.
 */
import { chownSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Test, t } from 'tap';
import {
  freePorts,
  MAIL,
  Maildir,
  type Server,
  sharedDirectory,
  skipWithout,
  startFieldpost,
  startServer,
} from './peers.js';

const SINK = '/usr/sbin/smtp-sink';
const NOBODY = 65534;

/** A sink on a free port that keeps its mails; a test may restart it with other options while the daemon runs. */
async function sinkhole(t: Test) {
  const directory = sharedDirectory(t);
  const dump = join(directory, 'new');
  mkdirSync(dump);
  chownSync(dump, NOBODY, NOBODY);
  const [port = 0] = await freePorts(1);
  let server: Server | null = null;
  t.teardown(() => server?.stop());
  return {
    settings: {
      FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never`,
      FIELDPOST_RETRY_MIN: '2s',
      FIELDPOST_MAX_BODY: '16MiB',
    },
    mail: new Maildir(directory),
    async start(...options: readonly string[]) {
      await server?.stop();
      server = await startServer(
        SINK,
        ['-u', 'nobody', '-d', join(dump, 'mail.'), ...options, `127.0.0.1:${port}`, '10'],
        port,
      );
    },
  };
}

t.test('smtp-sink', { skip: skipWithout(SINK) }, async (t) => {
  t.test('after a connection is lost behind the final dot, each try sends the same mail', async (t) => {
    const sink = await sinkhole(t);
    await sink.start('-q', '.');
    const fieldpost = await startFieldpost(t, { ...sink.settings, FIELDPOST_RETRY_MIN: '1h' });
    const [id = ''] = await fieldpost.post(MAIL);
    t.match(await fieldpost.said(new RegExp(` put behind id=${id} `)), 'it may arrive twice');
    t.match((await fieldpost.state()).relay, { state: 'failing', reason: /the connection was lost/ });
    await fieldpost.said(new RegExp(` deferred id=${id} `));
    t.match(await fieldpost.message(id), {
      status: 'deferred',
      attempts: 1,
      lastReply: /the connection was lost.*it may arrive twice/,
    });
    await sink.start();
    await fieldpost.retry(id);
    await fieldpost.said(new RegExp(` sent id=${id} `));
    const [first, ...others] = sink.mail.mails(id);
    t.equal(others.length, 2, 'the first loss is free, the second counts, the third try succeeds');
    for (const other of others) t.same(other.bytes, first?.bytes);
    t.match((await fieldpost.state()).relay, { state: 'ok', reason: null });
  });

  for (const { name, options, settings = {}, lines = 30_000, event, message, relay } of [
    {
      name: 'a sender refused for good',
      options: ['-f', 'MAIL'],
      event: 'put behind',
      message: { status: /queued|sending/, attempts: 0 },
      relay: { state: 'failing', reason: /our sender address with "500 5\.3\.0 / },
    },
    {
      name: 'a relay without room for more',
      options: ['-r', 'DATA'],
      event: 'put behind',
      message: { status: /queued|sending/, attempts: 0 },
      relay: { state: 'failing', reason: /DATA with "450 4\.3\.0 / },
    },
    {
      name: 'content refused by a policy',
      options: ['-f', '.', '-B', '554 5.7.1 No alarms here'],
      event: 'deferred',
      message: { status: 'deferred', lastReply: '554 5.7.1 No alarms here' },
      relay: { state: 'unknown' },
    },
    {
      name: 'a relay that shuts down',
      options: ['-Q', '.'],
      event: 'put behind',
      message: { status: /queued|sending/, attempts: 0 },
      relay: { state: 'failing', reason: /"421 / },
    },
    {
      name: 'a relay that does not answer DATA',
      options: ['-p', '-w', '60'],
      settings: { FIELDPOST_SMTP_TIMEOUT: '1s' },
      event: 'put behind',
      message: { status: /queued|sending/, attempts: 0 },
      relay: { state: 'failing', reason: /no answer to DATA within 1 s/ },
    },
    {
      name: 'a relay that refuses in the middle of the content',
      options: ['-A', '1'],
      lines: 500_000,
      event: 'deferred',
      message: { status: 'deferred', lastReply: /^550 / },
      relay: { state: 'unknown' },
    },
  ]) {
    t.test(`${name}: ${event}`, async (t) => {
      const sink = await sinkhole(t);
      await sink.start(...options);
      const fieldpost = await startFieldpost(t, { ...sink.settings, ...settings });
      const [id = ''] = await fieldpost.post({ ...MAIL, plain: 'a line of some length\n'.repeat(lines) });
      const line = await fieldpost.said(new RegExp(` (?:sent|failed|deferred|put behind) id=${id} `));
      t.match(line, ` ${event} `);
      t.match(await fieldpost.message(id), message);
      t.match((await fieldpost.state()).relay, relay);
      // The relay gets the next mail once it works again.
      await sink.start();
      const [next = ''] = await fieldpost.post(MAIL);
      await fieldpost.said(new RegExp(` sent id=${next} `));
      await fieldpost.said(new RegExp(` sent id=${id} `));
    });
  }
});
