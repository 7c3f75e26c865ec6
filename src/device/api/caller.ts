/**
 * The caller, for the log: it shows who has changed other people's messages or the address book.
 */
import type { Exchange } from '../../base/http/exchange.js';
import type { ApiContext } from './context.js';

/** `uid 1000`, the address if the user is unknown, or `unix socket`. */
export async function callerOf({ req, connection }: Exchange, { peerUid }: ApiContext): Promise<string> {
  if (connection.kind !== 'tcp') return 'unix socket';
  const { socket } = req;
  const uid = await peerUid(socket);
  return uid === null ? (socket.remoteAddress ?? 'unknown') : `uid ${uid}`;
}
