import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { Warnings } from '../../src/mail/serve.js';
import { configOf, keptLog } from '../support/system.js';

const parsed = (env: Record<string, string>) => ({
  config: configOf({ FIELDPOST_FROM: 'a@b.example', ...env }),
  warnings: [],
});

function setUp(sendsMail: boolean) {
  const { log, lines } = keptLog();
  return { said: lines, warnings: new Warnings({ log, hostname: () => 'vm' }, { sendsMail }) };
}

const RELAY = { FIELDPOST_RELAY: 'smtp://mail.example.com' };

t.test('each warning is logged when it is new, and again when it returns', async (t) => {
  const { said, warnings } = setUp(true);
  warnings.tell(parsed({}), Number.POSITIVE_INFINITY);
  t.match(said, [/no relay/]);
  warnings.tell(parsed({}), Number.POSITIVE_INFINITY);
  t.equal(said.length, 1);
  warnings.tell(parsed({ ...RELAY, FIELDPOST_FROM: 'a@vm' }), Number.POSITIVE_INFINITY);
  t.match(said.slice(1), [/a@vm/]);
  warnings.tell(parsed(RELAY), Number.POSITIVE_INFINITY);
  warnings.tell(parsed({}), Number.POSITIVE_INFINITY);
  t.match(said.slice(2), [/no relay/]);
});

t.test('a service with its own relay warns only about its settings', async (t) => {
  const { said, warnings } = setUp(false);
  warnings.tell(parsed({}), Number.POSITIVE_INFINITY);
  t.same(said, []);
});

t.test('a partition too small for any message is reported with its size', async (t) => {
  const { said, warnings } = setUp(true);
  warnings.tell(parsed(RELAY), 19 * MIB);
  t.same(said, []);
  warnings.tell(parsed(RELAY), 19 * MIB - 1);
  t.match(said, [/18 MiB in all.* 16 MiB must stay free .*: lower FIELDPOST_MIN_FREE"\n$/]);
  warnings.tell(parsed({ ...RELAY, FIELDPOST_MIN_FREE: '4MiB' }), 19 * MIB - 1);
  t.equal(said.length, 1, 'a lower setting helps');
});
