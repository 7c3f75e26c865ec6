/**
 * `GET /devices/{id}/outages`: the outages of a device, and who was told of them.
 */
import type { Exchange } from '../base/http/exchange.js';
import { SECOND_MS } from '../base/limits.js';
import { isoOf } from '../base/text.js';
import type { CloudParts } from './calls.js';

/** `GET /devices/{id}/outages` */
export async function listOutages(exchange: Exchange, parts: CloudParts): Promise<void> {
  const { devices, outages, config } = parts;
  const { id } = devices.get(exchange.id);
  const views = (await outages.of(id)).map(({ kind, beganMs, endedMs, lastedMs, told }) => ({
    ...{ kind, began: timeOf(beganMs), ended: timeOf(endedMs) },
    lastedS: lastedMs === null ? null : Math.round(lastedMs / SECOND_MS),
    told: told.map(({ atMs, id: message, ...person }) => ({ at: timeOf(atMs), ...person, message })),
  }));
  // Each instance keeps what it has told itself.
  exchange.json(200, { scope: config.cloudServerStore === null ? 'cloud' : 'instance', outages: views });
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : isoOf(ms);
}
