/**
 * Other people's SMTP clients bring mails to the built daemon, which sends them to Debian's Postfix. The evidence is the
 * Maildir of that Postfix.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Test, t } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { EXIM, startExim } from './exim.js';
import { freePorts, type Maildir, sharedDirectory, skipWithout, startFieldpost } from './peers.js';
import { POSTFIX_PROGRAMS, startPostfix } from './postfix.js';

const SOURCE = '/usr/sbin/smtp-source';
const CLIENTS = ['/usr/bin/swaks', '/usr/bin/msmtp', SOURCE];
const NODEMAILER = createRequire(import.meta.url).resolve('nodemailer');
const TOKEN = 'a-token-of-this-device';

/** How a client reaches the daemon. */
interface Door {
  readonly port: number;
  /** A file with the CA; then TLS and the token are needed. */
  readonly ca: string | null;
}

/** A mail with what goes wrong on the way: dots, text beyond ASCII, a long line. */
const mailOf = (name: string) =>
  [`From: ${name} <client@field.example>`, 'To: jan@post.example', `Subject: by ${name}`, '']
    .concat(['.', '..', '.hidden', 'ż ó ł', 'x'.repeat(990), '', 'end of the mail', ''])
    .join('\n');

const run = promisify(execFile);

/** Runs a program with this input; rejects with what it printed. */
async function feed(program: string, args: readonly string[], input = ''): Promise<string> {
  const running = run(program, args, { encoding: 'utf8' });
  running.child.stdin?.on('error', () => undefined).end(input);
  const { stdout, stderr } = await running.catch((error) => {
    throw new Error(`${program}: ${error.message}${error.stdout}`);
  });
  return stdout + stderr;
}

const PYTHON = `
import smtplib, ssl, sys
port, ca, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
with smtplib.SMTP('127.0.0.1', port) as smtp:
    smtp.ehlo()
    if ca:
        smtp.starttls(context=ssl.create_default_context(cafile=ca))
        smtp.login('python', token)
    refused = smtp.sendmail('client@field.example', ['jan@post.example'], sys.stdin.buffer.read(), ['BODY=8BITMIME'])
    assert refused == {}
`;

const NODE = `
const [port, ca, pass, nodemailer] = process.argv.slice(1);
const { createTransport } = require(nodemailer);
const login = ca ? { requireTLS: true, auth: { user: 'node', pass }, tls: { ca: require('fs').readFileSync(ca) } } : {};
const transport = createTransport({ host: '127.0.0.1', port: Number(port), ...login });
const raw = require('fs').readFileSync(0);
const envelope = { from: 'client@field.example', to: ['jan@post.example'] };
transport.sendMail({ envelope, raw }).then((info) => console.log(info.response), (error) => { console.error(error); process.exit(1); });
`;

/** Each client sends a mail with `mailOf`. */
const SENDERS: Readonly<Record<string, (door: Door, mail: string, directory: string) => Promise<unknown>>> = {
  async curl({ port, ca }, mail, directory) {
    const path = join(directory, 'curl');
    writeFileSync(path, mail.replaceAll('\n', '\r\n'));
    const login = ca === null ? [] : ['--ssl-reqd', '--cacert', ca, '--user', `curl:${TOKEN}`];
    const envelope = ['--mail-from', 'client@field.example', '--mail-rcpt', 'jan@post.example'];
    await feed('/usr/bin/curl', ['-sS', `smtp://127.0.0.1:${port}/me`, ...envelope, ...login, '-T', path]);
  },
  async swaks({ port, ca }, mail) {
    const auth = ['--auth', 'LOGIN', '--auth-user', 'swaks', '--auth-password', TOKEN];
    const login = ca === null ? ['--pipeline'] : ['--tls', '--tls-ca-path', ca, '--tls-verify', ...auth];
    const envelope = ['--from', 'client@field.example', '--to', 'jan@post.example'];
    await feed(
      '/usr/bin/swaks',
      ['--server', `127.0.0.1:${port}`, ...envelope, ...login, '--data', '-'],
      mail,
    );
  },
  async msmtp({ port, ca }, mail) {
    const password = `--passwordeval=echo ${TOKEN}`;
    const login =
      ca === null
        ? ['--tls=off', '--auth=off']
        : [
            '--tls=on',
            '--tls-starttls=on',
            `--tls-trust-file=${ca}`,
            '--auth=plain',
            '--user=msmtp',
            password,
          ];
    const where = ['--host=127.0.0.1', `--port=${port}`, '--from=client@field.example'];
    await feed('/usr/bin/msmtp', ['-C', '/dev/null', ...where, ...login, 'jan@post.example'], mail);
  },
  python: ({ port, ca }, mail) =>
    feed('/usr/bin/python3', ['-c', PYTHON, String(port), ca ?? '', TOKEN], mail),
  nodemailer: ({ port, ca }, mail) =>
    feed(process.execPath, ['-e', NODE, '--', String(port), ca ?? '', TOKEN, NODEMAILER], mail),
};

