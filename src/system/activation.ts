/**
 * Sockets that the service manager opened for us and keeps open while we restart (sd_listen_fds(3)). main.ts asks
 * what was handed over; listen.ts serves on it.
 */
import { once } from 'node:events';
import { readFileSync, readlinkSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import type { Environment, ListenConfig } from '../config.js';
import { FieldpostError, wordsOf } from '../errors.js';

const FIRST_FD = 3;
const SEND_ONLY = 'send';

/** A listening socket that was handed over; the unit's FileDescriptorName= says what it is for. */
export interface Handed {
  readonly fd: number;
  readonly sendOnly: boolean;
}

/** The sockets handed over to the process `pid`; none if they are meant for another. */
export function handedOver(env: Environment, pid: number): readonly Handed[] {
  const count = Number(env.LISTEN_FDS);
  if (env.LISTEN_PID !== String(pid) || !Number.isSafeInteger(count) || count < 1) return [];
  const names = env.LISTEN_FDNAMES?.split(':') ?? [];
  return Array.from({ length: count }, (_, index) => ({
    fd: FIRST_FD + index,
    sendOnly: names[index] === SEND_ONLY,
  }));
}

/**
 * Serves on a handed socket with the server that is made for its address. Throws unavailable if it is no
 * listening stream socket, and what `makeServer` throws.
 */
export async function serveHanded(
  { fd, sendOnly }: Handed,
  makeServer: (address: ListenConfig) => Server,
): Promise<{ readonly server: Server; readonly address: ListenConfig }> {
  try {
    const path = unixPathOf(fd);
    if (path !== null) return await serveUnix(fd, path, sendOnly, makeServer);
    if (sendOnly) throw new Error('a socket for sending only must be a unix socket');
    return await serveTcp(fd, makeServer);
  } catch (error) {
    if (error instanceof FieldpostError) throw error;
    const words = `Descriptor ${fd}, handed over by systemd, cannot be used: ${wordsOf(error)}`;
    throw new FieldpostError('unavailable', words, { hint: 'see fieldpost.socket', cause: error });
  }
}

async function serveTcp(fd: number, makeServer: (address: ListenConfig) => Server) {
  // Only a server tells where it listens. This one accepts nothing: another has its handle before it could.
  const first = createServer();
  await listening(first, { fd });
  const { address: host, port } = first.address() as AddressInfo;
  const address = { kind: 'tcp', host, port } as const;
  try {
    const server = makeServer(address);
    server.listen(first);
    return { server, address };
  } catch (error) {
    first.close();
    throw error;
  }
}

async function serveUnix(
  fd: number,
  path: string,
  sendOnly: boolean,
  makeServer: (address: ListenConfig) => Server,
) {
  const address = { kind: 'unix', path, ...(sendOnly && { sendOnly }) } as const;
  const server = makeServer(address);
  await listening(server, { fd });
  return { server, address };
}

async function listening(server: Server, where: { fd: number }): Promise<void> {
  const begun = once(server, 'listening');
  server.listen(where);
  await begun;
}

/**
 * The path of the unix socket behind `fd`, as the kernel tells it; null for anything else. (Of those that it has not
 * bound itself Node.js does not know it, nor can two of its servers share one.)
 */
function unixPathOf(fd: number): string | null {
  const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1];
  const lines = readFileSync('/proc/self/net/unix', 'latin1').split('\n');
  const found = lines.map((line) => line.trim().split(/\s+/)).find((fields) => fields[6] === inode);
  return found === undefined ? null : found.slice(7).join(' ');
}
