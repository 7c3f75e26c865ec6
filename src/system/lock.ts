/**
 * A lock that no crash leaves behind: a listening unix socket. Whoever can connect to it knows that another
 * daemon runs; one that refuses is stale and is taken over.
 */
import { constants } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { basename, dirname } from 'node:path';
import { FieldpostError, systemCodeOf } from '../errors.js';
import { answers } from './listen.js';
import { randomBytes } from './random.js';

/** Held until it is released or the process ends. */
export interface Lock {
  release(): Promise<void>;
}

/** Takes the lock at `path`, or throws `already-running`. */
export type TakeLock = (path: string) => Promise<Lock>;

export const systemLock: TakeLock = async (path) => {
  // A socket's path may have 107 bytes; through the directory's descriptor any path is short.
  const directory = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  const short = `/proc/self/fd/${directory.fd}/${basename(path)}`;
  try {
    const server = (await isFree(short)) && (await listen(short));
    if (!server) {
      throw new FieldpostError('already-running', `another daemon uses ${dirname(path)}`, {
        hint: 'stop it first, or give this one its own FIELDPOST_STATE_DIR',
      });
    }
    return {
      async release() {
        // Node removes the socket's file when it stops listening.
        await new Promise((resolve) => server.close(resolve));
        await directory.close();
      },
    };
  } catch (error) {
    await directory.close();
    throw error;
  }
};

/**
 * Puts a stale socket out of the way. Of two that come at once the second may find the lock of the first where the
 * stale one was: so it is moved first, looked at, and put back if it answers.
 */
async function isFree(path: string): Promise<boolean> {
  if (await answers(path)) return false;
  const aside = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return true;
    throw error;
  }
  const isHeld = await answers(aside);
  await (isHeld ? rename(aside, path) : rm(aside, { force: true }));
  return !isHeld;
}

/** Null if somebody else listens there by now. */
function listen(path: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once('error', (error) => {
      if (systemCodeOf(error) === 'EADDRINUSE') resolve(null);
      else reject(error);
    });
    server.listen(path, () => resolve(server));
  });
}
