import t from 'tap';
import { listenToSignals } from '../../src/base/system/signals.js';

/** A process that ends by throwing. */
function world(endsWithTerminal = false) {
  const acts = new Map<string, () => void>();
  const signals = listenToSignals(
    {
      on: (signal, act) => void acts.set(signal, act),
      exit(status) {
        throw new Error(`exit ${status}`);
      },
    },
    endsWithTerminal,
  );
  return { signals, raise: (signal: string) => acts.get(signal)?.() };
}

t.test('signals: a reload, another one, and the end', async (t) => {
  const { signals, raise } = world();
  signals.serving();
  raise('SIGHUP');
  t.equal(await signals.next(), 'reload');
  const asked = signals.next();
  raise('SIGHUP');
  t.equal(await asked, 'reload');
  raise('SIGTERM');
  raise('SIGHUP');
  t.equal(await signals.next(), 'end', 'nothing takes the end back');
});

t.test('a signal before anything is promised, and a second one, end the process at once', async (t) => {
  const { signals, raise } = world();
  t.throws(() => raise('SIGTERM'), /exit 143/);
  signals.serving();
  raise('SIGINT');
  t.throws(() => raise('SIGINT'), /exit 130/);
});

t.test('a terminal that is closed ends what belongs to it', async (t) => {
  const { signals, raise } = world(true);
  signals.serving();
  raise('SIGHUP');
  t.equal(await signals.next(), 'end');
});
