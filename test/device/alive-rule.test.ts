/** Which program is late, and which message is owed: each row of the table (src/device/alive-rule.ts). */
import t from 'tap';
import { MINUTE_MS } from '../../src/base/limits.js';
import {
  type AliveEvent,
  type AlivePhase,
  type AliveState,
  firstSign,
  isLate,
  keptOf,
  owedIn,
  restored,
  step,
  TOLD_MAX,
  TOLD_WINDOW_MS,
} from '../../src/device/alive-rule.js';
import { seededRandom, testSeed } from '../support/random.js';

const WITHIN_MS = 10 * MINUTE_MS;
const NOW_MS = 100 * MINUTE_MS;
const NEVER = Number.POSITIVE_INFINITY;
const few = [NOW_MS - 2];
const many = Array.from({ length: TOLD_MAX }, (_, index) => NOW_MS - TOLD_WINDOW_MS + 1 + index);
const past = [NOW_MS - TOLD_WINDOW_MS, ...many.slice(1)];

const SIGN: AliveEvent = { kind: 'sign', withinMs: WITHIN_MS };
const DUE: AliveEvent = { kind: 'due', episode: 'new' };
const queued = (phase: 'late' | 'back', episode = 'old'): AliveEvent => ({ kind: 'queued', phase, episode });

/** The phase and the due moment before, who was told, the event, and the same after it. */
type Row = readonly [
  AlivePhase,
  number,
  readonly number[],
  AliveEvent,
  AlivePhase,
  number,
  episode: 'old' | 'new',
];

const NEXT_MS = NOW_MS + WITHIN_MS;
const ROWS: readonly Row[] = [
  ['good', NOW_MS, few, SIGN, 'good', NEXT_MS, 'old'],
  ['late', NEVER, few, SIGN, 'back', NEXT_MS, 'old'],
  ['told', NEVER, few, SIGN, 'back', NEXT_MS, 'old'],
  ['back', NOW_MS, few, SIGN, 'back', NEXT_MS, 'old'],
  ['hidden', NOW_MS, many, SIGN, 'good', NEXT_MS, 'old'],

  ['good', NOW_MS, few, DUE, 'late', NEVER, 'new'],
  ['good', NOW_MS, past, DUE, 'late', NEVER, 'new'],
  ['good', NOW_MS, many, DUE, 'hidden', NOW_MS + 1, 'old'],
  ['good', NOW_MS + 1, few, DUE, 'good', NOW_MS + 1, 'old'],
  ['back', NOW_MS, few, DUE, 'late', NEVER, 'new'],
  ['back', NOW_MS, many, DUE, 'told', NEVER, 'old'],
  ['hidden', NOW_MS, past, DUE, 'late', NEVER, 'new'],
  ['late', NEVER, few, DUE, 'late', NEVER, 'old'],
  ['told', NEVER, few, DUE, 'told', NEVER, 'old'],

  ['late', NEVER, few, queued('late'), 'told', NEVER, 'old'],
  ['back', NEXT_MS, few, queued('back'), 'good', NEXT_MS, 'old'],
  // A sign, or another episode, came while the message was being queued.
  ['back', NEXT_MS, few, queued('late'), 'back', NEXT_MS, 'old'],
  ['late', NEVER, few, queued('back'), 'late', NEVER, 'old'],
  ['late', NEVER, few, queued('late', 'former'), 'late', NEVER, 'old'],
  ['good', NEXT_MS, few, queued('late'), 'good', NEXT_MS, 'old'],
];

t.test('each row of the table', async (t) => {
  for (const [phase, dueMs, toldMs, event, next, nextDueMs, episode] of ROWS) {
    const before: AliveState = { phase, episode: 'old', withinMs: WITHIN_MS, dueMs, toldMs };
    const { toldMs: _, ...after } = step(before, event, NOW_MS);
    const wanted = { phase: next, episode, withinMs: WITHIN_MS, dueMs: nextDueMs };
    t.same(after, wanted, `${phase} ${event.kind} ${next}`);
  }
});

t.test('a sign may bring another limit', async (t) => {
  const before = firstSign(WITHIN_MS, NOW_MS);
  t.match(step(before, { kind: 'sign', withinMs: 5 }, NOW_MS + 1), { withinMs: 5, dueMs: NOW_MS + 6 });
});

t.test('who is late, and whose message is owed', async (t) => {
  const phases: readonly AlivePhase[] = ['good', 'late', 'told', 'back', 'hidden'];
  t.same(phases.filter(isLate), ['late', 'told', 'hidden']);
  t.same(phases.map(owedIn), [null, 'late', null, 'back', null]);
});

t.test('a restart gives the whole limit again, and leaves who is late so', async (t) => {
  const WANTED: readonly (readonly [AlivePhase, AlivePhase, number])[] = [
    ['good', 'good', NEXT_MS],
    ['back', 'back', NEXT_MS],
    ['late', 'late', NEVER],
    ['told', 'told', NEVER],
    ['hidden', 'good', NEXT_MS],
  ];
  for (const [phase, next, dueMs] of WANTED) {
    const before: AliveState = { phase, episode: 'old', withinMs: WITHIN_MS, dueMs: 7, toldMs: many };
    const after = restored(keptOf(before), WITHIN_MS, NOW_MS);
    t.same(after, { phase: next, episode: 'old', withinMs: WITHIN_MS, dueMs, toldMs: [] }, phase);
  }
});

t.test(
  'whatever comes: late after the limit alone, few episodes an hour, one message of a kind for each',
  async (t) => {
    const random = seededRandom(testSeed());
    for (let round = 0; round < 20 && t.passing(); round++) {
      const withinMs = Math.ceil(random() * 20 * MINUTE_MS);
      let watched = firstSign(withinMs, 0);
      let [nowMs, signMs] = [0, 0];
      const begunMs: number[] = [];
      const told = new Set<string>();
      for (let turn = 0; turn < 300; turn++) {
        nowMs += Math.ceil(random() * 10 * MINUTE_MS);
        const { episode, phase } = watched;
        const owed = owedIn(phase);
        const chance = random();
        if (chance < 0.3) {
          signMs = nowMs;
          watched = step(watched, { kind: 'sign', withinMs }, nowMs);
        } else if (chance < 0.6 && owed !== null) {
          const message = `${episode} ${owed}`;
          t.notOk(told.has(message), message);
          told.add(message);
          watched = step(watched, queued(owed, episode), nowMs);
        }
        watched = step(watched, { kind: 'due', episode: `${turn}` }, nowMs);
        if (watched.episode !== episode) begunMs.push(nowMs);
        const silentMs = nowMs - signMs;
        t.equal(isLate(watched.phase), silentMs >= withinMs, `silent for ${silentMs} of ${withinMs}`);
        if (silentMs >= withinMs + TOLD_WINDOW_MS) t.not(watched.phase, 'hidden', 'people hear in the end');
      }
      for (const [at, ms] of begunMs.entries()) {
        const earlier = begunMs[at - TOLD_MAX];
        if (earlier !== undefined) t.ok(ms - earlier >= TOLD_WINDOW_MS, 'no more an hour');
      }
    }
  },
);
