/**
 * Reads the value of every setting from the environment and the files that it names.
 */

import { FieldpostError, systemCodeOf, wordsOf } from '../errors.js';
import type { Findings } from './findings.js';
import type { Row } from './row.js';
import { ROWS, SECRET_BY_KEY, type Values } from './settings.js';
import type { Environment, ReadText, StatOf } from './types.js';
import { type Kind, refuse, secretPath, type TextKind } from './values.js';

interface Source {
  readonly env: Environment;
  readonly read: ReadText;
  readonly statOf: StatOf;
  readonly findings: Findings;
}

/** fieldpost.service gives this in place of a missing credential. No token or key has a blank in it. */
const NOT_GIVEN = '(not given)';

/** Writing by the group, anything by others. The group may read: it may be that of the service. */
const OPEN_BITS = 0o027;

/** Every value. A bad one is reported and replaced by its default, so that the others can be checked. */
export function readValues(source: Source): Values {
  for (const key of Object.keys(source.env)) {
    if (key.startsWith('FIELDPOST_') && !SECRET_BY_KEY.has(key)) source.findings.unknown(key);
  }
  // The rows promise each member's type; Object.fromEntries cannot say it.
  return Object.fromEntries(ROWS.map(([member, row]) => [member, settingOf(row, source)])) as Values;
}

function settingOf(row: Row<unknown>, source: Source): unknown {
  const { key, kind, allowed, file, fallback } = row;
  if (row.credential !== null) return secretOf(row, source);
  if (file === null) {
    const value = inKey(key, { ...kind, allowed }, source);
    // Its program reads the file itself, later.
    if (row.kind === secretPath && value !== null) lookAt(key, String(value), source);
    return value === null && fallback !== null ? kind.parse(fallback) : value;
  }
  const path = inKey(key, file, source);
  if (row.isSecret && path !== null) lookAt(key, path, source);
  return path === null ? null : inFile(key, path, kind, source);
}

/** The value in KEY itself; null if it is not set or bad. */
function inKey<T>(key: string, kind: Kind<T>, { env, findings }: Source): T | null {
  const text = env[key]?.trim() ?? '';
  if (text === '') return null;
  try {
    return kind.parse(text);
  } catch (error) {
    if (!(error instanceof FieldpostError)) throw error;
    findings.problem(key, `${error.message} (allowed: ${kind.allowed})`);
    return null;
  }
}

/** The value in the file that KEY names; null if it is bad. One line break at its end does not count. */
function inFile<T>(key: string, path: string, kind: TextKind<T>, { read, findings }: Source): T | null {
  try {
    const text = read(path).replace(/\r?\n$/, '');
    return text.trim() === '' ? refuse('it is empty') : kind.parse(text);
  } catch (error) {
    findings.problem(key, `the file ${path} cannot be used: ${wordsOf(error)}`);
    return null;
  }
}

/** Warns of a file with a secret that other users can read or write. Credentials of systemd are guarded by it. */
function lookAt(key: string, path: string, { env, statOf, findings }: Source): void {
  const { CREDENTIALS_DIRECTORY: credentials } = env;
  const isOpen = ((statOf(path)?.mode ?? 0) & OPEN_BITS) !== 0;
  if (!isOpen || (credentials && path.startsWith(`${credentials}/`))) return;
  findings.warnings.push(
    `other users can read or write the file ${path} (${key}): chmod g-w,o-rwx, and take a new secret if others may have read it`,
  );
}

/** The secret in KEY (with a warning), else in the file of KEY_FILE, else in the systemd credential. */
function secretOf({ key, kind, allowed, file, credential }: Row<unknown>, source: Source): unknown {
  const { env, findings } = source;
  const fileKey = `${key}_FILE`;
  const path = file && inKey(fileKey, file, source);
  const direct = inKey(key, { ...kind, allowed }, source);
  if (direct !== null) {
    if (path !== null) findings.problem(key, `it is set together with ${fileKey}; keep one of them`);
    if (kind.hides?.(direct) ?? true)
      findings.warnings.push(
        `${key} stands in the environment, where other programs may see it; prefer ${fileKey}`,
      );
    return direct;
  }
  if (path !== null) {
    lookAt(fileKey, path, source);
    return inFile(fileKey, path, kind, source);
  }
  const ofSystemd = `${env.CREDENTIALS_DIRECTORY ?? ''}/${credential}`;
  if (!env.CREDENTIALS_DIRECTORY || findings.isBad(fileKey) || !isGiven(ofSystemd, source)) return null;
  return inFile(fileKey, ofSystemd, kind, source);
}

/** True if the unit has this credential. */
function isGiven(path: string, { read }: Source): boolean {
  try {
    return read(path).trim() !== NOT_GIVEN;
  } catch (error) {
    return systemCodeOf(error) !== 'ENOENT';
  }
}
