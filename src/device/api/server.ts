/**
 * The local API: the routes, behind the check of the caller.
 */
import { FieldpostError } from '../../base/errors.js';
import { bearerOf, createLocalCheck, digest, isOneOf } from '../../base/http/access.js';
import type { Exchange } from '../../base/http/exchange.js';
import { createHttp, type Http } from '../../base/http/http.js';
import type { Access, ApiContext } from './context.js';
import { MESSAGES, ROUTES } from './routes.js';

/** The local API. It does not listen yet. */
export function createApi(context: ApiContext): Http {
  const guard = createGuard(context.settings);
  const http = createHttp({
    ...context,
    routes: ROUTES,
    guard: (exchange, route) => guard(exchange, route?.access ?? 'operators'),
    handle: (route, exchange) => route.handle(exchange, context),
    refused({ req, path }, code) {
      if (req.method === 'POST' && path === MESSAGES) context.refused.count(code);
    },
  });
  return {
    makeServer: http.makeServer,
    async stop(withinMs) {
      await http.stop(withinMs);
      context.events?.end();
    },
  };
}

/** A function that checks the caller. It throws malformed-request, not-local, unauthorized, forbidden. */
function createGuard(settings: ApiContext['settings']) {
  const checkLocal = createLocalCheck(settings.allowedHosts);
  const token = settings.apiToken === null ? null : digest(settings.apiToken);
  const sendToken = settings.sendToken === null ? null : digest(settings.sendToken);

  /** A unix socket needs no token: the socket's mode says who may call. */
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
      const isMissing = bearerOf(exchange.req) === null;
      throw new FieldpostError(
        'unauthorized',
        isMissing ? 'This daemon asks for a token' : 'This is not the token of this daemon',
        { hint: isMissing ? 'send it as Authorization: Bearer <token>' : '' },
      );
    }
    exchange.onlySends = may === 'send';
    if (may === 'send' && access !== 'senders') {
      throw new FieldpostError('forbidden', 'This token, or this socket, is for sending only', {
        hint: 'post a message, or get one by its id',
      });
    }
  };
}
