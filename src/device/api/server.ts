/**
 * The local API: the routes, behind the check of the caller.
 */

import { createHttp, type Http } from '../../base/http/http.js';
import { createGuard } from './access.js';
import type { ApiContext } from './context.js';
import { MESSAGES, ROUTES } from './routes.js';

/** The local API. It does not listen yet. */
export function createApi(context: ApiContext): Http {
  const guard = createGuard(context.settings);
  return createHttp({
    routes: ROUTES,
    guard: (exchange, route) => guard(exchange, route?.access ?? 'operators'),
    handle: (route, exchange) => route.handle(exchange, context),
    refused({ req, path }, code) {
      if (req.method === 'POST' && path === MESSAGES) context.refused.count(code);
    },
    clock: context.clock,
    log: context.log,
    memoryBytes: context.memoryBytes,
    descriptors: context.descriptors,
    streamed: context.streamed,
    dropped: context.dropped,
    patience: context.patience,
  });
}
