/**
 * Opens the sockets of FIELDPOST_LISTEN, and takes over those that the service manager opened and keeps open while we
 * restart (sd_listen_fds(3)). The caller makes a net.Server for each.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { chmod, lstat, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { umask } from 'node:process';
import { addressOf, showListener, UNIX_PATH_BYTES_MAX } from '../config/endpoints.js';
import type { Environment, ListenConfig } from '../config/types.js';
import { FieldpostError, isUnreadable, systemCodeOf, wordsOf } from '../errors.js';
import { SECOND_MS } from '../limits.js';
import type { Clock } from './clock.js';
import type { Log } from './log.js';

/** Listeners that are open. */
export interface Listeners {
  /** The handed ones first, then the others in the order of the settings; port 0 is replaced with the real port. */
  readonly addresses: readonly ListenConfig[];
  /** Takes no more connections. Resolves once the present ones have ended. */
  close(): Promise<void>;
}

/** With it a port that is taken is tried for LISTEN_TRY_MS: an outgoing connection may hold it for a moment. */
interface Patience {
  readonly clock: Pick<Clock, 'after' | 'bootMs'>;
  readonly log: Pick<Log, 'warn'>;
}

/** A start tries this long to listen on a port that another socket has, with this pause between two tries. */
export const LISTEN_TRY_MS = 10 * SECOND_MS;
export const LISTEN_AGAIN_MS = SECOND_MS / 4;

// Owner and group may call: a unix socket has no other guard.
const UNIX_SOCKET_MODE = 0o660;
// Until a new socket has its mode, its owner alone may call.
const NEW_SOCKET_UMASK = 0o177;

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
 * Listens on all of `configs`, which `setting` names, and of the sockets `handed` over, or on none. An address that was
 * handed over is not opened again. Throws unavailable, naming the address, and what `makeServer` throws.
 */
export async function openListeners(
  configs: readonly ListenConfig[],
  makeServer: (address: ListenConfig) => Server,
  handed: readonly Handed[] = [],
  setting = 'FIELDPOST_LISTEN',
  patience: Patience | null = null,
): Promise<Listeners> {
  const servers: Server[] = [];
  const addresses: ListenConfig[] = [];
  try {
    for (const one of handed) {
      const { server, address } = await serveHanded(one, makeServer);
      servers.push(server);
      addresses.push(address);
    }
    const open = new Set(addresses.map(addressOf));
    for (const config of configs) {
      if (open.has(addressOf(config))) continue;
      const server = makeServer(config);
      servers.push(server);
      addresses.push(await listen(server, config, setting, patience));
    }
  } catch (error) {
    await closeAll(servers);
    throw error;
  }
  return { addresses, close: () => closeAll(servers) };
}

async function listen(
  server: Server,
  config: ListenConfig,
  setting: string,
  patience: Patience | null,
): Promise<ListenConfig> {
  try {
    if (config.kind === 'unix') {
      if (Buffer.byteLength(config.path) > UNIX_PATH_BYTES_MAX) {
        throw new Error(`the path is longer than ${UNIX_PATH_BYTES_MAX} bytes`);
      }
      await removeStale(config.path);
      await listening(server, { path: config.path });
      await chmod(config.path, UNIX_SOCKET_MODE);
      return config;
    }
    const { host, port } = config;
    const listenOnce = () => listening(server, { host, port });
    await (patience === null ? listenOnce() : untilFree(listenOnce, showListener(config), patience));
    return { ...config, port: (server.address() as AddressInfo).port };
  } catch (error) {
    const inUse = systemCodeOf(error) === 'EADDRINUSE';
    throw new FieldpostError('unavailable', `Cannot listen on ${showListener(config)}: ${wordsOf(error)}`, {
      hint: inUse
        ? `another daemon or program is listening there; ${setting} sets the address`
        : `see ${setting}`,
      cause: error,
    });
  }
}

/** Tries again while another socket has the port. Until the start is over, SIGTERM ends the process at once. */
async function untilFree(
  listenOnce: () => Promise<void>,
  listen: string,
  { clock, log }: Patience,
): Promise<void> {
  const endMs = clock.bootMs() + LISTEN_TRY_MS;
  for (let isFirst = true; ; isFirst = false) {
    try {
      await listenOnce();
      return;
    } catch (error) {
      if (systemCodeOf(error) !== 'EADDRINUSE' || clock.bootMs() >= endMs) throw error;
    }
    if (isFirst) log.warn('port taken', { listen, triedForMs: LISTEN_TRY_MS });
    await new Promise<void>((resolve) => void clock.after(LISTEN_AGAIN_MS, resolve));
  }
}

type Where =
  | { readonly path: string }
  | { readonly host: string; readonly port: number }
  | { readonly fd: number };

function listening(server: Server, where: Where): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: Error) => {
      server.off('listening', done);
      reject(error);
    };
    const done = () => {
      server.off('error', failed);
      resolve();
    };
    server.once('error', failed).once('listening', done);
    const listen = () => server.listen(where);
    if ('path' in where) withNarrowMask(listen);
    else listen();
  });
}

/** Calls `listen`, which makes a unix socket at once, so that nothing else is made under this mask. */
export function withNarrowMask(listen: () => void): void {
  const before = umask(NEW_SOCKET_UMASK);
  try {
    listen();
  } finally {
    umask(before);
  }
}

/** Removes the socket of a killed daemon. Keeps a socket on which a process listens, and any other file. */
async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null);
  if (found?.isSocket() && !(await answers(path))) await rm(path, { force: true });
}

/** Errors of connect if nobody listens: no socket, or a stale one. */
const NOBODY: readonly string[] = ['ECONNREFUSED', 'ENOENT', 'ENOTDIR', 'ELOOP'];

/** True if a process listens on this unix socket, or if that cannot be found out. */
export function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect({ path });
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    // Nobody listens on an inode that the kernel cannot load.
    probe.once('error', (error) => resolve(!NOBODY.includes(systemCodeOf(error)) && !isUnreadable(error)));
  });
}

async function closeAll(servers: readonly Server[]): Promise<void> {
  await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
}

/**
 * Serves on a handed socket. Throws unavailable if it is not a listening stream socket, and the errors of `makeServer`.
 */
async function serveHanded(
  { fd, use }: Handed,
  makeServer: (address: ListenConfig) => Server,
): Promise<{ readonly server: Server; readonly address: ListenConfig }> {
  try {
    const path = unixPathOf(fd);
    if (path !== null) {
      const address = { kind: 'unix', path, ...(use === 'send' && { sendOnly: true as const }) } as const;
      const server = makeServer(address);
      await listening(server, { fd });
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
