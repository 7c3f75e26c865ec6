/**
 * Runs a service until a signal: chooses its settings, starts it, tells the service manager, follows reloads and stops it.
 */

import { formatProblem, namedStateDirectory, type Settings } from '../base/config/settings.js';
import type { Environment, SettingsSource } from '../base/config/types.js';
import { type ErrorCode, EXIT, FieldpostError, systemCodeOf, wordsOf } from '../base/errors.js';
import { SECOND_MS } from '../base/limits.js';
import { fileSystemBytes, readText, statOf, systemDisk } from '../base/system/disk.js';
import { handedOver } from '../base/system/listen.js';
import { systemLock } from '../base/system/lock.js';
import { createLog, type Log, type LogLevel } from '../base/system/log.js';
import { freeDescriptors, machineNames } from '../base/system/machine.js';
import { garbageCollector, keepHeapSmall, youngGenerationCap } from '../base/system/memory.js';
import { watchNetwork } from '../base/system/network-watch.js';
import type { StateNotifier } from '../base/system/notify.js';
import { peerUid } from '../base/system/peer.js';
import type { Process } from '../base/system/process.js';
import { openRandom } from '../base/system/random.js';
import { answerReload } from '../base/system/signals.js';
import { visible } from '../base/text.js';
import type { SettingsFault, TrialFault } from '../base/views.js';
import { type OpenTokenSource, RelayTokens, TokenError } from './delivery/oauth/access-tokens.js';
import type { TrialOptions } from './delivery/smtp/trial.js';
import { type Reloaded, type System, tokenSources } from './engine.js';
import { type GoodSettings, LastSettings, plainChoice, type SettingsChoice } from './last-settings.js';
import type { SendMail } from './message/message.js';
import { CLOUD, type MailConfig, type Relay } from './settings.js';
import { allWarnings } from './settings-rules.js';

/** State of the process that a reload changes. */
export interface Running {
  level: LogLevel;
  fault: SettingsFault | null;
}

/** A running service. */
export interface Served<C> {
  /** The status line for the service manager. */
  status(): string | Promise<string>;
  /** Follows a new configuration. */
  readonly reload?: (next: C, env: Environment) => Promise<Reloaded>;
  /** `next`: the settings of the next start, if known. */
  stop(next?: C): Promise<void>;
}

/** What a program serves. */
export interface Service<C extends MailConfig> {
  /** The name of the program. */
  readonly program: string;
  readonly version: string;
  /** False: it has no use for the relays of its configuration. */
  readonly sendsMail: boolean;
  /** True: SIGHUP ends it, because it belongs to a terminal. */
  readonly endsWithTerminal: boolean;
  /** True: it spares memory at the price of CPU time, because its machine is small. */
  readonly sparesMemory: boolean;
  readonly settings: Settings<C>;
  /** What holds where the environment gives nothing. */
  readonly defaults?: Environment;
  /** True: a start that finds a fault in the settings uses the last good ones. */
  readonly fallsBack: boolean;
  start(config: C, system: System, env: Environment): Promise<Served<C>>;
}

/** The hint for a failed system call during the start: it concerns a file in the state directory. */
const STATE_DIR_HINT =
  'check that the state directory (FIELDPOST_STATE_DIR) exists, that it can be written, and that its disk is healthy';

/** Exit statuses of a service that could not start (sysexits(3)). */
const EXIT_BY_CODE: Partial<Record<ErrorCode, number>> = {
  'already-running': EXIT.tempFail,
  'bad-config': EXIT.config,
  unavailable: EXIT.unavailable,
};

