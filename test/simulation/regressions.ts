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
];
