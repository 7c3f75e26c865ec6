/**
 * This process: its arguments, environment, streams, signals and end. Nothing else touches `process`.
 */
import { hostname, totalmem } from 'node:os';
import { type Clock, systemClock } from './clock.js';
import { createConnect } from './connect.js';
import { memoryLimit } from './memory.js';
import { listenToSignals } from './signals.js';

/** Standard output or standard error. */
export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
  /** The width of the terminal, if it is known. */
  readonly columns?: number | undefined;
  /** Resolves once a write has shown that the reader is gone. */
  readonly closed?: () => Promise<void>;
  /** Resolves when all of it is written; rejects with the error of a write. */
  readonly flushed?: () => Promise<void>;
}

/** What a program is given by its process. */
export type Process = ReturnType<typeof thisProcess>;

function thisProcess() {
  // `performance` gives the same time, but it loads modules that nothing else here needs.
  const clock: Clock = systemClock({ processMs: () => Number(process.hrtime.bigint()) / 1e6 });
  return {
    argv: process.argv,
    env: process.env,
    pid: process.pid,
    node: process.version,
    /** Null: not known. */
    uid: () => process.getuid?.() ?? null,
    hostname,
    clock,
    connect: createConnect({ clock }),
    /** CLOCK_MONOTONIC. */
    monotonicUs: () => process.hrtime.bigint() / 1000n,
    memoryBytes: memoryLimit(process.constrainedMemory() ?? 0, totalmem()),
    // Opening a stream takes 1 ms: each is opened with its first output.
    stdout: textOutput(openStdout),
    stderr: textOutput(() => process.stderr),
    stdin: () => process.stdin,
    signals: (endsWithTerminal: boolean) => listenToSignals(process, endsWithTerminal),
  };
}

function openStdout(): NodeJS.WriteStream {
  const { stdout } = process;
  // If the reader of the output closes it, delivery continues.
  if (stdout.listenerCount('error') === 0) stdout.on('error', () => undefined);
  return stdout;
}

function textOutput(stream: () => NodeJS.WriteStream): Output {
  return {
    write: (text) => void stream().write(text),
    flushed: () =>
      new Promise((resolve, reject) => {
        stream().write('', (error) => (error ? reject(error) : resolve()));
      }),
    closed: () => new Promise((resolve) => void stream().once('error', () => resolve())),
    get isTTY() {
      return stream().isTTY;
    },
    get columns() {
      return stream().columns;
    },
  };
}

/** Runs a program in this process, and ends the process with the exit status that it gives. */
export async function runProcess(main: (self: Process) => Promise<number>): Promise<never> {
  // A bug: print only the stack. By default Node.js also prints the failing line of the bundle, which is very long.
  process.on('uncaughtException', (error) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`, () => process.exit(1));
  });
  const exitCode = await main(thisProcess());
  // process.exit() drops output that a slow reader has not taken yet.
  for (const stream of [openStdout(), process.stderr]) {
    await new Promise<void>((resolve) => void stream.write('', () => resolve()));
  }
  process.exit(exitCode);
}
