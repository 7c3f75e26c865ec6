/**
 * `scripts/simulate [--seed S] [--seeds N] [--trace]`: runs N worlds from the seed S on, by default a fresh one, and says
 * what is wrong with them. The last line counts them; the status is 1 if something is wrong. A fault ends the run.
 */
import { parseArgs } from 'node:util';
import { SECOND_MS, YEAR_MS } from '../../src/limits.js';
import { live } from './live.js';
import { drawPlan } from './plan.js';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    seed: { type: 'string' },
    trace: { type: 'boolean', default: false },
  },
});

// What a dead machine still had under way rejects; everything else nobody has caught is a bug.
process.on('unhandledRejection', (error) => {
  if ((error as { code?: string }).code !== 'POWERCUT') throw error;
});

/** Of so many worlds the hash of what was observed is told, to be compared. */
const HASHES_MAX = 10;

async function main(): Promise<void> {
  const first = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);
  const count = Number(values.seeds ?? (values.seed === undefined ? 100 : 1));
  console.log(`seed ${first}`);
  const begunMs = performance.now();
  let livedMs = 0;
  let events = 0;
  let faulty = 0;
  const hashes: string[] = [];
  let worlds = 0;
  for (let seed = first; seed < first + count && faulty === 0; seed++) {
    worlds++;
    const ended = await live(drawPlan(seed), {
      onLine: (line) => {
        if (values.trace) console.log(line);
      },
    });
    livedMs += ended.livedMs;
    events += ended.events;
    hashes.push(ended.hash);
    if (ended.found.length > 0) faulty++;
    for (const words of ended.found) console.log(`seed ${seed}: ${words}`);
  }
  const tookS = (performance.now() - begunMs) / SECOND_MS;
  const rate = Math.round(events / tookS);
  const years = (livedMs / YEAR_MS).toFixed(2);
  console.log(`hashes ${hashes.slice(0, HASHES_MAX).join(' ')}`);
  console.log(
    `${worlds} worlds, ${faulty} faulty, ${years} simulated years, ${rate} events/s, ${tookS.toFixed(1)} s`,
  );
  process.exitCode = faulty > 0 ? 1 : 0;
}

void main();
