/**
 * A private instance of Debian's Postfix with its own configuration, queue and ports. It keeps mail for post.example and
 * one domain outside ASCII in a Maildir, and discards all other mail.
 *
 *   const postfix = await startPostfix(t);
 *   await startFieldpost(t, postfix.settings('submission'));
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server as TcpServer } from 'node:net';
import { join } from 'node:path';
import type { Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { freePorts, logged, Maildir, type Server, sharedDirectory, startServer } from './peers.js';

const POSTFIX = '/usr/lib/postfix/sbin/master';
const SASLPASSWD = '/usr/sbin/saslpasswd2';
/** The programs that this needs. */
export const POSTFIX_PROGRAMS = [POSTFIX, SASLPASSWD];

/** The user that the relay knows. */
export const USER = 'device';
const PASSWORD = 'let me in, pl€ase';
/** The doors `small` and `shy` refuse a larger mail. */
export const SMALL_BYTES = 20_000;

const LOGIN = '-o smtpd_sasl_auth_enable=yes -o mynetworks=';
const DOVECOT = '-o smtpd_sasl_type=dovecot -o smtpd_sasl_path=$dovecot_path';
const STARTTLS = '-o smtpd_tls_security_level=encrypt -o smtpd_tls_auth_only=yes';
/** The doors, one port each, and how each differs from `plain`. */
const DOORS = {
  /** Accepts all mail of this machine, without TLS. */
  plain: '',
  /** STARTTLS and a password. */
  submission: `${STARTTLS} ${LOGIN}`,
  /** The same, but AUTH LOGIN only. */
  login: `${STARTTLS} ${LOGIN} -o smtpd_sasl_path=login`,
  /** TLS from the first byte, and a password. */
  smtps: `-o smtpd_tls_wrappermode=yes ${LOGIN}`,
  /** STARTTLS and an access token, by OAUTHBEARER or XOAUTH2. Like the next one it asks Dovecot. */
  oauth: `${STARTTLS} ${DOVECOT} ${LOGIN}`,
  /** The same, but XOAUTH2 only. */
  xoauth2: `${STARTTLS} ${DOVECOT} ${LOGIN} -o smtpd_sasl_mechanism_filter=!oauthbearer,static:rest`,
  /** As submission, with a certificate for another host. */
  misnamed: `${STARTTLS} ${LOGIN} -o smtpd_tls_chain_files=$config_directory/other.pem`,
  /** Announces a small limit with SIZE. */
  small: `-o message_size_limit=${SMALL_BYTES}`,
  /** Has the same limit, and announces none. */
  shy: `-o message_size_limit=${SMALL_BYTES} -o smtpd_discard_ehlo_keywords=size`,
  /** Offers no SMTPUTF8. */
  ascii: '-o smtputf8_enable=no',
  /** Wants a full host name in EHLO. Like the next two it refuses at RCPT, as Postfix does by default. */
  fullName: '-o smtpd_helo_required=yes -o smtpd_helo_restrictions=reject_non_fqdn_helo_hostname',
  /** Wants a sender with a full domain. */
  fullSender: '-o smtpd_sender_restrictions=reject_non_fqdn_sender',
  /** Wants a sender whose domain exists. */
  knownSender: '-o smtpd_sender_restrictions=reject_unknown_sender_domain',
} as const;
type Door = keyof typeof DOORS;

interface Postfix {
  /** The settings with which a device may send through this door. */
  settings(door: Door): Record<string, string>;
  readonly mail: Maildir;
  /** All mails so far, as they lie in the Maildir. */
  readonly mails: readonly string[];
  /** Answers to RCPT by recipient, such as `450 4.2.0 Greylisted`; all other recipients are accepted. */
  readonly answers: Map<string, string>;
  /** The recipient of each RCPT, in order. */
  readonly recipients: readonly string[];
  /** Gives the first line of its log that matches; waits for it. */
  logged(pattern: RegExp): Promise<string>;
  start(): Promise<void>;
  /** Ends it and its children, and keeps the queue. */
  stop(): Promise<void>;
}

/** Other programs that a Postfix works with. */
interface Peers {
  /** Where Dovecot authenticates. */
  readonly dovecotPort?: number;
  /** It keeps nothing: all goes to this port. */
  readonly smarthostPort?: number;
}

/** Starts Postfix; it is stopped when the test ends. */
export async function startPostfix(t: Test, peers: Peers = {}): Promise<Postfix> {
  const directory = sharedDirectory(t);
  const doors = Object.keys(DOORS) as Door[];
  const ports = await freePorts(doors.length);
  const portOf = (door: Door) => ports[doors.indexOf(door)] as number;
  const answers = new Map<string, string>();
  const recipients: string[] = [];
  const policy = servePolicy(answers, recipients);
  t.teardown(() => policy.close());
  await new Promise((done) => policy.listen(0, '127.0.0.1', () => done(undefined)));
  const path = (name: string) => join(directory, name);
  layOut(path);
  makeCertificates(path);
  makePasswords(path);
  writeFileSync(path('etc/main.cf'), mainCf(path, (policy.address() as { port: number }).port, peers));
  writeFileSync(path('etc/master.cf'), masterCf(portOf));

  let server: Server | null = null;
  const stop = async () => {
    const running = server;
    server = null;
    await running?.stop();
  };
  const start = async () => {
    server = await startServer(POSTFIX, ['-c', path('etc'), '-s'], portOf('plain'));
  };
  t.teardown(async () => {
    await stop();
    if (!t.passing()) t.comment(readFileSync(path('log'), 'utf8'));
  });
  await start();
  return {
    settings(door) {
      const port = portOf(door);
      if (!DOORS[door].includes(LOGIN)) return { FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never` };
      const byToken = DOORS[door].includes(DOVECOT);
      return {
        FIELDPOST_RELAY: `${door === 'smtps' ? 'smtps' : 'smtp'}://${USER}@localhost:${port}`,
        FIELDPOST_RELAY_CA_FILE: path('etc/ca.pem'),
        ...(!byToken && { FIELDPOST_RELAY_PASSWORD_FILE: path('etc/password') }),
      };
    },
    mail: new Maildir(path('mail/all')),
    get mails() {
      const directory = path('mail/all/new');
      return readdirSync(directory).map((name) => readFileSync(join(directory, name), 'latin1'));
    },
    answers,
    recipients,
    logged: (pattern) => logged(path('log'), pattern),
    start,
    stop,
  };
}

