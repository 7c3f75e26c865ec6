/**
 * What scripts/simulate runs: lives simulated worlds, and says what is wrong with them. The last line counts them. The
 * first fault ends the run, with the status 1.
 */
import { Hand, type Lived } from './crew.js';
import { type Options, readOptions, UsageError } from './options.js';
import { drawPlan, only, type Plan } from './plan.js';
import { PLANTED } from './planted.js';
import { tellProgress, wordsOf } from './progress.js';
import { REGRESSIONS } from './regressions.js';
import { Run, type Task } from './run.js';
import { kindOf, shrunk } from './shrink.js';
import { work } from './worker.js';

const EXIT_USAGE = 64;
const EXIT_INTERRUPTED = 130;
const SHRINK_TRIES = 150;

async function main(options: Options): Promise<number> {
  const tasks = tasksOf(options);
  if (options.isPlan) {
    for (const { plan } of tasks) console.log(JSON.stringify(plan));
    return 0;
  }
  if (options.isTraced) {
    let status = 0;
    for (const { name, plan } of tasks) {
      const hand = new Hand();
      const lived = await hand.live(plan, true);
      hand.close();
      if (lived === null || lived.found.length === 0) continue;
      tell(name, lived);
      status = 1;
    }
    return status;
  }
  return await runAll(tasks, options);
}

/** What is to be lived: what once failed comes first. */
function* tasksOf({ seed, seeds, only: kept, isBook, regression }: Options): Iterable<Task> {
  const isOne = seeds === 1;
  for (const { name, plan } of REGRESSIONS)
    if (regression === null ? PLANTED === null && !isOne : name === regression)
      yield { name: `regression ${name}`, plan };
  if (regression !== null) return;
  for (let next = seed; next < seed + seeds; next++) {
    const plan = drawPlan(next, isBook);
    yield { name: `seed ${next}`, plan: kept === null ? plan : only(plan, kept) };
  }
}

async function runAll(tasks: Iterable<Task>, options: Options): Promise<number> {
  const { seed, forMs, processes, shrinks } = options;
  const begunMs = performance.now();
  const run = new Run(tasks, processes);
  const progress = tellProgress(() => run.count);
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
    run.stop();
  };
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  console.log(`seed ${seed}, ${processes} at a time${PLANTED === null ? '' : `, with ${PLANTED} planted`}`);
  const end = forMs === null ? null : setTimeout(() => run.stop(), forMs);
  const { count, hash, failed } = await run.done();
  progress.stop();
  if (end !== null) clearTimeout(end);
  process.off('SIGINT', interrupt);
  process.off('SIGTERM', interrupt);
  const tookMs = performance.now() - begunMs;
  if (failed !== null) {
    const { task, lived } = failed;
    tell(task.name, lived);
    if (shrinks) await tellShrunk(task, lived);
  }
  console.log(`hash ${hash}`);
  console.log(`${wordsOf(count, tookMs)}, ${failed === null ? 0 : 1} faulty, from seed ${seed} on`);
  if (failed !== null) return 1;
  return isInterrupted ? EXIT_INTERRUPTED : 0;
}

function tell(name: string, { found }: Lived): void {
  for (const words of found) console.log(`${name}: ${words}`);
}

/** Tells the shortest history found that fails alike, and how it is replayed. */
async function tellShrunk({ name, plan }: Task, before: Lived): Promise<void> {
  const kinds = new Set(before.found.map(kindOf));
  const hand = new Hand();
  let last = before;
  let tries = 0;
  const fails = async (steps: Plan['steps']) => {
    tries++;
    const lived = await hand.live({ ...plan, steps });
    if (lived === null || !lived.found.some((words) => kinds.has(kindOf(words)))) return false;
    last = lived;
    return true;
  };
  // It failed before the step after its last: until then time has to pass.
  const next = plan.steps.findIndex(({ number }) => number > before.lastStep);
  const begun = next < 0 ? plan.steps : plan.steps.slice(0, next + 1);
  const kept = await shrunk(begun, fails, SHRINK_TRIES);
  hand.close();
  const planted = PLANTED === null ? '' : ` --plant ${PLANTED}`;
  const numbers = kept.map(({ number }) => number).join() || '0';
  const book = plan.nature.isOfBook ? ' --book' : '';
  const how = `scripts/simulate${planted} --${name}${book} --only ${numbers}`;
  console.log(`shrunk from ${plan.steps.length} steps to ${kept.length} in ${tries} tries:`);
  for (const { number, atMs, action } of kept) console.log(`  ${number}: ${action}, at ${atMs / 1000} s`);
  tell('shrunk', last);
  console.log('its last lines:');
  for (const line of last.last) console.log(`  ${line}`);
  console.log(`again: ${how}\nthe whole story: ${how} --trace\nfor regressions.ts: ${how} --plan`);
}

function begin(): void {
  let options: Options;
  try {
    options = readOptions(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`simulate: ${error.message}`);
    process.exitCode = EXIT_USAGE;
    return;
  }
  void main(options).then((status) => {
    process.exitCode = status;
  });
}

if (process.send !== undefined && process.argv[2] === 'worker') work();
else begin();
