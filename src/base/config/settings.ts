/**
 * The settings of a program: makes one complete configuration of the environment, or lists everything that is wrong with it.
 * `fieldpost check`, a reload and the pages about settings follow the same rows.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { FieldpostError, systemCodeOf, wordsOf } from '../errors.js';
import { MIB } from '../limits.js';
import { guessOf } from './nearest.js';
import type { Follower, Row, SettingRows, ValuesOf } from './row.js';
import type { ConfigProblem, Environment, ReadText, StatOf } from './types.js';
import { type Kind, maskPasswords, refuse, secretPath, type TextKind } from './values.js';

/** A good configuration, or every problem. */
export type Parsed<C> =
  | { readonly config: C; readonly warnings: readonly string[] }
  | { readonly problems: readonly ConfigProblem[] };

/** What a program adds to its rows. */
export interface Plan<R, C> {
  /** By member of the configuration, in the order in which people read of them. */
  readonly rows: R;
  /** Adds what several values make together. */
  complete(values: ValuesOf<R>, env: Environment, findings: Findings): C;
  /** What of that a reload takes up at once. */
  live(config: C): Partial<C>;
  /** Reports what does not fit together, and what works but should be changed. */
  check(check: Check<R, C>): void;
  /** Effective values, as a user writes them, in place of those that the rows show. */
  effective(config: C, hostname: string): { readonly [M in keyof R]?: string };
  /** The settings of another program, which may stand in the same file; `list`: those that a mistyped key may mean. */
  readonly others: {
    readonly program: string;
    readonly keys: RegExp;
    readonly list?: readonly string[];
  } | null;
}

/** What changes with a new configuration. */
interface Changes<C> {
  /** The new values that need no restart. */
  readonly values: Partial<C>;
  /** True: some of them need a new delivery. */
  readonly renewsDelivery: boolean;
  /** The changed keys: those that hold at once, and those that wait for a restart. */
  readonly taken: readonly string[];
  readonly waiting: readonly string[];
}

/** The settings of one program, whose configuration is a C. */
export class Settings<C> {
  /** The rows as [member of C, row]. */
  readonly rows: readonly (readonly [string, Row<unknown>])[];
  /** True: no message shows the value of each key. */
  readonly secretByKey: ReadonlyMap<string, boolean>;
  readonly #plan: Plan<SettingRows, C>;

  constructor(plan: Plan<SettingRows, C>) {
    this.#plan = plan;
    this.rows = Object.entries(plan.rows);
    this.secretByKey = new Map(this.rows.flatMap(([, row]) => keysOf(row).map((key) => [key, row.isSecret])));
  }

