/**
 * Rules between the settings of the mail engine that are each good by themselves, and warnings about good ones with which
 * mails do not arrive or are not accepted.
 */
import type { Check, Parsed } from '../base/config/settings.js';
import { isLoopback } from '../base/config/values.js';
import { FINISHED_BYTES, FINISHED_SHARE, JOURNAL_BYTES_MIN, QUEUED_KIB_BYTES } from '../base/limits.js';
import { bytesInWords } from '../base/text.js';
import { domainOf, parseAddress } from './message/address.js';
import { heloNameOf, senderOf } from './names.js';
import { CLOUD, type MailConfig, type MailRows, STORE_SETTINGS, showRelay } from './settings.js';

/** Reports settings of the mail engine that do not fit together. */
export function checkMail(check: Check<MailRows, MailConfig>): void {
  const { hostname, config } = check;
  if (config.from === null && parseAddress(`fieldpost@${hostname}`) === null)
    check.warn(
      `the host name ${JSON.stringify(hostname)} cannot stand in an address: mails come from fieldpost@localhost; set FIELDPOST_FROM`,
    );
  check.order('backoffMinMs', 'backoffMaxMs');
  check.order('retryMinMs', 'retryMaxMs');
  check.order('maxBodyBytes', 'maxSpoolBytes');
  check.certificate('relayCert', 'relayKey');
  checkEndpoint(check);
  checkUser(check);
}

/** Effective values that the rows do not show. */
export function effectiveMail(config: MailConfig, hostname: string) {
  return {
    relayUrls: config.relays.map(showRelay).join(','),
    ...(config.from === null && { from: senderOf(config, () => hostname) }),
    heloName: heloNameOf(config, hostname),
  };
}

/** What makes no sense without a token endpoint. */
const OF_ENDPOINT = [
  'relayClientId',
  'relayClientSecret',
  'relayScope',
  'relayRefreshToken',
  'relayTokenCa',
] as const;

/** Reports a token endpoint that is incomplete, or without use. */
function checkEndpoint(check: Check<MailRows, MailConfig>): void {
  if (check.isBad('relayTokenUrl')) return;
  const { relayTokenUrl, relayTokenFile, relayClientSecret, relayRefreshToken } = check.config;
  const urlKey = check.keyOf('relayTokenUrl');
  if (relayTokenUrl === null) {
    for (const member of OF_ENDPOINT)
      if (check.config[member] !== null && !check.isBad(member))
        check.problem(member, `it needs ${urlKey}, the token endpoint`);
    return;
  }
  if (relayTokenFile !== null)
    check.problem('relayTokenFile', `it is set together with ${urlKey}; keep one of them`);
  check.needs('relayClientId', `${urlKey} needs it: the id of the application`);
  if (relayClientSecret === null && relayRefreshToken === null && !check.isBad('relayRefreshToken'))
    check.needs(
      'relayClientSecret',
      `${urlKey} needs it, or ${check.keyOf('relayRefreshToken')}, or one of the systemd credentials relay-client-secret and relay-refresh-token`,
    );
}

/** Reports a user without a login, and a login that is given twice or goes in clear text. */
function checkUser(check: Check<MailRows, MailConfig>): void {
  if (check.isBad('relayUrls') || check.isBad('relayUser')) return;
  const { relays, relayUser, relayPassword, relayTokenUrl, relayTokenFile } = check.config;
  const ofSmtp = relays.filter((relay) => relay !== CLOUD);
  const withUser = ofSmtp.filter((relay) => relay.user !== null);
  const hasLogin = (['relayPassword', 'relayTokenUrl', 'relayTokenFile'] as const).some(
    (member) => check.config[member] !== null || check.isBad(member),
  );
  if (withUser.length > 0 && !hasLogin)
    check.problem(
      relayUser === null ? 'relayUrls' : 'relayUser',
      'there is a user but no password: put it into a file and name that in FIELDPOST_RELAY_PASSWORD_FILE, or give the systemd credential relay-password, which a restart reads; or set FIELDPOST_RELAY_OAUTH_TOKEN_URL',
    );
  const isToken = relayTokenUrl !== null || relayTokenFile !== null;
  const what = isToken ? 'access token' : 'password';
  if (isToken && relayPassword !== null)
    check.problem(
      relayTokenUrl === null ? 'relayTokenFile' : 'relayTokenUrl',
      'there is a password for the relay as well; keep one of them',
    );
  if (withUser.length === 0 && ofSmtp.length > 0 && (isToken || relayPassword !== null))
    check.problem(
      'relayUrls',
      `there is ${isToken ? 'an' : 'a'} ${what} but no user: write smtp://user@host or set FIELDPOST_RELAY_USER`,
    );
  for (const relay of withUser)
    if (relay.tls === 'never' && !isLoopback(relay.host))
      check.warn(`?tls=never sends the ${what} to ${relay.host} in clear text`);
}

/**
 * All warnings about these settings, for a start, `check` and a report. `sizeBytes`: the size of the file system with the
 * state directory. `hostname`: null if the service does not use the relays of its configuration.
 */
export function allWarnings(
  { config, warnings }: Extract<Parsed<MailConfig>, { config: unknown }>,
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
function mailAdvice(config: MailConfig, hostname: string): readonly string[] {
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
function spoolAdvice({ history, maxQueue, maxSpoolBytes }: MailConfig): readonly string[] {
  const bounds = [
    ['history', history, (maxSpoolBytes * FINISHED_SHARE) / FINISHED_BYTES, 'finished messages'],
    ['maxQueue', maxQueue, maxSpoolBytes / QUEUED_KIB_BYTES, 'messages of 1 KiB'],
  ] as const;
  return bounds
    .filter(([, wanted, fitting]) => wanted > fitting)
    .map(([member, wanted, fitting, what]) => {
      const size = bytesInWords(maxSpoolBytes);
      return `${STORE_SETTINGS[member].key}=${wanted} does not fit into FIELDPOST_MAX_SPOOL, ${size}: about ${Math.floor(fitting)} ${what} do`;
    });
}

/** A sentence if the file system of the state directory, of `sizeBytes`, takes no message even when it is empty. */
function diskAdvice({ minFreeBytes, stateDir }: MailConfig, sizeBytes: number): readonly string[] {
  if (sizeBytes >= minFreeBytes + JOURNAL_BYTES_MIN) return [];
  const size = `the file system of ${stateDir} has ${bytesInWords(sizeBytes)} in all`;
  const needed = `${bytesInWords(minFreeBytes)} must stay free and the journal takes ${bytesInWords(JOURNAL_BYTES_MIN)}`;
  return [`${size}, but ${needed}, so that every message is refused: lower FIELDPOST_MIN_FREE`];
}
