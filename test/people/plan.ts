/**
 * What happens in a world of people: who is there, and the steps of its history. All of it is drawn from a seed beforehand, so
 * that a history can be told in a few lines, and made shorter.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { Chance } from '../simulation/chance.js';

/** An entry of an address book, but for its uid. Its members are those of the document. */
export interface Entry {
  readonly destination: string;
  readonly after_min?: number;
  readonly hours?: string;
  readonly zone?: string;
  readonly night?: 'drop';
  readonly weekly?: boolean;
}

/** A document, by its members. */
export interface Paper {
  readonly delay?: string;
  readonly site?: string;
  readonly destinations: readonly Entry[];
}

export interface DevicePlan {
  readonly id: string;
  readonly paper: Paper;
}

/** A change of a document: members in place of others, or of the entry of a person; null: it is removed. */
export interface Edit {
  readonly device: string;
  readonly delay?: string;
  readonly person?: string;
  readonly entry?: Entry | null;
}

export type Deed =
  /** No heartbeat for so long. `boots`: it loses its power. `to`: what it says before. */
  | {
      readonly do: 'silence';
      readonly device: string;
      readonly forMs: number;
      readonly boots: boolean;
      readonly says?: 'stopping' | 'moved';
      readonly last?: string;
    }
  | {
      readonly do: 'quiet';
      readonly device: string;
      readonly forMs: number;
      readonly why: string;
      readonly by: 'device' | 'operator';
    }
  | { readonly do: 'stuck'; readonly device: string; readonly forMs: number }
  | { readonly do: 'edit'; readonly edit: Edit }
  | { readonly do: 'drill'; readonly device: string }
  /** `atWrite`: it dies at the write of that number from now on. */
  | {
      readonly do: 'crash';
      readonly machine: string;
      readonly how: 'kill' | 'power cut' | 'stop';
      readonly forMs: number;
      readonly atWrite: number;
    }
  /** Nobody takes what the cloud sends, and its outbox fills. */
  | { readonly do: 'jam'; readonly forMs: number }
  | { readonly do: 'cut'; readonly machine: string; readonly forMs: number }
  | { readonly do: 'quorum'; readonly forMs: number };

/** One step of a history. */
export interface Step {
  readonly number: number;
  /** Since the world began. */
  readonly atMs: number;
  readonly deed: Deed;
}

/** A world, before it begins. */
export interface Plan {
  readonly seed: number;
  readonly machines: readonly string[];
  /** True: over etcd. */
  readonly isShared: boolean;
  /** The zone of the cloud. */
  readonly zone: string;
  readonly wallMs: number;
  readonly forMs: number;
  readonly devices: readonly DevicePlan[];
  readonly steps: readonly Step[];
}

/** The cloud's own delays. */
export const DELAY_MS = 20 * MINUTE_MS;
export const STOP_DELAY_MS = 50 * MINUTE_MS;
/** The pause between two heartbeats; a delay is at least two and a half of it. */
export const EVERY_MS = 8 * MINUTE_MS;

const ZONES = ['UTC', 'Europe/Amsterdam', 'America/New_York', 'Asia/Kolkata'] as const;
const HOURS = [
  'Mo-Fr 07:00-18:00',
  'Mo-Su 08:00-20:00',
  'Mo-Fr 08:00-17:00, Sa 09:00-12:00',
  'Mo-Su 20:00-06:00',
];
const DELAYS = ['40m', '90m', '4h'];

/** Whether the cloud has its Monday mails. */
const HAS_WEEKS: boolean = false;
/** When worlds begin: a Friday, a Monday, before the clocks of Europe go back, and before they go forward. */
const BEGINNINGS = [
  Date.UTC(2026, 10, 20, 9),
  Date.UTC(2026, 10, 23, 3),
  Date.UTC(2026, 9, 24, 15),
  Date.UTC(2027, 2, 27, 12),
];

/** What a world has; others have none of it, because too much at once hides faults. */
function natureOf(chance: Chance) {
  const has = (odds: number) => chance.is(odds);
  return {
    hours: has(0.6),
    after: has(0.6),
    zones: has(0.4),
    sites: has(0.4),
    delays: has(0.3),
    many: has(0.12),
    words: has(0.3),
    quiet: has(0.5),
    stops: has(0.3),
    flaps: has(0.3),
    stuck: has(0.3),
    crashes: has(0.6),
    jams: has(0.2),
    edits: has(0.3),
    drills: has(0.2),
    long: has(0.3),
  };
}

type Nature = ReturnType<typeof natureOf>;

