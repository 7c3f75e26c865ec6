#!/usr/bin/env node
/**
 * The process: arguments, environment, signals and exit codes. Nothing else touches `process`.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runCommand } from './cli/cli.js';
import { EXIT, type ServiceName } from './cli/command.js';
import { type Config, type Environment, formatProblem, parseConfig } from './config.js';
import { createDaemon, type Daemon, nameOf, type System } from './daemon.js';
import { type ErrorCode, FieldpostError, systemCodeOf, wordsOf } from './errors.js';
import { systemClock } from './system/clock.js';
import { readText, systemDisk } from './system/disk.js';
import { systemLock } from './system/lock.js';
import { createLog } from './system/log.js';

const VERSION = (JSON.parse(readText(new URL('../../package.json', import.meta.url))) as { version: string })
  .version;

// Nearly all that is made is gone after one request. V8 would let the young generation grow to keep more of the
// dead about; where it stays small, memory under load is a fifth less, at no cost in speed (scripts/bench memory).
setFlagsFromString('--semi-space-growth-factor=1');

const clock = systemClock();

/** Exit statuses of a service that could not start (sysexits(3)). */
const EXIT_BY_CODE: Partial<Record<ErrorCode, number>> = {
  'already-running': EXIT.tempFail,
  unavailable: EXIT.unavailable,
};

/** Runs the service until a signal; gives the exit status. */
async function serve(name: ServiceName, env: Environment): Promise<number> {
  const parsed = parseConfig(env, readText, { hostname: hostname() });
  if ('problems' in parsed) {
    for (const problem of parsed.problems) process.stderr.write(`fieldpost: ${formatProblem(problem)}\n`);
    return EXIT.config;
  }
  const system = createSystem(parsed.config);
  for (const warning of parsed.warnings) system.log.warn('configuration', { warning });
  try {
    const service = await start(name, parsed.config, system);
    await stopSignal(name);
    await service.stop();
    return EXIT.ok;
  } catch (error) {
    if (error instanceof FieldpostError) {
      system.log.error('cannot start', { reason: error.message, hint: error.hint || undefined });
      return EXIT_BY_CODE[error.code] ?? EXIT.inputOutput;
    }
    // What the system says of a file is no bug of ours; anything else is.
    if (systemCodeOf(error) === '') throw error;
    system.log.error('cannot start', { reason: wordsOf(error), hint: 'see FIELDPOST_STATE_DIR' });
    return EXIT.inputOutput;
  }
}

function createSystem(config: Config): System {
  const log = createLog({
    level: config.logLevel,
    // Set by systemd where standard output goes to the journal.
    priorities: process.env.JOURNAL_STREAM !== undefined,
    write: (line) => process.stdout.write(line),
    wallMs: () => clock.wallMs(),
  });
  return {
    disk: systemDisk(),
    clock,
    log,
    randomBytes,
    random: Math.random,
    takeLock: systemLock,
    hostname: hostname(),
    version: VERSION,
  };
}

async function start(name: ServiceName, config: Config, system: System): Promise<{ stop(): Promise<void> }> {
  if (name === 'run') return createDaemon(config, system);
  const { startDev } = await import('./dev/dev.js');
  return startDev({
    config,
    disk: system.disk,
    clock,
    print: (text) => process.stdout.write(text),
    async startDaemon(devConfig) {
      const daemon: Daemon = await createDaemon(devConfig, system);
      const [address] = daemon.addresses;
      return { address: address ? nameOf(address) : '', stop: () => daemon.stop() };
    },
  });
}

/**
 * Resolves at the first SIGTERM or SIGINT. A second one ends the process at once: somebody is in a hurry. A
 * closed terminal ends what was started for it, and not the daemon.
 */
function stopSignal(name: ServiceName): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    process.on('SIGHUP', () => (name === 'dev' ? resolve() : undefined));
    const numbers = { SIGINT: 2, SIGTERM: 15 } as const;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(128 + numbers[signal]);
        asked = true;
        resolve();
      });
    }
  });
}

// Whoever reads our output may go away; that is no reason to stop delivering.
process.stdout.on('error', () => undefined);

const exitCode = await runCommand(process.argv.slice(2), {
  env: process.env,
  stdout: { write: (text) => void process.stdout.write(text), isTTY: process.stdout.isTTY },
  stderr: { write: (text) => void process.stderr.write(text), isTTY: process.stderr.isTTY },
  stdin: process.stdin,
  read: readText,
  hostname: hostname(),
  version: VERSION,
  clock,
  serve,
});
// What a slow reader of our output has not taken yet would be lost.
for (const stream of [process.stdout, process.stderr]) {
  await new Promise<void>((resolve) => void stream.write('', () => resolve()));
}
process.exit(exitCode);
