/**
 * `GET /`: the status page. It has no data in it: its program asks the other calls.
 */
import type { Exchange } from '../../base/http/exchange.js';
import { sendPage } from '../../base/http/html-page.js';
import page from '../../pages/status.html';
import type { ApiContext } from './context.js';

/** Answers with the status page. It tells its program whether calls need a token. */
export function getStatusPage(exchange: Exchange, { settings }: ApiContext): void {
  const asksToken = settings.apiToken !== null && exchange.connection.kind === 'tcp';
  sendPage(exchange, page, { asksToken });
}
