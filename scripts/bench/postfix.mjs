/** A private Postfix that relays all mail, with its own configuration, queue and port; used by latency.mjs and bytes.mjs. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { remembered } from './children.mjs';
import { openMailer } from './mailer.mjs';
import { freePort } from './port.mjs';

const MASTER = '/usr/lib/postfix/sbin/master';
const QUEUES =
  'active bounce corrupt defer deferred flush hold incoming maildrop pid private public saved trace';

/** Why Postfix cannot be measured here, or null. */
export function postfixMissing() {
  if (process.getuid?.() !== 0) return 'it needs root';
  return existsSync(MASTER) ? null : 'it is not installed';
}

/** The version of the installed Postfix. */
export function postfixVersion() {
  return execFileSync('/usr/sbin/postconf', ['-dh', 'mail_version'], { encoding: 'latin1' }).trim();
}

/**
 * Starts Postfix with its files in `directory`, which holds a queue from an earlier start or none. It delivers over one
 * connection, which it may keep; with `defers` it keeps all mail until `flush` at another start.
 */
export async function startPostfix(directory, relayPort, { defers = false } = {}) {
  const port = await freePort();
  await layOut(directory, port, relayPort, defers);
  const master = remembered(
    spawn(MASTER, ['-c', join(directory, 'etc'), '-d'], { stdio: 'ignore', detached: true }),
  );
  const ended = once(master, 'exit');
  while (!(await isReady(port))) {
    if (master.exitCode !== null) throw new Error(`Postfix ended with ${master.exitCode}`);
    await pause(10);
  }
  return {
    port,
    flush: () => execFileSync('/usr/sbin/postqueue', ['-c', join(directory, 'etc'), '-f']),
    end: async () => {
      // All its programs are in the group of the master.
      if (master.pid) process.kill(-master.pid, 'SIGTERM');
      await ended;
    },
  };
}

/** Fills the queue of a Postfix that defers, then starts it again for `sink`. Resolves with {count, ms} of each lot. */
export async function postfixDelivers(directory, sink) {
  const count = sink.lots.reduce((sum, mails) => sum + mails, 0);
  const filled = await startPostfix(directory, sink.port, { defers: true });
  const mailer = await openMailer(filled.port);
  for (let n = 0; n < count; n++) await mailer.send();
  mailer.close();
  while ((await deferred(directory)) < count) await pause(20);
  await filled.end();
  const postfix = await startPostfix(directory, sink.port);
  try {
    postfix.flush();
    const spent = [];
    for (const _ of sink.lots) spent.push(await sink.lot());
    return spent;
  } finally {
    await postfix.end();
  }
}

async function deferred(directory) {
  const names = await readdir(join(directory, 'queue/deferred'), { recursive: true });
  // The mails are in directories with one letter.
  return names.filter((name) => name.length > 'A/'.length).length;
}

async function isReady(port) {
  try {
    (await openMailer(port)).close();
    return true;
  } catch {
    return false;
  }
}

async function layOut(directory, port, relayPort, defers) {
  const path = (name) => join(directory, name);
  const owner = Number(execFileSync('/usr/bin/id', ['-u', 'postfix']));
  await mkdir(path('etc'), { recursive: true });
  await mkdir(path('queue'), { recursive: true });
  // Postfix gives up its rights, and must still reach its files.
  await chmod(directory, 0o755);
  await writeFile(path('log'), '');
  for (const name of ['data', ...QUEUES.split(' ').map((queue) => `queue/${queue}`)]) {
    await mkdir(path(name), { recursive: true, mode: 0o700 });
    await chown(path(name), name === 'queue/pid' ? 0 : owner, 0);
  }
  await writeFile(
    path('etc/main.cf'),
    `compatibility_level = 3.6
queue_directory = ${path('queue')}
data_directory = ${path('data')}
maillog_file = /dev/null
maillog_file_prefixes = /dev/null
myhostname = bench.example
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
mydestination =
local_recipient_maps =
alias_maps =
relayhost = [127.0.0.1]:${relayPort}
default_destination_concurrency_limit = 1
smtp_tls_security_level = none
smtp_connection_cache_destinations = static:all
smtp_connection_reuse_time_limit = 3600s
smtputf8_enable = no
${defers ? 'defer_transports = smtp' : ''}
`,
  );
  await writeFile(
    path('etc/master.cf'),
    `127.0.0.1:${port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
smtp unix - - n - 1 smtp
scache unix - - n - 1 scache
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
`,
  );
}
