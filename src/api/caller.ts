/**
 * Who makes a call, for the log: what an operator does to other people's messages must have a name to it. Used by the
 * calls that change what is already there.
 */
import type { Exchange } from '../http/exchange.js';
import type { ApiContext } from './parts.js';

/** `uid 1000`, an address that is not this device's, or the kind of socket where nobody can tell. */
export async function callerOf({ req, connection }: Exchange, { peerUid }: ApiContext): Promise<string> {
  if (connection.kind !== 'tcp') return 'unix socket';
  const { socket } = req;
  const uid = await peerUid(socket);
  return uid === null ? (socket.remoteAddress ?? 'unknown') : `uid ${uid}`;
}
