/**
 * All doors of the built daemon agree: about users of the device, words that are no address, addresses beyond ASCII, and
 * the lines of a mail. Forms are taken as other clients write them; `send` shows its recipients to each other unless it is
 * told not to.
 */
import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import t, { type Test } from 'tap';
import { Client } from '../smtp-server/door.js';
import { type DaemonProcess, MAIN, needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

/** The host's name without its domain. */
const [HOST = ''] = hostname().split('.', 1);
const HELO = `${HOST}.plant.example`;
const KEEPER = 'ops@fleet.example';

/** Offers a mail for `to`. Gives a word for the answer, such as a status. */
type Door = (daemon: DaemonProcess, to: string) => Promise<string | number>;

const post = async ({ port }: DaemonProcess, query: string, init: RequestInit) =>
  (await fetch(`http://127.0.0.1:${port}/api/internal/messages${query}`, { method: 'POST', ...init })).status;

const postMail = (daemon: DaemonProcess, to: string, body: string) =>
  post(daemon, `?to=${encodeURIComponent(to)}`, { body, headers: { 'Content-Type': 'message/rfc822' } });

function form(fields: Readonly<Record<string, string>>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries({ type: '1', subject: 'x', ...fields })) form.set(name, value);
  return form;
}

function sendmail({ port }: DaemonProcess, args: readonly string[], input: string): string {
  const env = { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${port}` };
  const { status } = spawnSync(MAIN, ['sendmail', '-i', ...args], { env, input, timeout: 60_000 });
  return `exit ${status}`;
}

const smtpPort = ({ lines }: DaemonProcess) =>
  Number(lines.map((line) => /started .*smtp=[^ ]*?:(\d+)/.exec(line)?.[1]).find(Boolean));

const smtp = (daemon: DaemonProcess, to: string) => smtpMail(daemon, to, 'Subject: x\r\n\r\nhi\r\n');

async function smtpMail(daemon: DaemonProcess, to: string, mail: string): Promise<string> {
  const client = new Client(connect({ port: smtpPort(daemon), host: '127.0.0.1' }));
  try {
    await client.hear();
    await client.ask('EHLO logger');
    await client.ask('MAIL FROM:<> SMTPUTF8');
    const reply = await client.ask(`RCPT TO:<${to}>`);
    if (!reply.startsWith('250')) return reply.slice(0, 3);
    await client.ask('DATA');
    return (await client.ask(`${mail}.`)).slice(0, 3);
  } finally {
    client.socket.destroy();
  }
}

/** Doors for one full address: the API's description has no other. */
const FULL: Readonly<Record<string, Door>> = {
  JSON: async ({ api }, destination) =>
    (await api('messages', [{ type: 1, destination, subject: 'x' }])).status,
  'JSON to': async ({ api }, to) => (await api('messages', [{ type: 1, to: [to], subject: 'x' }])).status,
  'JSON bcc': async ({ api }, to) => (await api('messages', [{ type: 1, bcc: [to], subject: 'x' }])).status,
  form: (daemon, destination) => post(daemon, '', { body: form({ destination }) }),
  'form cc': (daemon, cc) => post(daemon, '', { body: form({ cc }) }),
};

/** Doors of programs that also write the mere name of a user. */
const MAIL: Readonly<Record<string, Door>> = {
  '?to=': (daemon, to) => postMail(daemon, to, 'Subject: x\n\nhi\n'),
  '?to=headers': (daemon, to) => postMail(daemon, 'headers', `To: ${to}\nSubject: x\n\nhi\n`),
  SMTP: smtp,
  sendmail: async (daemon, to) => sendmail(daemon, ['--', to], 'Subject: x\n\nhi\n'),
  'sendmail -t': async (daemon, to) => sendmail(daemon, ['-t'], `To: ${to}\nSubject: x\n\nhi\n`),
};
const ALL = { ...FULL, ...MAIL };
const TAKEN: readonly unknown[] = [202, '250', 'exit 0'];

const start = (t: Test, env: Readonly<Record<string, string>>) =>
  startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_SMTP_LISTEN: '127.0.0.1:0',
    FIELDPOST_HELO_NAME: HELO,
    FIELDPOST_FROM: 'pump@fleet.example',
    FIELDPOST_LOCAL_MAIL: KEEPER,
    ...env,
  });

/** The recipient of the newest message. */
const newest = async ({ api }: DaemonProcess): Promise<string> =>
  (await api('messages?limit=1')).json.messages[0]?.destination;

/** Offers each mail at each door, and says where it went. */
async function goes(t: Test, daemon: DaemonProcess, doors: typeof ALL, to: string, destination: string) {
  for (const [name, door] of Object.entries(doors)) {
    t.ok(TAKEN.includes(await door(daemon, to)), `${name} takes ${to}`);
    t.equal(await newest(daemon), destination, `${name}: ${to}`);
    // Else the next door could be lucky.
    await daemon.api('messages', [{ type: 1, destination: 'last@x.example', subject: 'x' }]);
  }
}

t.test('mail to a user of the device goes to FIELDPOST_LOCAL_MAIL', needsProgram, async (t) => {
  const daemon = await start(t, {});
  for (const name of ['localhost', HOST, hostname(), HELO, HELO.toUpperCase()])
    await goes(t, daemon, ALL, `root@${name}`, KEEPER);
  await goes(t, daemon, MAIL as typeof ALL, 'root', KEEPER);
  await goes(t, daemon, ALL, 'root@other.example', 'root@other.example');
  for (const [name, door] of Object.entries(FULL))
    t.equal(await door(daemon, 'root'), 422, `${name}: root is no address`);
});

for (const env of [
  { FIELDPOST_FROM: `pump@${HELO}` },
  { FIELDPOST_LOCAL_MAIL: `keeper@${HELO.toUpperCase()}` },
]) {
  t.test(`a name of the device that is a mail server's: ${Object.keys(env)}`, needsProgram, async (t) => {
    const daemon = await start(t, env);
    await goes(t, daemon, ALL, `root@${HELO}`, `root@${HELO}`);
    await goes(t, daemon, ALL, `root@${HOST}`, env.FIELDPOST_LOCAL_MAIL ?? KEEPER);
  });
}

