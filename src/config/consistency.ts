/**
 * What must hold between settings, each of which is good by itself. Used by parseConfig.
 */
import type { Config, ListenConfig } from '../config.js';
import { JOURNAL_BYTES_MIN, MIB } from '../limits.js';
import { showListener } from './endpoints.js';
import type { Findings } from './findings.js';
import { SETTINGS, type SettingKey, type SettingValues } from './settings.js';
import { isLoopback } from './values.js';

type NumberKey = { [Key in SettingKey]: SettingValues[Key] extends number ? Key : never }[SettingKey];

const ORDERED: readonly [least: NumberKey, most: NumberKey, besides?: number][] = [
  ['FIELDPOST_BACKOFF_MIN', 'FIELDPOST_BACKOFF_MAX'],
  ['FIELDPOST_RETRY_MIN', 'FIELDPOST_RETRY_MAX'],
  ['FIELDPOST_CLOUD_SERVER_DELAY', 'FIELDPOST_CLOUD_SERVER_STOP_DELAY'],
  ['FIELDPOST_MAX_BODY', 'FIELDPOST_MAX_SPOOL'],
  ['FIELDPOST_MAX_MESSAGE', 'FIELDPOST_MAX_SPOOL', JOURNAL_BYTES_MIN],
];

/** Adds to `findings` what does not fit together. */
export function checkTogether(
  config: Config,
  values: SettingValues,
  cloudKey: string | null,
  findings: Findings,
): void {
  for (const [least, most, besides = 0] of ORDERED) {
    if (values[least] + besides <= values[most] || findings.isBad(most)) continue;
    const shown = `${SETTINGS[most].show?.(config, '')}${besides > 0 ? `, less ${besides / MIB}MiB for the journal` : ''}`;
    findings.problem(least, `${SETTINGS[least].show?.(config, '')} is more than ${most}, which is ${shown}`);
  }
  checkRelays(config, values, findings);
  checkListeners(config, findings);
  checkSendToken(config, findings);
  checkCloudServer(config, findings);
  checkCloud(values, cloudKey, findings);
}

function checkRelays(config: Config, values: SettingValues, findings: Findings): void {
  if (findings.isBad('FIELDPOST_RELAY') || findings.isBad('FIELDPOST_RELAY_USER')) return;
  const withUser = config.relays.filter((relay) => relay.user !== null);
  const passwordIsBad =
    findings.isBad('FIELDPOST_RELAY_PASSWORD') || findings.isBad('FIELDPOST_RELAY_PASSWORD_FILE');
  if (withUser.length > 0 && config.relayPassword === null && !passwordIsBad) {
    const key = values.FIELDPOST_RELAY_USER === null ? 'FIELDPOST_RELAY' : 'FIELDPOST_RELAY_USER';
    findings.problem(
      key,
      'there is a user but no password: put it into a file and name that in FIELDPOST_RELAY_PASSWORD_FILE, or give the systemd credential relay-password',
    );
  }
  if (withUser.length === 0 && config.relays.length > 0 && config.relayPassword !== null) {
    findings.problem(
      'FIELDPOST_RELAY',
      'there is a password but no user: write smtp://user@host or set FIELDPOST_RELAY_USER',
    );
  }
  for (const relay of withUser) {
    if (relay.tls !== 'never' || isLoopback(relay.host)) continue;
    findings.warnings.push(`?tls=never sends the password to ${relay.host} in clear text`);
  }
}

/** True if others than programs on this device can reach it. */
export function needsToken(listener: ListenConfig): boolean {
  return listener.kind === 'tcp' && !isLoopback(listener.host);
}

/** Where anybody may do anything, a token that allows less is a mistake; so is one that is both. */
function checkSendToken({ apiToken, sendToken }: Config, findings: Findings): void {
  if (sendToken === null || findings.isBad('FIELDPOST_API_TOKEN_FILE')) return;
  if (apiToken === null) {
    findings.problem(
      'FIELDPOST_SEND_TOKEN_FILE',
      'it needs FIELDPOST_API_TOKEN_FILE: without that token any program may do everything',
    );
  } else if (apiToken === sendToken) {
    findings.problem('FIELDPOST_SEND_TOKEN_FILE', 'it is the same token as that of FIELDPOST_API_TOKEN_FILE');
  }
}

function checkListeners(config: Config, findings: Findings): void {
  const tokenIsBad = findings.isBad('FIELDPOST_API_TOKEN') || findings.isBad('FIELDPOST_API_TOKEN_FILE');
  if (config.apiToken !== null || tokenIsBad) return;
  const open = config.listen.find(needsToken);
  if (open === undefined) return;
  findings.problem(
    'FIELDPOST_LISTEN',
    `${showListener(open)} can be reached from other devices: that needs a token in FIELDPOST_API_TOKEN_FILE`,
  );
}

function checkCloudServer({ cloudServer: { listen, keys } }: Config, findings: Findings): void {
  const open = listen.find(needsToken);
  if (keys !== null || open === undefined) return;
  findings.problem(
    'FIELDPOST_CLOUD_SERVER_LISTEN',
    `${showListener(open)} can be reached from other machines: that needs FIELDPOST_CLOUD_SERVER_KEYS_FILE`,
  );
}

function checkCloud(values: SettingValues, cloudKey: string | null, findings: Findings): void {
  if (values.FIELDPOST_CLOUD === null) return;
  if (values.FIELDPOST_DEVICE_ID === null) {
    findings.problem('FIELDPOST_DEVICE_ID', 'FIELDPOST_CLOUD needs it: the name of this device in the cloud');
  }
  if (cloudKey === null && !findings.isBad('FIELDPOST_CLOUD_KEY')) {
    findings.problem(
      'FIELDPOST_CLOUD_KEY_FILE',
      "FIELDPOST_CLOUD needs it: the file with this device's key (or the systemd credential cloud-key, which a restart reads)",
    );
  }
}
