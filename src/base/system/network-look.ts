/**
 * The state of this device's network as one text; two texts are compared to find a change: its routes, its addresses,
 * and which links have a carrier.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The kernel's files, because os.networkInterfaces() fails in the unit's sandbox. */
export interface NetworkTables {
  /** Its files `route`, `ipv6_route`, `fib_trie` and `if_inet6`: see proc(5). */
  readonly net: string;
  /** One directory for each link. */
  readonly links: string;
}

const TABLES: NetworkTables = { net: '/proc/self/net', links: '/sys/class/net' };
/** The columns that count the uses of a route. */
const COUNTERS: Readonly<Record<string, readonly number[]>> = { route: [4, 5], ipv6_route: [6, 7] };

/** Equal texts mean an equal network. What cannot be read is left out. */
export async function lookAtNetwork({ net, links } = TABLES): Promise<string> {
  const tables = ['route', 'ipv6_route', 'fib_trie', 'if_inet6'].map(async (name) => {
    const counters = COUNTERS[name] ?? [];
    const rows = (await textOf(join(net, name))).split('\n').map((line) => line.trim().split(/\s+/));
    return rows.map((row) => row.filter((_, index) => !counters.includes(index)).join(' ')).join('\n');
  });
  const names = await readdir(links).catch(() => []);
  const states = names.sort().map(async (name) => `${name} ${await textOf(join(links, name, 'operstate'))}`);
  return (await Promise.all([...tables, ...states])).join('\n');
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, 'latin1').catch(() => '');
}
