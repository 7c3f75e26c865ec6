/**
 * Listens on loopback.
 */
import type { Server } from 'node:net';
import { systemCodeOf } from '../base/errors.js';

/** Listens on this port of 127.0.0.1, or on a free one if it is taken. Gives the port. Rejects with the system's error. */
export async function listen(server: Server, wanted: number): Promise<number> {
  try {
    await listening(server, wanted);
  } catch (error) {
    if (systemCodeOf(error) !== 'EADDRINUSE' || wanted === 0) throw error;
    await listening(server, 0);
  }
  return (server.address() as { port: number }).port;
}

function listening(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}
