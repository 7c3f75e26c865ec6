import { test } from 'tap';
import { CloudError } from '../../src/base/retry/call-error.js';

const WALL_MS = Date.UTC(2026, 10, 20);

test('faults of certificates are reported with the setting to correct', async (t) => {
  const cases: [thrown: object, words: string][] = [
    [
      { code: 'SELF_SIGNED_CERT_IN_CHAIN' },
      'c.test: no authority that this device trusts has signed its certificate (SELF_SIGNED_CERT_IN_CHAIN); see FIELDPOST_CLOUD_CA_FILE',
    ],
    [
      { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', reason: 'tlsv13 alert certificate required' },
      'c.test: TLS failed: it wants a certificate of this device, or refuses the one it was shown (ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED); see FIELDPOST_CLOUD_CERT_FILE',
    ],
    [
      { code: 'ECONNREFUSED' },
      'c.test: the connection was refused: nothing listens there, or a firewall is in between (ECONNREFUSED)',
    ],
  ];
  for (const [thrown, words] of cases)
    t.equal(
      CloudError.ofNetwork(Object.assign(new Error('no good'), thrown), 'c.test', WALL_MS).message,
      words,
    );
});

test('a call is said to have reached the cloud only if there was a connection', async (t) => {
  for (const isReached of [true, false, undefined]) {
    const lost = Object.assign(new Error('lost'), { code: 'ECONNRESET', isReached });
    t.equal(CloudError.ofNetwork(lost, 'c.test', WALL_MS).isReached, isReached === true);
  }
});

test('a fault on the way to the proxy names the proxy', async (t) => {
  const wordsOf = (code: string, words: string, proxy?: string) =>
    CloudError.ofNetwork(Object.assign(new Error(words), { code, proxy }), 'c.test', WALL_MS).message;
  const proxy = 'proxy.test:3128';
  t.equal(
    wordsOf('PROXY', 'refuses our password (407)', proxy),
    `the proxy ${proxy} refuses our password (407)`,
  );
  t.equal(
    wordsOf('DEADLINE', 'no connection within 15 s', proxy),
    `the proxy ${proxy}: no connection within 15 s`,
  );
  t.equal(wordsOf('ENOTFOUND', 'x', proxy), `the name of the proxy ${proxy} cannot be resolved (ENOTFOUND)`);
  t.match(wordsOf('ECONNREFUSED', 'x', proxy), `the proxy ${proxy}: the connection was refused`);
  t.match(wordsOf('ECONNREFUSED', 'x'), 'c.test: the connection was refused', 'else it is the cloud');
});
