/**
 * Network namespaces on one bridge with this machine, and faults between them. All faults act inside the namespaces, so this
 * machine's own network stays as it is. Needs root.
 *
 *   const bridge = openBridge(t);
 *   const space = bridge.space(10);   // its address ends in .10
 *   space.filter('drop');
 */
import { execFileSync } from 'node:child_process';
import type { Test } from 'tap';

/** A namespace. */
export interface Space {
  readonly host: string;
  /** The command that runs a program inside. */
  readonly through: readonly string[];
  /** Drops every packet from and to these addresses: all, or a network such as 10.1.2.8/29. */
  filter(state: 'drop' | 'pass', others?: string): void;
}

export interface Bridge {
  /** The address of this machine. */
  readonly address: string;
  /** The network of the addresses that end in `from` to `from + 7`; a multiple of 8. */
  network(from: number): string;
  /** Makes a namespace with the address that ends in this number. */
  space(number: number): Space;
}

const TABLE = `table inet cut {
  chain in { type filter hook input priority 0; }
  chain out { type filter hook output priority 0; }
}`;
const PASS = 'flush chain inet cut in; flush chain inet cut out';

/** Makes the bridge. It is removed with its namespaces, and with all processes in them, when the test ends, also by SIGTERM. */
export function openBridge(t: Test): Bridge {
  // Unique among parallel tests, and short: an interface name has at most 15 characters.
  const tag = `fe${process.pid % 100_000}x${Math.floor(Math.random() * 1000)}`;
  const subnet = `10.${150 + (process.pid % 50)}.${Math.floor(Math.random() * 256)}`;
  const numbers: number[] = [];
  const clean = () => {
    process.off('SIGTERM', ended);
    for (const n of numbers) {
      // A namespace lives while a process runs in it.
      run(
        `for p in $(ip netns pids ${tag}n${n} 2>&1); do kill -9 $p; done; ip netns del ${tag}n${n} || true`,
      );
    }
    run(`ip link del ${tag} || true`);
  };
  const ended = () => {
    clean();
    process.exit(143);
  };
  process.on('SIGTERM', ended);
  t.teardown(clean);
  run(`ip link add ${tag} type bridge && ip address add ${subnet}.1/24 dev ${tag} && ip link set ${tag} up`);
  return {
    address: `${subnet}.1`,
    network: (from) => `${subnet}.${from}/29`,
    space(n) {
      const [name, host] = [`${tag}n${n}`, `${subnet}.${n}`];
      const through = ['ip', 'netns', 'exec', name];
      const inside = through.join(' ');
      numbers.push(n);
      run(`ip netns add ${name} && ip link add ${tag}v${n} type veth peer name eth0 netns ${name} &&
        ip link set ${tag}v${n} master ${tag} up && ${inside} ip link set lo up &&
        ${inside} ip address add ${host}/24 dev eth0 && ${inside} ip link set eth0 up`);
      run(`${inside} nft -f -`, TABLE);
      const filter = (state: 'drop' | 'pass', others = '0.0.0.0/0') =>
        run(`${inside} nft -f -`, state === 'drop' ? dropping(others) : PASS);
      return { host, through, filter };
    },
  };
}

function dropping(others: string): string {
  return `add rule inet cut in iifname eth0 ip saddr ${others} drop; add rule inet cut out oifname eth0 ip daddr ${others} drop`;
}

function run(line: string, rules = ''): void {
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
  execFileSync('/bin/sh', ['-c', line], { stdio: 'pipe', env, input: rules });
}
