#!/usr/bin/env -S node --
/**
 * The process: arguments, environment, signals and exit codes. Nothing else touches `process`.
 */
import { hostname, tmpdir, totalmem } from 'node:os';
import about from '../package.json' with { type: 'json' };
import { namedStateDirectory, parseConfig } from './base/config/config.js';
import { addressOf } from './base/config/endpoints.js';
import type { Config } from './base/config/settings.js';
import type { Environment, ListenConfig } from './base/config/types.js';
import { type ErrorCode, FieldpostError, systemCodeOf, wordsOf } from './base/errors.js';
import { SECOND_MS } from './base/limits.js';
import { handedOver } from './base/system/activation.js';
import { pause, systemClock } from './base/system/clock.js';
import { createConnect } from './base/system/connect.js';
import { freeDescriptors } from './base/system/descriptors.js';
import { fileSystemBytes, listNames, readText, statOf, stdinKind, systemDisk } from './base/system/disk.js';
import { systemLock } from './base/system/lock.js';
import { createLog, type Log } from './base/system/log.js';
import { machineNames, machineNow } from './base/system/machine.js';
import { garbageCollector, keepHeapSmall, memoryLimit, youngGenerationCap } from './base/system/memory.js';
import { watchNetwork } from './base/system/network-watch.js';
import { writeNew } from './base/system/new-file.js';
import { listenerUids, peerUid } from './base/system/peer.js';
import { outputOf } from './base/system/program.js';
import { openRandom } from './base/system/random.js';
import { answerReload } from './base/system/reload-answer.js';
import { openScratch } from './base/system/scratch.js';
import { listenToSignals } from './base/system/signals.js';
import { visible } from './base/text.js';
import { runCommand, wordsOfCall } from './cli/cli.js';
import { EXIT, type ServiceName, type Settings } from './cli/command.js';
import { STATE_DIRECTORY } from './cli/environment.js';
import { createDaemon, type Daemon } from './device/daemon.js';
import type { Herald } from './device/herald.js';
import { LastSettings } from './device/last-settings.js';
import { nextConfig, type Running, reload, withSockets } from './device/reload.js';
import { Warnings } from './device/warnings.js';
import { RelayTokens } from './mail/delivery/oauth/relay-tokens.js';
import { TokenError } from './mail/delivery/oauth/token-source.js';
import { tokenSources } from './mail/relay-tokens.js';
import type { System } from './mail/system.js';

// `performance` gives the same time, but it loads modules that nothing else here needs.
const clock = systemClock({
  processMs() {
    return Number(process.hrtime.bigint()) / 1e6;
  },
});

/** Shorter defaults for `fieldpost dev`, so that a developer sees the effects of an outage soon. */
const DEV_SETTINGS: Environment = {
  FIELDPOST_CLOUD_SERVER_DELAY: '15s',
  FIELDPOST_CLOUD_SERVER_STOP_DELAY: '60s',
};

/** The sockets of the systemd units. */
const SOCKETS: readonly ListenConfig[] = [
  { kind: 'unix', path: '/run/fieldpost/send.sock', sendOnly: true },
  { kind: 'unix', path: '/run/fieldpost/api.sock' },
];

/** The port of the inbox of `fieldpost dev`, next to those of the local API and the reference cloud. */
const INBOX_PORT = 43790;