/** Runs the service until a signal; gives the exit status. */
export async function serve<C extends MailConfig>(
  service: Service<C>,
  settings: SettingsSource,
  self: Process,
): Promise<number> {
  const running: Running = { level: 'info', fault: null };
  const system = createSystem(self, service, running);
  const { log } = system;
  const choice = await openChoice(service, system, self, namedStateDirectory(settings.env));
  const chosen = choice.choose(settings.env, settings.fault);
  if ('problems' in chosen) {
    for (const problem of chosen.problems) self.stderr.write(`${service.program}: ${visible(problem)}\n`);
    return EXIT.config;
  }
  const { parsed, env, refused } = chosen;
  running.level = parsed.config.logLevel;
  const warnings = new Warnings(system, service);
  const bytesOf = (path: string) => fileSystemBytes(system.disk, path);
  warnings.tell(parsed, await bytesOf(parsed.config.stateDir));
  if (refused !== null) {
    log.error('settings refused', { reason: refused, hint: 'the last good settings are used' });
    running.fault = { reason: refused, sinceMs: self.clock.wallMs() };
  }
  const signals = self.signals(service.endsWithTerminal);
  const notifier = await openNotifier(log, self);
  try {
    const served = await service.start(parsed.config, system, env);
    signals.serving();
    if (service.sparesMemory) self.clock.after(SECOND_MS, () => void keepHeapSmall(self.memoryBytes));
    await notifier?.ready(() => served.status());
    if (refused === null) await choice.keep(env);
    const parts = { served, settings, choice, running, system, warnings, fileSystemBytes: bytesOf };
    while ((await signals.next()) === 'reload') {
      await (notifier?.reloading(() => reload(parts)) ?? reload(parts));
      const { RUNTIME_DIRECTORY } = self.env;
      if (RUNTIME_DIRECTORY) answerReload(RUNTIME_DIRECTORY, running.fault?.reason ?? 'ok');
    }
    await notifier?.stopping();
    await served.stop(nextConfig(settings, choice));
    notifier?.stop();
    return EXIT.ok;
  } catch (error) {
    return notStarted(error, log);
  }
}

/** `directory`: the state directory that the settings name. */
async function openChoice<C extends MailConfig>(
  { settings, defaults, fallsBack }: Service<C>,
  { disk, log, version }: System,
  { hostname, stderr }: Process,
  directory: string,
): Promise<SettingsChoice<C>> {
  const parse = (env: Environment, accepted?: ReadonlySet<string>) =>
    settings.parse({ ...defaults, ...env }, readText, { hostname: hostname(), statOf }, accepted);
  if (!fallsBack) return plainChoice(parse);
  // At a terminal a person can correct the settings.
  const mayFallBack = !stderr.isTTY;
  return LastSettings.open({ settings, parse, mayFallBack, disk, log, directory, version });
}

/** Logs why the service could not start; gives the exit status. Throws a bug. */
function notStarted(error: unknown, log: Log): number {
  if (error instanceof FieldpostError) {
    log.error('cannot start', { reason: error.message, hint: error.hint || undefined });
    return EXIT_BY_CODE[error.code] ?? EXIT.inputOutput;
  }
  // A failed system call is no bug; anything else is.
  if (systemCodeOf(error) === '') throw error;
  log.error('cannot start', { reason: wordsOf(error), hint: STATE_DIR_HINT });
  return EXIT.inputOutput;
}

/** What a service takes of the outside, in this process. */
function createSystem(
  self: Process,
  { version, sparesMemory }: Pick<Service<never>, 'version' | 'sparesMemory'>,
  running: Readonly<Running>,
): System {
  const { clock, connect, memoryBytes } = self;
  const log = createLog({
    get level() {
      return running.level;
    },
    // systemd sets JOURNAL_STREAM if standard output goes to the journal.
    priorities: self.env.JOURNAL_STREAM !== undefined,
    write: self.stdout.write,
    wallMs: () => clock.wallMs(),
  });
  return {
    disk: systemDisk(),
    clock,
    log,
    randomBytes: openRandom(),
    random: Math.random,
    takeLock: systemLock,
    hostname: self.hostname,
    hostNames: machineNames(clock),
    version,
    connect,
    descriptors: freeDescriptors(),
    memoryBytes,
    ...(sparesMemory && collections()),
    watchNetwork: (onChange, isOffline) => watchNetwork(onChange, { clock, random: Math.random, isOffline }),
    handed: handedOver(self.env, self.pid),
    settingsFault: () => running.fault,
    peerUid,
  };
}

function collections(): Pick<System, 'streamed' | 'dropped'> {
  const [collect, capYoungGeneration] = [garbageCollector('major'), youngGenerationCap()];
  return {
    streamed: garbageCollector('minor'),
    dropped(bytes) {
      collect(bytes);
      void capYoungGeneration();
    },
  };
}

/** Null without a service manager: then its modules are not loaded. */
async function openNotifier(
  log: Log,
  { env, pid, clock, monotonicUs }: Process,
): Promise<StateNotifier | null> {
  if (!env.NOTIFY_SOCKET) return null;
  const { StateNotifier, systemNotifier, watchdogMsOf } = await import('../base/system/notify.js');
  const onFailure = (reason: string) => log.warn('systemd not told', { reason });
  const notifier = systemNotifier({ monotonicUs, onFailure });
  return new StateNotifier({ notifier, clock, watchdogMs: watchdogMsOf(env, pid) });
}

