/**
 * Rules between settings that are each good by themselves.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { wordsOf } from '../errors.js';
import { JOURNAL_BYTES_MIN, MIB } from '../limits.js';
import { showListener } from './endpoints.js';
import type { Findings } from './findings.js';
import { checkRelayLogin } from './relay-login.js';
import type { Config } from './settings.js';
import { type Member, SETTINGS, type Values } from './settings.js';
import type { ListenConfig } from './types.js';
import { isLoopback } from './values.js';

type NumberMember = { [M in Member]: Values[M] extends number ? M : never }[Member];

const ORDERED: readonly [least: NumberMember, most: NumberMember, besides?: number][] = [
  ['backoffMinMs', 'backoffMaxMs'],
  ['retryMinMs', 'retryMaxMs'],
  ['cloudServerDelayMs', 'cloudServerStopDelayMs'],
  ['maxBodyBytes', 'maxSpoolBytes'],
  ['maxMessageBytes', 'maxSpoolBytes', JOURNAL_BYTES_MIN],
];

/** Reports settings that do not fit together. */
export function checkTogether(config: Config, findings: Findings): void {
  for (const [least, most, besides = 0] of ORDERED) {
    const [low, high] = [SETTINGS[least], SETTINGS[most]];
    if (config[least] + besides <= config[most] || findings.isBad(high.key)) continue;
    const shown = `${high.kind.show(config[most])}${besides > 0 ? `, less ${besides / MIB}MiB for the journal` : ''}`;
    findings.problem(low.key, `${low.kind.show(config[least])} is more than ${high.key}, which is ${shown}`);
  }
  checkRelayLogin(config, findings);
  checkListeners(config, findings);
  checkSendToken(config, findings);
  checkCloud(config, findings);
  checkCertificate('cloudCert', 'cloudCertKey', config, findings);
  checkCertificate('smtpCert', 'smtpKey', config, findings);
  checkCertificate('cloudServerStoreCert', 'cloudServerStoreKey', config, findings);
  checkCloudServer(config, findings);
  checkCloudStore(config, findings);
}

/** True if other devices can reach this listener. */
export function needsToken(listener: ListenConfig): boolean {
  return listener.kind === 'tcp' && !isLoopback(listener.host);
}

function checkSendToken({ apiToken, sendToken }: Config, findings: Findings): void {
  if (sendToken === null || findings.isBad('FIELDPOST_API_TOKEN_FILE')) return;
  if (apiToken === null) {
    findings.problem(
      'FIELDPOST_SEND_TOKEN_FILE',
      'it needs FIELDPOST_API_TOKEN_FILE: without that token any program may do everything',
    );
  } else if (apiToken === sendToken) {
    findings.problem('FIELDPOST_SEND_TOKEN_FILE', 'it is the same token as in FIELDPOST_API_TOKEN_FILE');
  }
}

function checkListeners(config: Config, findings: Findings): void {
  const tokenIsBad = findings.isBad('FIELDPOST_API_TOKEN') || findings.isBad('FIELDPOST_API_TOKEN_FILE');
  if (config.apiToken !== null || tokenIsBad) return;
  for (const member of ['listen', 'smtpListen'] as const) {
    const open = config[member].find(needsToken);
    if (open === undefined) continue;
    const words = `${showListener(open)} can be reached from other devices: that needs a token in FIELDPOST_API_TOKEN_FILE`;
    findings.problem(SETTINGS[member].key, words);
  }
}

function checkCloud({ cloudUrl, deviceId, cloudKey }: Config, findings: Findings): void {
  if (cloudUrl === null) return;
  if (deviceId === null) {
    findings.problem('FIELDPOST_DEVICE_ID', 'FIELDPOST_CLOUD needs it: the name of this device in the cloud');
  }
  if (cloudKey === null && !findings.isBad('FIELDPOST_CLOUD_KEY')) {
    findings.problem(
      'FIELDPOST_CLOUD_KEY_FILE',
      "FIELDPOST_CLOUD needs it: the file with this device's key (or the systemd credential cloud-key, which a restart reads)",
    );
  }
}

/** A certificate and its private key: both or none, and of one pair. */
function checkCertificate(
  certMember: 'cloudCert' | 'smtpCert' | 'cloudServerStoreCert',
  keyMember: 'cloudCertKey' | 'smtpKey' | 'cloudServerStoreKey',
  config: Config,
  findings: Findings,
): void {
  const [cert, key] = [config[certMember], config[keyMember]];
  const [certName, keyName] = [SETTINGS[certMember].key, SETTINGS[keyMember].key];
  if (findings.isBad(certName) || findings.isBad(keyName)) return;
  if (cert === null && key !== null) {
    findings.problem(certName, `${keyName} needs it: the file with the certificate`);
  }
  if (cert !== null && key === null) {
    findings.problem(keyName, `${certName} needs it: the file with the certificate's private key`);
  }
  if (cert === null || key === null) return;
  try {
    if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return;
    findings.problem(keyName, `the private key is not that of the certificate in ${certName}`);
  } catch (error) {
    findings.problem(keyName, `the certificate or its key cannot be used: ${wordsOf(error)}`);
  }
}

function checkCloudServer(config: Config, findings: Findings): void {
  const keysKey = 'FIELDPOST_CLOUD_SERVER_KEYS_FILE';
  const open = config.cloudServerListen.find(needsToken);
  if (config.cloudServerKeys === null && open !== undefined && !findings.isBad(keysKey)) {
    findings.problem(
      'FIELDPOST_CLOUD_SERVER_LISTEN',
      `${showListener(open)} can be reached from other machines: that needs ${keysKey}`,
    );
  }
  const webhookKey = 'FIELDPOST_CLOUD_SERVER_WEBHOOK';
  if (
    config.cloudServerWebhookAuth !== null &&
    config.cloudServerWebhook === null &&
    !findings.isBad(webhookKey)
  ) {
    findings.problem('FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE', `it needs ${webhookKey}`);
  }
}

function checkCloudStore(config: Config, findings: Findings): void {
  const userKey = SETTINGS.cloudServerStoreUser.key;
  const passwordKey = SETTINGS.cloudServerStorePassword.key;
  if (findings.isBad(passwordKey)) return;
  const { cloudServerStoreUser: user, cloudServerStorePassword: password } = config;
  if (user !== null && password === null) findings.problem(passwordKey, `${userKey} needs it`);
  if (user === null && password !== null) findings.problem(userKey, `${passwordKey} needs it`);
}
