import t from 'tap';
import { type Config, parseConfig } from '../../src/config.js';
import { Warnings } from '../../src/daemon/warnings.js';
import { MIB } from '../../src/limits.js';

function parsed(env: Record<string, string>): { config: Config; warnings: readonly string[] } {
  const read = () => {
    throw new Error('no file is named');
  };
  const found = parseConfig({ FIELDPOST_FROM: 'a@b.example', ...env }, read, { hostname: 'vm' });
  if ('problems' in found) throw new Error(JSON.stringify(found.problems));
  return found;
}

function setUp(sendsMail: boolean) {
  const said: unknown[] = [];
  const silent = () => undefined;
  const log = {
    debug: silent,
    info: silent,
    error: silent,
    warn: (_: string, fields?: { warning?: unknown }) => void said.push(fields?.warning),
  };
  return { said, warnings: new Warnings({ log, hostname: () => 'vm' }, { sendsMail }) };
}

const RELAY = { FIELDPOST_RELAY: 'smtp://mail.example.com' };

t.test('each warning is said when it is new, and again when it comes back', async (t) => {
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

t.test('a service with a relay of its own says only what is wrong with its settings', async (t) => {
  const { said, warnings } = setUp(false);
  warnings.tell(parsed({}), Number.POSITIVE_INFINITY);
  t.same(said, []);
});

t.test('a partition too small for any message is reported with its size', async (t) => {
  const { said, warnings } = setUp(true);
  warnings.tell(parsed(RELAY), 19 * MIB);
  t.same(said, []);
  warnings.tell(parsed(RELAY), 19 * MIB - 1);
  t.match(said, [/18 MiB in all.* 16 MiB must stay free .*: lower FIELDPOST_MIN_FREE$/]);
  warnings.tell(parsed({ ...RELAY, FIELDPOST_MIN_FREE: '4MiB' }), 19 * MIB - 1);
  t.equal(said.length, 1, 'which a lower setting mends');
});
