/**
 * The names by which relays know this device. Without a setting they are made of the device's host name, which may
 * change while the daemon runs. Pure.
 */
import { type Address, domainOf, parseAddress, recipientKey } from './message/address.js';
import type { Mailbox } from './message/mailbox.js';
import { isHeloName } from './settings.js';

/** In place of an address: the people of the address book that have one. */
export const PEOPLE = 'people';

/** Who reads the mail to users of this device, by their names in lower case; `*` is everybody else. */
export type LocalMail = ReadonlyMap<string, Address | typeof PEOPLE>;

/** The settings that name this device and its senders. */
interface Names {
  readonly from: Mailbox | null;
  readonly fromAllowed: readonly string[];
  readonly localMail: LocalMail | null;
  readonly heloName: string | null;
}

/** The sender of mails. A host name that does not fit an address (an underscore, say) must not stop the start. */
export function senderOf({ from }: Pick<Names, 'from'>, hostname: () => string): Address {
  // The host name is a call of the kernel: not for each mail that does not need it.
  return from?.address ?? parseAddress(`fieldpost@${hostname()}`) ?? ('fieldpost@localhost' as Address);
}

/** True if a message may have this sender. */
export function mayBeFrom(
  address: Address,
  config: Pick<Names, 'from' | 'fromAllowed'>,
  hostname: () => string,
): boolean {
  const { fromAllowed } = config;
  const key = recipientKey(address);
  if (key === recipientKey(senderOf(config, hostname))) return true;
  return fromAllowed.includes(key) || fromAllowed.includes(`@${domainOf(address).toLowerCase()}`);
}

/**
 * True for a user of this device, such as `root@localhost` or `root@pump-3`: a relay would take it for a user of its own.
 * `names` are the names of this device, which begin with its host name. FIELDPOST_HELO_NAME is one more if it does, too. A
 * name that FIELDPOST_FROM or FIELDPOST_LOCAL_MAIL has as its domain is that of a mail server, whose users get their mail
 * there. Any full name may be one: without FIELDPOST_LOCAL_MAIL, the relay decides.
 */
export function isOfThisDevice(
  address: Address,
  { from, localMail, heloName }: Pick<Names, 'from' | 'localMail' | 'heloName'>,
  names: readonly string[],
): boolean {
  const domain = domainOf(address).toLowerCase();
  if (/^localhost(?:\.localdomain)?$/.test(domain)) return true;
  if (localMail === null && domain.includes('.')) return false;
  const isServed = [from?.address, ...(localMail?.values() ?? [])].some(
    (one) => one !== undefined && one !== PEOPLE && domainOf(one).toLowerCase() === domain,
  );
  if (isServed) return false;
  const own = names.flatMap((name) => [name.toLowerCase(), firstLabel(name)]);
  if (heloName !== null && own.includes(firstLabel(heloName))) own.push(heloName.toLowerCase());
  return own.includes(domain);
}

/**
 * Where mail to this address goes: there; for a user of this device to whoever reads it. Empty: nobody does. `people` gives the
 * email addresses of the address book.
 */
export function homesOf(
  address: Address,
  settings: Pick<Names, 'from' | 'localMail' | 'heloName'>,
  names: readonly string[],
  people: () => readonly Address[],
): readonly Address[] {
  if (!isOfThisDevice(address, settings, names)) return [address];
  const { localMail } = settings;
  const user = address.slice(0, address.lastIndexOf('@')).toLowerCase();
  const home = localMail?.get(user) ?? localMail?.get('*');
  return home === undefined ? [] : home === PEOPLE ? people() : [home];
}

function firstLabel(name: string): string | undefined {
  return name.toLowerCase().split('.', 1)[0];
}

/** The name in EHLO; an address literal, which tells nothing, if the host name does not fit. */
export function heloNameOf({ heloName }: Pick<Names, 'heloName'>, hostname: string): string {
  return heloName ?? (isHeloName(hostname) ? hostname : '[127.0.0.1]');
}
