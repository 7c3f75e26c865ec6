/**
 * The configuration: makes one complete Config of the environment, or lists everything that is wrong with it. The table of
 * settings is in config/.
 */

import { parseAddress } from '../../mail/message/address.js';
import { ownerAdvice, tokenAdvice } from './advice.js';
import { checkTogether } from './consistency.js';
import { completeRelay, showRelay } from './endpoints.js';
import { Findings } from './findings.js';
import { heloNameOf, senderOf } from './names.js';
import { environmentProxy } from './proxy.js';
import { readValues } from './read.js';
import { type Config, type Member, ROWS, type Values } from './settings.js';
import type { CloudConfig, ConfigProblem, Environment, ReadText, StatOf } from './types.js';

/** A good Config, or every problem. */
export type ParsedConfig =
  | { readonly config: Config; readonly warnings: readonly string[] }
  | { readonly problems: readonly ConfigProblem[] };

/**
 * The configuration in `env`, or all of its problems. `read` reads the files with secrets and certificates, and `statOf`
 * tells who else may do that. An empty key counts as not set. An unknown key is a problem. It is only a warning if it is in `accepted`, because a newer version
 * has run with it on this device.
 */
export function parseConfig(
  env: Environment,
  read: ReadText,
  device: { readonly hostname: string; readonly statOf?: StatOf },
  accepted: ReadonlySet<string> = new Set(),
): ParsedConfig {
  const { statOf = () => null } = device;
  const findings = new Findings(env, accepted);
  const inPlace = { ...env, FIELDPOST_STATE_DIR: namedStateDirectory(env) };
  const values = readValues({ env: inPlace, read, statOf, findings });
  const config: Config = {
    ...values,
    relays: (values.relayUrls ?? []).map((url) => completeRelay(url, values.relayUser)),
    maxAgeMs: {
      1: values.maxAgeEmailMs,
      2: values.maxAgeSmsMs,
      3: values.maxAgePhoneMs,
      4: values.maxAgePushMs,
    },
    cloud: cloudOf(values),
    cloudProxy: values.cloudProxy ?? proxyOf(values, env, findings),
  };
  checkHostname(config, device.hostname, findings);
  checkTogether(config, findings);
  findings.warnings.push(...tokenAdvice(config), ...ownerAdvice(config, statOf));
  const { problems, warnings } = findings;
  return problems.length > 0 ? { problems } : { config, warnings };
}

function cloudOf(values: Values): CloudConfig | null {
  const { cloudUrl: url, deviceId, cloudKey: key, cloudCa: ca, cloudCert: cert, cloudCertKey } = values;
  if (url === null || deviceId === null || key === null) return null;
  const clientCertificate = cert === null || cloudCertKey === null ? null : { cert, key: cloudCertKey };
  return { url, deviceId, key, ca, clientCertificate };
}

/** The proxy of the environment; null for a cloud on this device. */
function proxyOf({ cloudUrl }: Values, env: Environment, findings: Findings): Values['cloudProxy'] {
  if (!cloudUrl?.startsWith('https:') || findings.isBad('FIELDPOST_CLOUD_PROXY')) return null;
  return environmentProxy(env, cloudUrl, (warning) => findings.warnings.push(warning));
}

/**
 * The state directory that `env` names, even if something else in it is wrong. systemd separates several by colons; the
 * first is ours.
 */
export function namedStateDirectory(env: Environment): string {
  return env.FIELDPOST_STATE_DIR?.trim() || env.STATE_DIRECTORY?.split(':')[0] || './.fieldpost';
}

/** A problem in one line. */
export function formatProblem({ key, value, detail }: ConfigProblem): string {
  return `${value === null ? key : `${key}=${value}`}: ${detail}`;
}

/** The effective configuration by key, as a user writes it: secrets hidden, empty if nothing is set. */
export function describeConfig(config: Config, hostname: string): Record<string, string> {
  const effective: Partial<Record<Member, string>> = {
    relayUrls: config.relays.map(showRelay).join(','),
    ...(config.from === null && { from: senderOf(config, () => hostname) }),
    heloName: heloNameOf(config, hostname),
  };
  const shown = ROWS.map(([member, { key, kind }]) => {
    const value = config[member];
    return [key, effective[member] ?? (value === null ? '' : kind.show(value))];
  });
  return Object.fromEntries(shown);
}

function checkHostname({ from }: Config, hostname: string, findings: Findings): void {
  if (from !== null || parseAddress(`fieldpost@${hostname}`) !== null) return;
  findings.warnings.push(
    `the host name ${JSON.stringify(hostname)} cannot stand in an address: mails come from fieldpost@localhost; set FIELDPOST_FROM`,
  );
}
