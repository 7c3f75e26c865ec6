/**
 * The settings of commands: from the environment, and from the env files of the service.
 */
import { parseEnvFile } from '../base/config/env-file.js';
import type { Environment, EnvLine, EnvLines, SettingsSource } from '../base/config/types.js';
import { EXIT, systemCodeOf, wordsOf } from '../base/errors.js';
import { CommandError, type ProgramContext } from './command.js';

/** The first env file of a service, and the directory of its further ones, which come later. The unit names the same files. */
const envFileOf = (service: string) => `/etc/${service}/${service}.env`;
const dropInsOf = (service: string) => `/etc/${service}/conf.d`;

/** The glob `*.env`, as systemd reads it: no hidden file, and nothing that an editor or dpkg leaves behind. */
const DROP_IN = /^[^.].*\.env$/s;

/** The credentials of a running service (systemd.exec(5)). Only root can read them. */
const credentialsOf = (service: string) => `/run/credentials/${service}.service`;

/** The StateDirectory= of a service. */
export const stateDirectoryOf = (service: string): string => `/var/lib/${service}`;

/** True in the unit of this service. A process in another unit has another state directory, and settings of its own. */
export function isUnitOf(service: string, { env, pid }: { env: Environment; pid: number }): boolean {
  const { SYSTEMD_EXEC_PID, STATE_DIRECTORY: directories = '' } = env;
  return SYSTEMD_EXEC_PID === String(pid) && directories.split(':').includes(stateDirectoryOf(service));
}

/**
 * The settings of a service. systemd reads the env files when it starts the service. On a reload the service reads them
 * itself, so its user needs the permission.
 */
export function settingsFor(envFile: string | null, context: ProgramContext): SettingsSource {
  const read = () => {
    if (envFile !== null) return readEnvFile(envFile, context).values;
    return context.isUnit ? readServiceFiles(context) : {};
  };
  let fault: string | null = null;
  let closed: CommandError | null = null;
  let file: Environment = {};
  try {
    file = read();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (error.exitCode === EXIT.noPermission) closed = error;
    else {
      fault = error.message;
      // The last good settings may need a secret of a good line.
      file = goodLines(envFile, context);
    }
  }
  // systemd has copied the files' settings into the environment: after a reload those that left the files must be gone.
  const others = Object.fromEntries(
    Object.entries(context.env).filter(([key, value]) => file[key] !== value),
  );
  return {
    env: { ...context.env, ...file },
    fault,
    reread() {
      if (closed !== null) throw closed;
      return { ...others, ...read() };
    },
  };
}

/** An environment, and where its keys come from. */
export type Given = Pick<ProgramContext, 'env' | 'places'>;

/** What is in an env file. */
interface FileContent {
  readonly values: Environment;
  readonly places: EnvLines;
  /** A sentence for each fault. */
  readonly problems: readonly string[];
}

/** What is in the env files of the service. */
interface ServiceFiles extends FileContent {
  /** What this user has no permission to read. */
  readonly denied: readonly string[];
  /** False if there is none: no service is installed. */
  readonly exist: boolean;
}

/** Reads the env files of the service in the order in which systemd reads them. */
function serviceFiles(context: ProgramContext): ServiceFiles {
  const values: Record<string, string | undefined> = {};
  const places = new Map<string, EnvLine>();
  const problems: string[] = [];
  const denied: string[] = [];
  let exist = false;
  const attempt = (path: string, work: () => void) => {
    try {
      work();
      exist = true;
    } catch (error) {
      const code = systemCodeOf(error);
      if (code === 'EACCES') denied.push(path);
      // It does not exist. systemd ignores such a file, too.
      else if (code !== 'ENOENT') problems.push(cannotUse(error));
    }
  };
  const paths = [envFileOf(context.service)];
  const dropIns = dropInsOf(context.service);
  attempt(dropIns, () => {
    const names = context.list(dropIns).filter((name) => DROP_IN.test(name));
    paths.push(...names.sort().map((name) => `${dropIns}/${name}`));
  });
  for (const path of paths)
    attempt(path, () => {
      const file = parseFile(path, context.read(path));
      Object.assign(values, file.values);
      for (const [key, place] of file.places) places.set(key, place);
      problems.push(...file.problems);
    });
  return { values, places, problems, denied, exist: exist || denied.length > 0 };
}

