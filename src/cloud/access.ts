/**
 * Checks keys: a device's key opens calls for that device, the operator's key opens calls for all.
 */

import type { Config } from '../base/config/settings.js';
import { deviceId } from '../base/config/values.js';
import { FieldpostError } from '../base/errors.js';
import { bearerOf, digest, isOneOf } from '../base/http/bearer.js';
import type { Exchange } from '../base/http/exchange.js';
import { createLocalCheck } from '../base/http/local.js';
import type { DeviceKeys } from './fleet-store.js';

/** The operator's name in the keys file, in place of a device's. */
export const OPERATOR = '*';

/** Throws unauthorized unless the request's key opens `device`; null: only the operator's key does. */
export type CheckKey = (exchange: Exchange, device: string | null) => void;

/**
 * The check of the keys of the file, and of those that the operator makes by a call. Without a keys file any key opens
 * everything, but only for programs on this machine, not for web pages, and not for a proxy, which serves others.
 */
export function createKeyCheck(
  keys: Config['cloudServerKeys'],
  made: Pick<DeviceKeys, 'has' | 'opens'>,
): CheckKey {
  if (keys === null) {
    const checkLocal = createLocalCheck();
    return (exchange, device) => {
      // First: a proxy may keep the name that the caller knows.
      checkNotForwarded(exchange.req);
      checkLocal(exchange);
      if (bearerOf(exchange.req) === null || !(device === null || isDeviceId(device))) throw refused();
    };
  }
  const digests = new Map([...keys].map(([device, of]) => [device, of.map(digest)]));
  return ({ req }, device) => {
    const given = bearerOf(req);
    const opens = (name: string) => isOneOf(given, digests.get(name) ?? []);
    if (device === OPERATOR) throw refused();
    if (device === null ? opens(OPERATOR) : opens(device)) return;
    if (device !== null && given !== null && made.opens(device, given)) return;
    // The operator's key opens only devices that have keys of their own.
    const hasKey = device !== null && (keys.has(device) || made.has(device));
    if (!hasKey || !opens(OPERATOR)) throw refused();
  };
}

/** What proxies add. nginx adds nothing by default, but speaks HTTP/1.0, as no device does. */
const OF_PROXY = /^(?:forwarded|via|x-forwarded-.*|x-real-ip)$/;

function checkNotForwarded({ headers, httpVersion }: Exchange['req']): void {
  const header = Object.keys(headers).find((name) => OF_PROXY.test(name));
  if (header === undefined && httpVersion !== '1.0') return;
  const words = header === undefined ? 'HTTP/1.0' : `The header ${header}`;
  throw new FieldpostError('not-local', `${words} says that a proxy passes this request on`, {
    hint: 'behind a proxy the cloud needs keys: FIELDPOST_CLOUD_SERVER_KEYS_FILE',
  });
}

/** True for a valid device id, which becomes a file name. */
export function isDeviceId(device: string): boolean {
  try {
    return deviceId.parse(device) === device;
  } catch {
    return false;
  }
}

function refused(): FieldpostError {
  return new FieldpostError('unauthorized', 'This device is not known, or its key is not right', {
    hint: 'send it as Authorization: Bearer <key>',
  });
}
