/** The judge of worlds of people, on histories made by hand: what is right passes, and each wrong is found. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import type { DeviceHistory, Heard, Message } from './history.js';
import { judge } from './judge.js';
import { type Entry, EVERY_MS, type Plan } from './plan.js';
import { read } from './reading.js';

/** A Friday. Moments below are hours since 00:00. */
const WALL_MS = Date.UTC(2026, 10, 20);
const END = 60;
const JAN: Entry = { destination: 'person0@example.com' };
const DAY: Entry = { ...JAN, hours: 'Mo-Su 07:00-18:00' };
const AFTER: Entry = { ...JAN, after_min: 60 };

interface Story {
  readonly entry?: Entry;
  /** The device is silent from the first to the second. */
  readonly silent?: readonly (readonly [from: number, to: number])[];
  readonly says?: Heard['said'];
  readonly quiet?: readonly [from: number, to: number];
  readonly stuck?: readonly [from: number, to: number];
  /** The words that the person gets. */
  readonly told?: readonly (readonly [at: number, title: string])[];
}

function verdictOn({ entry = JAN, silent = [], says = 'running', quiet, stuck, told = [] }: Story): string[] {
  const isIn = ([from, to]: readonly [number, number], ms: number) =>
    ms > from * HOUR_MS && ms < to * HOUR_MS;
  const edges = silent.flatMap(([from, to]) => [from * HOUR_MS, to * HOUR_MS]);
  const moments = Array.from({ length: (END * HOUR_MS) / EVERY_MS }, (_, n) => n * EVERY_MS);
  const heard = [...new Set([...moments, ...edges])]
    .filter((atMs) => !silent.some((span) => isIn(span, atMs)))
    .sort((one, other) => one - other)
    .map((atMs): Heard => {
      const said = silent.some(([from]) => atMs === from * HOUR_MS) ? says : 'running';
      const isStuck = stuck !== undefined && isIn(stuck, atMs);
      return { atMs, isCertain: true, said, last: null, isStuck, boot: 1, machine: 'a' };
    });
  const paper = { destinations: [entry] };
  const device: DeviceHistory = {
    heard,
    quiets: [],
    versions: [{ askedMs: 0, fromMs: 0, paper }],
    drills: [],
  };
  if (quiet !== undefined) {
    const [atMs, untilMs] = [quiet[0] * HOUR_MS, quiet[1] * HOUR_MS];
    device.quiets.push({ atMs, askedMs: atMs, untilMs, isCertain: true });
  }
  const messages = told.map(([at, title], n): Message => {
    const { destination: person } = entry;
    return { atMs: at * HOUR_MS, machine: 'a', id: `${n}`, person, told: read(title, ''), words: title };
  });
  const plan: Plan = {
    ...{ seed: 0, machines: ['a'], isShared: false, zone: 'UTC', wallMs: WALL_MS, forMs: END * HOUR_MS },
    ...{ devices: [{ id: 'dev-0', paper }], steps: [] },
  };
  const devices = new Map([['dev-0', device]]);
  return [...judge({ plan, devices, messages, troubles: [], endMs: END * HOUR_MS }).found];
}

const off = (at: number) => [at, 'dev-0 is offline'] as const;
const back = (at: number) => [at, 'dev-0 is back online'] as const;
const was = (at: number) => [at, 'dev-0 was offline on 20 November from 20:00 to 21:00'] as const;
const TEN = { silent: [[10, 13]] } as const;
const NIGHT = { entry: DAY, silent: [[20, 22]] } as const;
/** A delay and a little after 10:00. */
const SOON = 10.34;

