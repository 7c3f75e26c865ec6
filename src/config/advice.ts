/**
 * Warnings about good settings with which messages are not accepted or do not arrive. Pure.
 */
import type { Config } from '../config.js';
import { JOURNAL_BYTES_MIN } from '../limits.js';
import { domainOf } from '../message/address.js';
import { bytesInWords } from '../sizes.js';
import { senderOf } from './names.js';

/** What keeps mails from arriving: a sentence for each, with the setting to mend. */
export function mailAdvice(config: Pick<Config, 'relays' | 'from'>, hostname: string): readonly string[] {
  const from = senderOf(config, () => hostname);
  const advice: string[] = [];
  if (config.relays.length === 0)
    advice.push('no relay is configured, so that mails wait: set FIELDPOST_RELAY');
  // `localhost` and the like; an address literal has dots or colons.
  if (!/[.:]/.test(domainOf(from)))
    advice.push(`mails come from ${from}, which many relays refuse as no full address: set FIELDPOST_FROM`);
  return advice;
}

/** A sentence if the file system of the state directory, of `sizeBytes`, takes no message even when it is empty. */
export function diskAdvice(
  { minFreeBytes, stateDir }: Pick<Config, 'minFreeBytes' | 'stateDir'>,
  sizeBytes: number,
): readonly string[] {
  if (sizeBytes >= minFreeBytes + JOURNAL_BYTES_MIN) return [];
  const size = `the file system of ${stateDir} has ${bytesInWords(sizeBytes)} in all`;
  const needed = `${bytesInWords(minFreeBytes)} must stay free and the journal takes ${bytesInWords(JOURNAL_BYTES_MIN)}`;
  return [`${size}, but ${needed}, so that every message is refused: lower FIELDPOST_MIN_FREE`];
}