  /**
   * The configuration in `env`, or all of its problems. `read` reads the files with secrets and certificates, and `statOf`
   * tells who else may do that. An empty key counts as not set. An unknown key is a problem. It is only a warning if it is in
   * `accepted`, because a newer version has run with it, or if another program has such a setting.
   */
  parse(
    env: Environment,
    read: ReadText,
    { hostname, statOf = () => null }: { readonly hostname: string; readonly statOf?: StatOf },
    accepted: ReadonlySet<string> = new Set(),
  ): Parsed<C> {
    const findings = new Findings(env, this.secretByKey);
    const { problems, warnings } = findings;
    for (const key of Object.keys(env)) {
      if (!key.startsWith('FIELDPOST_') || this.secretByKey.has(key)) continue;
      const program = this.programOf(key);
      if (program !== null) warnings.push(`${key} is for ${program}`);
      else if (accepted.has(key))
        warnings.push(`${key} is not known to this version: a newer one has run with it`);
      else {
        // The value is never shown: it may be a secret under a mistyped name.
        const all = [...this.secretByKey.keys(), ...(this.#plan.others?.list ?? [])];
        const detail = `there is no such setting${guessOf(key, all)}`;
        problems.push({ key, value: null, detail });
      }
    }
    const source = { env: { ...env, FIELDPOST_STATE_DIR: namedStateDirectory(env) }, read, statOf, findings };
    const values = Object.fromEntries(this.rows.map(([member, row]) => [member, settingOf(row, source)]));
    const { complete, check, rows } = this.#plan;
    const config = complete(values, env, findings);
    check(new Check(rows, config, { findings, hostname, statOf }));
    return problems.length > 0 ? { problems } : { config, warnings };
  }

  /** The other program that has this setting, if this one has it not; else null. */
  programOf(key: string): string | null {
    const { others } = this.#plan;
    return others?.keys.test(key) && !this.secretByKey.has(key) ? others.program : null;
  }

  /** The effective configuration by key, as a user writes it: secrets hidden, empty if nothing is set. */
  describe(config: C, hostname: string): Record<string, string> {
    const effective = this.#plan.effective(config, hostname);
    const shown = this.rows.map(([member, { key, kind }]) => {
      const value = config[member as keyof C];
      return [key, effective[member] ?? (value === null ? '' : kind.show(value))];
    });
    return Object.fromEntries(shown);
  }

  /** What changes from `before` to `after`. `follows` is what takes up each setting in this service. */
  changes(
    before: C,
    after: C,
    follows: (member: string, row: Row<unknown>) => Follower = (_, row) => row.follows,
  ): Changes<C> {
    const changed = this.rows
      .map(([name, row]) => ({ member: name as keyof C, key: row.key, follower: follows(name, row) }))
      .filter(({ member }) => asText(before[member]) !== asText(after[member]));
    const taken = changed.filter(({ follower }) => follower !== 'restart');
    const values = Object.fromEntries(taken.map(({ member }) => [member, after[member]]));
    return {
      values: { ...(values as Partial<C>), ...this.#plan.live(after) },
      renewsDelivery: taken.some(({ follower }) => follower === 'delivery'),
      taken: taken.map(({ key }) => key),
      waiting: changed.filter(({ follower }) => follower === 'restart').map(({ key }) => key),
    };
  }
}

/** The keys that give a setting: KEY_FILE and KEY for a secret, else KEY. */
function keysOf({ key, credential }: Row<unknown>): readonly string[] {
  return credential === null ? [key] : [`${key}_FILE`, key];
}

function asText(value: unknown): string {
  return JSON.stringify(value, (_, part) => (part instanceof Map ? [...part] : part));
}

/**
 * The state directory that `env` names, even if something else in it is wrong. systemd separates several by colons; the
 * first is ours.
 */
export function namedStateDirectory(env: Environment): string {
  return env.FIELDPOST_STATE_DIR?.trim() || env.STATE_DIRECTORY?.split(':')[0] || './.fieldpost';
}

/** A problem in one line. */
export function formatProblem({ key, value, detail }: ConfigProblem): string {
  return `${value === null ? key : `${key}=${value}`}: ${detail}`;
}

/**
 * The faults of an environment: problems, which stop a start, and warnings, which do not. Neither shows anything that may
 * be a secret.
 */
export class Findings {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: string[] = [];
  readonly #env: Environment;
  readonly #secretByKey: ReadonlyMap<string, boolean>;

  constructor(env: Environment, secretByKey: ReadonlyMap<string, boolean>) {
    this.#env = env;
    this.#secretByKey = secretByKey;
  }

  /** Records what is wrong with a setting. Only the first problem counts: others may follow from it. */
  problem(key: string, detail: string): void {
    if (this.isBad(key)) return;
    const value = this.#env[key]?.trim() ?? '';
    const shown = this.#secretByKey.get(key) || value === '' ? null : maskPasswords(value);
    this.problems.push({ key, value: shown, detail });
  }

  isBad(key: string): boolean {
    return this.problems.some((problem) => problem.key === key);
  }
}

/** 16 random letters and digits take longer to guess than the device lives. */
const TOKEN_CHARS_MIN = 16;

/** Checks a configuration whose settings are each good by themselves. */
export class Check<R, C> {
  readonly config: C;
  readonly hostname: string;
  readonly #rows: R;
  readonly #findings: Findings;
  readonly #statOf: StatOf;

  constructor(rows: R, config: C, outside: { findings: Findings; hostname: string; statOf: StatOf }) {
    this.config = config;
    this.hostname = outside.hostname;
    this.#rows = rows;
    this.#findings = outside.findings;
    this.#statOf = outside.statOf;
  }

  /** The key that a person has probably set for this member. */
  keyOf(member: keyof R): string {
    const { key, credential } = this.#row(member);
    return credential === null ? key : `${key}_FILE`;
  }

  /** True: the member has its default, because what is given for it is bad. */
  isBad(member: keyof R): boolean {
    return keysOf(this.#row(member)).some((key) => this.#findings.isBad(key));
  }

  problem(member: keyof R, detail: string): void {
    this.#findings.problem(this.keyOf(member), detail);
  }

  warn(...sentences: readonly string[]): void {
    this.#findings.warnings.push(...sentences);
  }

  /** Reports a problem of `missing` if it is not set, although it is needed. */
  needs(missing: keyof R & keyof C, detail: string): void {
    if (this.config[missing] === null && !this.isBad(missing)) this.problem(missing, detail);
  }

  /** The first number must not be more than the second, less `besides` bytes for the journal. */
  order(least: keyof R & keyof C, most: keyof R & keyof C, besides = 0): void {
    const [low, high] = [this.#row(least), this.#row(most)];
    const [lowest, highest] = [this.config[least] as number, this.config[most] as number];
    if (lowest + besides <= highest || this.isBad(most)) return;
    const shown = `${high.kind.show(highest)}${besides > 0 ? `, less ${besides / MIB}MiB for the journal` : ''}`;
    this.problem(least, `${low.kind.show(lowest)} is more than ${high.key}, which is ${shown}`);
  }

  /** A certificate and its private key: both or none, and of one pair. */
  certificate(certMember: keyof R & keyof C, keyMember: keyof R & keyof C): void {
    const [certKey, keyKey] = [this.keyOf(certMember), this.keyOf(keyMember)];
    const [cert, key] = [this.config[certMember] as string | null, this.config[keyMember] as string | null];
    if (this.isBad(certMember) || this.isBad(keyMember)) return;
    if (key !== null) this.needs(certMember, `${keyKey} needs it: the file with the certificate`);
    if (cert !== null)
      this.needs(keyMember, `${certKey} needs it: the file with the certificate's private key`);
    if (cert === null || key === null) return;
    try {
      if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return;
      this.problem(keyMember, `the private key is not that of the certificate in ${certKey}`);
    } catch (error) {
      this.problem(keyMember, `the certificate or its key cannot be used: ${wordsOf(error)}`);
    }
  }

  /** Warns if one of the tokens that this setting gives can be guessed. */
  tokens(member: keyof R, tokens: readonly (string | null)[]): void {
    if (!tokens.some((token) => token !== null && token.length < TOKEN_CHARS_MIN)) return;
    this.warn(
      `${this.#row(member).key} gives a secret of fewer than ${TOKEN_CHARS_MIN} characters, which can be guessed: make one with openssl rand -hex 16`,
    );
  }

  /** Warns if another user owns the state directory, and if others may enter it. */
  owner(stateDir: string): void {
    const [found, own] = [this.#statOf(stateDir), this.#statOf('/proc/self')];
    if (found === null || own === null) return;
    if (found.uid !== own.uid)
      this.warn(
        `${stateDir} belongs to user ${found.uid}, who can read and change all mails: give it to this user`,
      );
    if ((found.mode & 0o077) !== 0)
      this.warn(`${stateDir} is open to other users (mode ${(found.mode & 0o7777).toString(8)}): chmod 700`);
  }

  #row(member: keyof R): Row<unknown> {
    return this.#rows[member] as Row<unknown>;
  }
}

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

/** The value of a row. A bad one is reported and replaced by its default, so that the others can be checked. */
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
