/**
 * The settings of commands: from the environment, and from the env file of the service.
 */
import { parseEnvFile } from '../config/env-file.js';
import type { Environment } from '../config.js';
import { systemCodeOf, wordsOf } from '../errors.js';
import { type CommandContext, CommandError, EXIT, type Settings } from './command.js';

/** The env file of the service. */
const ENV_FILE = '/etc/fieldpost/fieldpost.env';

/** The credentials of the running service (systemd.exec(5)). Only root can read them. */
const CREDENTIALS = '/run/credentials/fieldpost.service';

/** The StateDirectory= of the service. */
const STATE_DIRECTORY = '/var/lib/fieldpost';

/**
 * The settings of a service. systemd reads the env file when it starts the service. On a reload the service reads the
 * file itself, so its user needs the permission.
 */
export function settingsFor(envFile: string | null, context: CommandContext): Settings {
  const read =
    envFile !== null
      ? () => readEnvFile(envFile, context)
      : context.isUnit
        ? () => serviceFile(context) ?? {}
        : () => ({});
  const isOpen = envFile !== null || !context.isUnit || canRead(ENV_FILE, context);
  let fault: string | null = null;
  let file: Environment = {};
  try {
    if (isOpen) file = read();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    fault = error.message;
  }
  // systemd has copied the file's settings into the environment: after a reload those that left the file must be gone.
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
        `this user has no permission to read ${ENV_FILE}: restart the service instead`,
      );
    },
  };
}

/** Null without a file. */
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
 * The environment of the service on this device, as far as this user can read it: `fieldpost status` finds the daemon
 * without options. An environment with a FIELDPOST_ key is used unchanged.
 */
export function serviceEnvironment(context: CommandContext): Environment {
  const { env } = context;
  if (hasOwnSettings(env)) return env;
  const credentials = canRead(`${CREDENTIALS}/api-token`, context)
    ? { CREDENTIALS_DIRECTORY: CREDENTIALS }
    : {};
  if (!canRead(ENV_FILE, context)) {
    context.stderr.write(
      `fieldpost: this user has no permission to read ${ENV_FILE}, so its settings are ignored\n`,
    );
    return env;
  }
  const file = serviceFile(context);
  // Without this file no service is installed: use the default state directory.
  const state = file === null ? {} : { STATE_DIRECTORY };
  return { ...credentials, ...state, ...(file === null ? env : withoutProxies(env)), ...file };
}

/** True if the environment has settings of Fieldpost itself. */
export function hasOwnSettings(env: Environment): boolean {
  return Object.keys(env).some((key) => key.startsWith('FIELDPOST_'));
}

/**
 * The environment with what can be used of the env file `path`, or of that of the service: systemd ignores bad lines, too.
 */
export function lenientEnvironment(path: string | null, context: CommandContext): Environment {
  try {
    return { ...context.env, ...parseEnvFile(context.read(path ?? ENV_FILE)).values };
  } catch {
    return context.env;
  }
}

/** The service does not get the proxies of a user's shell. */
function withoutProxies(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([key]) => !/^(?:https|no)_proxy$/i.test(key)));
}

/**
 * The same for a program that must never fail because of a file: without a warning, and without a file that has a fault.
 */
export function tolerantEnvironment(context: CommandContext): Environment {
  try {
    return serviceEnvironment({ ...context, stderr: { write: () => undefined, isTTY: false } });
  } catch (error) {
    if (error instanceof CommandError) return context.env;
    throw error;
  }
}

/** False if this user has no permission to read the file, whether or not it exists. */
function canRead(path: string, context: CommandContext): boolean {
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
    throw new CommandError(EXIT.config, `the env file cannot be used: ${wordsOf(error)}`);
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