/** True to the mail that was sent: one copy, with all that could go wrong. */
async function arrived(t: Test, maildir: Maildir, name: string): Promise<void> {
  const [stored = '', ...more] = await maildir.with(`Subject: by ${name}\n`);
  t.same(more, [], 'once');
  const expected = Buffer.from(mailOf(name)).toString('latin1');
  const [, body] = expected.split(/\n\n(.*)/s);
  t.ok(stored.trimEnd().endsWith(`\n\n${body?.trimEnd()}`), `the text is as it was sent by ${name}`, {
    stored,
  });
}

const options = { skip: skipWithout(...POSTFIX_PROGRAMS, EXIM, ...CLIENTS) };

t.test('clients of this device', options, async (t) => {
  const postfix = await startPostfix(t);
  const [port = 0] = await freePorts(1);
  const listen = {
    FIELDPOST_SMTP_LISTEN: `127.0.0.1:${port}`,
    FIELDPOST_LOCAL_MAIL: 'operator@post.example',
  };
  const fieldpost = await startFieldpost(t, { ...postfix.settings('plain'), ...listen });

  for (const [name, send] of Object.entries(SENDERS)) {
    t.test(name, async (t) => {
      await send({ port, ca: null }, mailOf(name), t.testdir());
      await arrived(t, postfix.mail, name);
    });
  }

  t.test('mail for root', async (t) => {
    const envelope = ['--mail-from', 'root', '--mail-rcpt', 'root'];
    const path = join(t.testdir(), 'mail');
    writeFileSync(path, 'Subject: for root\r\n\r\nA disk is failing.\r\n');
    await feed('/usr/bin/curl', ['-sS', `smtp://127.0.0.1:${port}/me`, ...envelope, '-T', path]);
    const [stored = ''] = await postfix.mail.with('Subject: for root\n');
    t.match(stored, 'Delivered-To: operator@post.example');
    t.match(stored, 'Return-Path: <device@field.example>', 'a sender that relays take');
  });

  t.test('a client without a name: smtplib with an empty local_hostname', async (t) => {
    const nameless = PYTHON.replace('port)', "port, '')");
    const args = ['-c', nameless, String(port), '', TOKEN];
    await feed('/usr/bin/python3', args, mailOf('nameless python'));
    await arrived(t, postfix.mail, 'nameless python');
  });

  t.test('an empty mail, by curl and smtplib', async (t) => {
    const envelope = ['--mail-from', 'client@field.example', '--mail-rcpt', 'jan@post.example'];
    const path = join(t.testdir({ empty: '' }), 'empty');
    const sent = feed('/usr/bin/curl', ['-vsS', `smtp://127.0.0.1:${port}/me`, ...envelope, '-T', path]);
    await t.rejects(sent, /554 5\.6\.0 .*it is empty/);
    await t.rejects(SENDERS.python?.({ port, ca: null }, '', '') as Promise<unknown>, /554.*it is empty/s);
  });

  t.test('curl --crlf with a file whose lines end in CR LF already', async (t) => {
    const envelope = ['--mail-from', 'client@field.example', '--mail-rcpt', 'jan@post.example'];
    const path = join(t.testdir(), 'mail');
    writeFileSync(path, 'Subject: twice\r\nX-Own: kept\r\n\r\none\r\n.\r\n\r\ntwo\r\n');
    await feed('/usr/bin/curl', ['-sS', '--crlf', `smtp://127.0.0.1:${port}/me`, ...envelope, '-T', path]);
    const [stored = ''] = await postfix.mail.with('Subject: twice\n');
    t.equal(
      stored.slice(stored.indexOf('Subject:')).trimEnd(),
      'Subject: twice\nX-Own: kept\n\none\n.\n\ntwo',
    );
  });

  t.test('smtp-source: 200 mails over 10 connections', async (t) => {
    const load = [
      '-s',
      '10',
      '-m',
      '200',
      '-l',
      '4000',
      '-f',
      'client@field.example',
      '-t',
      'load@post.example',
    ];
    await feed(SOURCE, [...load, '-S', 'from smtp-source', `inet:127.0.0.1:${port}`]);
    t.equal((await postfix.mail.with('Subject: from smtp-source\n', 200)).length, 200);
    t.match(await fieldpost.state(), { queue: { failed: 0 } });
  });

  t.test('Postfix and Exim with Fieldpost as their smarthost', async (t) => {
    const relayed = await startPostfix(t, { smarthostPort: port });
    const [, other = ''] = /:(\d+)\?/.exec(relayed.settings('plain').FIELDPOST_RELAY ?? '') ?? [];
    await SENDERS.curl?.({ port: Number(other), ca: null }, mailOf('postfix'), t.testdir());
    await arrived(t, postfix.mail, 'postfix');
    const exim = await startExim(t, port);
    const [, third = ''] = /:(\d+)\?/.exec(exim.pipelining) ?? [];
    await SENDERS.python?.({ port: Number(third), ca: null }, mailOf('exim'), t.testdir());
    await arrived(t, postfix.mail, 'exim');
  });

  t.test('SMTP smuggling: each form is one mail for Postfix, or none', async (t) => {
    const breaks = ['\n', '\r', '\r\n', '\n\r', '\r\r\n', '\r\0\n', '\0'];
    const forms = breaks.flatMap((before) => breaks.map((after) => [before, after] as const));
    const isEnd = ([before, after]: readonly [string, string]) => /\r\n$/.test(before) && after === '\r\n';
    const names: string[] = [];
    for (const [index, form] of forms.filter((one) => !isEnd(one)).entries()) {
      const name = `form ${index} ends here`;
      const inner =
        'MAIL FROM:<evil@x.org>\r\nRCPT TO:<victim@post.example>\r\nDATA\r\nSubject: smuggled\r\n\r\nevil';
      const reply = await tell(port, [
        'EHLO me\r\n',
        'MAIL FROM:<client@field.example>\r\n',
        'RCPT TO:<jan@post.example>\r\n',
        'DATA\r\n',
        `Subject: ${name}\r\n\r\ntext${form.join('.')}${inner}\r\n.\r\n`,
      ]);
      const isRefused = form.some((part) => part.includes('\0'));
      t.match(reply, isRefused ? /^554 5\.6\.0 / : /^250 2\.0\.0 queued/, JSON.stringify(form));
      if (!isRefused) names.push(name);
    }
    for (const name of names) {
      const [stored = '', ...more] = await postfix.mail.with(`Subject: ${name}\n`);
      t.same(more, []);
      t.match(stored, 'Delivered-To: jan@post.example');
      t.match(stored, 'RCPT TO:<victim@post.example>', 'the smuggled mail is text of this one');
    }
    t.equal(postfix.mail.having('Subject: smuggled').length, names.length);
    t.notOk(postfix.recipients.includes('victim@post.example'));
  });
});