t.test('what is neither an address nor the name of a user is refused', needsProgram, async (t) => {
  const daemon = await start(t, {});
  const words = ['=?UTF-8?B?QW5uIDxhbm5AZXhhbXBsZS5jb20+?=', '|/bin/sh', '+31612345678'];
  for (const word of words) {
    for (const [name, door] of Object.entries(ALL)) {
      const answer = await door(daemon, word);
      t.ok([422, '553', 'exit 65', 'exit 67'].includes(answer as never), `${name}: ${answer} for ${word}`);
    }
  }
  t.same((await daemon.api('messages')).json.messages, []);
});

/** Doors for a whole mail, to `KEEPER` or to those in its header. */
const WHOLE: Readonly<Record<string, (daemon: DaemonProcess, mail: string) => Promise<string | number>>> = {
  '?to=': (daemon, mail) => postMail(daemon, KEEPER, mail),
  '?to=headers': (daemon, mail) => postMail(daemon, 'headers', mail),
  SMTP: (daemon, mail) => smtpMail(daemon, KEEPER, mail),
  sendmail: async (daemon, mail) => sendmail(daemon, [KEEPER], mail),
  'sendmail -t': async (daemon, mail) => sendmail(daemon, ['-t'], mail),
};

t.test('a bare CR in the header section makes no header, and no recipient', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
  const mail = `To: ${KEEPER}\r\nSubject: hello\rBcc: evil@example.net\r\n\r\none\rtwo\r\n`;
  for (const [count, [name, door]] of Object.entries(WHOLE).entries()) {
    t.ok(TAKEN.includes(await door(daemon, mail)), name);
    await relay.arrived(count + 1);
    const { to, content } = relay.mails[count] ?? {};
    t.same(to, [KEEPER], `${name}: the envelope`);
    t.match(String(content), 'Subject: hello Bcc: evil@example.net\r\n', `${name}: the header`);
    t.ok(content?.toString().endsWith('\r\n\r\none\r\ntwo\r\n'), `${name}: the text`);
  }
});

