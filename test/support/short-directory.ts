/** Directories for unix sockets, whose paths must be short; that of t.testdir() need not be. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

/** A new directory, removed when the test ends. */
export function shortDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'fieldpost-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** The path of a new unix socket. */
export function socketPath(t: Test): string {
  return join(shortDirectory(t), 'api.sock');
}
