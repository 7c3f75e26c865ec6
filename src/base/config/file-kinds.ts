/**
 * The kinds of value that stand in files: certificates, a private key, the keys of devices, an Authorization.
 */
import { bearer, deviceId, refuse, type TextKind } from './values.js';

export const certificates = pem(
  'CERTIFICATE',
  (text) => `(${text.split('-----BEGIN CERTIFICATE-----').length - 1} certificates)`,
);

export const privateKey = pem('PRIVATE KEY', () => '(hidden)');

function pem(what: string, show: (text: string) => string): TextKind<string> {
  const marker = new RegExp(`-----BEGIN [A-Z ]*\\b${what}-----`);
  const none = `it holds no PEM ${what.toLowerCase()} (-----BEGIN ${what}-----)`;
  return { parse: (text) => (marker.test(text) ? text : refuse(none)), show };
}

/**
 * On each line a device, blanks, and its key; `*` in place of a device is the operator. A device may stand on several
 * lines, while its key is being changed.
 */
export const deviceKeys: TextKind<ReadonlyMap<string, readonly string[]>> = {
  parse(text) {
    const keys = new Map<string, string[]>();
    for (const [index, line] of text.split('\n').entries()) {
      const [device = '', key = '', ...rest] = line.trim().split(/\s+/);
      if (device === '' || device.startsWith('#')) continue;
      if (key === '' || rest.length > 0) refuse(`line ${index + 1} is not a device and its key`);
      if (device !== '*') deviceId.parse(device);
      keys.set(device, [...(keys.get(device) ?? []), bearer.parse(key)]);
    }
    // Without a key nobody could call, not even the operator.
    return keys.size > 0 ? keys : refuse('it has no key');
  },
  show: (keys) => `(keys of ${keys.size})`,
};

/** An `Authorization` header. */
export const authorization: TextKind<string> = {
  parse(text) {
    const found = text.trim();
    return /^[A-Za-z][\w-]* [\x21-\x7e]+$/.test(found)
      ? found
      : refuse('it does not hold a scheme and its credentials, like Bearer abc');
  },
  show: () => '(hidden)',
};
