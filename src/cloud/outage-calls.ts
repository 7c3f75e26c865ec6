/**
 * `GET /devices/{id}/outages`: the outages of a device, and who was told of them, as JSON and as CSV.
 */
import type { Fault } from '../base/errors.js';
import type { Exchange } from '../base/http/exchange.js';
import { invalidQuery, oneOfIn, wholeNumberIn } from '../base/http/query.js';
import { SECOND_MS } from '../base/limits.js';
import { isoOrNull } from '../base/text.js';
import type { CloudParts } from './calls.js';
import { type Cell, csvOf, LIST_FORMATS, sendCsv, wantsCsv } from './csv.js';
import { OUTAGES_MAX, type Outage, type ToldMessage } from './outages.js';

/** The outages in an answer of JSON that asks for no number. */
export const OUTAGES_LISTED = 100;

/** `GET /devices/{id}/outages` */
export async function listOutages(exchange: Exchange, parts: CloudParts): Promise<void> {
  const { devices, outages: log, config } = parts;
  const { isCsv, limit } = parseQuery(exchange);
  const { id } = devices.get(exchange.id);
  const { outages: all, total, others } = await log.of(id);
  const outages = all.slice(0, limit).map((outage) => viewOf(outage, parts));
  const rest = others.slice(0, limit).map((telling) => tellingOf(telling, parts));
  if (isCsv) {
    sendCsv(exchange, `outages-${id.replace(/[^\w.-]/g, '_')}.csv`, csvOf(COLUMNS, rowsOf(outages, rest)));
    return;
  }
  // Each instance keeps what it has told itself.
  const scope = config.cloudServerStore === null ? 'cloud' : 'instance';
  const body = JSON.stringify({ scope, outages, total, others: rest });
  exchange.send(200, 'application/json', body, { Vary: 'Accept' });
}

/** An unknown parameter is ignored. Throws invalid. */
function parseQuery({ query, req }: Exchange): { readonly isCsv: boolean; readonly limit: number } {
  const given = new URLSearchParams(query);
  const faults: Fault[] = [];
  const report = (fault: Fault) => void faults.push(fault);
  const format = oneOfIn(given, 'format', LIST_FORMATS, report);
  const isCsv = wantsCsv(format, req.headers.accept);
  const otherwise = isCsv ? OUTAGES_MAX : OUTAGES_LISTED;
  const limit = wholeNumberIn(given, 'limit', [1, OUTAGES_MAX, otherwise], report);
  if (faults.length > 0) throw invalidQuery(faults);
  return { isCsv, limit };
}

function viewOf({ beganMs, endedMs, lastedMs, quiet, told, kind, why, word }: Outage, parts: CloudParts) {
  return {
    ...{ kind, began: isoOrNull(beganMs), ended: isoOrNull(endedMs) },
    lastedS: lastedMs === null ? null : Math.round(lastedMs / SECOND_MS),
    ...{ why, word, quiet: quiet && { until: isoOrNull(quiet.untilMs), why: quiet.why } },
    told: told.map((telling) => tellingOf(telling, parts)),
  };
}

/** `status`: what became of the message; null: it is forgotten. */
function tellingOf({ atMs, id: message, ...person }: ToldMessage, { store }: Pick<CloudParts, 'store'>) {
  return { at: isoOrNull(atMs), ...person, message, status: store.get(message)?.status ?? null };
}

const COLUMNS =
  'kind began ended lastedS why word quietUntil quietWhy at of news type name destination message status'.split(
    ' ',
  );

/** A line for each telling, and for each outage without one. */
function* rowsOf(
  outages: readonly ReturnType<typeof viewOf>[],
  others: readonly ReturnType<typeof tellingOf>[],
): Generator<Readonly<Record<string, Cell>>> {
  for (const { told, quiet, ...outage } of outages) {
    const facts = { ...outage, quietUntil: quiet?.until, quietWhy: quiet?.why };
    for (const telling of told.length === 0 ? [{}] : told) yield { ...facts, ...telling };
  }
  yield* others;
}
