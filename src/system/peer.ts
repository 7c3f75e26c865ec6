/**
 * The user at the other end of a TCP connection on this device, from the kernel's table of sockets, for the log of what
 * operators do. (Node.js cannot ask a unix socket for its peer.)
 */
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';

/** The ends of a connection, as node:net has them. */
export type Ends = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localPort'>;

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
    const [, from = '', to = '', , , , , uid] = line.trim().split(/\s+/);
    if (from.endsWith(own) && to.endsWith(other)) return Number(uid);
  }
  return null;
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