/** The world of that seed. */
export function drawPlan(seed: number, isShared: boolean): Plan {
  const chance = new Chance(seed);
  const nature = natureOf(chance);
  const machines = isShared ? ['a', 'b', 'c'] : ['a'];
  const people = drawPeople(chance, nature);
  const devices = drawDevices(chance, nature, people);
  const forMs = (isShared ? 1 : nature.long ? 4 : 2) * DAY_MS;
  const deeds: { atMs: number; deed: Deed }[] = [];
  // The first hours are without faults: the cloud's grace.
  const fromMs = 30 * MINUTE_MS;
  const drawers = drawersOf(nature, isShared);
  const count = 6 + chance.below(18);
  for (let n = 0; n < count; n++) {
    const atMs = Math.round(fromMs + chance.random() * (forMs - fromMs) * 0.8);
    const drawer = chance.one(drawers);
    for (const [laterMs, deed] of drawer(chance, devices, machines, people))
      deeds.push({ atMs: Math.max(fromMs, atMs + Math.round(laterMs)), deed });
  }
  deeds.sort((one, other) => one.atMs - other.atMs);
  const steps = deeds.map((deed, number) => ({ number: number + 1, ...deed }));
  const zone = nature.zones ? chance.one(ZONES) : 'UTC';
  return { seed, machines, isShared, zone, wallMs: chance.one(BEGINNINGS), forMs, devices, steps };
}

function drawPeople(chance: Chance, nature: Nature): Entry[] {
  const count = 2 + chance.below(3);
  return Array.from({ length: count }, (_, n) => drawEntry(chance, nature, `person${n}@example.com`, n > 0));
}

function drawEntry(chance: Chance, nature: Nature, destination: string, hasRules: boolean): Entry {
  if (!hasRules) return { destination };
  const hours = nature.hours && chance.is(0.6) ? chance.one(HOURS) : undefined;
  return {
    destination,
    ...(nature.after && chance.is(0.6) && { after_min: chance.one([5, 30, 60, 240]) }),
    ...(hours !== undefined && { hours }),
    ...(hours !== undefined && nature.zones && chance.is(0.6) && { zone: chance.one(ZONES) }),
    ...(hours !== undefined && chance.is(0.3) && { night: 'drop' as const }),
    ...(chance.is(0.2) && HAS_WEEKS && { weekly: true }),
  };
}

function drawDevices(chance: Chance, nature: Nature, people: readonly Entry[]): DevicePlan[] {
  const count = nature.many ? 22 : 3 + chance.below(4);
  return Array.from({ length: count }, (_, n) => {
    const destinations = nature.many ? people.slice(0, 2) : chance.some(people);
    const site = nature.sites ? chance.one(['North', 'North', 'South']) : null;
    const delay = nature.delays && chance.is(0.4) ? chance.one(DELAYS) : null;
    const paper: Paper = { ...(site && { site }), ...(delay && { delay }), destinations };
    return { id: `dev-${n}`, paper };
  });
}

type Drawer = (
  chance: Chance,
  devices: readonly DevicePlan[],
  machines: readonly string[],
  people: readonly Entry[],
) => [laterMs: number, deed: Deed][];

/** Short and long ones; a few last for more than a day. */
const silenceMs = (chance: Chance) =>
  chance.is(0.06) ? chance.span(25 * HOUR_MS, 30 * HOUR_MS) : chance.span(3 * MINUTE_MS, 14 * HOUR_MS);
const WHYS = ['battery swap', 'new antenna', 'inspection'] as const;
const WORDS = ['mains failed', 'door open', 'shutting down for heat'] as const;

const silence: Drawer = (chance, devices) => {
  const { id: device } = chance.one(devices);
  return [[0, { do: 'silence', device, forMs: silenceMs(chance), boots: chance.is(0.4) }]];
};

function drawersOf(nature: Nature, isShared: boolean): Drawer[] {
  const all: [boolean, Drawer][] = [
    [true, silence],
    [true, silence],
    [nature.sites || nature.many, together],
    [nature.stops, stops],
    [nature.flaps, flaps],
    [nature.words, words],
    [nature.quiet, quiet],
    [nature.quiet, quiet],
    [nature.stuck, stuck],
    [nature.crashes, crash],
    [nature.crashes, crashInSilence],
    [nature.jams, (chance) => [[0, { do: 'jam', forMs: chance.span(10 * MINUTE_MS, 5 * HOUR_MS) }]]],
    [nature.edits, edits],
    [nature.drills, (chance, devices) => [[0, { do: 'drill', device: chance.one(devices).id }]]],
    [
      isShared && nature.crashes,
      (chance, _, machines) => [
        [0, { do: 'cut', machine: chance.one(machines), forMs: chance.span(5000, 10 * MINUTE_MS) }],
      ],
    ],
    [
      isShared && nature.crashes,
      (chance) => [[0, { do: 'quorum', forMs: chance.span(5000, 5 * MINUTE_MS) }]],
    ],
  ];
  return all.flatMap(([is, drawer]) => (is ? [drawer] : []));
}