type Path = (name: string) => string;

/** Makes the directories that `postfix check` would make, with their owners. */
function layOut(path: Path): void {
  const owner = Number(execFileSync('/usr/bin/id', ['-u', 'postfix']));
  const queues =
    'active bounce corrupt defer deferred flush hold incoming maildrop private public saved trace';
  for (const name of ['etc/sasl', 'queue/pid', 'mail']) mkdirSync(path(name), { recursive: true });
  for (const name of ['data', ...queues.split(' ').map((queue) => `queue/${queue}`)]) {
    mkdirSync(path(name), { mode: 0o700 });
    chownSync(path(name), owner, 0);
  }
  for (const name of ['', '/new', '/cur', '/tmp']) {
    mkdirSync(path(`mail/all${name}`));
    chownSync(path(`mail/all${name}`), MAIL_OWNER, MAIL_OWNER);
  }
  writeFileSync(path('log'), '');
}

/** nobody, because Postfix delivers as no system user. */
const MAIL_OWNER = 65534;

/** Makes a CA, and its certificates for localhost and for another host, each in one file with its key. */
function makeCertificates(path: Path): void {
  const issuer = makeCertificate({ name: 'Field CA' });
  writeFileSync(path('etc/ca.pem'), issuer.cert);
  for (const [file, host] of [
    ['relay.pem', 'localhost'],
    ['other.pem', 'mail.elsewhere.example'],
  ] as const) {
    const { key, cert } = makeCertificate({ name: host, hosts: [host], issuer });
    writeFileSync(path(`etc/${file}`), `${key}${cert}`);
  }
}

/** Makes a database of Cyrus SASL with the user, and the mechanisms that `smtpd` and `login` offer. */
function makePasswords(path: Path): void {
  const base = ['pwcheck_method: auxprop', 'auxprop_plugin: sasldb', `sasldb_path: ${path('etc/users.db')}`];
  writeFileSync(path('etc/sasl/smtpd.conf'), [...base, 'mech_list: PLAIN LOGIN', ''].join('\n'));
  writeFileSync(path('etc/sasl/login.conf'), [...base, 'mech_list: LOGIN', ''].join('\n'));
  const args = ['-p', '-c', '-f', path('etc/users.db'), '-u', 'relay.example', USER];
  execFileSync(SASLPASSWD, args, { input: PASSWORD, stdio: 'pipe' });
  chmodSync(path('etc/users.db'), 0o644);
  writeFileSync(path('etc/password'), PASSWORD);
}

function mainCf(path: Path, policyPort: number, { dovecotPort = 0, smarthostPort }: Peers): string {
  const isKept = smarthostPort === undefined;
  return `
compatibility_level = 3.6
queue_directory = ${path('queue')}
data_directory = ${path('data')}
maillog_file = ${path('log')}
maillog_file_prefixes = ${path('')}
myhostname = relay.example
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
mydestination =
local_recipient_maps =
alias_maps =
virtual_mailbox_domains = ${isKept ? 'post.example, poczta-łódź.example' : ''}
virtual_mailbox_base = ${path('mail')}
virtual_mailbox_maps = static:all/
virtual_uid_maps = static:${MAIL_OWNER}
virtual_gid_maps = static:${MAIL_OWNER}
default_transport = ${isKept ? 'discard:' : `smtp:[127.0.0.1]:${smarthostPort}`}
smtputf8_enable = yes
smtpd_relay_restrictions = permit_mynetworks, permit_sasl_authenticated, reject
smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:${policyPort}
smtpd_tls_chain_files = $config_directory/relay.pem
smtpd_tls_received_header = yes
smtpd_sasl_authenticated_header = yes
smtpd_sasl_local_domain = relay.example
dovecot_path = inet:127.0.0.1:${dovecotPort}
`;
}

function masterCf(portOf: (door: Door) => number): string {
  const doors = (Object.keys(DOORS) as Door[]).map(
    (door) => `127.0.0.1:${portOf(door)} inet n - n - - smtpd ${DOORS[door]}`,
  );
  return `${doors.join('\n')}
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
virtual unix - n n - - virtual
discard unix - - n - - discard
smtp unix - - n - - smtp
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
`;
}

/** Serves Postfix' policy protocol (SMTPD_POLICY_README): lines of name=value up to an empty one, per recipient. */
function servePolicy(answers: ReadonlyMap<string, string>, recipients: string[]): TcpServer {
  return createServer((socket) => {
    let input = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      input += chunk;
      for (let end = input.indexOf('\n\n'); end >= 0; end = input.indexOf('\n\n')) {
        const recipient = /^recipient=(.*)$/m.exec(input.slice(0, end))?.[1] ?? '';
        input = input.slice(end + 2);
        recipients.push(recipient);
        socket.write(`action=${answers.get(recipient) ?? 'DUNNO'}\n\n`);
      }
    });
    socket.on('error', () => undefined);
  });
}
