/**
 * Serves on loopback.
 */
import { once } from 'node:events';
import type { Server } from 'node:net';
import { systemCodeOf } from '../base/errors.js';

/**
 * Listens on this port of 127.0.0.1, or on a free one if it is taken. Rejects with the system's error. `close` stops
 * listening, calls `end`, which ends the connections, and waits for both.
 */
export async function listen(server: Server, wanted: number, end: () => Promise<void>) {
  try {
    await once(server.listen(wanted, '127.0.0.1'), 'listening');
  } catch (error) {
    if (systemCodeOf(error) !== 'EADDRINUSE' || wanted === 0) throw error;
    await once(server.listen(0, '127.0.0.1'), 'listening');
  }
  return {
    port: (server.address() as { port: number }).port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      await end();
      await closed;
    },
  };
}
