/**
 * `GET /api/internal/history`: what happened in the last days.
 */
import type { Exchange } from '../../base/http/exchange.js';
import { checkPercent, invalidQuery } from '../../base/http/query.js';
import { isoOf } from '../../base/text.js';
import type { ApiContext } from './context.js';

/** `GET /api/internal/history?step=10m` or `1h` */
export async function getHistory(exchange: Exchange, { history }: ApiContext): Promise<void> {
  checkPercent(exchange.query);
  const step = new URLSearchParams(exchange.query).get('step') ?? '10m';
  if (step !== '10m' && step !== '1h') throw invalidQuery([{ pointer: 'step', detail: 'must be 10m or 1h' }]);
  const rows = await history(step);
  exchange.json(200, { step, rows: rows.map((row) => ({ ...row, at: isoOf(row.at) })) });
}
