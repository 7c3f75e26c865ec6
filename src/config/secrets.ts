/**
 * The files behind settings: secrets and certificates, read while the configuration is parsed so that a
 * missing one is told at the start. Used by parseConfig.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { CloudServerConfig, Environment, ReadText } from '../config.js';
import { FieldpostError, systemCodeOf, wordsOf } from '../errors.js';
import type { Findings } from './findings.js';
import { SETTINGS, type SettingValues } from './settings.js';
import { deviceId, refuse } from './values.js';

type SecretKey =
  | 'FIELDPOST_RELAY_PASSWORD'
  | 'FIELDPOST_API_TOKEN'
  | 'FIELDPOST_SEND_TOKEN'
  | 'FIELDPOST_CLOUD_KEY';

/** What fieldpost.service gives in place of a credential that is not there. No token or key has a blank in it. */
const NOT_GIVEN = '(not given)';

/**
 * The secret from the file that `<key>_FILE` names, else from `key` itself (with a warning), else from the
 * systemd credential of that name; null where there is none. One line break at a file's end does not count.
 */
export function readSecret(
  key: SecretKey,
  credential: string,
  values: SettingValues,
  env: Environment,
  read: ReadText,
  findings: Findings,
): string | null {
  const fileKey = `${key}_FILE` as const;
  const path = values[fileKey];
  const direct = values[key];
  if (direct !== null) {
    if (path !== null) findings.problem(key, `it is set together with ${fileKey}; keep one of them`);
    findings.warnings.push(
      `${key} stands in the environment, where other programs may see it; prefer ${fileKey}`,
    );
    return direct;
  }
  if (findings.isBad(fileKey)) return null;
  const directory = env.CREDENTIALS_DIRECTORY ?? '';
  if (path === null && directory === '') return null;
  const from = path ?? `${directory}/${credential}`;
  try {
    const secret = read(from).replace(/\r?\n$/, '');
    if (path === null && secret === NOT_GIVEN) return null;
    if (secret === '') throw new FieldpostError('bad-config', 'it is empty');
    return SETTINGS[key].parse(secret);
  } catch (error) {
    // The unit may be given other credentials, and not this one.
    if (path === null && systemCodeOf(error) === 'ENOENT') return null;
    findings.problem(fileKey, `the file ${from} is of no use: ${wordsOf(error)}`);
    return null;
  }
}

/** The PEM text of the file that `key` names; null where none is named. */
export function readPem(
  key:
    | 'FIELDPOST_RELAY_CA_FILE'
    | 'FIELDPOST_CLOUD_CA_FILE'
    | 'FIELDPOST_CLOUD_CERT_FILE'
    | 'FIELDPOST_CLOUD_CERT_KEY_FILE',
  values: SettingValues,
  read: ReadText,
  findings: Findings,
): string | null {
  const path = values[key];
  if (path === null) return null;
  const what = key.endsWith('_KEY_FILE') ? 'PRIVATE KEY' : 'CERTIFICATE';
  try {
    const pem = read(path);
    if (new RegExp(`-----BEGIN [A-Z ]*\\b${what}-----`).test(pem)) return pem;
    findings.problem(key, `the file holds no PEM ${what.toLowerCase()} (-----BEGIN ${what}-----)`);
  } catch (error) {
    findings.problem(key, `the file is of no use: ${wordsOf(error)}`);
  }
  return null;
}

/** What this device shows to the cloud; null where it shows nothing, or what is given does not fit together. */
export function readClientCertificate(
  values: SettingValues,
  read: ReadText,
  findings: Findings,
): { cert: string; key: string } | null {
  const [certKey, keyKey] = ['FIELDPOST_CLOUD_CERT_FILE', 'FIELDPOST_CLOUD_CERT_KEY_FILE'] as const;
  const cert = readPem(certKey, values, read, findings);
  const key = readPem(keyKey, values, read, findings);
  if (values[certKey] === null && values[keyKey] !== null) {
    findings.problem(certKey, `${keyKey} is of no use without it: the file with the certificate`);
  }
  if (values[certKey] !== null && values[keyKey] === null) {
    findings.problem(keyKey, `${certKey} needs it: the file with the certificate's private key`);
  }
  if (cert === null || key === null) return null;
  try {
    if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return { cert, key };
    findings.problem(keyKey, `the private key is not that of the certificate in ${certKey}`);
  } catch (error) {
    findings.problem(keyKey, `the certificate or its key cannot be used: ${wordsOf(error)}`);
  }
  return null;
}

/**
 * The keys in the file that FIELDPOST_CLOUD_SERVER_KEYS_FILE names: on each line a device, blanks, and its key; `*`
 * in place of a device is the operator. A device may stand on several lines, while its key is being changed. Null
 * where no file is named.
 */
export function readDeviceKeys(
  values: SettingValues,
  read: ReadText,
  findings: Findings,
): CloudServerConfig['keys'] {
  const path = values.FIELDPOST_CLOUD_SERVER_KEYS_FILE;
  if (path === null) return null;
  const keys = new Map<string, string[]>();
  try {
    for (const [index, line] of read(path).split('\n').entries()) {
      const [device = '', key = '', ...rest] = line.trim().split(/\s+/);
      if (device === '' || device.startsWith('#')) continue;
      if (key === '' || rest.length > 0) refuse(`line ${index + 1} is not a device and its key`);
      if (device !== '*') deviceId.parse(device);
      SETTINGS.FIELDPOST_CLOUD_KEY.parse(key);
      keys.set(device, [...(keys.get(device) ?? []), key]);
    }
  } catch (error) {
    findings.problem('FIELDPOST_CLOUD_SERVER_KEYS_FILE', `the file ${path} is of no use: ${wordsOf(error)}`);
  }
  return keys;
}

/** The `Authorization` in the file that FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE names; null where none is named. */
export function readWebhookAuth(values: SettingValues, read: ReadText, findings: Findings): string | null {
  const key = 'FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE';
  const path = values[key];
  if (path === null) return null;
  if (values.FIELDPOST_CLOUD_SERVER_WEBHOOK === null) {
    findings.problem(key, 'it needs FIELDPOST_CLOUD_SERVER_WEBHOOK');
  }
  try {
    const text = read(path).trim();
    if (/^[A-Za-z][\w-]* [\x21-\x7e]+$/.test(text)) return text;
    findings.problem(key, `the file ${path} does not hold a scheme and its credentials, like Bearer abc`);
  } catch (error) {
    findings.problem(key, `the file ${path} cannot be read: ${wordsOf(error)}`);
  }
  return null;
}
