/**
 * The lock of a state directory. It ends with its process, also in a crash. It is held in two places:
 *
 * - `lock`, a listening unix socket in the directory. Every process that sees the directory sees it, also from other
 *   containers and network namespaces. It needs an inode.
 * - an abstract unix socket, named after the directory's device and inode and our process. It needs no room on the disk,
 *   but is seen only in our network namespace. Any user can take such a name, so it counts only if the process that holds it has the directory open.
 *
 * On a full disk only the second is held.
 */
import { constants } from 'node:fs';
import {
  type FileHandle,
  lstat,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
} from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { FieldpostError, systemCodeOf, wordsOf } from '../errors.js';
import { answers, withNarrowMask } from './listen.js';
import { randomBytes } from './random.js';

/** Held until it is released or the process ends. It keeps the process from ending by itself. */
export interface Lock {
  /** Why other network namespaces cannot see it, if they cannot. */
  readonly weakness?: string;
  /** The new name of a file, no socket, that had the name of the lock. */
  readonly putAside?: string;
  release(): Promise<void>;
}

/** Takes the lock at `path`, or throws `already-running`. */
export type TakeLock = (path: string) => Promise<Lock>;

export const systemLock: TakeLock = async (path) => {
  // The descriptor stays open while the lock is held: holdersOf() in another process looks for it.
  const directory = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  const servers: Server[] = [];
  const release = async () => {
    // Node removes the socket's file when it stops listening.
    for (const server of servers) await new Promise((resolve) => server.close(resolve));
    await directory.close();
  };
  try {
    // A socket's path may have 107 bytes. Through the directory's descriptor every path is short.
    const here = `/proc/self/fd/${directory.fd}`;
    const { server, error, putAside } = await lockInDirectory(here, basename(path));
    if (server) servers.push(server);
    const [name, self] = [await abstractName(directory), await readlink('/proc/self')];
    const abstract = await listen(`\0${name}${self}`).catch(() => null);
    if (abstract) servers.push(abstract);
    const holders = await holdersOf(name, self, directory);
    const isOurs = holders.delete(self);
    if (holders.size > 0 || (isOurs && !abstract)) throw inUse();
    // Node.js before 20.4 listens on another name.
    if (!server && !isOurs) throw error;
    const found = { ...(error !== undefined && { weakness: wordsOf(error) }), ...(putAside && { putAside }) };
    return { ...found, release };
  } catch (error) {
    await release();
    if (!isInUse(error)) throw error;
    throw new FieldpostError('already-running', `another daemon uses ${dirname(path)}`, {
      hint: 'stop it first, or give this one its own FIELDPOST_STATE_DIR',
    });
  }
};

const IN_USE = 'EADDRINUSE';
const inUse = () => Object.assign(new Error('the lock is held'), { code: IN_USE });
const isInUse = (error: unknown) => systemCodeOf(error) === IN_USE;

interface Found {
  readonly server?: Server;
  /** Why the socket could not be opened. */
  readonly error?: unknown;
  readonly putAside?: string | null;
}

/** Listens on the socket in the directory. Throws EADDRINUSE if another process holds the lock. */
async function lockInDirectory(directory: string, name: string): Promise<Found> {
  try {
    const names = await readdir(directory);
    await sweep(directory, name, names);
    const path = join(directory, name);
    const putAside = names.includes(name) ? await makeFree(path) : null;
    const server = await listen(path);
    if (!server) throw inUse();
    return { server, putAside };
  } catch (error) {
    if (isInUse(error)) throw error;
    return { error };
  }
}

/** Removes sockets that processes left when they were killed in makeFree(). Throws if one of them is a lock in use. */
async function sweep(directory: string, name: string, names: readonly string[]): Promise<void> {
  for (const other of names) {
    if (!other.startsWith(`${name}.`) || !/^[0-9a-f]{8}$/.test(other.slice(name.length + 1))) continue;
    const path = join(directory, other);
    if (!(await lstat(path).catch(() => null))?.isSocket()) continue;
    if (await answers(path)) throw inUse();
    await rm(path, { force: true });
  }
}

/**
 * Puts a stale socket out of the way. Another process may have put its own lock there. So this moves the socket,
 * connects to it, and puts it back if it answers. Gives the new name of what is no socket, which stays aside.
 */
async function makeFree(path: string): Promise<string | null> {
  if (await answers(path)) throw inUse();
  const aside = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return null;
    throw error;
  }
  if (await answers(aside)) {
    await rename(aside, path);
    throw inUse();
  }
  if (!(await lstat(aside)).isSocket()) return basename(aside);
  await rm(aside, { force: true });
  return null;
}

/** The abstract name of the directory's lock, without the process id at its end. */
async function abstractName(directory: FileHandle): Promise<string> {
  const { dev, ino } = await directory.stat({ bigint: true });
  return `fieldpost/${dev}-${ino}/`;
}

/** The processes that hold such a name and have the directory open, as `self` has. */
async function holdersOf(name: string, self: string, directory: FileHandle): Promise<Set<string>> {
  const holders = new Set<string>();
  const sockets = await readFile('/proc/net/unix', 'latin1').catch(() => '');
  for (const line of sockets.split('\n')) {
    // Some versions of Node.js pad the name with NULs, which are shown as @.
    const pid = /^(\d+)@*$/.exec(line.split(`@${name}`)[1] ?? '')?.[1];
    if (pid !== undefined && (pid === self || (await hasOpen(pid, directory)))) holders.add(pid);
  }
  return holders;
}

async function hasOpen(pid: string, directory: FileHandle): Promise<boolean> {
  const { dev, ino } = await directory.stat({ bigint: true });
  const descriptors = `/proc/${pid}/fd`;
  for (const fd of await readdir(descriptors).catch(() => [])) {
    const found = await stat(join(descriptors, fd), { bigint: true }).catch(() => null);
    if (found?.dev === dev && found.ino === ino) return true;
  }
  return false;
}

/** Null if another process listens there. */
function listen(path: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error) => {
      if (systemCodeOf(error) === IN_USE) resolve(null);
      else reject(error);
    });
    withNarrowMask(() => server.listen(path, () => resolve(server)));
  });
}
