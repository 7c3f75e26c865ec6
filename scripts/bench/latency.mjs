/**
 * Round trips a mail over a slow link: delay.mjs stands between the sender and the sink, because netem is not in every
 * kernel. Each sender has one connection. Counted from the second
 * arrival to the last: a sender that knows nothing of the relay yet may take its first mail one command at a time. The figures hardly vary, so a third
 * of the rounds is enough.
 */
import { postfixDelivers, postfixMissing } from './postfix.mjs';
import { againstBefore, aThird, before, compare, interleave, unmeasured } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { daemonDelivers, NODEMAILER, senderDelivers, startSink } from './senders.mjs';

const LINKS = [
  { roundTripMs: 20, count: scaled(100) },
  { roundTripMs: 50, count: scaled(50) },
  { roundTripMs: 150, count: scaled(30) },
];

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function latency(plan) {
  const rows = [];
  for (const link of LINKS) rows.push(...(await over(link, aThird(plan))));
  return rows;
}

async function over({ roundTripMs, count }, plan) {
  const turn = (deliver) => async (directory) => {
    const sink = await startSink({ lots: [2, count], roundTripMs });
    const [, lot] = await deliver(sink, directory);
    sink.end();
    return lot.ms / lot.count / roundTripMs;
  };
  const daemon = (kind) => turn((sink, stateDir) => daemonDelivers(kind, stateDir, sink));
  const why = postfixMissing();
  const found = await interleave(plan, {
    daemon: daemon('fieldpost'),
    ...before(daemon),
    nodemailer: turn((sink) => senderDelivers(NODEMAILER, sink)),
    ...(!why && { postfix: turn((sink, directory) => postfixDelivers(directory, sink)) }),
  });
  const trips = `round trips a mail at ${roundTripMs} ms`;
  const row = (figure, unit, factor, name, words, target) => {
    const inUnit = (numbers) => numbers.map((number) => number * factor);
    const ours = inUnit(found.daemon);
    if (!found[name]) return unmeasured(figure, unit, ours, words, why);
    return compare(figure, unit, ours, { name: words, numbers: inUnit(found[name]) }, target);
  };
  return [
    row(trips, '', 1, 'nodemailer', 'nodemailer', { ownAtMost: 1.1 }),
    row(trips, '', 1, 'postfix', 'Postfix'),
    row(`a mail at ${roundTripMs} ms`, 'ms', roundTripMs, 'nodemailer', 'nodemailer'),
    row(`a mail at ${roundTripMs} ms`, 'ms', roundTripMs, 'postfix', 'Postfix'),
    ...againstBefore(trips, '', found.daemon, found.before),
  ];
}
