/**
 * How many connections each server may have. Pure.
 */

import { CONNECTIONS_MAX, CONNECTIONS_OPEN_MAX, CONNECTIONS_WAITING_MAX } from '../limits.js';

/** Sessions over SMTP. */
export const SMTP_CONNECTIONS_MAX = 32;

/** Connections that may be open at a time. */
export interface Places {
  /** Over HTTP: with a request under way, or idle. */
  readonly served: number;
  /** Further ones that wait, unread, until one of those ends. */
  readonly waiting: number;
  /** All over HTTP, with those that are being refused. */
  readonly open: number;
  /** Sessions over SMTP. */
  readonly sessions: number;
}

/** The places where the process may open `descriptors` more files. */
export function placesIn(descriptors = Number.POSITIVE_INFINITY): Places {
  const share = Math.max(1, Math.floor(descriptors / 6));
  const served = Math.min(CONNECTIONS_MAX, share);
  const waiting = Math.min(CONNECTIONS_WAITING_MAX, share);
  const sessions = Math.min(SMTP_CONNECTIONS_MAX, share);
  // A form and a mail over SMTP each need a file beside their connection.
  const left = Math.max(served + waiting + 1, descriptors - served - 2 * sessions);
  return { served, waiting, open: Math.min(CONNECTIONS_OPEN_MAX, left), sessions };
}
