/**
 * The relay of relay.mjs in another process, so that its CPU is not measured. senders.mjs forks it. It reports its port,
 * then each of `lots`, numbers of mails, when it has arrived: {count, ms} of the mails between its first moment and its last
 * arrival. A lot begins with the last arrival of the lot before; the first begins with its own first mail, which does not
 * count. With `limitMs` a lot ends so long after the first mail, whole or not.
 */
import { startRelay } from './relay.mjs';

const { lots, limitMs, nagle } = JSON.parse(process.argv[2] ?? '{}');
let missing = lots.shift();
let count = -1;
let beganMs = 0;
let lastMs = 0;

function report() {
  process.send?.({ count, ms: lastMs - beganMs });
  missing = lots.shift();
  count = 0;
  beganMs = lastMs;
}

const { port } = await startRelay(
  () => {
    lastMs = performance.now();
    count += 1;
    missing -= 1;
    if (count === 0) {
      beganMs = lastMs;
      if (limitMs) setTimeout(report, limitMs);
    }
    if (missing === 0) report();
  },
  { nagle },
);
process.send?.(port);
