/**
 * What a world is like: which actions and faults there are in it at all, how often, and for how long it lives. Each seed
 * draws its own, because a world with everything at once hides as much as it shows.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Chance } from './chance.js';
import { CALLS, FATES, type Fate, ILLS, type Ill, weightsOf } from './link.js';
import { MOODS, type Mood } from './relay.js';
import { durationMs } from './settings.js';

/** How often each action is drawn. Faults are rare, so that other actions can follow. */
const USUAL_OF_MAIL = {
  post: 12,
  'post batch': 3,
  'post with key': 4,
  'post again': 3,
  'post form': 3,
  'post to several': 3,
  'post ready-made': 2,
  'cut form': 1,
  cancel: 4,
  'cancel all': 1.5,
  retry: 2,
  flush: 1,
  hold: 0.7,
  release: 1.5,
  look: 2,
  reload: 0.7,
  purge: 0.4,
  'drop failed': 1,
  rush: 2,
  survey: 1.5,
  'relay mood': 4,
  'link mood': 3,
  'disk trouble': 1,
  'power cut': 0.8,
  kill: 0.8,
  restart: 0.8,
  leap: 0.5,
  suspend: 0.4,
};
const USUAL_OF_CLOUD = {
  'add destination': 2,
  'edit destination': 2,
  'remove destination': 1,
  'remove hidden': 0.2,
  'edit without a pause': 0.2,
  'cloud adds': 1,
  'cloud edits': 1,
  'cloud removes': 0.6,
  'cloud adds strange': 0.2,
  'cloud touches': 0.3,
  'cloud dies': 0.4,
  'cloud is down for days': 0.1,
  'cloud is wiped': 0.2,
  'cloud is backed up': 0.6,
  'cloud is restored': 0.3,
  'cloud has another URL': 0.2,
  'cloud is left': 0,
  'device is stopped': 0.2,
  'network changed': 1,
  'network is mended': 0.5,
  'damage is found': 0,
};

export type CloudAction = keyof typeof USUAL_OF_CLOUD;
export type Action = keyof typeof USUAL_OF_MAIL | CloudAction;
const USUAL: Readonly<Record<Action, number>> = { ...USUAL_OF_MAIL, ...USUAL_OF_CLOUD };

export interface Swarm {
  readonly livesMs: number;
  /** On average, between two actions. */
  readonly everyMs: number;
  readonly weights: Readonly<Record<Action, number>>;
  readonly moods: readonly Mood[];
  readonly fates: Readonly<Record<Fate, number>>;
  /** The calls to the cloud that they befall. */
  readonly ill: readonly Ill[];
  /** It is about the address book, and hardly anything else happens in it. */
  readonly isOfBook: boolean;
  /** Two entries of the address book may have one target. */
  readonly hasFewTargets: boolean;
  readonly relays: number;
  readonly hasCloud: boolean;
  readonly filesMax: number;
  readonly cloudDelay: string;
  /** A relay takes up to so long for a mail; 0: no time at all. */
  readonly mailMs: number;
  /** A sync of the device's disk takes up to so long; 0: no time at all. */
  readonly syncMs: number;
  readonly settings: Readonly<Record<string, string>>;
  readonly wallMs: number;
}

const WALL_MS = Date.UTC(2026, 10, 20, 9);

/** So many worlds are of the address book. */
const OF_BOOK_ODDS = 0.25;

/** How often each action is drawn in a world of the address book. Of the others only those of the cloud are drawn. */
const OF_BOOK: Partial<Readonly<Record<Action, number>>> = {
  post: 0.2,
  'add destination': 4,
  'edit destination': 6,
  'remove destination': 2,
  'cloud adds': 3,
  'cloud edits': 5,
  'cloud removes': 2,
  'cloud adds strange': 0.5,
  'link mood': 5,
  'power cut': 1,
  kill: 0.7,
  restart: 0.7,
  suspend: 0.1,
  'disk trouble': 0.3,
  leap: 0.2,
  'cloud is left': 0.5,
  'damage is found': 0.4,
};

/** In so many worlds relays take only so many mails in a while. */
const RATE_ODDS = 0.15;
const RATES = ['2/10s', '5/1m', '3/1m,40/1h', '10/10m', '30/10m,90/1h'];

const BEATS_MAX = 800;
/** The cloud tells people after this long a silence of the device. It looks for silent devices ten times as often. */
const DELAYS = ['90s', '10m', '1h'];
const DELAYS_MAX = 1200;

