/**
 * The relay of relay.mjs in another process, so that its CPU is not measured. senders.mjs forks it. It reports its port,
 * then, when `count` mails arrived or `limitMs` after the first: how many arrived, and the ms from the first to the last.
 */
import { startRelay } from './relay.mjs';

const { count, limitMs, nagle } = JSON.parse(process.argv[2] ?? '{}');
let arrived = 0;
let firstAtMs = 0;
let lastAtMs = 0;
const report = () => process.send({ count: arrived, ms: lastAtMs - firstAtMs });

const { port } = await startRelay(
  () => {
    lastAtMs = performance.now();
    arrived += 1;
    if (arrived === count) report();
    if (arrived > 1) return;
    firstAtMs = lastAtMs;
    if (limitMs) setTimeout(report, limitMs);
  },
  { nagle },
);
process.send(port);
