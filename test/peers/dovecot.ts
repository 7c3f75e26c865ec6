/**
 * A private instance of Debian's Dovecot that only authenticates: SASL with XOAUTH2 and OAUTHBEARER for Postfix. It asks an
 * introspection endpoint (RFC 7662) of the test whether an access token is good.
 */
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePorts, sharedDirectory, startServer } from './peers.js';

export const DOVECOT = '/usr/sbin/dovecot';

interface Dovecot {
  /** Where Postfix asks it. */
  readonly port: number;
  /** How often it has asked for a token. */
  readonly asked: readonly string[];
}

/** Starts Dovecot; it is stopped when the test ends. It takes the tokens of `user` for which `isGood` holds. */
export async function startDovecot(
  t: Test,
  user: string,
  isGood: (token: string) => boolean,
): Promise<Dovecot> {
  const directory = sharedDirectory(t);
  const path = (name: string) => join(directory, name);
  const [port = 0] = await freePorts(1);
  const asked: string[] = [];
  const introspection = createServer((req, res) => {
    let body = '';
    req.on('data', (chunk) => {
      body += chunk;
    });
    req.on('end', () => {
      const token = new URLSearchParams(body).get('token') ?? '';
      asked.push(token);
      res.setHeader('Content-Type', 'application/json');
      res.end(JSON.stringify(isGood(token) ? { active: true, username: user } : { active: false }));
    });
  });
  await new Promise((done) => introspection.listen(0, '127.0.0.1', () => done(undefined)));
  t.teardown(() => introspection.close());
  t.teardown(() => introspection.closeAllConnections());
  mkdirSync(path('run'));
  chownSync(path('run'), 0, 0);
  writeFileSync(path('log'), '', { mode: 0o666 });
  const { port: introspectionPort } = introspection.address() as AddressInfo;
  writeFileSync(path('oauth2.conf'), oauth2Conf(introspectionPort));
  writeFileSync(path('dovecot.conf'), dovecotConf(path, port));
  const server = await startServer(DOVECOT, ['-F', '-c', path('dovecot.conf')], port);
  t.teardown(async () => {
    await server.stop();
    if (!t.passing()) t.comment(readFileSync(path('log'), 'utf8'));
  });
  return { port, asked };
}

function dovecotConf(path: (name: string) => string, port: number): string {
  return `
base_dir = ${path('run')}
state_dir = ${path('run')}
log_path = ${path('log')}
protocols =
listen = 127.0.0.1
ssl = no
auth_verbose = yes
auth_mechanisms = oauthbearer xoauth2
auth_cache_size = 0
auth_failure_delay = 0 secs
passdb {
  driver = oauth2
  mechanisms = oauthbearer xoauth2
  args = ${path('oauth2.conf')}
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=/nonexistent
}
# No delay after failures.
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service auth {
  inet_listener {
    address = 127.0.0.1
    port = ${port}
  }
}
`;
}

function oauth2Conf(port: number): string {
  return `
introspection_mode = post
introspection_url = http://127.0.0.1:${port}/introspect
username_attribute = username
active_attribute = active
active_value = true
`;
}