// Opening a stream takes 1 ms: each is opened with its first output.
const standardOutput = textOutput(openStdout);
const standardError = textOutput(() => process.stderr);

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
async function serve(name: ServiceName, settings: Settings): Promise<number> {
  const given = name === 'dev' ? { ...DEV_SETTINGS, ...settings.env } : settings.env;
  const running: Running = { level: 'info', fault: null };
  const system = createSystem(running);
  const { disk, log, version } = system;
  const directory = namedStateDirectory(given);
  const last = await LastSettings.open({ parse, keeps: name === 'run', disk, log, directory, version });
  // At a terminal a person can correct the settings.
  const mayFallBack = name === 'run' && !process.stderr.isTTY;
  const chosen = last.choose(given, settings.fault, mayFallBack);
  if ('problems' in chosen) {
    for (const problem of chosen.problems) process.stderr.write(`fieldpost: ${visible(problem)}\n`);
    return EXIT.config;
  }
  const { parsed, env, refused } = chosen;
  running.level = parsed.config.logLevel;
  const warnings = new Warnings(system, { sendsMail: name !== 'dev' });
  const bytesOf = (path: string) => fileSystemBytes(disk, path);
  warnings.tell(parsed, await bytesOf(parsed.config.stateDir));
  if (refused !== null) {
    log.error('settings refused', { reason: refused, hint: 'the last good settings are used' });
    running.fault = { reason: refused, sinceMs: clock.wallMs() };
  }
  const signals = listenToSignals(process, name === 'dev');
  const herald = await createHerald(log);
  try {
    const config = withSockets(parsed.config, env, system.handed);
    const { daemon, reloads, stop } = await start(name, config, system);
    signals.serving();
    clock.after(SECOND_MS, () => void keepHeapSmall(system.memoryBytes ?? Number.POSITIVE_INFINITY));
    await herald?.ready(() => daemon?.status() ?? '');
    if (refused === null) await last.keep(env);
    const parts = { settings, last, running, system, warnings, fileSystemBytes: bytesOf };
    const follow = async () => {
      if (reloads !== null) await reload({ service: reloads, ...parts });
    };
    while ((await signals.next()) === 'reload') {
      await (herald?.reloading(follow) ?? follow());
      const { RUNTIME_DIRECTORY } = process.env;
      if (RUNTIME_DIRECTORY) answerReload(RUNTIME_DIRECTORY, running.fault?.reason ?? 'ok');
    }
    await herald?.stopping();
    await stop(nextConfig(settings, last));
    herald?.stop();
    return EXIT.ok;
  } catch (error) {
    if (error instanceof FieldpostError) {
      log.error('cannot start', { reason: error.message, hint: error.hint || undefined });
      return EXIT_BY_CODE[error.code] ?? EXIT.inputOutput;
    }
    // A failed system call is no bug; anything else is.
    if (systemCodeOf(error) === '') throw error;
    log.error('cannot start', { reason: wordsOf(error), hint: STATE_DIR_HINT });
    return EXIT.inputOutput;
  }
}

/** True in fieldpost.service. A daemon in another unit has another state directory, and settings of its own. */
function isServiceUnit({ SYSTEMD_EXEC_PID: pid, STATE_DIRECTORY: directories = '' }: Environment): boolean {
  return pid === String(process.pid) && directories.split(':').includes(STATE_DIRECTORY);
}

function parse(env: Environment, accepted: ReadonlySet<string>) {
  return parseConfig(env, readText, { hostname: hostname(), statOf }, accepted);
}

function createSystem(running: Readonly<Running>): System {
  const log = createLog({
    get level() {
      return running.level;
    },
    // systemd sets JOURNAL_STREAM if standard output goes to the journal.
    priorities: process.env.JOURNAL_STREAM !== undefined,
    write: standardOutput.write,
    wallMs: () => clock.wallMs(),
  });
  const [collect, capYoungGeneration] = [garbageCollector('major'), youngGenerationCap()];
  const afterCheckpoint = (bytes: number) => {
    collect(bytes);
    void capYoungGeneration();
  };
  return {
    disk: systemDisk(),
    clock,
    log,
    randomBytes: openRandom(),
    random: Math.random,
    takeLock: systemLock,
    hostname,
    hostNames: machineNames(clock),
    version: about.version,
    connect: createConnect({ clock }),
    descriptors: freeDescriptors(),
    memoryBytes: memoryLimit(process.constrainedMemory() ?? 0, totalmem()),
    streamed: garbageCollector('minor'),
    dropped: afterCheckpoint,
    watchNetwork: (onChange, isOffline) => watchNetwork(onChange, { clock, random: Math.random, isOffline }),
    handed: handedOver(process.env, process.pid),
    settingsFault: () => running.fault,
    peerUid,
  };
}

/** Null without a service manager: then its modules are not loaded. */
async function createHerald(log: Log): Promise<Herald | null> {
  if (!process.env.NOTIFY_SOCKET) return null;
  const [{ Herald, watchdogMsOf }, { systemNotifier }] = await Promise.all([
    import('./device/herald.js'),
    import('./base/system/notify.js'),
  ]);
  const notifier = systemNotifier({
    monotonicUs: () => process.hrtime.bigint() / 1000n,
    onFailure: (reason) => log.warn('systemd not told', { reason }),
  });
  return new Herald({ notifier, clock, watchdogMs: watchdogMsOf(process.env, process.pid) });
}

