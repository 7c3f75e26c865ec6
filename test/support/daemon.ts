/** The built programs, each as a process of its own, on a free port. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { apiAt } from './ask.js';

const programOf = (name: string) => new URL(`../../build/dist/${name}.cjs`, import.meta.url).pathname;
/** The built program of the device. */
export const MAIN = programOf('main');
/** The built reference cloud. */
export const CLOUD_MAIN = programOf('cloud-main');
/** False if `npm test` or scripts/build has not built the programs yet. */
export const isBuilt = existsSync(MAIN);
/** The options of a test that runs the built program. */
export const needsProgram = { skip: isBuilt ? false : 'the program is not built' };

export interface DaemonProcess {
  readonly child: ChildProcess;
  readonly port: number;
  /** The lines printed so far. */
  readonly lines: string[];
  /** Calls its local API. */
  readonly api: ReturnType<typeof apiAt>;
  /** Runs `fieldpost <args>` against it. */
  run(...args: readonly string[]): { status: number | null; stdout: string; stderr: string };
  /** Resolves with the next printed line. */
  nextLine(): Promise<string>;
  /** Sends the signal; resolves with the exit code, or with null if the signal ended the process. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

const COMMAND_MS_MAX = 60_000;
const STARTED = /started .*listen=[^ ,]*?:(\d+)/;
const CLOUD_READY = /cloud ready .*listen=[^ ,]*?:(\d+)/;

/** How each program is started, and the line that it logs when it has. */
const STARTS = {
  run: { program: MAIN, words: ['run'], ready: STARTED },
  cloud: { program: CLOUD_MAIN, words: ['serve'], ready: CLOUD_READY },
  dev: { program: programOf('dev-main'), words: [], ready: STARTED },
} as const;

/** What to start, and further words of its command line. */
type Start = readonly [keyof typeof STARTS, ...words: readonly string[]];

/**
 * Starts a program, with the words of `through` in front: the daemon, the reference cloud or the development program.
 * Resolves once it logs that it has started, and rejects if it ends before. `main` is another build of the program.
 */
export async function startDaemon(
  env: Readonly<Record<string, string>>,
  [name, ...more]: Start = ['run'],
  through: readonly string[] = [],
  main: string = STARTS[name].program,
): Promise<DaemonProcess> {
  const { words, ready } = STARTS[name];
  const [program = main, ...args] = [...through, main, ...words, ...more];
  const child = spawn(program, args, {
    env: {
      PATH: process.env.PATH,
      // A device takes no setting of the cloud.
      ...(name !== 'cloud' && { FIELDPOST_LISTEN: '127.0.0.1:0' }),
      ...(name !== 'run' && { FIELDPOST_CLOUD_SERVER_LISTEN: '127.0.0.1:0' }),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const lines: string[] = [];
  const output = createInterface({ input: child.stdout });
  const port = await new Promise<number>((resolve, reject) => {
    output.on('line', (line) => {
      lines.push(line);
      const found = ready.exec(line)?.[1];
      if (found !== undefined) resolve(Number(found));
    });
    void ended.then(([code]) =>
      reject(new Error(`ended with ${code} before it had started: ${lines.join('; ')}`)),
    );
  });
  return {
    child,
    port,
    lines,
    api: apiAt(`127.0.0.1:${port}`),
    run: (...args) =>
      spawnSync(name === 'run' ? main : MAIN, args, {
        env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${port}` },
        encoding: 'utf8',
        timeout: COMMAND_MS_MAX,
      }),
    nextLine: async () => ((await once(output, 'line')) as [string])[0],
    async end(signal) {
      child.kill(signal);
      const [code] = await ended;
      return code;
    },
  };
}

/** Starts the program as `startDaemon` does, and kills it when the test ends. */
export async function startIn(t: Test, ...how: Parameters<typeof startDaemon>): Promise<DaemonProcess> {
  const daemon = await startDaemon(...how);
  t.teardown(() => {
    const { exitCode, signalCode } = daemon.child;
    daemon.child.kill('SIGKILL');
    if (t.passing()) return;
    t.comment(`the daemon (${exitCode ?? signalCode ?? 'running'}) said last:`);
    for (const line of daemon.lines.slice(-20)) t.comment(line);
  });
  return daemon;
}
