/**
 * Sockets that the service manager opened for us and keeps open while we restart (sd_listen_fds(3)).
 */
import { once } from 'node:events';
import { readFileSync, readlinkSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import type { Environment, ListenConfig } from '../config/types.js';
import { FieldpostError, wordsOf } from '../errors.js';

const FIRST_FD = 3;
const USES = ['send', 'smtp'] as const;

/** A listening socket that was handed over. Its FileDescriptorName= in the unit says what it is for. */
export interface Handed {
  readonly fd: number;
  readonly use: 'api' | (typeof USES)[number];
}

/** The sockets handed over to the process `pid`. */
export function handedOver(env: Environment, pid: number): readonly Handed[] {
  const count = Number(env.LISTEN_FDS);
  if (env.LISTEN_PID !== String(pid) || !Number.isSafeInteger(count) || count < 1) return [];
  const names = env.LISTEN_FDNAMES?.split(':') ?? [];
  return Array.from({ length: count }, (_, index) => ({
    fd: FIRST_FD + index,
    use: USES.find((use) => use === names[index]) ?? 'api',
  }));
}

/**
 * Serves on a handed socket. Throws unavailable if it is not a listening stream socket, and the errors of `makeServer`.
 */
export async function serveHanded(
  { fd, use }: Handed,
  makeServer: (address: ListenConfig) => Server,
): Promise<{ readonly server: Server; readonly address: ListenConfig }> {
  try {
    const path = unixPathOf(fd);
    if (path !== null) {
      const address = { kind: 'unix', path, ...(use === 'send' && { sendOnly: true as const }) } as const;
      const server = makeServer(address);
      await listening(server, fd);
      return { server, address };
    }
    if (use === 'send') throw new Error('a socket for sending only must be a unix socket');
    return await serveTcp(fd, makeServer);
  } catch (error) {
    if (error instanceof FieldpostError) throw error;
    const words = `Descriptor ${fd}, handed over by systemd, cannot be used: ${wordsOf(error)}`;
    throw new FieldpostError('unavailable', words, { hint: 'see fieldpost.socket', cause: error });
  }
}

async function serveTcp(fd: number, makeServer: (address: ListenConfig) => Server) {
  // Only a server tells where it listens. It accepts nothing, because the other takes its handle first.
  const first = createServer();
  await listening(first, fd);
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

async function listening(server: Server, fd: number): Promise<void> {
  const begun = once(server, 'listening');
  server.listen({ fd });
  await begun;
}

/**
 * The path of the unix socket behind `fd`, from the kernel; null for anything else. Node.js knows only the paths that it
 * has bound itself, and two of its servers cannot share a unix socket.
 */
function unixPathOf(fd: number): string | null {
  const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1];
  const lines = readFileSync('/proc/self/net/unix', 'latin1').split('\n');
  const found = lines.map((line) => line.trim().split(/\s+/)).find((fields) => fields[6] === inode);
  return found === undefined ? null : found.slice(7).join(' ');
}
