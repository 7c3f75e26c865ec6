/**
 * The built cloud as its package runs it, below a directory of a test: its env file, state and backups. It walks through
 * blocks of commands of the manual as they stand there.
 */
import { execFile } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { ask } from './ask.js';
import { CLOUD_MAIN, type DaemonProcess, startIn } from './daemon.js';

const PAGE = 'build/man/fieldpost-cloud.8.md';
/** The operator's key. */
const OPERATOR_KEY = 'the-key-of-the-operator';

/** What a command did. */
interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A machine with the cloud. */
export class WalkedCloud {
  readonly directory: string;
  readonly #t: Test;
  #cloud: DaemonProcess | null = null;
  #port = 0;

  constructor(t: Test) {
    this.#t = t;
    this.directory = t.testdir();
    for (const name of ['etc/fieldpost-cloud', 'var/lib/fieldpost-cloud', 'var/backups'])
      mkdirSync(join(this.directory, name), { recursive: true, mode: 0o700 });
    writeFileSync(this.path('/etc/fieldpost-cloud/keys'), `* ${OPERATOR_KEY}\n`, { mode: 0o600 });
    this.set('FIELDPOST_STATE_DIR', this.path('/var/lib/fieldpost-cloud'));
    this.set('FIELDPOST_CLOUD_SERVER_KEYS_FILE', this.path('/etc/fieldpost-cloud/keys'));
  }

  /** A path of the machine, below the directory of the test. */
  path(path: string): string {
    return join(this.directory, path);
  }

  /** Adds a setting to the env file. */
  set(key: string, value: string): void {
    appendFileSync(this.path('/etc/fieldpost-cloud/fieldpost-cloud.env'), `${key}=${value}\n`);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const file = this.path('/etc/fieldpost-cloud/fieldpost-cloud.env');
    this.#cloud = await startIn(this.#t, {}, ['cloud', '--env-file', file]);
    if (this.#port === 0) this.set('FIELDPOST_CLOUD_SERVER_LISTEN', `127.0.0.1:${this.#cloud.port}`);
    this.#port = this.#cloud.port;
  }

  async stop(): Promise<void> {
    this.#t.equal(await this.#cloud?.end('SIGTERM'), 0);
  }

  /** A call for a device; by default with the operator's key. */
  async call(method: string, path: string, key: string = OPERATOR_KEY, body?: object) {
    const headers = { Authorization: `Bearer ${key}`, ...(method === 'PUT' && { 'If-None-Match': '*' }) };
    return await ask(`${this.url}/devices/${path}`, method, { headers, ...(body && { body }) });
  }

  /** Runs a line of shell on this machine, without sudo and other users. */
  async run(line: string): Promise<Ran> {
    const here = line
      .replace(/\bsudo (?:-u fieldpost-cloud )?/g, '')
      .replace(/ -o fieldpost-cloud\b/g, '')
      .replace(/(?<=[ ="'])(?=\/(?:etc|var)\/)/g, this.directory);
    const file = this.path('/etc/fieldpost-cloud/fieldpost-cloud.env');
    const program = `fieldpost-cloud() { '${CLOUD_MAIN}' "$@" --env-file '${file}'; }`;
    return await new Promise((resolve) => {
      const env = { PATH: process.env.PATH };
      execFile('bash', ['--norc', '-c', `${program}\n${here}`], { env }, (error, stdout, stderr) =>
        resolve({ status: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
      );
    });
  }

  /** Runs the block `<!-- walk: NAME -->` of the manual; `replace` gives another line in place of one. */
  async walk(name: string, replace: (line: string) => string = (line) => line): Promise<void> {
    const block = new RegExp(`<!-- walk: ${name} -->\n\`\`\`sh\n([^\`]*)\`\`\``).exec(
      readFileSync(PAGE, 'utf8'),
    );
    const lines = block?.[1]?.trim().split('\n') ?? [];
    this.#t.ok(lines.length > 0, `the manual has the commands: ${name}`);
    for (const line of lines) {
      const [, verb] = /^sudo systemctl (start|stop) fieldpost-cloud$/.exec(line) ?? [];
      if (verb === 'start') await this.start();
      else if (verb === 'stop') await this.stop();
      else {
        const { status, stderr } = await this.run(replace(line));
        this.#t.equal(status, 0, `${line}: ${stderr}`);
      }
    }
  }
}
