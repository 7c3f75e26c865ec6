/** A relay's name has several addresses and only the last answers: the built program, with real look-ups. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { blackHoles } from '../support/black-holes.js';
import { makeCertificate } from '../support/certificate.js';
import { fakeRelay } from '../support/relay.js';
import { MAIL, sharedDirectory, skipWithout, startFieldpost } from './peers.js';

const DEAD = [2, 3, 4, 5, 6, 7].map((n) => `127.0.0.${n}`);
// The resolver prefers addresses that share bits with our own, 127.0.0.1 (RFC 6724, rule 9): this one comes last.
const GOOD = '127.0.0.200';
const NAME = 'relay.example';

const ca = makeCertificate({ name: 'Test CA' });
const certificate = makeCertificate({ name: 'relay', hosts: [NAME], issuer: ca });
const skip = skipWithout('/usr/bin/unshare');

/** `through` for a device whose only host names are in this file. */
function withHosts(hosts: string): readonly string[] {
  const script = 'mount --bind "$0" /etc/hosts && exec "$@"';
  return ['/usr/bin/unshare', '--mount', '/bin/sh', '-c', script, hosts];
}

for (const [scheme, implicit] of [
  ['smtps', true],
  ['smtp', false],
] as const) {
  t.test(`${scheme}: the daemon finds the relay behind six black holes`, { skip }, async (t) => {
    const directory = sharedDirectory(t);
    const hosts = join(directory, 'hosts');
    writeFileSync(hosts, [...DEAD, GOOD].map((address) => `${address} ${NAME}\n`).join(''));
    writeFileSync(join(directory, 'ca.pem'), ca.cert);
    await using relay = await fakeRelay({}, { tls: certificate, implicit, host: GOOD });
    await blackHoles(t, relay.port, DEAD);
    const daemon = await startFieldpost(
      t,
      {
        FIELDPOST_RELAY: `${scheme}://${NAME}:${relay.port}`,
        FIELDPOST_RELAY_CA_FILE: join(directory, 'ca.pem'),
        // Too short for a wait of one second at each address.
        FIELDPOST_SMTP_TIMEOUT: '5s',
      },
      withHosts(hosts),
    );
    await daemon.post(MAIL);
    await daemon.said(/ sent /, 0, 60_000);
    t.match(relay.mails, [{ secure: true }]);
    t.equal(relay.servername, NAME);
    await daemon.stop();
  });
}