t.test('an empty mail is refused at every door', needsProgram, async (t) => {
  const daemon = await start(t, {});
  for (const mail of ['', '\r\n', '\r\n\n\r\r\n'])
    for (const [name, door] of Object.entries(WHOLE)) {
      const answer = await door(daemon, mail);
      t.ok([422, '554', 'exit 65'].includes(answer), `${name}: ${answer} for ${JSON.stringify(mail)}`);
    }
  t.same((await daemon.api('messages')).json.messages, []);
  for (const [name, door] of Object.entries(WHOLE))
    t.ok(TAKEN.includes(await door(daemon, `To: ${KEEPER}\r\n\r\n`)), `${name}: a mail without a text`);
});

t.test('commands as cameras, RAID controllers and UPSs write them', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const daemon = await start(t, { FIELDPOST_RELAY: relay.url, FIELDPOST_FROM_ALLOWED: '@fleet.example' });
  const dialogues = [
    ['HELO', 'MAIL FROM: cam@fleet.example', 'RCPT TO: a@example.com'],
    ['EHLO', 'MAIL FROM:cam@fleet.example SIZE=100', 'RCPT TO:a@example.com'],
    ['HELO ', 'MAIL FROM : <cam@fleet.example>', 'RCPT TO : <a@example.com>'],
    ['EHLO cam', 'mail from :cam@fleet.example', 'rcpt to:  <a@example.com>'],
  ];
  for (const [count, lines] of dialogues.entries()) {
    const client = new Client(connect({ port: smtpPort(daemon), host: '127.0.0.1' }));
    await client.hear();
    for (const line of lines) t.match(await client.ask(line), /^250/, line);
    t.match(await client.ask('DATA'), /^354/);
    t.match(await client.ask('Subject: x\r\n\r\nhi\r\n.'), /^250/);
    client.socket.destroy();
    await relay.arrived(count + 1);
    const { from, to } = relay.mails[count] ?? {};
    t.same([from, to], ['cam@fleet.example', ['a@example.com']], String(lines));
  }
});

t.test('lines that end in CR CR LF are lines', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
  const mail = `To: ${KEEPER}\nSubject: x\n\none\n..\n\ntwo\n`;
  for (const [count, [name, door]] of Object.entries(WHOLE).entries()) {
    // Over SMTP the first dot of a line is a stuffed one.
    const sent = mail.replace('..', name === 'SMTP' ? '..' : '.').replaceAll('\n', '\r\r\n');
    t.ok(TAKEN.includes(await door(daemon, sent)), name);
    await relay.arrived(count + 1);
    const content = String(relay.mails[count]?.content);
    t.match(content, `To: ${KEEPER}\r\nSubject: x\r\n`, `${name}: the header`);
    t.ok(
      content.endsWith('Subject: x\r\n\r\none\r\n.\r\n\r\ntwo\r\n'),
      `${name}: ${JSON.stringify(content)}`,
    );
  }
});

t.test(
  'a domain beyond ASCII goes to any relay, and a local part to one with SMTPUTF8',
  needsProgram,
  async (t) => {
    const people = ['pump@bücher.example', 'zażółć@bücher.example'];
    for (const [extensions, seen] of [
      [[], ['pump@xn--bcher-kva.example']],
      [
        ['SMTPUTF8', '8BITMIME'],
        ['pump@xn--bcher-kva.example', 'zażółć@bücher.example'],
      ],
    ] as const) {
      await using relay = await fakeRelay({}, { extensions });
      const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
      let sent = 0;
      for (const [index] of seen.entries()) {
        for (const [name, door] of Object.entries(ALL)) {
          t.ok(TAKEN.includes(await door(daemon, people[index] ?? '')), name);
          sent++;
          // Else a mail that fails is waited for in vain.
          while (
            relay.mails.length < sent &&
            !daemon.lines.some((line) => / (?:failed|deferred) /.test(line))
          )
            await Promise.race([relay.arrived(sent), daemon.nextLine()]);
          if (relay.mails.length < sent) throw new Error(daemon.lines.at(-1));
          t.same(relay.mails.at(-1)?.to, [seen[index]], `${name}, with ${extensions.join()}`);
        }
      }
      t.equal(
        relay.commands.filter((line) => /^MAIL .* SMTPUTF8/.test(line)).length,
        seen.length > 1 ? sent / 2 : 0,
      );
    }
  },
);

