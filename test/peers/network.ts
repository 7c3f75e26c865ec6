/**
 * A network namespace with one cable to this machine, and the faults of such a network. All faults act inside the
 * namespace, so this machine's own network stays as it is. Needs root.
 *
 *   const network = openNetwork(t);
 *   network.filter('drop');      // a black hole
 *   network.heal();
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';

/** Faults of outgoing packets. */
type Failing = 'loss' | 'drop' | 'reset' | 'unreachable';

const RULES: Readonly<Record<Failing, readonly string[]>> = {
  loss: ['numgen random mod 100 < 20 drop'],
  drop: ['drop'],
  reset: ['meta l4proto tcp reject with tcp reset'],
  unreachable: ['reject with icmp type host-unreachable'],
};

export interface Network {
  /** The address of this machine in the namespace. */
  readonly address: string;
  /** The command that runs a program inside. */
  readonly through: readonly string[];
  /** Sets the names of this machine in the namespace, which has no DNS. */
  names(...names: readonly string[]): void;
  /** Announces a change as a DHCP client does: rewrites resolv.conf. */
  announce(): void;
  filter(how: Failing): void;
  /** Limits it to 64 kbit/s. */
  slow(): void;
  cable(state: 'up' | 'down'): void;
  /** Adds an address that nothing can reach. */
  addAddress(n: number): void;
  /** Ends the faults of `filter`, `slow` and `cable`. */
  heal(): void;
}

/** Makes the namespace; it is removed when the test ends, also by SIGTERM. */
export function openNetwork(t: Test): Network {
  // Unique among parallel tests, and short: an interface name has at most 15 characters.
  const tag = `fp${process.pid % 100_000}x${Math.floor(Math.random() * 1000)}`;
  const [near, far] = [`${tag}n`, `${tag}f`];
  const subnet = `10.${200 + (process.pid % 50)}.${Math.floor(Math.random() * 256)}`;
  const etc = `/etc/netns/${tag}`;
  const run = (...args: readonly string[]) =>
    execFileSync(args[0] as string, args.slice(1), { stdio: 'pipe' });
  const inside = (...args: readonly string[]) => run('ip', 'netns', 'exec', tag, ...args);
  const tolerate = (act: () => unknown) => {
    try {
      act();
    } catch {
      // There is nothing to remove.
    }
  };
  const clean = () => {
    process.off('SIGTERM', ended);
    tolerate(() => {
      const pids = run('ip', 'netns', 'pids', tag).toString().split(/\s+/);
      for (const pid of pids) if (pid !== '') process.kill(Number(pid), 'SIGKILL');
    });
    // Deleting one end of the cable removes both at once; the namespace keeps its end while a process runs in it.
    tolerate(() => run('ip', 'link', 'del', near));
    tolerate(() => run('ip', 'netns', 'del', tag));
    rmSync(etc, { recursive: true, force: true });
  };
  const ended = () => {
    clean();
    process.exit(143);
  };
  process.on('SIGTERM', ended);
  t.teardown(clean);

  mkdirSync(etc, { recursive: true });
  // Mounted over /etc inside. No DNS server listens at 127.0.0.1, so every look-up fails at once.
  const resolver = () =>
    writeFileSync(`${etc}/resolv.conf`, 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
  resolver();
  writeFileSync(`${etc}/nsswitch.conf`, 'hosts: files dns\n');
  writeFileSync(`${etc}/hosts`, '127.0.0.1 localhost\n');
  run('ip', 'netns', 'add', tag);
  run('ip', 'link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', tag);
  run('ip', 'address', 'add', `${subnet}.1/30`, 'dev', near);
  run('ip', 'link', 'set', near, 'up');
  inside('ip', 'link', 'set', 'lo', 'up');
  inside('ip', 'address', 'add', `${subnet}.2/30`, 'dev', far);
  inside('ip', 'link', 'set', far, 'up');
  inside('nft', 'add table inet faults; add chain inet faults out { type filter hook output priority 0; }');

  return {
    address: `${subnet}.1`,
    through: ['ip', 'netns', 'exec', tag],
    names(...names) {
      const line = names.length === 0 ? '' : `${subnet}.1 ${names.join(' ')}\n`;
      // Rewritten in place: the mount over /etc/hosts holds this very file.
      writeFileSync(`${etc}/hosts`, `127.0.0.1 localhost\n${line}`);
    },
    announce: resolver,
    filter(how) {
      for (const rule of RULES[how]) inside('nft', `add rule inet faults out oifname ${far} ${rule}`);
    },
    slow: () =>
      void inside('tc', ...`qdisc add dev ${far} root tbf rate 64kbit burst 4kb latency 1s`.split(' ')),
    cable: (state) => void inside('ip', 'link', 'set', far, state),
    addAddress: (n) => void inside('ip', 'address', 'add', `127.9.9.${n}/32`, 'dev', 'lo'),
    heal() {
      inside('nft', 'flush chain inet faults out');
      tolerate(() => inside('tc', 'qdisc', 'del', 'dev', far, 'root'));
      inside('ip', 'link', 'set', far, 'up');
    },
  };
}