interface ReloadParts<C extends MailConfig> {
  readonly served: Pick<Served<C>, 'reload'>;
  readonly settings: Pick<SettingsSource, 'reread'>;
  readonly choice: SettingsChoice<C>;
  readonly running: Running;
  readonly system: Pick<System, 'clock' | 'log'>;
  readonly warnings: Warnings;
  readonly fileSystemBytes: (path: string) => Promise<number>;
}

/** Reads the settings again and gives them to the service. Settings with a fault change nothing. */
export async function reload<C extends MailConfig>(parts: ReloadParts<C>): Promise<void> {
  const { served, settings, choice, running, system, warnings, fileSystemBytes } = parts;
  const { clock, log } = system;
  if (served.reload === undefined) return;
  try {
    const env = settings.reread();
    const parsed = choice.parse(env);
    if ('problems' in parsed) throw new Error(parsed.problems.map(formatProblem).join('; '));
    const { taken, waiting } = await served.reload(parsed.config, env);
    running.level = parsed.config.logLevel;
    running.fault = null;
    await choice.keep(env);
    const needsRestart = waiting.join(',') || undefined;
    log.info('reloaded', { taken: taken.join(',') || 'nothing', needsRestart });
    warnings.tell(parsed, await fileSystemBytes(parsed.config.stateDir));
  } catch (error) {
    const reason = wordsOf(error);
    running.fault = { reason, sinceMs: running.fault?.sinceMs ?? clock.wallMs() };
    log.error('reload refused', { reason });
  }
}

/** The settings that the next start will find; undefined if they cannot be read or used. */
export function nextConfig<C>(
  settings: Pick<SettingsSource, 'reread'>,
  choice: Pick<SettingsChoice<C>, 'parse'>,
): C | undefined {
  try {
    const parsed = choice.parse(settings.reread());
    return 'problems' in parsed ? undefined : parsed.config;
  } catch {
    return undefined;
  }
}

/** Logs the warnings about the settings of one service: each when it is new, at the start or with a reload. */
export class Warnings {
  readonly #system: Pick<System, 'log' | 'hostname'>;
  readonly #sendsMail: boolean;
  #told: ReadonlySet<string> = new Set();

  constructor(system: Pick<System, 'log' | 'hostname'>, { sendsMail }: Pick<Service<never>, 'sendsMail'>) {
    this.#system = system;
    this.#sendsMail = sendsMail;
  }

  /** `sizeBytes`: the size of the file system with the state directory. */
  tell(parsed: GoodSettings<MailConfig>, sizeBytes: number): void {
    const { log, hostname } = this.#system;
    const all = allWarnings(parsed, this.#sendsMail ? hostname() : null, sizeBytes);
    for (const warning of all) if (!this.#told.has(warning)) log.warn('configuration', { warning });
    this.#told = new Set(all);
  }
}

/** What a command tells of the trial. */
export type RelayTrial = Pick<TrialOptions, 'config' | 'to' | 'tell'>;

/** Opens the way of mails to the cloud of these settings. */
export type OpenMailWay = (
  config: MailConfig,
) => Promise<{ readonly sendMail: SendMail; readonly close: () => void }>;

/** Tries a relay as delivery speaks with it, beside the service. */
export async function trialOf(
  relay: Relay,
  trial: RelayTrial,
  { clock, connect, hostname }: Process,
  version: string,
  openMailWay?: OpenMailWay,
): Promise<TrialFault | null> {
  const id = Buffer.from(openRandom()(8)).toString('hex');
  if (relay === CLOUD) {
    const [{ tryCloud }, way] = await Promise.all([
      import('./delivery/cloud-mail.js'),
      openMailWay?.(trial.config),
    ]);
    const tried = tryCloud(way?.sendMail ?? null, { ...trial, clock, hostname, version, id });
    return await tried.finally(() => way?.close());
  }
  const { tryRelay } = await import('./delivery/smtp/trial.js');
  const log = createLog({ level: 'error', priorities: false, write: () => undefined, wallMs: Date.now });
  const system = { disk: systemDisk(), clock, connect, log, random: Math.random };
  const { config } = trial;
  const isOfService = config.relayTokenUrl !== null && config.relayRefreshToken !== null;
  const tokens = new RelayTokens(config, isOfService ? NO_TOKENS : tokenSources(system, config.stateDir));
  return tryRelay(relay, { ...trial, clock, connect, tokens, hostname, version, id });
}

/** A refresh token may be good for one use, and the service needs that. */
const NO_TOKENS: OpenTokenSource = async () => ({
  token: () =>
    Promise.reject(
      new TokenError('a refresh token is for the service alone: `fieldpost status` tells of its logins'),
    ),
  refused: () => undefined,
  close: async () => undefined,
});
