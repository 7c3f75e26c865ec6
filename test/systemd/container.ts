/**
 * A small Debian with a real systemd as its first process, in which the package is installed as on a device. Made of
 * what scripts/container has prepared; what is written in it outlives a power cut, and not the test.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

const BASES = process.env.FIELDPOST_TEST_CONTAINERS ?? '/var/cache/fieldpost-containers';
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
/** Where the repository is to be seen within. */
export const INSIDE = '/opt/fieldpost';
const PATIENCE_MS = 60_000;

/** Why tests that need a container of this Debian cannot run here; false if they can. */
export function skipWithoutContainer(suite: string): string | false {
  if (process.env.FIELDPOST_TEST_SYSTEMD !== '1')
    return 'needs FIELDPOST_TEST_SYSTEMD=1 and what scripts/container makes';
  if (process.getuid?.() !== 0) return 'needs root: it boots a container';
  return existsSync(`${BASES}/${suite}`) ? false : `there is no ${suite} in ${BASES}: scripts/container`;
}

// A mount namespace of its own, so that nothing of it is left behind; systemd wants a cgroup tree for itself.
const BOOT = `set -e
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
umount -R /sys/fs/cgroup || umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
exec systemd-nspawn --quiet -D "$2/root" --private-network --register=no --keep-unit --console=pipe \\
  --hostname=gateway --bind-ro="$3:${INSIDE}" $4 -b`;

/** What a command came to. */
export interface Ran {
  readonly status: number | null;
  readonly out: string;
}

/** A device that can be switched off and on. */
export class Container {
  readonly #suite: string;
  readonly #directory: string;
  readonly #binds: string;
  #nspawn: ChildProcess | null = null;
  #init = 0;

  /** Boots one; it is destroyed when the test ends. `binds` are options for systemd-nspawn. */
  static async boot(t: Test, suite: string, binds = ''): Promise<Container> {
    const directory = mkdtempSync('/var/tmp/fieldpost-container-');
    for (const name of ['upper', 'work', 'root']) mkdirSync(`${directory}/${name}`);
    const container = new Container(suite, directory, binds);
    t.teardown(async () => {
      await container.cutPower();
      rmSync(directory, { recursive: true, force: true });
    });
    await container.switchOn();
    return container;
  }

  private constructor(suite: string, directory: string, binds: string) {
    this.#suite = suite;
    this.#directory = directory;
    this.#binds = binds;
  }

  /** Boots; resolves when the system is up. */
  async switchOn(): Promise<void> {
    const args = [
      '-m',
      'sh',
      '-c',
      BOOT,
      'sh',
      `${BASES}/${this.#suite}`,
      this.#directory,
      REPOSITORY,
      this.#binds,
    ];
    const nspawn = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#nspawn = nspawn;
    let console = '';
    for (const stream of [nspawn.stdout, nspawn.stderr])
      stream.on('data', (chunk) => {
        console = (console + chunk).slice(-4000);
      });
    const patience = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      this.#init = initOf(nspawn.pid ?? 0);
      if (this.#init !== 0) {
        const { out } = await this.run('systemctl is-system-running --wait');
        if (/running|degraded/.test(out)) return;
      }
      if (nspawn.exitCode !== null || patience.aborted) throw new Error(`it does not boot: ${console}`);
      await pause(20);
    }
  }

  /** Everything in it ends at this moment. */
  async cutPower(): Promise<void> {
    const nspawn = this.#nspawn;
    if (nspawn === null) return;
    this.#nspawn = null;
    const gone = once(nspawn, 'close');
    if (this.#init !== 0) process.kill(this.#init, 'SIGKILL');
    nspawn.kill('SIGKILL');
    await gone;
  }

  /** Runs a script of sh in it, `input` on its standard input. */
  async run(script: string, input: string | Buffer = ''): Promise<Ran> {
    const enter = ['-t', String(this.#init), '-m', '-u', '-i', '-n', '-p', '-C', '-r', '-w', '--'];
    // Not ours: tap's would have every Node.js within load a part of it.
    const clean = ['env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL=C.UTF-8', 'SYSTEMD_PAGER='];
    const child = spawn('nsenter', [...enter, ...clean, 'sh', '-c', script]);
    let out = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        out += chunk;
      });
    child.stdin.on('error', () => undefined).end(input);
    const [status] = (await once(child, 'close')) as [number | null];
    return { status, out };
  }

  /** The same; gives what it printed, and throws that if its status is not 0. */
  async must(script: string, input: string | Buffer = ''): Promise<string> {
    const { status, out } = await this.run(script, input);
    if (status !== 0) throw new Error(`${script}: ${status}: ${out}`);
    return out.trim();
  }

  /** Puts a file into it. */
  async write(path: string, content: string | Buffer, mode = '644'): Promise<void> {
    await this.must(
      `mkdir -p "${path.replace(/\/[^/]*$/, '')}" && cat > "${path}" && chmod ${mode} "${path}"`,
      content,
    );
  }

  /** What the script prints once that matches; asks again and again. */
  async until(script: string, pattern: RegExp): Promise<string> {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      const { out } = await this.run(script);
      if (pattern.test(out)) return out;
      if (patience.aborted) throw new Error(`${script} does not come to ${pattern}: …${out.slice(-500)}`);
      await pause(50);
    }
  }
}

/** The container's first process; 0 if there is none yet. */
function initOf(nspawn: number): number {
  try {
    return Number(readFileSync(`/proc/${nspawn}/task/${nspawn}/children`, 'latin1').trim().split(' ')[0]);
  } catch {
    return 0;
  }
}
