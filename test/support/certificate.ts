/**
 * X.509 certificates made at test time, as far as TLS needs them: RFC 5280 by hand, since Node reads but does not
 * write them.
 *
 *   const ca = makeCertificate({ name: 'Test CA' });
 *   const { key, cert } = makeCertificate({ name: 'relay', hosts: ['localhost', '127.0.0.1'], issuer: ca });
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

interface Certificate {
  /** PEM. */
  readonly key: string;
  readonly cert: string;
  readonly name: string;
  readonly privateKey: KeyObject;
}

const DAY_MS = 86_400_000;
const COMMON_NAME = Buffer.from('0603550403', 'hex');
const BASIC_CONSTRAINTS = Buffer.from('0603551d13', 'hex');
const ALTERNATIVE_NAME = Buffer.from('0603551d11', 'hex');
const TRUE = Buffer.from('0101ff', 'hex');
const VERSION_3 = Buffer.from('a003020102', 'hex');
const ECDSA_WITH = {
  sha256: Buffer.from('300a06082a8648ce3d040302', 'hex'),
  sha1: Buffer.from('300906072a8648ce3d0401', 'hex'),
};

/** A certificate of its own, or signed by `issuer`. Without `hosts` it is a CA. Dates are milliseconds since 1970. */
export function makeCertificate(options: {
  name: string;
  hosts?: readonly string[];
  issuer?: Certificate;
  fromMs?: number;
  untilMs?: number;
  digest?: keyof typeof ECDSA_WITH;
}): Certificate {
  const { digest = 'sha256' } = options;
  const algorithm = ECDSA_WITH[digest];
  const { name, hosts, issuer, fromMs = Date.now() - DAY_MS, untilMs = Date.now() + DAY_MS } = options;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const extension =
    hosts === undefined
      ? sequence(BASIC_CONSTRAINTS, TRUE, der(0x04, sequence(TRUE)))
      : sequence(ALTERNATIVE_NAME, der(0x04, sequence(...hosts.map(generalName))));
  const body = sequence(
    VERSION_3,
    der(0x02, Buffer.from([1]), randomBytes(8)),
    algorithm,
    distinguishedName(issuer?.name ?? name),
    sequence(time(fromMs), time(untilMs)),
    distinguishedName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(extension)),
  );
  const signature = sign(digest, body, issuer?.privateKey ?? privateKey);
  const bytes = sequence(body, algorithm, der(0x03, Buffer.from([0]), signature));
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    name,
    privateKey,
  };
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  // The shortest form: OpenSSL takes others too, Go does not.
  const long = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...(length < 128 ? [length] : long)]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, ...parts);
}

function distinguishedName(name: string): Buffer {
  return sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(name)))));
}

function generalName(host: string): Buffer {
  return isIPv4(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host));
}

/** GeneralizedTime from 2050 on, UTCTime before (RFC 5280 §4.1.2.5). */
function time(atMs: number): Buffer {
  const digits = new Date(atMs).toISOString().replace(/[-:T]|\.\d+/g, '');
  return digits < '2050' ? der(0x17, Buffer.from(digits.slice(2))) : der(0x18, Buffer.from(digits));
}
