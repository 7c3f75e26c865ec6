/**
 * The user at the other end of a TCP connection on this device, from the kernel's table of sockets: for the log of what
 * operators do, and for commands that have a token to send. (Node.js cannot ask a unix socket for its peer.)
 */
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';

/** The ends of a connection, as node:net has them. */
export type Ends = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localPort'>;

/** The state of a socket that listens. */
const LISTENING = '0A';

/** A client may use either family for the same connection. */
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6'];

/** The user id at the other end of a connection from this device; null if the kernel does not tell. */
export async function peerUid(ends: Ends): Promise<number | null> {
  for (const table of TABLES) {
    const uid = ownerIn(await readFile(table, 'latin1').catch(() => ''), ends);
    if (uid !== null) return uid;
  }
  return null;
}

/**
 * The owner of the socket whose local end is our remote one, from the text of proc_net_tcp(5). Its addresses are
 * hexadecimal words in the byte order of the machine.
 */
export function ownerIn(
  table: string,
  { remoteAddress = '', remotePort = 0, localPort = 0 }: Ends,
): number | null {
  const address = hexOf(remoteAddress);
  if (address === null) return null;
  const own = `${address}:${hexPort(remotePort)}`;
  const other = `:${hexPort(localPort)}`;
  for (const line of table.split('\n')) {
    const [, from = '', to = '', , , , , uid, , inode] = line.trim().split(/\s+/);
    // A socket that no process has open any more belongs to nobody; the kernel says 0.
    if (inode === '0') continue;
    if (from.endsWith(own) && to.endsWith(other)) return Number(uid);
  }
  return null;
}

/**
 * The users of the sockets that listen on this address of this device; none if nobody does, or if the kernel does not
 * tell. A socket of systemd belongs to root.
 */
export async function listenerUids(host: string, port: number): Promise<readonly number[]> {
  const tables = TABLES.map((table) => readFile(table, 'latin1').catch(() => ''));
  const [v4 = '', v6 = ''] = await Promise.all(tables);
  return listenersIn(v4, v6, host, port);
}

/** The same from the two tables. The kernel prefers an exact address, and then a socket of IPv4 for IPv4. */
export function listenersIn(v4: string, v6: string, host: string, port: number): readonly number[] {
  const [four, six] = [v4, v6].map((table) =>
    table.split('\n').flatMap((line) => {
      const [, local = '', , state, , , , uid] = line.trim().split(/\s+/);
      const [at = '', on] = local.split(':');
      return state === LISTENING && on === hexPort(port) ? { at, uid: Number(uid) } : [];
    }),
  ) as [{ at: string; uid: number }[], { at: string; uid: number }[]];
  const all = [...four, ...six];
  const own = hexOf(host);
  // A name may stand for any address.
  if (own === null) return all.map(({ uid }) => uid);
  const some = host === '::1' ? six : all;
  const found = some.find(({ at }) => at.endsWith(own)) ?? some.find(({ at }) => /^0+$/.test(at));
  return found === undefined ? [] : [found.uid];
}

function hexPort(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0');
}

/** The last word of a loopback or other IPv4 address, mapped or not; null for any other. */
function hexOf(address: string): string | null {
  const quad = address === '::1' ? '0.0.0.1' : address.replace(/^::ffff:/i, '');
  const bytes = quad.split('.').map(Number);
  if (bytes.length !== 4 || !bytes.every((byte) => byte >= 0 && byte <= 255)) return null;
  const ordered = endianness() === 'LE' ? bytes.reverse() : bytes;
  return ordered.map((byte) => byte.toString(16).toUpperCase().padStart(2, '0')).join('');
}