t.test('clients of other devices: STARTTLS and the token', options, async (t) => {
  const postfix = await startPostfix(t);
  const [port = 0] = await freePorts(1);
  const directory = sharedDirectory(t);
  const path = (name: string) => join(directory, name);
  const issuer = makeCertificate({ name: 'Field CA' });
  const { key, cert } = makeCertificate({ name: 'pump', hosts: ['127.0.0.1', 'localhost'], issuer });
  for (const [name, text] of Object.entries({
    'ca.pem': issuer.cert,
    'cert.pem': cert,
    'key.pem': key,
    token: TOKEN,
  })) {
    writeFileSync(path(name), text);
  }
  await startFieldpost(t, {
    ...postfix.settings('plain'),
    FIELDPOST_SMTP_LISTEN: `0.0.0.0:${port}`,
    FIELDPOST_SMTP_CERT_FILE: path('cert.pem'),
    FIELDPOST_SMTP_KEY_FILE: path('key.pem'),
    FIELDPOST_SEND_TOKEN_FILE: path('token'),
    FIELDPOST_API_TOKEN: 'another-token',
  });
  for (const [name, send] of Object.entries(SENDERS)) {
    t.test(name, async (t) => {
      await t.rejects(send({ port, ca: null }, mailOf(`${name} in clear text`), t.testdir()));
      await send({ port, ca: path('ca.pem') }, mailOf(`${name} with TLS`), t.testdir());
      await arrived(t, postfix.mail, `${name} with TLS`);
    });
  }
  t.same(postfix.mail.having('in clear text'), []);
});

/** Says each after the reply to the one before; gives the last reply. */
async function tell(port: number, said: readonly string[]): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => undefined);
  let reply = '';
  const left = [...said];
  socket.setEncoding('utf8').on('data', (text: string) => {
    reply = text;
    if (!/(?:^|\n)\d{3} .*\r\n$/.test(text)) return;
    const next = left.shift();
    if (next === undefined) socket.end('QUIT\r\n').removeAllListeners('data').resume();
    else socket.write(next, 'latin1');
  });
  await once(socket, 'close');
  return reply;
}
