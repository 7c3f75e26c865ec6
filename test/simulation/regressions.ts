/**
 * Histories that once broke a promise. Every run replays them first. A history is kept as its shrunk plan and not as its
 * seed, because a seed draws another world whenever the drawing changes. What an action itself draws may still change:
 * so each names the plant that turns its mend back (plants.mjs), and plants.test.ts shows that with it the history
 * fails. Where it does not any more, `scripts/simulate --plant NAME` finds another one.
 */
import { CALLS, weightsOf } from './link.js';
import type { Nature, Plan } from './plan.js';

export interface Regression {
  readonly name: string;
  /** What was wrong. */
  readonly why: string;
  /** The fault that undoes the mend. */
  readonly plant: string;
  /** As `scripts/simulate --seed S --only … --plan` prints it; of its nature only what the fault needs. */
  readonly plan: Plan;
}

const SETTINGS = {
  FIELDPOST_RELAY_CONNECTIONS: '1',
  FIELDPOST_SMTP_TIMEOUT: '60s',
  FIELDPOST_HEARTBEAT: '600s',
};

/** A world without faults of its own. */
const NATURE: Nature = {
  moods: ['well'],
  fates: weightsOf({}),
  ill: CALLS,
  isOfBook: false,
  hasFewTargets: false,
  relays: 1,
  hasCloud: true,
  filesMax: 3,
  mailMs: 0,
  syncMs: 0,
  cloudDelay: '1d',
  settings: SETTINGS,
  wallMs: Date.UTC(2026, 10, 20, 9),
};

export const REGRESSIONS: readonly Regression[] = [
  {
    name: 'no-sms-after-the-first',
    why: 'after the first SMS, call or push no other of its type was sent until the next start',
    plant: 'one-sms',
    plan: {
      seed: 2694576741,
      nature: NATURE,
      steps: [
        { number: 3, atMs: 638967, action: 'post batch', seed: 345654179 },
        { number: 9, atMs: 2120234, action: 'kill', seed: 3581683899 },
      ],
    },
  },
  {
    name: 'message-id-of-a-boot',
    why: 'a message that was sent twice had another Message-ID the second time',
    plant: 'message-id',
    plan: {
      seed: 3635676608,
      nature: { ...NATURE, mailMs: 50 },
      steps: [
        { number: 65, atMs: 241528152, action: 'rush', seed: 2714904371 },
        { number: 66, atMs: 241528716, action: 'power cut', seed: 2194769823 },
      ],
    },
  },
  {
    name: 'lost-before-named',
    why: 'a cloud that lost its document before a heartbeat had named it was not given it again',
    plant: 'loss-unnoticed',
    plan: {
      seed: 2610791866,
      nature: NATURE,
      steps: [{ number: 35, atMs: 6229036, action: 'cloud is wiped', seed: 1361062344 }],
    },
  },
  {
    name: 'segments-kept-at-rest',
    why: 'segments of a disk that had failed stayed after it was well, because the checkpoints had failed as well',
    plant: 'segments-kept',
    plan: {
      seed: 185,
      nature: NATURE,
      steps: [
        { number: 1, atMs: 600_000, action: 'disk trouble', seed: 185008 },
        { number: 2, atMs: 1_500_000, action: 'post', seed: 18500 },
        { number: 10, atMs: 8_700_000, action: 'post', seed: 18508 },
        { number: 31, atMs: 27_600_000, action: 'post', seed: 18529 },
        { number: 32, atMs: 28_500_000, action: 'post', seed: 18530 },
        { number: 38, atMs: 33_900_000, action: 'post', seed: 18536 },
        { number: 39, atMs: 34_800_000, action: 'post', seed: 18537 },
        { number: 46, atMs: 41_100_000, action: 'post', seed: 18544 },
        { number: 47, atMs: 42_900_000, action: 'disk trouble', seed: 185001 },
      ],
    },
  },
  {
    name: 'later-backup',
    why: 'a backup with a higher counter than the one that the device had gone on with counted as its own, and dropped people',
    plant: 'backup-by-counter',
    plan: {
      seed: 344257144,
      nature: NATURE,
      steps: [
        { number: 55, atMs: 3606837144, action: 'cloud is backed up', seed: 3164105657 },
        { number: 58, atMs: 3944887602, action: 'add destination', seed: 2311650472 },
        { number: 59, atMs: 4113453147, action: 'cloud adds', seed: 923897330 },
        { number: 90, atMs: 4808032642, action: 'cloud is backed up', seed: 2412274713 },
        { number: 185, atMs: 11268326061, action: 'cloud is backed up', seed: 749347851 },
        { number: 235, atMs: 14894775023, action: 'add destination', seed: 3945256358 },
        { number: 241, atMs: 15384611845, action: 'cloud is restored', seed: 3314908930 },
        { number: 297, atMs: 20167833524, action: 'cloud is restored', seed: 2744780135 },
        { number: 324, atMs: 21710332705, action: 'cloud is backed up', seed: 156549539 },
        { number: 326, atMs: 21801880748, action: 'cloud is restored', seed: 2117593892 },
      ],
    },
  },
];
