/**
 * The local API: the routes of routes.ts behind the guard. daemon.ts makes it.
 */
import { createGuard } from './guard.js';
import { createHttp, type Http } from './http.js';
import type { ApiContext, ApiParts } from './parts.js';
import { ROUTES } from './routes.js';

/** The local API over what the root hands over. It listens nowhere by itself. */
export function createApi(parts: ApiParts): Http {
  const context: ApiContext = {
    ...parts,
    acceptedTotal: 0,
    keysUnderWay: new Set(),
  };
  const guard = createGuard(parts.settings);
  return createHttp({
    routes: ROUTES,
    guard: (exchange, route) => guard(exchange, route?.access ?? 'operators'),
    handle: (route, exchange) => route.handle(exchange, context),
    clock: parts.clock,
    log: parts.log,
    patience: parts.patience,
  });
}
