/**
 * Histories that once broke a promise. Every run replays them first. A history is kept as its shrunk plan and not as its
 * seed, because a seed draws another world whenever the drawing changes. What an action itself draws may still change:
 * so each names the plant that turns its mend back (plants.mjs), and plants.test.ts shows that with it the history
 * fails. Where it does not any more, `scripts/simulate --plant NAME` finds another one. Used by simulate.ts.
 */
import type { Plan } from './plan.js';

export interface Regression {
  readonly name: string;
  /** What was wrong. */
  readonly why: string;
  /** Turns the mend back. */
  readonly plant: string;
  /** As `scripts/simulate --seed S --only … --plan` prints it. */
  readonly plan: Plan;
}

export const REGRESSIONS: readonly Regression[] = [
  {
    name: 'no-sms-after-the-first',
    why: 'after the first SMS, call or push no other of its type was sent until the next start',
    plant: 'one-sms',
    plan: {
      seed: 3635676608,
      nature: {
        moods: ['well', 'down', 'busy', 'full mailboxes'],
        fates: {
          good: 1,
          slow: 0,
          'lost request': 0,
          'lost answer': 0.007410227727800726,
          late: 0,
          error: 0,
          stray: 0,
          portal: 0,
          meddled: 0,
          cut: 0,
        },
        ill: ['messages'],
        isOfBook: false,
        hasFewTargets: false,
        relays: 1,
        hasCloud: true,
        filesMax: 3,
        mailMs: 50,
        syncMs: 0,
        cloudDelay: '1h',
        settings: {
          FIELDPOST_RELAY_CONNECTIONS: '1',
          FIELDPOST_SMTP_TIMEOUT: '23s',
          FIELDPOST_HEARTBEAT: '1042s',
          FIELDPOST_MAX_AGE_EMAIL: '133m',
          FIELDPOST_MAX_AGE_SMS: '95m',
          FIELDPOST_MAX_AGE_PUSH: '377m',
          FIELDPOST_MAX_AGE_PHONE: '118m',
        },
        wallMs: 1795165200000,
      },
      steps: [{ number: 1, atMs: 27, action: 'post', seed: 441792574 }],
    },
  },
  {
    name: 'message-id-of-a-boot',
    why: 'a message that was sent twice had another Message-ID the second time',
    plant: 'message-id',
    plan: {
      seed: 3635676608,
      nature: {
        moods: ['well', 'down', 'busy', 'full mailboxes'],
        fates: {
          good: 1,
          slow: 0,
          'lost request': 0,
          'lost answer': 0.007410227727800726,
          late: 0,
          error: 0,
          stray: 0,
          portal: 0,
          meddled: 0,
          cut: 0,
        },
        ill: ['messages'],
        isOfBook: false,
        hasFewTargets: false,
        relays: 1,
        hasCloud: true,
        filesMax: 3,
        mailMs: 50,
        syncMs: 0,
        cloudDelay: '1h',
        settings: {
          FIELDPOST_RELAY_CONNECTIONS: '1',
          FIELDPOST_SMTP_TIMEOUT: '23s',
          FIELDPOST_HEARTBEAT: '1042s',
          FIELDPOST_MAX_AGE_EMAIL: '133m',
          FIELDPOST_MAX_AGE_SMS: '95m',
          FIELDPOST_MAX_AGE_PUSH: '377m',
          FIELDPOST_MAX_AGE_PHONE: '118m',
        },
        wallMs: 1795165200000,
      },
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
      nature: {
        moods: ['well', 'down', 'full', 'losing at the dot', 'refusing the content'],
        fates: {
          good: 1,
          slow: 0.005010599569142279,
          'lost request': 0,
          'lost answer': 0.03382386835743671,
          late: 0,
          error: 0.010214943019632139,
          stray: 0.027995053070304907,
          portal: 0,
          meddled: 0,
          cut: 0,
        },
        ill: ['heartbeat'],
        isOfBook: false,
        hasFewTargets: false,
        relays: 1,
        hasCloud: true,
        filesMax: 3,
        mailMs: 131,
        syncMs: 1,
        cloudDelay: '1d',
        settings: {
          FIELDPOST_RELAY_CONNECTIONS: '4',
          FIELDPOST_SMTP_TIMEOUT: '85s',
          FIELDPOST_HEARTBEAT: '117s',
          FIELDPOST_MAX_QUEUE: '35',
          FIELDPOST_MAX_AGE_EMAIL: '323m',
          FIELDPOST_MAX_AGE_SMS: '30m',
          FIELDPOST_MAX_AGE_PUSH: '326m',
          FIELDPOST_MAX_AGE_PHONE: '48m',
        },
        wallMs: 1795165200000,
      },
      steps: [
        { number: 3, atMs: 1013774, action: 'suspend', seed: 1802501268 },
        { number: 35, atMs: 6229036, action: 'cloud is wiped', seed: 1361062344 },
        { number: 39, atMs: 6632520, action: 'cancel', seed: 3782522304 },
      ],
    },
  },
  {
    name: 'segments-kept-at-rest',
    why: 'segments of a disk that had failed stayed after it was well, because the checkpoints had failed as well',
    plant: 'segments-kept',
    plan: {
      seed: 386236168,
      nature: {
        moods: ['well', 'hanging', 'slow', 'busy'],
        fates: {
          good: 1,
          slow: 0.02938647226225686,
          'lost request': 0,
          'lost answer': 0.01424410057146895,
          late: 0.01906527386882386,
          error: 0,
          stray: 0,
          portal: 0,
          meddled: 0,
          cut: 0.1787595803617766,
        },
        ill: ['heartbeat', 'destinations', 'messages'],
        isOfBook: false,
        hasFewTargets: false,
        relays: 1,
        hasCloud: false,
        filesMax: 3,
        mailMs: 15,
        syncMs: 16,
        cloudDelay: '1h',
        settings: {
          FIELDPOST_RELAY_CONNECTIONS: '1',
          FIELDPOST_SMTP_TIMEOUT: '5s',
          FIELDPOST_HEARTBEAT: '1125s',
          FIELDPOST_MAX_QUEUE: '12',
          FIELDPOST_MAX_AGE_EMAIL: '93m',
          FIELDPOST_MAX_AGE_SMS: '278m',
          FIELDPOST_MAX_AGE_PUSH: '191m',
          FIELDPOST_MAX_AGE_PHONE: '36m',
        },
        wallMs: 1795165200000,
      },
      steps: [
        { number: 7, atMs: 101495702, action: 'disk trouble', seed: 1062242030 },
        { number: 8, atMs: 111777433, action: 'relay mood', seed: 1616884737 },
        { number: 9, atMs: 134914382, action: 'post', seed: 2900903286 },
        { number: 51, atMs: 405890464, action: 'post', seed: 1149635678 },
        { number: 52, atMs: 410797960, action: 'post batch', seed: 4005781390 },
        { number: 84, atMs: 808715447, action: 'look', seed: 2148062015 },
      ],
    },
  },
];
