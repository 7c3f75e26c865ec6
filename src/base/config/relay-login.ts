/**
 * Rules between the settings of the login at relays: a user, and a password or access tokens.
 */

import type { Findings } from './findings.js';
import type { Config } from './settings.js';
import { type Member, SETTINGS } from './settings.js';
import { isLoopback } from './values.js';

/** What makes no sense without a token endpoint. */
const OF_ENDPOINT = [
  'relayClientId',
  'relayClientSecret',
  'relayScope',
  'relayRefreshToken',
  'relayTokenCa',
] as const satisfies readonly Member[];

/** Reports logins that are incomplete, or given twice. */
export function checkRelayLogin(config: Config, findings: Findings): void {
  checkEndpoint(config, findings);
  checkUser(config, findings);
}

/** The key that a person has probably set for this member. */
function keyOf(member: Member): string {
  const { key, credential } = SETTINGS[member];
  return credential === null ? key : `${key}_FILE`;
}

function isBad(member: Member, findings: Findings): boolean {
  return findings.isBad(SETTINGS[member].key) || findings.isBad(keyOf(member));
}

function checkEndpoint(config: Config, findings: Findings): void {
  const urlKey = keyOf('relayTokenUrl');
  if (findings.isBad(urlKey)) return;
  const { relayTokenUrl, relayTokenFile, relayClientId, relayClientSecret, relayRefreshToken } = config;
  if (relayTokenUrl === null) {
    for (const member of OF_ENDPOINT)
      if (config[member] !== null && !isBad(member, findings))
        findings.problem(keyOf(member), `it needs ${urlKey}, the token endpoint`);
    return;
  }
  if (relayTokenFile !== null)
    findings.problem(keyOf('relayTokenFile'), `it is set together with ${urlKey}; keep one of them`);
  if (relayClientId === null && !isBad('relayClientId', findings))
    findings.problem(keyOf('relayClientId'), `${urlKey} needs it: the id of the application`);
  const isIncomplete = relayClientSecret === null && relayRefreshToken === null;
  if (isIncomplete && !isBad('relayClientSecret', findings) && !isBad('relayRefreshToken', findings))
    findings.problem(
      keyOf('relayClientSecret'),
      `${urlKey} needs it, or ${keyOf('relayRefreshToken')}, or one of the systemd credentials relay-client-secret and relay-refresh-token`,
    );
}

function checkUser(config: Config, findings: Findings): void {
  if (findings.isBad('FIELDPOST_RELAY') || findings.isBad('FIELDPOST_RELAY_USER')) return;
  const { relayPassword, relayTokenUrl, relayTokenFile } = config;
  const withUser = config.relays.filter((relay) => relay.user !== null);
  const hasLogin = (['relayPassword', 'relayTokenUrl', 'relayTokenFile'] as const).some(
    (member) => config[member] !== null || isBad(member, findings),
  );
  if (withUser.length > 0 && !hasLogin) {
    const key = config.relayUser === null ? 'FIELDPOST_RELAY' : 'FIELDPOST_RELAY_USER';
    findings.problem(
      key,
      'there is a user but no password: put it into a file and name that in FIELDPOST_RELAY_PASSWORD_FILE, or give the systemd credential relay-password; or set FIELDPOST_RELAY_OAUTH_TOKEN_URL',
    );
  }
  const isToken = relayTokenUrl !== null || relayTokenFile !== null;
  const what = isToken ? 'access token' : 'password';
  if (isToken && relayPassword !== null) {
    const key = keyOf(relayTokenUrl === null ? 'relayTokenFile' : 'relayTokenUrl');
    findings.problem(key, 'there is a password for the relay as well; keep one of them');
  }
  if (withUser.length === 0 && config.relays.length > 0 && (isToken || relayPassword !== null)) {
    const article = isToken ? 'an' : 'a';
    findings.problem(
      'FIELDPOST_RELAY',
      `there is ${article} ${what} but no user: write smtp://user@host or set FIELDPOST_RELAY_USER`,
    );
  }
  for (const relay of withUser) {
    if (relay.tls !== 'never' || isLoopback(relay.host)) continue;
    findings.warnings.push(`?tls=never sends the ${what} to ${relay.host} in clear text`);
  }
}
