/**
 * A small Debian with a real systemd as its first process: tests install the package in it as on a device.
 * scripts/container prepares its files. What a test writes survives a power cut; it is deleted when the test ends.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

const BASES = process.env.FIELDPOST_TEST_CONTAINERS ?? '/var/cache/fieldpost-containers';
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
/** Where the packages are. */
export const OUT = `${REPOSITORY}build/out/`;
/** Where the repository is mounted in the container. */
export const INSIDE = '/opt/fieldpost';
/** Where the relay of a container puts its mails. */
export const RELAYED = '/var/relayed';
const PATIENCE_MS = 60_000;

/** Why tests that need a container of this Debian cannot run here; false if they can. */
export function skipWithoutContainer(suite: string): string | false {
  if (process.env.FIELDPOST_TEST_SYSTEMD !== '1')
    return 'needs FIELDPOST_TEST_SYSTEMD=1 and what scripts/container makes';
  if (process.getuid?.() !== 0) return 'needs root: it boots a container';
  return existsSync(`${BASES}/${suite}`) ? false : `there is no ${suite} in ${BASES}: scripts/container`;
}

/** The file of a package that scripts/package has made. */
export function packageOf(name: string): Buffer {
  const found = readdirSync(OUT).find((file) => file.startsWith(`${name}_`) && file.endsWith('.deb'));
  return readFileSync(`${OUT}${found}`);
}

/** A script that prints these properties of a unit in one line, sorted. */
export const propertiesOf = (unit: string, ...names: readonly string[]) =>
  `systemctl show ${unit} -p ${names.join(',')} | sort | paste -sd ' '`;

/** Starts a relay, which puts its mails into RELAYED. */
export const startRelay = (it: Container) =>
  it.must(
    `mkdir -p ${RELAYED}; systemd-run --quiet --unit=relay node ${INSIDE}/test/systemd/relay.mjs ${RELAYED}`,
  );

/** Holds that systemd finds the unit well locked up, and nothing wrong with it and its sockets. */
export async function assertSandboxed(t: Test, it: Container, name: string, ...sockets: readonly string[]) {
  const unit = `${name}.service`;
  const report = await it.must(`systemd-analyze security --no-pager ${unit}`);
  const exposure = Number(/exposure level for \S+: ([\d.]+)/.exec(report)?.[1]);
  t.ok(exposure <= 1.3, `exposure ${exposure}`);
  const verify = `systemd-analyze verify ${[unit, ...sockets].join(' ')} 2>&1`;
  t.equal(await it.must(`${verify} | grep -v "man ${name}" || :`), '');
}

// Its own mount namespace: all mounts end with it. There is one tree of control groups for the whole machine.
const WITH_GROUPS = `set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup || umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
`;
// Its own branch of that tree: two containers in one branch would remove each other's groups.
const BOOT = `${WITH_GROUPS}
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
branch=/sys/fs/cgroup/\${2##*/}
mkdir -p "$branch"
echo $$ > "$branch/cgroup.procs"
exec systemd-nspawn --quiet -D "$2/root" --private-network --register=no --keep-unit --console=pipe \\
  --hostname=gateway --bind-ro="$3:${INSIDE}" $4 -b`;

// The last processes leave their groups a moment after they were killed.
const REMOVE_GROUPS = `${WITH_GROUPS}
branch=/sys/fs/cgroup/\${1##*/}
while [ -d "$branch" ]; do find "$branch" -depth -type d -exec rmdir {} + 2> /dev/null || sleep 0.02; done`;

interface Ran {
  readonly status: number | null;
  readonly out: string;
}

/** A device that can be switched off and on. */
export class Container {
  readonly #bootArgs: readonly string[];
  #nspawn: ChildProcess | null = null;
  #init = 0;

  /** Boots one; it is destroyed when the test ends. `bind` is an option for systemd-nspawn. */
  static async boot(t: Test, suite: string, bind = ''): Promise<Container> {
    const directory = mkdtempSync('/var/tmp/fieldpost-container-');
    for (const name of ['upper', 'work', 'root']) mkdirSync(`${directory}/${name}`);
    const container = new Container([`${BASES}/${suite}`, directory, REPOSITORY, bind]);
    t.teardown(async () => {
      await container.cutPower();
      execFileSync('unshare', ['-m', 'sh', '-c', REMOVE_GROUPS, 'sh', directory]);
      rmSync(directory, { recursive: true, force: true });
    });
    await container.switchOn();
    return container;
  }

  private constructor(bootArgs: readonly string[]) {
    this.#bootArgs = bootArgs;
  }

  /** Boots; resolves when the system is up. */
  async switchOn(): Promise<void> {
    const args = ['-m', 'sh', '-c', BOOT, 'sh', ...this.#bootArgs];
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
      if (nspawn.exitCode !== null || patience.aborted)
        throw new Error(`the container does not boot: ${console}`);
      await pause(20);
    }
  }

  /** Kills every process in it at once. */
  async cutPower(): Promise<void> {
    const nspawn = this.#nspawn;
    if (nspawn === null) return;
    this.#nspawn = null;
    const gone = once(nspawn, 'close');
    if (this.#init !== 0) process.kill(this.#init, 'SIGKILL');
    nspawn.kill('SIGKILL');
    await gone;
  }

  /** Runs a shell script in it; `input` is its standard input. */
  async run(script: string, input: string | Buffer = ''): Promise<Ran> {
    const enter = ['-t', String(this.#init), '-m', '-u', '-i', '-n', '-p', '-C', '-r', '-w', '--'];
    // An empty environment: tap's NODE_OPTIONS would make every Node.js in the container load tap.
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

  /** Runs a script and gives its output. Throws if the status is not 0. */
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

  /** Runs the script until its output matches; gives that output. */
  async until(script: string, pattern: RegExp): Promise<string> {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      const { out } = await this.run(script);
      if (pattern.test(out)) return out;
      if (patience.aborted) throw new Error(`${script} never prints ${pattern}: …${out.slice(-500)}`);
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
