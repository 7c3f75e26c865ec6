/**
 * The settings in a report, and what their secrets are.
 */
import { allWarnings } from '../../base/config/advice.js';
import { describeConfig, namedStateDirectory, type ParsedConfig } from '../../base/config/config.js';
import { ROWS, SECRET_BY_KEY } from '../../base/config/settings.js';
import type { Environment, ReadText } from '../../base/config/types.js';
import type { CommandContext } from '../command.js';
import { StandIns } from './stand-ins.js';

const HIDDEN = '(hidden)';

/** Settings whose values name a person, an account or this device. */
const PRIVATE_KEYS: readonly string[] = [
  'FIELDPOST_RELAY_USER',
  'FIELDPOST_RELAY_OAUTH_CLIENT_ID',
  'FIELDPOST_FROM',
  'FIELDPOST_FROM_ALLOWED',
  'FIELDPOST_LOCAL_MAIL',
  'FIELDPOST_HELO_NAME',
  'FIELDPOST_ALLOWED_HOSTS',
];

/** Those that a relay may repeat, or a log line. */
const ACCOUNT_KEYS: readonly string[] = ['FIELDPOST_RELAY_USER', 'FIELDPOST_RELAY_OAUTH_CLIENT_ID'];

/** The stand-ins of a report with these settings: it may show the hosts that they name, and the device's id. */
export function standInsFor(parsed: ParsedConfig, env: Environment): StandIns {
  if ('problems' in parsed) {
    const isBad = parsed.problems.some(({ key }) => key === 'FIELDPOST_DEVICE_ID');
    const id = isBad ? '' : env.FIELDPOST_DEVICE_ID?.trim();
    return new StandIns(hostsIn(env.FIELDPOST_RELAY ?? ''), id);
  }
  const { relays, cloud, cloudProxy, relayTokenUrl } = parsed.config;
  const urls = [cloud?.url, relayTokenUrl].flatMap((url) => (url ? hostsIn(url) : []));
  const proxy = cloudProxy === null || cloudProxy === 'none' ? [] : [cloudProxy.host];
  return new StandIns([...relays.map(({ host }) => host), ...urls, ...proxy], parsed.config.deviceId ?? '');
}

/** The hosts of the URLs in a text that may have a fault. */
function hostsIn(text: string): string[] {
  return entriesOf(text).flatMap((url) => (URL.canParse(url) ? [new URL(url).hostname] : []));
}

function entriesOf(list: string): string[] {
  return list.split(',').map((entry) => entry.trim());
}

/** Every secret in the settings and the files that they name: a text of somebody else may repeat it. */
export function privateTexts(parsed: ParsedConfig, env: Environment, read: ReadText): string[] {
  const faulty = new Set('problems' in parsed ? parsed.problems.map(({ key }) => key) : []);
  const secrets = Object.entries(env).flatMap(([key, value = '']) => {
    if (!key.startsWith('FIELDPOST_')) return /^(?:https?|no|all)_proxy$/i.test(key) ? loginsIn(value) : [];
    // A fault may quote the value, and an unknown key may be a mistyped one of a secret.
    if (faulty.has(key)) return [value, ...entriesOf(value)];
    const isHidden = SECRET_BY_KEY.get(key) ?? true;
    if ((isHidden || ACCOUNT_KEYS.includes(key)) && !key.endsWith('_FILE')) return [value];
    return loginsIn(value);
  });
  const files = [
    `${namedStateDirectory(env)}/relay-token.json`,
    env.FIELDPOST_RELAY_TOKEN_FILE,
    ...ROWS.flatMap(([, { key, credential, isSecret }]) => [
      isSecret ? env[credential === null ? key : `${key}_FILE`] : undefined,
      credential !== null && env.CREDENTIALS_DIRECTORY
        ? `${env.CREDENTIALS_DIRECTORY}/${credential}`
        : undefined,
    ]),
  ];
  const all = [...secrets, ...files.flatMap((path) => contentOf(path, read))].map((text) => text.trim());
  // The name of an account, perhaps, but also that of this program.
  return all.filter((text) => text !== 'fieldpost');
}

/** User and password of each URL in a text. */
function loginsIn(text: string): string[] {
  return [...text.matchAll(/\/\/([^/\s]*)@/g)].flatMap(([, login = '']) => {
    const parts = [login, ...login.split(':')];
    return parts.flatMap((part) => [part, decoded(part)]);
  });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function contentOf(path: string | undefined, read: ReadText): string[] {
  if (path === undefined || path === '') return [];
  try {
    const text = read(path);
    // Of a URL the host may be shown.
    if (/^http:\/\//i.test(text)) return [text, ...loginsIn(text)];
    return [text, ...(text.match(/[A-Za-z0-9+/._~=-]{8,}/g) ?? [])];
  } catch {
    // Who cannot read it cannot show it.
    return [];
  }
}

/** Each setting with its effective value; of settings with a fault only their names. */
export function settingLines(
  parsed: ParsedConfig,
  { env, hostname }: CommandContext,
  standIns: StandIns,
): string[] {
  if ('problems' in parsed) {
    const set = Object.keys(env).filter((key) => SECRET_BY_KEY.has(key) && env[key]?.trim());
    return [`(not in effect: see the findings) set: ${set.sort().join(', ') || 'nothing'}`];
  }
  return Object.entries(describeConfig(parsed.config, hostname)).map(([key, value]) => {
    if (value === '') return `${key}=`;
    if (key === 'FIELDPOST_FROM')
      return `${key}=${parsed.config.from === null ? '(of the host name)' : HIDDEN}`;
    return `${key}=${PRIVATE_KEYS.includes(key) ? HIDDEN : standIns.text(value)}`;
  });
}

/** What `fieldpost check` finds: problems, or warnings. No value is shown, and not what is allowed. */
export async function findingLines(
  parsed: ParsedConfig,
  { fileSystemBytes, hostname }: CommandContext,
): Promise<string[]> {
  if ('problems' in parsed) {
    return parsed.problems.map(({ key, detail }) => {
      const name = SECRET_BY_KEY.has(key) ? key : 'an unknown setting';
      return `${name}: ${detail.replace(/ \(allowed: .*$/s, '')}`;
    });
  }
  const all = [...allWarnings(parsed, hostname, await fileSystemBytes(parsed.config.stateDir))];
  return all.length === 0 ? ['none'] : all;
}
