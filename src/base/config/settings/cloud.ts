/**
 * The settings of the link to the cloud.
 */
import { certificates, privateKey } from '../file-kinds.js';
import { cloudProxy } from '../proxy.js';
import { given, inFile, optional, secret } from '../row.js';
import { bearer, cloudUrl, deviceId, duration } from '../values.js';

export const CLOUD_SETTINGS = {
  cloudUrl: optional({
    key: 'FIELDPOST_CLOUD',
    kind: cloudUrl,
    none: 'none: no cloud link',
    about: 'The base URL of the cloud. Needs a device id and a key.',
  }),
  deviceId: optional({
    key: 'FIELDPOST_DEVICE_ID',
    kind: deviceId,
    about: 'The name of this device in the cloud.',
  }),
  cloudKey: secret({
    key: 'FIELDPOST_CLOUD_KEY',
    kind: bearer,
    credential: 'cloud-key',
    about: "This device's key to the cloud.",
  }),
  cloudCa: inFile({
    key: 'FIELDPOST_CLOUD_CA_FILE',
    kind: certificates,
    none: "the system's",
    about: "The private CA of the cloud's certificate.",
  }),
  cloudCert: inFile({
    key: 'FIELDPOST_CLOUD_CERT_FILE',
    kind: certificates,
    about:
      'The certificate, with its chain, by which the cloud knows this device (mutual TLS). The cloud asks for the key all the same.',
  }),
  cloudCertKey: inFile({
    key: 'FIELDPOST_CLOUD_CERT_KEY_FILE',
    kind: privateKey,
    about: "That certificate's private key: PEM, without a passphrase.",
    isSecret: true,
  }),
  /** Config has the proxy of the environment here if the setting is absent. */
  cloudProxy: secret({
    key: 'FIELDPOST_CLOUD_PROXY',
    kind: cloudProxy,
    credential: 'cloud-proxy',
    none: '`HTTPS_PROXY` of the environment, unless `NO_PROXY` excepts the cloud; else none',
    follows: 'live',
    about:
      'The HTTP proxy on the way to the cloud. The port is 80 if the URL names none; user and password may have `%` escapes. `none` ignores the environment.',
  }),
  heartbeatMs: given({
    key: 'FIELDPOST_HEARTBEAT',
    kind: duration('5s', '1h'),
    fallback: '30s',
    about: 'How often the cloud is told that this device is alive.',
  }),
};
