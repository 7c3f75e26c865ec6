/**
 * The files behind settings: secrets and certificates, read while the configuration is parsed so that a
 * missing one is told at the start. Used by parseConfig.
 */
import type { Environment, ReadText } from '../config.js';
import { FieldpostError, systemCodeOf, wordsOf } from '../errors.js';
import type { Findings } from './findings.js';
import { SETTINGS, type SettingValues } from './settings.js';

type SecretKey = 'FIELDPOST_RELAY_PASSWORD' | 'FIELDPOST_API_TOKEN' | 'FIELDPOST_CLOUD_KEY';

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
export function readCertificates(
  key: 'FIELDPOST_RELAY_CA_FILE' | 'FIELDPOST_CLOUD_CA_FILE',
  values: SettingValues,
  read: ReadText,
  findings: Findings,
): string | null {
  const path = values[key];
  if (path === null) return null;
  try {
    const pem = read(path);
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem;
    findings.problem(key, 'the file holds no PEM certificate (-----BEGIN CERTIFICATE-----)');
  } catch (error) {
    findings.problem(key, `the file is of no use: ${wordsOf(error)}`);
  }
  return null;
}
