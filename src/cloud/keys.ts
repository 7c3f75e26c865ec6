/**
 * Keys: a device's key opens calls for that device, the operator's key opens calls for all. A store keeps the digests of
 * the two keys that a device may have at a time: the present one, and the one that follows.
 */

import { deviceId, fits } from '../base/config/values.js';
import { FieldpostError } from '../base/errors.js';
import { bearerOf, createLocalCheck, digest, isOneOf } from '../base/http/access.js';
import type { Exchange } from '../base/http/exchange.js';
import { isJsonObject } from '../base/json.js';
import type { DeviceKeys } from './fleet-store.js';
import type { CloudConfig } from './settings.js';

/** In the keys file, in place of a device: the operator, and who may only read what the operator sees. */
const OPERATOR = '*';
const READER = '*:read';

/** True for the name of a device in the keys file. */
export function namesDevice(name: string): boolean {
  return name !== OPERATOR && name !== READER;
}

/**
 * Throws unauthorized unless the request's key opens `device`; null: only the operator's key does. A key that only reads
 * opens what the operator's does, and throws forbidden unless the request is a GET.
 */
export type CheckKey = (exchange: Exchange, device: string | null) => void;

/**
 * The check of the keys of the file, and of those that the operator makes by a call. Without a keys file any key opens
 * everything, but only for programs on this machine, not for web pages, and not for a proxy, which serves others.
 */
export function createKeyCheck(
  keys: CloudConfig['cloudServerKeys'],
  made: Pick<DeviceKeys, 'has' | 'opens'>,
): CheckKey {
  if (keys === null) {
    const checkLocal = createLocalCheck();
    return (exchange, device) => {
      // First: a proxy may keep the name that the caller knows.
      checkNotForwarded(exchange.req);
      checkLocal(exchange);
      const given = bearerOf(exchange.req);
      if (given === null || !(device === null || isDeviceId(device))) throw refused(device, given);
    };
  }
  const digests = new Map([...keys].map(([device, of]) => [device, of.map(digest)]));
  return ({ req }, device) => {
    const given = bearerOf(req);
    const opens = (name: string) => isOneOf(given, digests.get(name) ?? []);
    if (device !== null) {
      if (!namesDevice(device)) throw refused(device, given);
      if (opens(device) || (given !== null && made.opens(device, given))) return;
      // The operator's key opens only devices that have keys of their own.
      if (!keys.has(device) && !made.has(device)) throw refused(device, given);
    }
    if (opens(OPERATOR)) return;
    if (!opens(READER)) throw refused(device, given);
    if (req.method !== 'GET' && req.method !== 'HEAD')
      throw new FieldpostError('forbidden', 'This key only reads', {
        hint: 'the key of the operator changes things, too',
      });
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
  return fits(deviceId, device);
}

function refused(device: string | null, given: Buffer | null): FieldpostError {
  const ofOperator = 'This call is for the operator, and this is not the key of the operator';
  const ofDevice = device === null ? ofOperator : 'This device is not known, or its key is not right';
  return new FieldpostError('unauthorized', given === null ? 'This call needs a key' : ofDevice, {
    hint: 'send it as Authorization: Bearer <key>',
  });
}

/** Nobody can guess a key of so many random octets. */
const KEY_BYTES = 32;

/** The digests of a device's keys. */
export interface KeyPair {
  readonly key: Buffer;
  /** The key that follows; null: there is none. Its first use ends the earlier one. */
  readonly next: Buffer | null;
}

/** A key pair as stored, in base64url. */
export interface WrittenKeys {
  readonly key: string;
  readonly next?: string;
}

/** A new key and its digest. */
export function drawKey(randomBytes: (count: number) => Uint8Array): { key: string; made: Buffer } {
  const key = Buffer.from(randomBytes(KEY_BYTES)).toString('base64url');
  return { key, made: digest(key) };
}

/** The keys once one more was made: it follows the present one, in place of one that was never used. */
export function withMade(held: KeyPair | null, made: Buffer): KeyPair {
  return held === null ? { key: made, next: null } : { key: held.key, next: made };
}

/** The keys for the store. */
export function writtenKeys({ key, next }: KeyPair): WrittenKeys {
  const text = (of: Buffer) => of.toString('base64url');
  return { key: text(key), ...(next !== null && { next: text(next) }) };
}

/** The keys from the store. Null: it is no value of writtenKeys. */
export function readKeys(value: unknown): KeyPair | null {
  if (!isJsonObject(value) || typeof value.key !== 'string') return null;
  const next = typeof value.next === 'string' ? Buffer.from(value.next, 'base64url') : null;
  return { key: Buffer.from(value.key, 'base64url'), next };
}

/** The keys that were made, as memory holds them. Each store keeps them in its own way. */
export abstract class HeldKeys<Held extends KeyPair> {
  protected readonly held = new Map<string, Held>();

  get ids(): Iterable<string> {
    return this.held.keys();
  }

  has(id: string): boolean {
    return this.held.has(id);
  }

  opens(id: string, given: Buffer): boolean {
    const held = this.held.get(id);
    if (held === undefined) return false;
    const { key, next } = held;
    const isNext = next !== null && isOneOf(given, [next]);
    if (isNext) this.endEarlier(id, next, held);
    return isNext || isOneOf(given, [key]);
  }

  /** The device has its new key: the one that it had opens no longer. */
  protected abstract endEarlier(id: string, key: Buffer, held: Held): void;
}
