/**
 * What scripts/people runs: lives worlds of people, one after the other, and says what is wrong with them. The first fault ends
 * the run, with the status 1, and is told as the shortest history that fails alike.
 */
import { parseArgs } from 'node:util';
import { PLANTED } from '../simulation/planted.js';
import { seal } from '../simulation/seal.js';
import { kindOf, shrunk } from '../simulation/shrink.js';
import { type Ended, live } from './live.js';
import { drawPlan, type Plan, type Step } from './plan.js';

const SHRINK_TRIES = 120;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      seeds: { type: 'string', default: '1' },
      etcd: { type: 'boolean', default: false },
      only: { type: 'string' },
      trace: { type: 'boolean', default: false },
      'no-shrink': { type: 'boolean', default: false },
    },
  });
  const first = Number(values.seed);
  let messages = 0;
  const judged = new Map<string, number>();
  for (let seed = first; seed < first + Number(values.seeds); seed++) {
    const plan = only(drawPlan(seed, values.etcd), values.only);
    if (values.trace) console.log(JSON.stringify({ ...plan, steps: plan.steps.length }));
    const ended = await live(plan, (line) => values.trace && console.log(line));
    messages += ended.messages;
    for (const [what, count] of ended.judged) judged.set(what, (judged.get(what) ?? 0) + count);
    if (ended.found.length === 0) continue;
    tell(`seed ${seed}`, ended);
    if (!values['no-shrink']) await tellShrunk(plan, ended);
    return 1;
  }
  const counts = [...judged].map(([what, count]) => `${count} ${what}`).join(', ');
  console.log(`${values.seeds} worlds from seed ${first} on, ${messages} messages: ${counts}`);
  return 0;
}

function only(plan: Plan, numbers: string | undefined): Plan {
  if (numbers === undefined) return plan;
  const kept = new Set(numbers.split(',').map(Number));
  return { ...plan, steps: plan.steps.filter(({ number }) => kept.has(number)) };
}

function tell(name: string, { found }: Ended): void {
  for (const words of found) console.log(`${name}: ${words}`);
}

async function tellShrunk(plan: Plan, before: Ended): Promise<void> {
  const kinds = new Set(before.found.map(kindOf));
  let last = before;
  const fails = async (steps: readonly Step[]) => {
    const ended = await live({ ...plan, steps }, () => undefined);
    if (!ended.found.some((words) => kinds.has(kindOf(words)))) return false;
    last = ended;
    return true;
  };
  const kept = await shrunk(plan.steps, fails, SHRINK_TRIES);
  console.log(`shrunk from ${plan.steps.length} steps to ${kept.length}:`);
  for (const { number, atMs, deed } of kept)
    console.log(`  ${number}: at ${new Date(plan.wallMs + atMs).toISOString()} ${JSON.stringify(deed)}`);
  tell('shrunk', last);
  const planted = PLANTED === null ? '' : ` --plant ${PLANTED}`;
  const shared = plan.isShared ? ' --etcd' : '';
  const numbers = kept.map(({ number }) => number).join() || '0';
  console.log(`again: scripts/people${planted}${shared} --seed ${plan.seed} --only ${numbers} --trace`);
}

Error.stackTraceLimit = 10;
const touched: string[] = [];
seal((what) => touched.push(what));
void main().then((status) => {
  for (const what of touched) console.log(`the outside is touched: ${what}`);
  process.exitCode = touched.length > 0 ? 1 : status;
});
