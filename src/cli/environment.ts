/**
 * Where commands take their settings from: the environment, and the file that systemd reads for the service.
 */

import { parseEnvFile } from '../config/env-file.js';
import type { Environment } from '../config.js';
import { systemCodeOf, wordsOf } from '../errors.js';
import { type CommandContext, CommandError, EXIT, type Settings } from './command.js';

/** The service's own file, which people edit. */
const ENV_FILE = '/etc/fieldpost/fieldpost.env';

/** Where systemd keeps the running service's credentials (systemd.exec(5)); only root gets in. */
const CREDENTIALS = '/run/credentials/fieldpost.service';

/** Its StateDirectory=, which systemd tells nobody but the service. */
const STATE_DIRECTORY = '/var/lib/fieldpost';

/**
 * The settings of a service. One that systemd has started, which has read the service's own file for it, finds there
 * what has changed since; its user must be able to read it.
 */
export function settingsFor(envFile: string | null, context: CommandContext): Settings {
  const read =
    envFile !== null
      ? () => readEnvFile(envFile, context)
      : context.isUnit
        ? () => serviceFile(context) ?? {}
        : () => ({});
  const isOpen = envFile !== null || !context.isUnit || mayRead(ENV_FILE, context);
  let fault: string | null = null;
  let file: Environment = {};
  try {
    if (isOpen) file = read();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    fault = error.message;
  }
  // What is in the environment because of the file goes when it goes from there: systemd, and Node.js where it is not
  // kept from it, have read it before us.
  const others = Object.fromEntries(
    Object.entries(context.env).filter(([key, value]) => file[key] !== value),
  );
  return {
    env: { ...context.env, ...file },
    fault,
    reread() {
      if (isOpen) return { ...others, ...read() };
      throw new CommandError(
        EXIT.noPermission,
        `this user may not read ${ENV_FILE}: restart the service instead`,
      );
    },
  };
}

/** What the service's own file says; null where there is none. */
function serviceFile(context: CommandContext): Environment | null {
  try {
    return parseFile(ENV_FILE, context.read(ENV_FILE));
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** The environment with the settings of the env file `path` over it, as EnvironmentFile= does. Throws CommandError (78). */
export function withEnvFile(path: string, context: CommandContext): Environment {
  return { ...context.env, ...readEnvFile(path, context) };
}

/**
 * The environment that the service on this device has, as far as this user may know it: so that `fieldpost
 * status` finds the daemon without being told how. An environment with a FIELDPOST_ key in it is left alone:
 * somebody wants just that.
 */
export function serviceEnvironment(context: CommandContext): Environment {
  const { env } = context;
  if (Object.keys(env).some((key) => key.startsWith('FIELDPOST_'))) return env;
  const credentials = mayRead(`${CREDENTIALS}/api-token`, context)
    ? { CREDENTIALS_DIRECTORY: CREDENTIALS }
    : {};
  if (!mayRead(ENV_FILE, context)) {
    context.stderr.write(`fieldpost: this user may not read ${ENV_FILE}: its settings are not used\n`);
    return env;
  }
  const file = serviceFile(context);
  // Without its file there is no service, and `run` would take a directory of its own.
  const state = file === null ? {} : { STATE_DIRECTORY };
  return { ...credentials, ...state, ...env, ...file };
}

/** False if the file is, or might be, there but is closed to this user. */
function mayRead(path: string, context: CommandContext): boolean {
  try {
    context.read(path);
    return true;
  } catch (error) {
    return systemCodeOf(error) !== 'EACCES';
  }
}

function readEnvFile(path: string, context: CommandContext): Environment {
  let text: string;
  try {
    text = context.read(path);
  } catch (error) {
    throw new CommandError(EXIT.config, `the env file is of no use: ${wordsOf(error)}`);
  }
  return parseFile(path, text);
}

function parseFile(path: string, text: string): Environment {
  const { values, problems } = parseEnvFile(text);
  if (problems.length === 0) return values;
  throw new CommandError(
    EXIT.config,
    problems.map(({ line, detail }) => `${path}:${line}: ${detail}`).join('\n'),
  );
}
