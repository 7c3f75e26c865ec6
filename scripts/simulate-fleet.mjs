/**
 * `node scripts/simulate-fleet.mjs [devices]`: the load on a cloud that comes back to a fleet of devices (100,000) after
 * outages of 1 s to a day, and the load after a power cut that ends for all devices at once. The devices run the daemon's
 * own link logic on a simulated clock. FIELDPOST_TEST_SEED replays a run. The exit status is 1 if any second brings more
 * than three times the steady rate.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compile } from './compile.mjs';

const devices = Number(process.argv[2] ?? 100_000);
const OUTAGES_S = [1, 2, 5, 10, 20, 30, 45, 60, 120, 300, 900, 3600, 86_400];
if (!(Number.isSafeInteger(devices) && devices > 0)) {
  console.error('usage: node scripts/simulate-fleet.mjs [devices]');
  process.exit(64);
}

const scratch = await mkdtemp(join(tmpdir(), 'fieldpost-fleet-'));
try {
  const entry = (path) => fileURLToPath(new URL(`../test/${path}`, import.meta.url));
  for (const name of ['cloud/fleet.ts', 'support/random.ts']) await compile(entry(name), scratch);
  const load = (name) => import(pathToFileURL(join(scratch, name)).href);
  const { simulateFleet, fleetReport } = await load('fleet.cjs');
  const { seededRandom, testSeed } = await load('random.cjs');
  const seed = testSeed();
  console.log(`seed ${seed}`);
  const worlds = OUTAGES_S.flatMap((outageS) =>
    [false, true].map((silent) => ({ outageMs: outageS * 1000, silent })),
  );
  for (const world of [...worlds, { outageMs: 60_000, boot: true }]) {
    const figures = simulateFleet({ devices, ...world, random: seededRandom(seed) });
    const what = world.boot
      ? 'all boot at once'
      : world.silent
        ? 'requests are not answered'
        : 'requests fail at once';
    console.log(`${what}: ${fleetReport(devices, world.outageMs, figures)}`);
    if (Math.max(figures.peakDuring, figures.peakAfter) > 3 * figures.steady) process.exitCode = 1;
  }
} finally {
  await rm(scratch, { recursive: true, force: true });
}