const ROWS: readonly (readonly [what: string, story: Story, found: RegExp | null])[] = [
  ['an outage and its end', { ...TEN, told: [off(SOON), back(13.02)] }, null],
  ['too early', { ...TEN, told: [off(10.1), back(13.02)] }, /too early/],
  ['never', { ...TEN }, /never told of the silence/],
  ['twice', { ...TEN, told: [off(SOON), off(11), back(13.02)] }, /twice of an outage/],
  ['no return', { ...TEN, told: [off(SOON)] }, /never told of the return/],
  ['two returns', { ...TEN, told: [off(SOON), back(13.02), back(14)] }, /twice of a return/],
  ['a return before it', { ...TEN, told: [off(SOON), back(12)] }, /before it returned/],
  ['a return without an outage', { told: [back(13)] }, /was not told of an outage/],
  ['an outage that is none', { told: [off(13)] }, /too early/],
  ['after_min kept', { ...TEN, entry: AFTER, told: [off(11.34), back(13.02)] }, null],
  ['after_min ignored', { ...TEN, entry: AFTER, told: [off(SOON), back(13.02)] }, /too early/],
  ['after_min, and back by then', { silent: [[10, 11.2]], entry: AFTER }, null],
  ['a night', { ...NIGHT, told: [was(31)] }, null],
  ['a night that is untold', { ...NIGHT }, /in the morning/],
  ['at night', { ...NIGHT, told: [off(20.35), back(22.05)] }, /outside the hours/],
  ['a night that is dropped', { ...NIGHT, entry: { ...DAY, night: 'drop' } }, null],
  [
    'a night that is not',
    { ...NIGHT, entry: { ...DAY, night: 'drop' }, told: [was(31)] },
    /was to be dropped/,
  ],
  ['a night without an outage', { entry: DAY, told: [was(31)] }, /of an outage that was none/],
  ['quiet', { silent: [[10, 11]], quiet: [9.5, 12], told: [[9.5, 'dev-0 is quiet until 12:00']] }, null],
  ['quiet that is not told', { silent: [[10, 11]], quiet: [9.5, 12] }, /never told of the quiet/],
  [
    'in quiet',
    { ...TEN, quiet: [9.5, 12], told: [[9.5, 'dev-0 is quiet until 12:00'], off(SOON), back(13.02)] },
    /in a time of quiet/,
  ],
  [
    'silent at its end',
    { ...TEN, quiet: [9.5, 12], told: [[9.5, 'dev-0 is quiet until 12:00'], off(12.01), back(13.02)] },
    null,
  ],
  [
    'and never told',
    { ...TEN, quiet: [9.5, 12], told: [[9.5, 'dev-0 is quiet until 12:00']] },
    /never told of the silence/,
  ],
  ['quiet that is none', { told: [[9.5, 'dev-0 is quiet until 12:00']] }, /of quiet that is none/],
  ['a move', { ...TEN, says: 'moved' }, null],
  ['a move that is told', { ...TEN, says: 'moved', told: [off(SOON)] }, /moved to another cloud/],
  ['a stop', { ...TEN, says: 'stopping', told: [[10.85, 'dev-0 is still shut down'], back(13.02)] }, null],
  [
    'a stop too early',
    { ...TEN, says: 'stopping', told: [[SOON, 'dev-0 is still shut down'], back(13.02)] },
    /too early/,
  ],
  [
    'a reminder',
    { silent: [[10, 40]], told: [off(SOON), [34, 'dev-0 is still offline, for 1 day'], back(40.02)] },
    null,
  ],
  ['no reminder', { silent: [[10, 40]], told: [off(SOON), back(40.02)] }, /not reminded/],
  [
    'reminders',
    {
      silent: [[10, 40]],
      told: [
        off(SOON),
        [34, 'dev-0 is still offline, for 1 day'],
        [35, 'dev-0 is still offline'],
        back(40.02),
      ],
    },
    /twice by a reminder/,
  ],
  [
    'stuck mails',
    {
      stuck: [10, 13],
      told: [
        [11.15, 'dev-0 is online, but its mails do not leave'],
        [13.02, 'dev-0 sends its mails again'],
      ],
    },
    null,
  ],
  [
    'stuck too early',
    { stuck: [10, 13], told: [[10.5, 'dev-0 is online, but its mails do not leave']] },
    /that mails do not leave, after/,
  ],
  ['stuck and untold', { stuck: [10, 13] }, /never told that its mails/],
  ['mails that were never stuck', { told: [[13, 'dev-0 sends its mails again']] }, /leave again/],
];

for (const [what, story, wanted] of ROWS)
  t.test(`${what}: ${wanted === null ? 'right' : 'found'}`, async (t) => {
    const found = verdictOn(story);
    if (wanted === null) t.strictSame(found, []);
    else t.match(found.join('\n'), wanted);
  });

t.test('the judge knows its slack', async (t) => {
  t.strictSame(verdictOn({ ...TEN, told: [off(SOON + (1 * MINUTE_MS) / HOUR_MS), back(13.02)] }), []);
  t.match(verdictOn({ ...TEN, told: [off(11), back(13.02)] }).join(), /never told of the silence/);
});