/** The settings in the env files of the service. Throws CommandError: 77 without permission for one, 78 for a fault. */
function readServiceFiles(context: ProgramContext): Environment {
  const files = serviceFiles(context);
  const { denied } = files;
  if (denied.length > 0)
    throw new CommandError(
      EXIT.noPermission,
      `this user has no permission to read ${denied.join(' and ')}: restart the service instead`,
    );
  return withoutProblems(files).values;
}

/** The environment with the settings of the env file `path` over it, as EnvironmentFile= does. Throws CommandError (78). */
export function withEnvFile(path: string, context: ProgramContext): Given {
  const { values, places } = readEnvFile(path, context);
  return { env: { ...context.env, ...values }, places };
}

/**
 * The environment of the service on this machine, as far as this user can read it: `fieldpost status` finds the daemon
 * without options. An environment with a FIELDPOST_ key is used unchanged.
 */
export function serviceEnvironment(context: ProgramContext): Given {
  const { env, service } = context;
  if (hasOwnSettings(env)) return { env };
  const directory = credentialsOf(service);
  // Both units have this one.
  const isOpen = canRead(`${directory}/relay-password`, context);
  const credentials = isOpen ? { CREDENTIALS_DIRECTORY: directory } : {};
  const files = serviceFiles(context);
  for (const path of files.denied)
    context.stderr.write(
      `${service}: this user has no permission to read ${path}, so its settings are ignored\n`,
    );
  const { values, places } = withoutProblems(files);
  // Without a service: use the default state directory.
  if (!files.exist) return { env: { ...credentials, ...env } };
  const STATE_DIRECTORY = stateDirectoryOf(service);
  return { env: { ...credentials, STATE_DIRECTORY, ...withoutProxies(env), ...values }, places };
}

/** True if the environment has settings of Fieldpost itself. */
export function hasOwnSettings(env: Environment): boolean {
  return Object.keys(env).some((key) => key.startsWith('FIELDPOST_'));
}

/**
 * The environment with what can be used of the env file `path`, or of those of the service: systemd ignores bad lines, too.
 */
export function lenientEnvironment(path: string | null, context: ProgramContext): Environment {
  return { ...context.env, ...goodLines(path, context) };
}

function goodLines(path: string | null, context: ProgramContext): Environment {
  if (path === null) return serviceFiles(context).values;
  try {
    return parseEnvFile(context.read(path)).values;
  } catch {
    return {};
  }
}

/** The service does not get the proxies of a user's shell. */
function withoutProxies(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([key]) => !/^(?:https|no)_proxy$/i.test(key)));
}

/**
 * The environment of the service, for a program that must never fail because of a file: without a warning, and without a
 * file that has a fault.
 */
export function tolerantEnvironment(context: ProgramContext): Environment {
  try {
    return serviceEnvironment({ ...context, stderr: { write: () => undefined, isTTY: false } }).env;
  } catch (error) {
    if (error instanceof CommandError) return context.env;
    throw error;
  }
}

/** False if this user has no permission to read the file, whether or not it exists. */
function canRead(path: string, context: ProgramContext): boolean {
  try {
    context.read(path);
    return true;
  } catch (error) {
    return systemCodeOf(error) !== 'EACCES';
  }
}

function readEnvFile(path: string, context: ProgramContext): FileContent {
  let text: string;
  try {
    text = context.read(path);
  } catch (error) {
    throw new CommandError(EXIT.config, cannotUse(error));
  }
  return withoutProblems(parseFile(path, text));
}

function cannotUse(error: unknown): string {
  return `the env file cannot be used: ${wordsOf(error)}`;
}

function parseFile(path: string, text: string): FileContent {
  const { values, lines, problems } = parseEnvFile(text);
  const places = new Map([...lines].map(([key, line]) => [key, { file: path, line }]));
  return { values, places, problems: problems.map(({ line, detail }) => `${path}:${line}: ${detail}`) };
}

/** The content, if there is no problem. Throws CommandError (78). */
function withoutProblems(content: FileContent): FileContent {
  const { problems } = content;
  if (problems.length > 0) throw new CommandError(EXIT.config, problems.join('\n'));
  return content;
}
