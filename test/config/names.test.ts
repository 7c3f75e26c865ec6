/** The users of a device are those at its own name, and nobody at the name of a domain that has a mail server. */
import { hostname } from 'node:os';
import t from 'tap';
import { machineNames } from '../../src/base/system/machine.js';
import type { Address } from '../../src/mail/message/address.js';
import { homesOf, isOfThisDevice, type LocalMail } from '../../src/mail/names.js';
import { FakeClock } from '../support/clock.js';

const KEEPER = 'keeper@post.example' as Address;
const SETTINGS = { from: null, localMail: readers(['*', KEEPER]), heloName: null };

function readers(...all: [user: string, reader: Address | 'people'][]): LocalMail {
  return new Map(all);
}

/** Those of the domains that are this device. */
function own(
  domains: readonly string[],
  settings: Partial<Parameters<typeof isOfThisDevice>[1]> = {},
  names: readonly string[] = ['pump-3', 'pump-3.field.lan'],
) {
  return domains.filter((domain) =>
    isOfThisDevice(`alice@${domain}` as Address, { ...SETTINGS, ...settings }, names),
  );
}

t.test('the device has its host name, short and as it is, and its full name', async (t) => {
  const domains = ['localhost', 'localhost.localdomain', 'pump-3', 'PUMP-3.field.lan'];
  t.strictSame(own(domains), domains);
  t.strictSame(own(domains.slice(2), {}, ['pump-3.field.lan']), domains.slice(2));
  t.strictSame(own(['field.lan', 'field', 'pump-3.other.lan', 'pump-30', 'example.com']), []);
});

t.test('FIELDPOST_HELO_NAME names it only if it begins with the host name', async (t) => {
  t.strictSame(own(['example.org', 'example'], { heloName: 'example.org' }), []);
  t.strictSame(own(['pump-3.example.org'], { heloName: 'Pump-3.example.org' }), ['pump-3.example.org']);
});

t.test('a domain that a setting has as that of a mailbox has a mail server', async (t) => {
  const from = { name: '', address: 'pump@pump-3.field.lan' as Address };
  t.strictSame(own(['pump-3', 'pump-3.field.lan'], { from }), ['pump-3']);
  t.strictSame(
    own(['pump-3.field.lan'], {
      localMail: readers(['root', 'people'], ['backup', 'a@Pump-3.field.lan' as Address]),
    }),
    [],
  );
});

t.test('each user has readers of their own, and the others that of *', async (t) => {
  const people = ['anna@x.org', 'bob@x.org'] as Address[];
  const homes = (to: string, localMail: LocalMail | null) =>
    homesOf(to as Address, { ...SETTINGS, localMail }, ['pump-3'], () => people);
  const both = readers(['root', KEEPER], ['*', 'people']);
  t.strictSame(homes('Root@pump-3', both), [KEEPER]);
  t.strictSame(homes('backup@localhost', both), people);
  t.strictSame(homes('backup@example.com', both), ['backup@example.com']);
  t.strictSame(homes('backup@localhost', readers(['root', KEEPER])), [], 'nobody reads it');
  t.strictSame(homes('root@localhost', null), []);
});

t.test('while nobody reads its mail, a name with a dot is left to the relay', async (t) => {
  const settings = { localMail: null, heloName: 'pump-3.example.org' };
  const domains = ['localhost', 'localhost.localdomain', 'pump-3', 'pump-3.field.lan', 'pump-3.example.org'];
  t.strictSame(own(domains, settings), domains.slice(0, 3));
});

t.test('other names in the files of a machine are not its own', async (t) => {
  const name = hostname();
  const files: Record<string, string> = {
    '/etc/mailname': 'example.com\n',
    '/etc/hosts': `127.0.1.1 ${name}.example.com ${name} mail.partner.example www\n192.0.2.1 ${name}.else.example\n`,
  };
  const names = machineNames(new FakeClock(), (path) => files[path] ?? '')();
  const foreign = ['example.com', 'mail.partner.example', 'www', 'mail', 'example', `${name}.else.example`];
  t.strictSame(own([name, `${name}.example.com`, ...foreign], {}, names), [name, `${name}.example.com`]);
});