/** All devices, or those of a site, fall silent at once. */
function together(chance: Chance, devices: readonly DevicePlan[]): [number, Deed][] {
  const site = chance.one(['North', 'South', null]);
  const forMs = silenceMs(chance);
  const some = devices.filter(({ paper }) => site === null || paper.site === site);
  return some.map(({ id: device }) => [0, { do: 'silence', device, forMs, boots: true }]);
}

function stops(chance: Chance, devices: readonly DevicePlan[]): [number, Deed][] {
  const says = chance.is(0.7) ? 'stopping' : 'moved';
  const { id: device } = chance.one(devices);
  return [[0, { do: 'silence', device, forMs: silenceMs(chance), boots: true, says }]];
}

function flaps(chance: Chance, devices: readonly DevicePlan[]): [number, Deed][] {
  const { id: device } = chance.one(devices);
  const everyMs = chance.span(25 * MINUTE_MS, 2 * HOUR_MS);
  return Array.from({ length: 2 + chance.below(5) }, (_, n) => [
    n * everyMs,
    { do: 'silence', device, forMs: everyMs * (0.3 + 0.4 * chance.random()), boots: false },
  ]);
}

function words(chance: Chance, devices: readonly DevicePlan[]): [number, Deed][] {
  const { id: device } = chance.one(devices);
  const [forMs, last] = [silenceMs(chance), chance.one(WORDS)];
  return [[0, { do: 'silence', device, forMs, boots: true, last }]];
}

/** A person works at a device: mostly it falls silent meanwhile. */
function quiet(chance: Chance, devices: readonly DevicePlan[]): [number, Deed][] {
  const { id: device } = chance.one(devices);
  const forMs = Math.round(chance.span(20 * MINUTE_MS, 10 * HOUR_MS));
  const by = chance.is(0.6) ? 'device' : 'operator';
  const all: [number, Deed][] = [[0, { do: 'quiet', device, forMs, why: chance.one(WHYS), by }]];
  const silentMs = forMs * chance.span(0.2, 3);
  // Or somebody comes to look after a silence.
  if (chance.is(0.25)) {
    const beforeMs = chance.span(20 * MINUTE_MS, 3 * HOUR_MS);
    all.push([-beforeMs, { do: 'silence', device, forMs: beforeMs + silentMs, boots: true }]);
  } else if (chance.is(0.8)) {
    all.push([forMs * 0.2 * chance.random(), { do: 'silence', device, forMs: silentMs, boots: true }]);
  }
  // It is taken back before its end, in the midst of the silence or after it.
  if (chance.is(0.25))
    all.push([forMs * chance.random(), { do: 'quiet', device, forMs: 0, why: '', by: 'operator' }]);
  return all;
}

function stuck(chance: Chance, devices: readonly DevicePlan[]): [number, Deed][] {
  const { id: device } = chance.one(devices);
  return [[0, { do: 'stuck', device, forMs: chance.span(20 * MINUTE_MS, 6 * HOUR_MS) }]];
}

function drawCrash(chance: Chance, machines: readonly string[]): Deed {
  return {
    do: 'crash',
    machine: chance.one(machines),
    how: chance.one(['kill', 'kill', 'power cut', 'stop']),
    forMs: Math.round(
      chance.is(0.7) ? chance.span(2000, 3 * MINUTE_MS) : chance.span(3 * MINUTE_MS, 2 * HOUR_MS),
    ),
    atWrite: chance.is(0.5) ? 0 : 1 + chance.below(12),
  };
}

function crash(chance: Chance, _: readonly DevicePlan[], machines: readonly string[]): [number, Deed][] {
  return [[0, drawCrash(chance, machines)]];
}

/** The cloud dies while a silence is known, to some or to nobody. */
function crashInSilence(
  chance: Chance,
  devices: readonly DevicePlan[],
  machines: readonly string[],
): [number, Deed][] {
  const { id: device } = chance.one(devices);
  const forMs = chance.span(30 * MINUTE_MS, 14 * HOUR_MS);
  const laterMs = chance.is(0.5) ? DELAY_MS + EVERY_MS * chance.random() : forMs * chance.random();
  return [
    [0, { do: 'silence', device, forMs, boots: chance.is(0.4) }],
    [laterMs, drawCrash(chance, machines)],
    ...(chance.is(0.5) ? [[forMs, drawCrash(chance, machines)] as [number, Deed]] : []),
  ];
}

function edits(
  chance: Chance,
  devices: readonly DevicePlan[],
  _: readonly string[],
  people: readonly Entry[],
): [number, Deed][] {
  const { id: device } = chance.one(devices);
  const { destination: person } = chance.one(people);
  if (chance.is(0.2)) return [[0, { do: 'edit', edit: { device, delay: chance.one(DELAYS) } }]];
  const all = { ...natureOf(chance), hours: true, after: true };
  const entry = chance.is(0.25) ? null : drawEntry(chance, all, person, true);
  return [[0, { do: 'edit', edit: { device, person, entry } }]];
}
