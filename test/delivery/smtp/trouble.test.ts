import { test } from 'tap';
import { socketEnding } from '../../../src/mail/delivery/smtp/protocol.js';
import { systemError } from '../../support/system-error.js';

const WALL_MS = Date.UTC(1970, 0, 1, 8);

test('faults of TLS are in the phase tls, also with implicit TLS', async (t) => {
  const cases: [string, string][] = [
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls'],
    ['EPROTO', 'tls'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'certificate-unknown-authority'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'certificate-unknown-authority'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'certificate-unknown-authority'],
    ['CERT_HAS_EXPIRED', 'certificate'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate'],
    ['CERT_NOT_YET_VALID', 'certificate-not-yet-valid'],
  ];
  for (const [code, kind] of cases)
    t.match(socketEnding('connect', systemError(code), WALL_MS), { phase: 'tls', trouble: { kind } }, code);
});

test('a certificate is compared with the date of this device', async (t) => {
  const ending = socketEnding(
    'tls',
    systemError('CERT_NOT_YET_VALID', 'certificate is not yet valid'),
    WALL_MS,
  );
  const words = "certificate is not yet valid, but this device's clock is wrong (1970-01-01)";
  t.match(ending, { trouble: { kind: 'certificate-not-yet-valid', words } });
});

test('only a wrong clock is blamed, and only for what has to do with dates', async (t) => {
  const cases: [code: string, wallMs: number, blamed: boolean][] = [
    ['CERT_NOT_YET_VALID', WALL_MS, true],
    ['CERT_HAS_EXPIRED', Date.UTC(2099, 0, 1), true],
    ['CRL_HAS_EXPIRED', Date.UTC(2099, 0, 1), true],
    ['CERT_NOT_YET_VALID', Date.UTC(2026, 11, 1), false],
    ['CERT_HAS_EXPIRED', Date.UTC(2026, 11, 1), false],
    ['CERT_REVOKED', WALL_MS, false],
    ['ERR_TLS_CERT_ALTNAME_INVALID', WALL_MS, false],
  ];
  for (const [code, wallMs, blamed] of cases) {
    const ending = socketEnding('tls', systemError(code, 'no good'), wallMs);
    const today = new Date(wallMs).toISOString().slice(0, 10);
    const words = blamed
      ? `no good, but this device's clock is wrong (${today})`
      : `no good (${code}; the clock of this device says ${today})`;
    t.match(ending, { trouble: { words } }, code);
  }
});

test('an unknown authority is reported with the setting that names one', async (t) => {
  const ending = socketEnding('tls', systemError('UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'no good'), WALL_MS);
  const code = 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY';
  const words = `no authority that this device trusts has signed its certificate (${code}); see FIELDPOST_RELAY_CA_FILE`;
  t.match(ending, { trouble: { kind: 'certificate-unknown-authority', words } });
});

test('an end without an error is a lost connection', async (t) => {
  t.match(socketEnding('mail', '', WALL_MS), {
    trouble: { kind: 'lost', words: 'the connection was lost' },
  });
});
