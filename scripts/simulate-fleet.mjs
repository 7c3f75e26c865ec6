/**
 * `node scripts/simulate-fleet.mjs [devices] [outage in minutes]`: what a cloud has to bear when it comes back to a
 * fleet of devices (100,000 after 60 minutes), all of which run the daemon's own link logic on a simulated clock.
 * FIELDPOST_TEST_SEED replays a run. Ends with 1 if the peak after the return is three times the steady rate or more.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compile } from './compile.mjs';

const devices = Number(process.argv[2] ?? 100_000);
const outageMs = Number(process.argv[3] ?? 60) * 60_000;
if (!(Number.isSafeInteger(devices) && devices > 0 && outageMs > 0)) {
  console.error('usage: node scripts/simulate-fleet.mjs [devices] [outage in minutes]');
  process.exit(64);
}

const scratch = await mkdtemp(join(tmpdir(), 'fieldpost-fleet-'));
try {
  const entry = (path) => fileURLToPath(new URL(`../test/support/${path}`, import.meta.url));
  for (const name of ['fleet.ts', 'random.ts']) await compile(entry(name), scratch);
  const load = (name) => import(pathToFileURL(join(scratch, name)).href);
  const { simulateFleet, fleetReport } = await load('fleet.cjs');
  const { seededRandom, testSeed } = await load('random.cjs');
  const seed = testSeed();
  console.log(`seed ${seed}`);
  for (const silent of [false, true]) {
    const figures = simulateFleet({ devices, outageMs, silent, random: seededRandom(seed) });
    console.log(
      `${silent ? 'requests are not answered' : 'requests fail at once'}: ${fleetReport(devices, outageMs, figures)}`,
    );
    if (figures.peakAfter >= 3 * figures.steady) process.exitCode = 1;
  }
} finally {
  await rm(scratch, { recursive: true, force: true });
}
