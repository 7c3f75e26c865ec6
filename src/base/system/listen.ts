/**
 * Opens the sockets of FIELDPOST_LISTEN, and takes over those from systemd (local-api §6). The caller makes a net.Server
 * for each.
 */
import { chmod, lstat, rm } from 'node:fs/promises';
import { type AddressInfo, connect, type Server } from 'node:net';
import { umask } from 'node:process';
import { addressOf, showListener } from '../config/endpoints.js';
import type { ListenConfig } from '../config/types.js';
import { FieldpostError, isUnreadable, systemCodeOf, wordsOf } from '../errors.js';
import { LISTEN_AGAIN_MS, LISTEN_TRY_MS } from '../limits.js';
import { type Handed, serveHanded } from './activation.js';
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

// Owner and group may call: a unix socket has no other guard.
const UNIX_SOCKET_MODE = 0o660;
// Until a new socket has its mode, its owner alone may call.
const NEW_SOCKET_UMASK = 0o177;
// sun_path in unix(7). Node.js cuts a longer path.
const UNIX_PATH_BYTES_MAX = 107;

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

function listening(server: Server, where: { path: string } | { host: string; port: number }): Promise<void> {
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
