/**
 * Who makes a call, for the log: it must show who has changed other people's messages or the address book. Used by the
 * calls that change what is there already.
 */
import type { Exchange } from '../http/exchange.js';
import type { ApiContext } from './parts.js';

/** `uid 1000`, the address if the user is not known, or `unix socket`. */
export async function callerOf({ req, connection }: Exchange, { peerUid }: ApiContext): Promise<string> {
  if (connection.kind !== 'tcp') return 'unix socket';
  const { socket } = req;
  const uid = await peerUid(socket);
  return uid === null ? (socket.remoteAddress ?? 'unknown') : `uid ${uid}`;
}
