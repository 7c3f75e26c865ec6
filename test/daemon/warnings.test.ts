import t from 'tap';
import { type Config, parseConfig } from '../../src/config.js';
import { Warnings } from '../../src/daemon/warnings.js';

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
  warnings.tell(parsed({}));
  t.match(said, [/no relay/]);
  warnings.tell(parsed({}));
  t.equal(said.length, 1);
  warnings.tell(parsed({ ...RELAY, FIELDPOST_FROM: 'a@vm' }));
  t.match(said.slice(1), [/a@vm/]);
  warnings.tell(parsed(RELAY));
  warnings.tell(parsed({}));
  t.match(said.slice(2), [/no relay/]);
});

t.test('a service with a relay of its own says only what is wrong with its settings', async (t) => {
  const { said, warnings } = setUp(false);
  warnings.tell(parsed({}));
  t.same(said, []);
});