/** Draws what the world of a seed is like. `isBook`: it is of the address book, as some are by themselves. */
export function drawSwarm(chance: Chance, isBook = false): Swarm {
  const keeps = chance.one([0.4, 0.7, 1]);
  const isOfBook = chance.is(OF_BOOK_ODDS) || isBook;
  const inBook = { ...USUAL_OF_CLOUD, ...OF_BOOK } as Partial<typeof USUAL>;
  const weights = Object.fromEntries(
    (Object.keys(USUAL) as Action[]).map((action) => {
      const usual = isOfBook ? (inBook[action] ?? 0) : USUAL[action];
      const isKept = action === 'post' || chance.is(keeps);
      return [action, isKept ? usual * chance.span(0.3, 3) : 0];
    }),
  ) as Record<Action, number>;
  const hasCloud = isOfBook || chance.is(0.7);
  const moods = MOODS.filter((mood) => mood === 'well' || chance.is(keeps / 2));
  const ill = chance.is(0.6) ? CALLS : [chance.one(ILLS)];
  // Where all other calls are well these may fail half of the time.
  const fateMax = ill.length === 1 ? 1 : 0.2;
  const fates = Object.fromEntries(
    FATES.map((fate) => [fate, chance.is(keeps / 2) ? chance.span(isOfBook ? 0.02 : 0.005, fateMax) : 0]),
  );
  const livesMs = isOfBook
    ? chance.span(HOUR_MS, DAY_MS)
    : chance.is(0.02)
      ? chance.span(30 * DAY_MS, 1800 * DAY_MS)
      : chance.span(HOUR_MS, 10 * DAY_MS);
  // At rest a world lives by its heartbeats and by the looks of the cloud's watch: the longer it lives, the fewer.
  const restMs = livesMs + (isOfBook ? 0 : DAY_MS);
  const comesMs = chance.span(15 * SECOND_MS, (isOfBook ? 5 : 30) * MINUTE_MS);
  const heartbeatMs = Math.max(comesMs, restMs / BEATS_MAX);
  const delays = DELAYS.filter((delay) => durationMs(delay) > restMs / DELAYS_MAX);
  const actions = Math.floor(chance.span(20, isOfBook ? 100 : 400));
  const swarm: Swarm = {
    livesMs,
    everyMs: livesMs / actions,
    weights,
    moods,
    fates: weightsOf({ ...fates, good: 1 }),
    ill,
    isOfBook,
    hasFewTargets: chance.is(0.15),
    relays: chance.is(0.7) ? 1 : 1 + chance.below(3),
    hasCloud,
    filesMax: chance.is(0.5) ? 3 : 0,
    mailMs: chance.is(0.5) ? 0 : Math.round(chance.span(1, 300)),
    syncMs: chance.is(0.5) ? 0 : Math.round(chance.span(1, 500)),
    cloudDelay: chance.is(0.6) ? (delays[0] ?? '1d') : chance.one([...delays, '1d']),
    settings: {
      FIELDPOST_RELAY_CONNECTIONS: String(chance.is(0.6) ? 1 : 1 + chance.below(4)),
      FIELDPOST_SMTP_TIMEOUT: `${Math.round(chance.span(5, 300))}s`,
      FIELDPOST_HEARTBEAT: `${Math.round(Math.min(heartbeatMs, HOUR_MS) / SECOND_MS)}s`,
      ...(chance.is(0.2) && { FIELDPOST_MAX_QUEUE: String(5 + chance.below(40)) }),
      ...(chance.is(0.2) && { FIELDPOST_HISTORY: String(chance.below(50)) }),
      ...(chance.is(0.2) && { FIELDPOST_KEEP_FAILED: `${Math.round(chance.span(1, 200))}h` }),
      ...(chance.is(0.4) && agesOf(chance)),
      ...(chance.is(0.2) && { FIELDPOST_BACKOFF_MAX: `${Math.round(chance.span(10, 600))}s` }),
    },
    wallMs: chance.is(0.1) ? chance.below(DAY_MS) : WALL_MS,
  };
  // Drawn last, so that all other worlds are as they were.
  if (isOfBook || !chance.is(RATE_ODDS)) return swarm;
  return { ...swarm, settings: { ...swarm.settings, FIELDPOST_RELAY_RATE: chance.one(RATES) } };
}

/** Ages at which messages expire. */
function agesOf(chance: Chance): Readonly<Record<string, string>> {
  const age = () => `${Math.round(chance.span(20, 60 * 24))}m`;
  return {
    FIELDPOST_MAX_AGE_EMAIL: age(),
    FIELDPOST_MAX_AGE_SMS: age(),
    FIELDPOST_MAX_AGE_PUSH: age(),
    FIELDPOST_MAX_AGE_PHONE: age(),
  };
}

/** How long until the next action. They come in bursts. */
export function pauseMs(everyMs: number, chance: Chance): number {
  if (chance.is(0.3)) return chance.below(SECOND_MS);
  if (chance.is(0.2)) return chance.below(MINUTE_MS);
  return -Math.log(1 - chance.random()) * everyMs * 2;
}
