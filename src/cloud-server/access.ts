/**
 * Who may call the cloud: a device with its key for itself, the operator with his for all. Used by cloud.ts.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createGuard } from '../api/guard.js';
import { deviceId } from '../config/values.js';
import type { Config } from '../config.js';
import { FieldpostError } from '../errors.js';
import type { Exchange } from '../http/exchange.js';

/** In place of a device: the operator. */
export const OPERATOR = '*';

/** Throws unauthorized unless the key that the request brings opens `device`; null: what only the operator may. */
export type CheckKey = (exchange: Exchange, device: string | null) => void;

/** The keys that are good now, and the way to others. */
export interface Access {
  readonly check: CheckKey;
  /** Holds from the next request on. */
  change(keys: Config['cloudServerKeys']): void;
}

/** Lets in by these keys, until others come. */
export function openAccess(keys: Config['cloudServerKeys']): Access {
  let check = createKeyCheck(keys);
  return {
    check: (exchange, device) => check(exchange, device),
    change(others) {
      check = createKeyCheck(others);
    },
  };
}

/**
 * The check of these keys. Where there are none any key opens everything; then only programs on this machine may
 * call, and no web page.
 */
function createKeyCheck(keys: Config['cloudServerKeys']): CheckKey {
  if (keys === null) {
    const guard = createGuard({ allowedHosts: [], apiToken: null, sendToken: null });
    return (exchange, device) => {
      guard(exchange, 'anybody');
      if (keyOf(exchange) === null || !isDevice(device)) throw refused();
    };
  }
  const digests = new Map([...keys].map(([device, of]) => [device, of.map(digest)]));
  return (exchange, device) => {
    const key = keyOf(exchange);
    if (key === null) throw refused();
    const given = digest(key);
    const opens = (name: string) => (digests.get(name) ?? []).some((one) => timingSafeEqual(one, given));
    // The operator has no word in which devices there are.
    const isOpen = device === null ? opens(OPERATOR) : keys.has(device) && (opens(device) || opens(OPERATOR));
    if (device === OPERATOR || !isOpen) throw refused();
  };
}

/** True for null, and for a name that a device may have: it names a file. */
function isDevice(device: string | null): boolean {
  if (device === null) return true;
  try {
    return deviceId.parse(device) === device;
  } catch {
    return false;
  }
}

function keyOf({ req }: Exchange): string | null {
  return /^bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1] ?? null;
}

// Digests have one length, so that the comparison tells neither the key's length nor how much was right.
function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

function refused(): FieldpostError {
  return new FieldpostError('unauthorized', 'This device is not known, or its key is not right', {
    hint: 'send it as Authorization: Bearer <key>',
  });
}