/** A form of these parts, which are written as they are. */
const raw = (boundary: string, parts: readonly string[], end = '\r\n') =>
  Buffer.from(
    `${parts.map((part) => `--${boundary}\r\n${part}\r\n`).join('')}--${boundary}--${end}`,
    'latin1',
  );

const field = (parameters: string, text: string, type = '') =>
  `Content-Disposition: form-data; ${parameters}\r\n${type}\r\n${text}`;
const NEEDED = [field('name="destination"', KEEPER), field('name="subject"', 'x')];
const LATIN1 = 'Content-Type: text/plain; charset=ISO-8859-1\r\n';

t.test('forms as other clients write them, and what is wrong with a form', needsProgram, async (t) => {
  const daemon = await start(t, {});
  const inner = raw('i', [field('name="a"; filename="a"', 'x')]).toString('latin1');
  const nested = field('name="file"', inner, 'Content-Type: multipart/mixed; boundary=i\r\n');
  const file = (parameters: string) => raw('b', [...NEEDED, field(parameters, 'x')]);
  const rows: [what: string, boundary: string, body: Buffer, status: number, words: RegExp][] = [
    ['a boundary of stars', '*****', raw('*****', NEEDED), 202, /queued/],
    ['one of tokens', "a$b!#%&'^`|~", raw("a$b!#%&'^`|~", NEEDED), 202, /queued/],
    ['a last line that ends in LF', 'b', raw('b', NEEDED, '\n'), 202, /queued/],
    ['and in CR', 'b', raw('b', NEEDED, '\r'), 202, /queued/],
    ['Latin-1', 'b', raw('b', [...NEEDED, field('name="plain"', 'Gr\xfc\xdfe', LATIN1)]), 202, /queued/],
    ['two files in one part', 'b', raw('b', [...NEEDED, nested]), 415, /several files in one part/],
    ['a quote in a name', 'b', file('name="f"; filename="5" disk.txt"'), 400, /cannot be read from .*disk/],
    ['a bare blank', 'b', file('name=f; filename=a b.txt'), 400, /cannot be read from .*b\.txt/],
    ['two names', 'b', file('name="f"; filename="a"; filename="b"'), 400, /more than one filename/],
    ['nothing', 'b', Buffer.alloc(0), 400, /The body is empty/],
  ];
  for (const [what, boundary, body, status, words] of rows) {
    const answer = await fetch(`http://127.0.0.1:${daemon.port}/api/internal/messages`, {
      method: 'POST',
      headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
      body,
    });
    t.match(await answer.text(), words, what);
    t.equal(answer.status, status, what);
  }
});

t.test('whom the recipients of fieldpost send see', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const daemon = await start(t, { FIELDPOST_RELAY: relay.url });
  const env = { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}` };
  const [a, b] = ['a@x.example', 'b@x.example'];
  const attach = ['--attach', 'README.md'];
  let sent = 0;
  for (const [more, shown] of [
    [[], [`${a}, ${b}`, `${a}, ${b}`]],
    [attach, [`${a}, ${b}`, `${a}, ${b}`]],
    [['--each'], [a, b]],
    [
      ['--each', ...attach],
      [a, b],
    ],
  ] as const) {
    const words = ['send', '--to', a, '--to', b, '--subject', 'x', '--body', 'y', ...more];
    const { status, stderr } = spawnSync(MAIN, words, { env, input: '', timeout: 60_000 });
    // Else the mail is waited for in vain.
    if (status !== 0) throw new Error(String(stderr));
    sent += 2;
    await relay.arrived(sent);
    const seen = relay.mails.slice(-2).map(({ content }) => {
      const [, to = ''] = /^To: (.*(?:\r\n .*)*)\r$/m.exec(content.toString()) ?? [];
      return to.replaceAll('\r\n', '').replaceAll(/[<>]/g, '');
    });
    t.same(seen.sort(), shown, `with ${more.join(' ')}`);
  }
});
