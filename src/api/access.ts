/**
 * Who may make which call (local-api §6). server.ts asks it before every route.
 */
import { FieldpostError } from '../errors.js';
import { bearerOf, digest, isOneOf } from '../http/bearer.js';
import type { Exchange } from '../http/exchange.js';
import { createLocalCheck } from '../http/local.js';
import type { ApiParts } from './parts.js';

/** Who may make a call: anybody, those who may send too, or operators alone. */
export type Access = 'anybody' | 'senders' | 'operators';

/** A function that throws unless the request may go on: malformed-request, not-local, unauthorized, forbidden. */
export function createGuard(settings: Pick<ApiParts['settings'], 'allowedHosts' | 'apiToken' | 'sendToken'>) {
  const checkLocal = createLocalCheck(settings.allowedHosts);
  const token = settings.apiToken === null ? null : digest(settings.apiToken);
  const sendToken = settings.sendToken === null ? null : digest(settings.sendToken);

  /** No token is asked for over a unix socket: the socket's mode says who may call. */
  function mayWhat({ req, connection }: Exchange): 'everything' | 'send' | 'nothing' {
    if (connection.kind !== 'tcp') return connection.kind === 'send' ? 'send' : 'everything';
    if (token === null) return 'everything';
    const given = bearerOf(req);
    if (isOneOf(given, [token])) return 'everything';
    return sendToken !== null && isOneOf(given, [sendToken]) ? 'send' : 'nothing';
  }

  return (exchange: Exchange, access: Access): void => {
    checkLocal(exchange);
    if (access === 'anybody') return;
    const may = mayWhat(exchange);
    if (may === 'nothing') {
      throw new FieldpostError('unauthorized', 'This daemon asks for a token', {
        hint: 'send it as Authorization: Bearer <token>',
      });
    }
    if (may === 'send' && access !== 'senders') {
      throw new FieldpostError('forbidden', 'This token, or this socket, is for sending only', {
        hint: 'post a message, or ask after one by its id',
      });
    }
  };
}
