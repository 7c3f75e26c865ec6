/**
 * A lock that no crash leaves behind: a listening unix socket. Whoever can connect to it knows that another
 * daemon runs; one that refuses is stale and is taken over.
 */
import { constants } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { basename, dirname } from 'node:path';
import { FieldpostError } from '../errors.js';
import { answers } from './listen.js';

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
    if (await answers(short)) {
      throw new FieldpostError('already-running', `another daemon uses ${dirname(path)}`, {
        hint: 'stop it first, or give this one its own FIELDPOST_STATE_DIR',
      });
    }
    await rm(short, { force: true });
    const server = await listen(short);
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

function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once('error', reject);
    server.listen(path, () => resolve(server));
  });
}
