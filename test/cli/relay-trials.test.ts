/** `fieldpost check --relay`: what it shows of trials, and its exit status. */
import t from 'tap';
import type { TrialFault } from '../../src/base/views.js';
import type { CommandContext } from '../../src/cli/command.js';
import { nameOf } from '../../src/mail/settings.js';
import { fieldpost } from './terminal.js';

const env = {
  FIELDPOST_RELAY: 'smtps://device@a.example,smtp://device@b.example',
  FIELDPOST_RELAY_PASSWORD: 'hunter2',
  FIELDPOST_FROM: 'a@b.example',
};

const fault = (blame: TrialFault['blame']): TrialFault => ({
  step: 'login',
  words: 'refused: 535 \u001b[2J no',
  blame,
  hint: 'see FIELDPOST_RELAY_USER',
});

/** Relays that end in these faults, in order. */
function relays(...faults: (TrialFault | null)[]): CommandContext['tryRelay'] {
  return async (relay, { to, tell }) => {
    const host = typeof relay === 'string' ? relay : relay.host;
    tell({ step: 'name', words: `${host} has an address` });
    if (to !== null) tell({ step: 'mail', words: `250 ok for ${to}` });
    return faults.shift() ?? null;
  };
}

t.test('the first fault decides the exit status; the other relays are tried all the same', async (t) => {
  for (const [blame, status] of [
    ['relay', 69],
    ['login', 77],
    ['settings', 78],
    ['mail', 65],
  ] as const) {
    const tryRelay = relays(fault(blame), fault('relay'));
    t.equal((await fieldpost(['check', '--relay'], { env, tryRelay })).code, status);
  }
  const { code, out } = await fieldpost(['check', '--relay', '--to', 'x@y.example'], {
    env,
    tryRelay: relays(null, fault('login')),
  });
  t.equal(code, 77);
  t.match(out, 'good: the relay has taken a test mail to x@y.example');
  t.notMatch(out, 'hunter2');
  t.match(out, / {2}login {8}refused: 535 \\u001b\[2J no\n {15}see FIELDPOST_RELAY_USER\n$/);
});

t.test('--json has all of it', async (t) => {
  const tryRelay = relays(null, fault('login'));
  const { code, out } = await fieldpost(['check', '--relay', '--to', 'x@y.example', '--json'], {
    env,
    tryRelay,
  });
  t.equal(code, 77);
  const steps = [{ step: 'name' }, { step: 'mail', words: '250 ok for x@y.example' }];
  t.match(JSON.parse(out), {
    config: { FIELDPOST_LOG: 'info' },
    relays: [
      { relay: 'smtps://device@a.example:465', steps, fault: null },
      { relay: 'smtp://device@b.example:587', steps, fault: fault('login') },
    ],
  });
  t.notOk('relays' in JSON.parse((await fieldpost(['check', '--json'], { env })).out), 'only with --relay');
});

t.test('what cannot be tried is no success', async (t) => {
  const asked: string[] = [];
  const tryRelay: CommandContext['tryRelay'] = async (relay) => {
    asked.push(nameOf(relay));
    return null;
  };
  const none = await fieldpost(['check', '--relay'], { tryRelay });
  t.equal(none.code, 78);
  t.match(none.out, 'no relay is configured: set FIELDPOST_RELAY');
  t.equal(
    (await fieldpost(['check', '--relay'], { env: { ...env, FIELDPOST_LOG: 'loud' }, tryRelay })).code,
    78,
  );
  const bad = await fieldpost(['check', '--relay', '--to', 'nobody'], { env, tryRelay });
  t.strictSame([bad.code, bad.err], [64, 'fieldpost: --to: not an email address: nobody\n']);
  t.match(await fieldpost(['check', '--to', 'a@b.example'], { env, tryRelay }), {
    code: 64,
    err: /--to needs --relay/,
  });
  t.strictSame(asked, []);
  t.equal((await fieldpost(['check'], { env, tryRelay })).code, 0);
  t.strictSame(asked, [], 'a plain check speaks with no relay');
});
