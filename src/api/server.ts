/**
 * The local API: the routes, behind the check of the caller. Used by daemon.ts.
 */

import { createHttp, type Http } from '../http/http.js';
import { type AnsweredCode, PROBLEMS } from '../http/problem.js';
import { createGuard } from './access.js';
import type { ApiContext, ApiParts } from './parts.js';
import { MESSAGES, ROUTES } from './routes.js';

/** The local API. It does not listen yet. */
export function createApi(parts: ApiParts): Http {
  const context: ApiContext = { ...parts, refusedTotals: zeroTotals() };
  const guard = createGuard(parts.settings);
  return createHttp({
    routes: ROUTES,
    guard: (exchange, route) => guard(exchange, route?.access ?? 'operators'),
    handle: (route, exchange) => route.handle(exchange, context),
    refused({ req, path }, code) {
      if (req.method === 'POST' && path === MESSAGES) context.refusedTotals[code]++;
    },
    clock: parts.clock,
    log: parts.log,
    memoryBytes: parts.memoryBytes,
    streamed: parts.streamed,
    dropped: parts.dropped,
    patience: parts.patience,
  });
}

/** Zero for every code, because rate() misses the first event of a counter that did not exist before. */
function zeroTotals(): Record<AnsweredCode, number> {
  const zeros = Object.keys(PROBLEMS).map((code) => [code, 0]);
  return Object.fromEntries(zeros) as Record<AnsweredCode, number>;
}
