/**
 * Delivery to a relay with Nagle's algorithm on, which writes each reply by itself. Its second reply waits until the
 * sender has acknowledged the first one, and the sender delays acknowledgements by up to 40 ms.
 */
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { scaled } from './scale.mjs';
import {
  compiledSession,
  daemonDelivers,
  NODEMAILER,
  rateOf,
  senderDelivers,
  startSink,
} from './senders.mjs';

const MAILS = scaled(500);
// A sender that waits at each mail sends fewer.
const LIMIT_MS = 5000;

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function nagle(plan) {
  const turn = (deliver) => async (stateDir) => {
    const sink = await startSink({ lots: [MAILS], limitMs: LIMIT_MS, nagle: true });
    const [lot] = await deliver(sink, stateDir);
    sink.end();
    return rateOf(lot);
  };
  const sender = (path) => turn((sink) => senderDelivers(path, sink, { limitMs: LIMIT_MS }));
  const daemon = (kind) => turn((sink, stateDir) => daemonDelivers(kind, stateDir, sink));
  const found = await interleave(plan, {
    daemon: daemon('fieldpost'),
    ...before(daemon),
    session: sender(await compiledSession(plan.base)),
    nodemailer: sender(NODEMAILER),
  });
  const row = (name) =>
    compare(
      `deliver to a relay with Nagle, ${name}`,
      '/s',
      found[name],
      { name: 'nodemailer', numbers: found.nodemailer },
      { atLeast: 0.9 },
    );
  return [
    row('daemon'),
    row('session'),
    ...againstBefore('deliver to a relay with Nagle, daemon', '/s', found.daemon, found.before),
  ];
}
