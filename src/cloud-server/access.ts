/**
 * Checks keys: a device's key opens calls for that device, the operator's key opens calls for all. Used by cloud.ts.
 */
import { deviceId } from '../config/values.js';
import type { Config } from '../config.js';
import { FieldpostError } from '../errors.js';
import { bearerOf, digest, isOneOf } from '../http/bearer.js';
import type { Exchange } from '../http/exchange.js';
import { createLocalCheck } from '../http/local.js';

/** The operator's name in the keys file, in place of a device's. */
export const OPERATOR = '*';

/** Throws unauthorized unless the request's key opens `device`; null: only the operator's key does. */
export type CheckKey = (exchange: Exchange, device: string | null) => void;

/**
 * The check of these keys. Without a keys file any key opens everything, but only for programs on this machine, not for web
 * pages.
 */
export function createKeyCheck(keys: Config['cloudServerKeys']): CheckKey {
  if (keys === null) {
    const checkLocal = createLocalCheck();
    return (exchange, device) => {
      checkLocal(exchange);
      if (bearerOf(exchange.req) === null || !isDevice(device)) throw refused();
    };
  }
  const digests = new Map([...keys].map(([device, of]) => [device, of.map(digest)]));
  return ({ req }, device) => {
    const given = bearerOf(req);
    const opens = (name: string) => isOneOf(given, digests.get(name) ?? []);
    // The operator's key opens only devices that have keys of their own.
    const isOpen = device === null ? opens(OPERATOR) : keys.has(device) && (opens(device) || opens(OPERATOR));
    if (device === OPERATOR || !isOpen) throw refused();
  };
}

/** True for null, and for a valid device id, which becomes a file name. */
function isDevice(device: string | null): boolean {
  if (device === null) return true;
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
