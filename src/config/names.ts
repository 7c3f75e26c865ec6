/**
 * The names by which relays know this device. Where no setting gives one it is made of the device's host name, which
 * may change while the daemon runs: so it is asked for anew each time. Pure. Used by config.ts, the settings table,
 * mail-advice.ts, daemon.ts and the reference cloud.
 */
import type { Config } from '../config.js';
import { type Address, parseAddress } from '../message/address.js';
import { isHeloName } from './values.js';

/** Whom mails are from. A host name that fits no address (an underscore, say) must not stop the start. */
export function senderOf({ from }: Pick<Config, 'from'>, hostname: string): Address {
  return from ?? parseAddress(`fieldpost@${hostname}`) ?? ('fieldpost@localhost' as Address);
}

/** What we call ourselves in EHLO; where the host name is none, an address literal, which says nothing. */
export function heloNameOf({ heloName }: Pick<Config, 'heloName'>, hostname: string): string {
  return heloName ?? (isHeloName(hostname) ? hostname : '[127.0.0.1]');
}