/** A running service. `daemon` is null for the others; `reloads` is null if a reload changes nothing. */
type Service = Pick<Daemon, 'stop'> & { daemon: Daemon | null; reloads: Pick<Daemon, 'reload'> | null };

async function start(name: ServiceName, config: Config, system: System): Promise<Service> {
  if (name === 'run') {
    const daemon = await createDaemon(config, system);
    return { stop: daemon.stop, daemon, reloads: daemon };
  }
  const { createCloud } = await import('./cloud/cloud.js');
  const cloud = name === 'cloud' ? await createCloud(config, system) : null;
  if (cloud !== null) return { stop: cloud.stop, daemon: null, reloads: cloud };
  const { startDev } = await import('./dev/dev.js');
  const { stop } = await startDev({
    config,
    disk: system.disk,
    clock,
    log: system.log,
    print: standardOutput.write,
    inboxPort: INBOX_PORT,
    startDaemon: async (devConfig) => inDev(await createDaemon(devConfig, system)),
    startCloud: async (devConfig, send) => inDev(await createCloud(devConfig, system, send)),
  });
  return { stop, daemon: null, reloads: null };
}

function inDev({ addresses: [address], stop }: Pick<Daemon, 'addresses' | 'stop'>) {
  return { address: address ? addressOf(address) : '', stop };
}

function openStdout(): NodeJS.WriteStream {
  const { stdout } = process;
  // If the reader of the output closes it, delivery continues.
  if (stdout.listenerCount('error') === 0) stdout.on('error', () => undefined);
  return stdout;
}

function textOutput(stream: () => NodeJS.WriteStream) {
  return {
    write: (text: string) => void stream().write(text),
    get isTTY() {
      return stream().isTTY;
    },
  };
}

/** The access tokens of `check --relay`. A refresh token may be good for one use, and the service needs that. */
function tokensOf(config: Config): RelayTokens {
  const log = createLog({ level: 'error', priorities: false, write: () => undefined, wallMs: Date.now });
  const system = { disk: systemDisk(), clock, connect: createConnect({ clock }), log, random: Math.random };
  const isOfService = config.relayTokenUrl !== null && config.relayRefreshToken !== null;
  const token = () =>
    Promise.reject(
      new TokenError('a refresh token is for the service alone: `fieldpost status` tells of its logins'),
    );
  return new RelayTokens(
    config,
    isOfService
      ? async () => ({ token, refused: () => undefined, close: async () => undefined })
      : tokenSources(system, config.stateDir),
  );
}

async function main(): Promise<never> {
  const exitCode = await runCommand(wordsOfCall(process.argv), {
    env: process.env,
    stdout: standardOutput,
    stderr: standardError,
    stdin: () => process.stdin,
    stdinKind,
    read: readText,
    statOf,
    listenerUids,
    sockets: SOCKETS,
    list: listNames,
    open: (path) => systemDisk().open(path, 'read'),
    scratch: () => openScratch(systemDisk(), tmpdir()),
    pause,
    fileSystemBytes: (path) => fileSystemBytes(systemDisk(), path),
    hostname: hostname(),
    version: about.version,
    machine: () => ({ ...machineNow(), node: process.version, uid: process.getuid?.() ?? null }),
    disk: systemDisk(),
    writeNew: (path, text) => writeNew(systemDisk(), path, text),
    outputOf,
    clock,
    async tryRelay(relay, trial) {
      const { tryRelay } = await import('./mail/delivery/smtp/trial.js');
      const id = Buffer.from(openRandom()(8)).toString('hex');
      const { version } = about;
      const tokens = tokensOf(trial.config);
      const connect = createConnect({ clock });
      return tryRelay(relay, { ...trial, clock, connect, tokens, hostname, version, id });
    },
    isUnit: isServiceUnit(process.env),
    serve,
  });
  // process.exit() drops output that a slow reader has not taken yet.
  for (const stream of [openStdout(), process.stderr]) {
    await new Promise<void>((resolve) => void stream.write('', () => resolve()));
  }
  process.exit(exitCode);
}

// A bug: print only the stack. By default Node.js also prints the failing line of the bundle, which is very long.
process.on('uncaughtException', (error) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`, () => process.exit(1));
});

void main();
