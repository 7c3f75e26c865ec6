/**
 * Receives the body of a request piece by piece, and notices when it stalls or breaks off.
 */
import { FieldpostError } from '../errors.js';
import type { Exchange } from './exchange.js';

/**
 * Hands each chunk of the body to `take`. While the promise of `take` is pending, it reads nothing, and the idle limit
 * does not count. Rejects, and reads no more, with what `take` throws, malformed-request (cut short) or timeout.
 */
export function receiveBody(
  exchange: Exchange,
  take: (chunk: Buffer) => Promise<void> | void,
): Promise<void> {
  const { req, res, connection, connections } = exchange;
  if (exchange.bodyDone) return Promise.resolve();
  // It may have broken off before the handler reads it.
  if (req.destroyed || connection.broken !== null) return Promise.reject(connection.broken ?? cutShort());
  if (exchange.awaitsContinue) res.writeContinue();

  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      connections.received(connection, req);
      req.removeAllListeners('data').on('data', (chunk: Buffer) => connections.memory.streamed(chunk.length));
      req.resume();
      reject(error);
    };
    const receiving = connections.receive(connection, req, fail);
    let taking: Promise<void> | void;
    req.on('data', (chunk: Buffer) => {
      try {
        taking = take(chunk);
        if (taking === undefined) return receiving.came(chunk.length);
        receiving.isOurTurn = true;
        req.pause();
        const goOn = () => {
          receiving.isOurTurn = false;
          receiving.came(chunk.length);
          req.resume();
        };
        taking.then(goOn, fail);
      } catch (error) {
        fail(error);
      }
    });
    req.on('end', () => {
      connections.received(connection, req);
      exchange.bodyDone = true;
      // A paused request ends all the same after its last chunk.
      resolve(taking);
    });
    req.on('close', () => {
      connections.received(connection, req);
      if (!exchange.bodyDone) reject(cutShort());
    });
  });
}

/** The body ended before its announced end. */
export function cutShort(): FieldpostError {
  return new FieldpostError('malformed-request', 'The body was cut short', { hint: 'nothing was queued' });
}
