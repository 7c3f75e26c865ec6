/**
 * Runs another program for its output.
 */
import { execFile } from 'node:child_process';
import { systemCodeOf } from '../errors.js';
import { MIB, SECOND_MS } from '../limits.js';

const LIMIT_MS = 20 * SECOND_MS;

/** Its standard output, up to 16 MiB. Rejects with a sentence if it is not there, fails, or takes too long. */
export function outputOf(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { timeout: LIMIT_MS, maxBuffer: 16 * MIB, encoding: 'utf8' } as const;
    const child = execFile(program, [...args], options, (error, stdout, stderr) => {
      if (error === null && stdout.trim() !== '') return resolve(stdout);
      const isMissing = systemCodeOf(error) === 'ENOENT';
      const told = stderr.trim() || error?.message.trim() || 'it prints nothing';
      reject(new Error(isMissing ? `there is no ${program}` : `${program}: ${told}`));
    });
    child.stdin?.end();
  });
}
