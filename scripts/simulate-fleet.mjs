/**
 * `node scripts/simulate-fleet.mjs [devices]`: the load on a cloud that comes back to a fleet of devices (100,000) after
 * outages of 1 s to a day, and the load after a power cut that ends for all devices at once: requests, TLS handshakes and
 * document calls. The devices run the daemon's own link logic on a simulated clock. The seed is that of the
 * tests (test/runner/seed.mjs). The exit status is 1 if any second brings more than 3 requests, or more than 2.5 handshakes,
 * for each request of the steady rate.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { seedOfRun } from '../test/runner/seed.mjs';
import { compile } from './compile.mjs';

const devices = Number(process.argv[2] ?? 100_000);
const REQUESTS_MAX = 3;
/** For each request of the steady rate. A handshake costs a cloud about 1 ms of CPU, much more than a heartbeat. */
const HANDSHAKES_MAX = 2.5;
const OUTAGES_S = [1, 2, 5, 10, 20, 30, 45, 60, 120, 300, 900, 3600, 86_400];
if (!(Number.isSafeInteger(devices) && devices > 0)) {
  console.error('usage: node scripts/simulate-fleet.mjs [devices]');
  process.exit(64);
}

const scratch = await mkdtemp(join(tmpdir(), 'fieldpost-fleet-'));
try {
  const entry = (path) => fileURLToPath(new URL(`../test/${path}`, import.meta.url));
  for (const name of ['link/fleet.ts', 'support/random.ts']) await compile(entry(name), scratch);
  const load = (name) => import(pathToFileURL(join(scratch, name)).href);
  const { simulateFleet, fleetReport } = await load('fleet.cjs');
  const { seededRandom } = await load('random.cjs');
  const seed = seedOfRun();
  console.log(`seed ${seed}`);
  const outages = OUTAGES_S.flatMap((outageS) =>
    ['refused', 'unanswered'].map((outage) => ({ outage, outageMs: outageS * 1000 })),
  );
  // Of an answer 503 only the handshakes differ: connections are kept.
  const others = [
    { outage: 'busy', outageMs: 3_600_000 },
    { outage: 'power cut', outageMs: 60_000 },
  ];
  for (const world of [...outages, ...others]) {
    const options = { devices, ...world, random: seededRandom(seed) };
    const figures = simulateFleet(options);
    console.log(fleetReport(options, figures));
    const most = ({ during, after }) => Math.max(during, after);
    const { requests, handshakes } = figures;
    const isTooMuch = most(requests) > REQUESTS_MAX * requests.steady;
    if (isTooMuch || most(handshakes) > HANDSHAKES_MAX * requests.steady) process.exitCode = 1;
  }
} finally {
  await rm(scratch, { recursive: true, force: true });
}
