/**
 * Warnings about good settings with which messages are not accepted or do not arrive, or with which others can learn a
 * token. Pure.
 */

import { domainOf } from '../../mail/message/address.js';
import { FINISHED_BYTES, FINISHED_SHARE, JOURNAL_BYTES_MIN, QUEUED_KIB_BYTES } from '../limits.js';
import { bytesInWords } from '../sizes.js';
import { needsToken } from './consistency.js';
import { showListener } from './endpoints.js';
import { senderOf } from './names.js';
import type { Config } from './settings.js';
import { SETTINGS } from './settings.js';
import type { ListenConfig, StatOf } from './types.js';

/** 16 random letters and digits take longer to guess than the device lives. */
const TOKEN_CHARS_MIN = 16;

/** The settings of listeners that may have no TLS. */
type Door = 'listen' | 'smtpListen' | 'cloudServerListen';

/** A sentence for each setting whose tokens can be guessed, and for each listener that shows them to the network. */
export function tokenAdvice(config: Config): readonly string[] {
  const { apiToken, sendToken, cloudKey, cloudServerKeys } = config;
  const tokens = {
    apiToken: [apiToken],
    sendToken: [sendToken],
    cloudKey: [cloudKey],
    cloudServerKeys: [...(cloudServerKeys?.values() ?? [])].flat(),
  };
  const advice = Object.entries(tokens)
    .filter(([, list]) => list.some((token) => token !== null && token.length < TOKEN_CHARS_MIN))
    .map(([member]) => {
      const { key } = SETTINGS[member as keyof typeof tokens];
      return `${key} gives a token of fewer than ${TOKEN_CHARS_MIN} characters, which can be guessed: make one with openssl rand -hex 16`;
    });
  for (const door of ['listen', 'smtpListen', 'cloudServerListen'] as const)
    advice.push(...clearTextAdvice(door, config[door], config));
  return advice;
}

/** A sentence for each of these listeners over which tokens travel in clear text between devices. */
export function clearTextAdvice(
  door: Door,
  listeners: readonly ListenConfig[],
  { smtpCert }: Pick<Config, 'smtpCert'>,
): readonly string[] {
  if (door === 'smtpListen' && smtpCert !== null) return [];
  const remedy =
    door === 'smtpListen'
      ? `set ${SETTINGS.smtpCert.key}`
      : 'listen on loopback, behind a reverse proxy with TLS';
  return listeners
    .filter(needsToken)
    .map((one) => `tokens travel to ${showListener(one)} (${SETTINGS[door].key}) in clear text: ${remedy}`);
}

/**
 * All warnings about these settings, for a start, `check` and a report. `sizeBytes`: the size of the file system with the
 * state directory. `hostname`: null if the service does not use the relays of its configuration.
 */
export function allWarnings(
  { config, warnings }: { readonly config: Config; readonly warnings: readonly string[] },
  hostname: string | null,
  sizeBytes: number,
): readonly string[] {
  return [
    ...warnings,
    ...(hostname === null ? [] : mailAdvice(config, hostname)),
    ...diskAdvice(config, sizeBytes),
    ...spoolAdvice(config),
  ];
}

/** What keeps mails from arriving: a sentence for each, with the setting to mend. */
function mailAdvice(config: Pick<Config, 'relays' | 'from'>, hostname: string): readonly string[] {
  const from = senderOf(config, () => hostname);
  const advice: string[] = [];
  if (config.relays.length === 0)
    advice.push('no relay is configured, so that mails wait: set FIELDPOST_RELAY');
  // `localhost` and the like; an address literal has dots or colons.
  if (!/[.:]/.test(domainOf(from)))
    advice.push(`mails come from ${from}, which many relays refuse as no full address: set FIELDPOST_FROM`);
  return advice;
}

/** A sentence for each number of messages that does not fit into the bytes that they may take. */
function spoolAdvice({ history, maxQueue, maxSpoolBytes }: Config): readonly string[] {
  const bounds = [
    ['history', history, (maxSpoolBytes * FINISHED_SHARE) / FINISHED_BYTES, 'finished messages'],
    ['maxQueue', maxQueue, maxSpoolBytes / QUEUED_KIB_BYTES, 'messages of 1 KiB'],
  ] as const;
  return bounds
    .filter(([, wanted, fitting]) => wanted > fitting)
    .map(([member, wanted, fitting, what]) => {
      const size = bytesInWords(maxSpoolBytes);
      return `${SETTINGS[member].key}=${wanted} does not fit into FIELDPOST_MAX_SPOOL, ${size}: about ${Math.floor(fitting)} ${what} do`;
    });
}

/** A sentence each if another user owns the state directory, and if others may enter it. */
export function ownerAdvice({ stateDir }: Pick<Config, 'stateDir'>, statOf: StatOf): readonly string[] {
  const [found, own] = [statOf(stateDir), statOf('/proc/self')];
  const advice: string[] = [];
  if (found === null || own === null) return advice;
  if (found.uid !== own.uid)
    advice.push(
      `${stateDir} belongs to user ${found.uid}, who can read and change all mails: give it to this user`,
    );
  if ((found.mode & 0o077) !== 0)
    advice.push(`${stateDir} is open to other users (mode ${(found.mode & 0o7777).toString(8)}): chmod 700`);
  return advice;
}

/** A sentence if the file system of the state directory, of `sizeBytes`, takes no message even when it is empty. */
function diskAdvice(
  { minFreeBytes, stateDir }: Pick<Config, 'minFreeBytes' | 'stateDir'>,
  sizeBytes: number,
): readonly string[] {
  if (sizeBytes >= minFreeBytes + JOURNAL_BYTES_MIN) return [];
  const size = `the file system of ${stateDir} has ${bytesInWords(sizeBytes)} in all`;
  const needed = `${bytesInWords(minFreeBytes)} must stay free and the journal takes ${bytesInWords(JOURNAL_BYTES_MIN)}`;
  return [`${size}, but ${needed}, so that every message is refused: lower FIELDPOST_MIN_FREE`];
}
