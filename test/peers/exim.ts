/**
 * Debian's Exim with a private configuration and spool. It keeps all mail in a Maildir and logs the size that the client
 * declares. scripts/peers unpacks it, because Debian does not install it beside Postfix.
 */
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePorts, logged, Maildir, sharedDirectory, startServer } from './peers.js';

export const EXIM = '/usr/local/lib/fieldpost-peers/exim/usr/sbin/exim4';
const USER = 'Debian-exim';

const ROUTER = `out:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = smarthost
`;

interface Exim {
  /** FIELDPOST_RELAY of a port with PIPELINING, and of one that hangs up on a client that pipelines. */
  readonly pipelining: string;
  readonly stepwise: string;
  /** FIELDPOST_RELAY of a port that verifies the sender at RCPT. Exim knows no address `@vm`. */
  readonly verifying: string;
  readonly mail: Maildir;
  /** Gives the first line of its log that matches; waits for it. */
  logged(pattern: RegExp): Promise<string>;
}

/** Starts Exim; it is stopped when the test ends. With a `smarthost` it keeps nothing: all goes to this port. */
export async function startExim(t: Test, smarthost?: number): Promise<Exim> {
  const directory = sharedDirectory(t);
  const ports = await freePorts(3);
  const [pipelining = 0, stepwise = 0, verifying = 0] = ports;
  const path = (name: string) => join(directory, name);
  const [user, group] = ['-u', '-g'].map((flag) => Number(execFileSync('/usr/bin/id', [flag, USER])));
  for (const name of ['spool', 'log', 'mail', 'mail/new', 'mail/cur', 'mail/tmp']) {
    mkdirSync(path(name));
    chownSync(path(name), user ?? 0, group ?? 0);
  }
  writeFileSync(path('log/mainlog'), '', { mode: 0o666 });
  chownSync(path('log/mainlog'), user ?? 0, group ?? 0);
  writeFileSync(path('exim.conf'), configuration(path, ports, smarthost));
  const server = await startServer(EXIM, ['-C', path('exim.conf'), '-bdf'], pipelining);
  t.teardown(async () => {
    await server.stop();
    if (!t.passing()) t.comment(readFileSync(path('log/mainlog'), 'utf8'));
  });
  return {
    pipelining: `smtp://127.0.0.1:${pipelining}?tls=never`,
    stepwise: `smtp://127.0.0.1:${stepwise}?tls=never`,
    verifying: `smtp://127.0.0.1:${verifying}?tls=never`,
    mail: new Maildir(path('mail')),
    logged: (pattern) => logged(path('log/mainlog'), pattern),
  };
}

function configuration(path: (name: string) => string, ports: readonly number[], smarthost?: number): string {
  const [pipelining, , verifying] = ports;
  return `
exim_path = ${EXIM}
spool_directory = ${path('spool')}
log_file_path = ${path('log/%slog')}
pid_file_path = ${path('spool/pid')}
log_selector = +pipelining
primary_hostname = exim.example
keep_environment =
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${ports.join(' : ')}
pipelining_advertise_hosts = \${if eq{$received_port}{${pipelining}}{*}{:}}
pipelining_connect_advertise_hosts = :
tls_advertise_hosts =
smtputf8_advertise_hosts = *
smtp_accept_queue_per_connection = 0
deliver_drop_privilege = true
acl_smtp_mail = mail
acl_smtp_rcpt = rcpt
begin acl
mail:
  accept logwrite = declared $message_size bytes
rcpt:
  accept condition = \${if !={$received_port}{${verifying}}}
  require verify = sender
  accept
begin routers
${smarthost === undefined ? '' : ROUTER}all:
  driver = accept
  domains = !vm
  transport = maildir
begin transports
smarthost:
  driver = smtp
  port = ${smarthost ?? 25}
  allow_localhost
maildir:
  driver = appendfile
  directory = ${path('mail')}
  maildir_format
  user = ${USER}
begin retry
* * F,1h,1m
`;
}
