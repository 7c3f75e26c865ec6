/**
 * Faults of telling people that are planted in the source, one at a time, when worlds of people are compiled: a judge that
 * finds none of them proves nothing. Each has the seed of a world that finds it, alone or among those after it, and the words
 * of the judge; `seed` null: no world that is kept finds it, and rules.test.ts does. `isShared`: over etcd. A cut is `[file, from, to]`; see test/simulation/plants.mjs.
 */
import { cutter, misfitsOf } from '../simulation/plants.mjs';

const RULES = 'src/cloud/rules.ts';
const WATCH = 'src/cloud/watch.ts';

/** Worlds from the seed on in which a plant must be found. */
export const WORLDS_FROM_SEED = 4;

export const PLANTS = {
  'too-early': {
    why: 'people are told after half of the delay',
    cuts: [['src/cloud/presence.ts', 'nowMs - heardMs >= limitMs', 'nowMs - heardMs >= limitMs / 2']],
    found: /too early/,
    seed: 1,
  },
  'at-night': {
    why: 'an outage is told outside of the hours',
    cuts: [
      [
        RULES,
        'return dueMs(atOnce(listener), cloudZone, Math.max(readyMs, quietUntilMs ?? readyMs, nowMs - LATE_MS));',
        'return Math.max(readyMs, quietUntilMs ?? readyMs, 0 * dueMs(atOnce(listener), cloudZone, 0));',
      ],
    ],
    found: /outside the hours/,
    seed: 10,
  },
  'zone-of-the-cloud': {
    why: "a person's hours count in the zone of the cloud",
    cuts: [
      ['src/mail/book/rules.ts', 'hoursBeginMs(hours, zone ?? cloudZone', 'hoursBeginMs(hours, cloudZone'],
    ],
    found: /outside the hours|never told/,
    seed: null,
  },
  'after-min-ignored': {
    why: 'everybody is told at once',
    cuts: [
      ['src/mail/book/rules.ts', 'const readyMs = atMs + afterMs;', 'const readyMs = atMs + 0 * afterMs;'],
    ],
    found: /too early/,
    seed: 2,
  },
  'after-min-over-a-restart': {
    why: 'after a restart of the cloud everybody is told at once',
    cuts: [
      [
        'src/cloud/files/ledger.ts',
        '{ ...newsAt(news), device: id }',
        '{ ...newsAt(news), atMs: 0, device: id }',
      ],
    ],
    found: /too early|outside the hours/,
    seed: 6,
  },
  never: {
    why: 'whoever waits is forgotten at the first telling',
    cuts: [
      [
        'src/cloud/settling.ts',
        '      waits.push(mark);\n',
        "      if (ruling.act === 'tell') waits.push(mark);\n",
      ],
    ],
    found: /never told of the silence/,
    seed: 1,
  },
  'return-untold': {
    why: 'a return is not told to those whose hours begin later',
    cuts: [['src/cloud/settling.ts', 'if (waits.length === 0 && !mustStay)', 'if (!mustStay)']],
    found: /never told of the return/,
    seed: 1,
  },
  twice: {
    why: 'who was told is not remembered, and the key of a message changes with those who were',
    cuts: [
      [
        'src/cloud/telling.ts',
        "  if (told.includes(mark)) return 'told';\n",
        "  if (told.includes(mark)) return 'fresh';\n",
      ],
      [
        'src/cloud/telling.ts',
        'function keyOf({ device, id }: DeviceNews, entry: Entry): string {\n  return `presence ${hashOf(device, id,',
        'function keyOf({ device, id, told }: DeviceNews, entry: Entry): string {\n  return `presence ${hashOf(device, id, told?.length ?? 0,',
      ],
    ],
    found: /twice/,
    seed: 1,
  },
  'return-without-outage': {
    why: 'everybody is told of a return',
    cuts: [[RULES, "? isEnd(first.news) && first.mark !== 'none' :", '? isEnd(last.news) :']],
    found: /was not told of an outage/,
    seed: 3,
  },
  'night-not-dropped': {
    why: 'who wants nothing of the night gets a line in the morning',
    cuts: [[RULES, 'rules.hours === null || rules.dropsNight', 'rules.hours === null']],
    found: /was to be dropped/,
    seed: 20,
  },
  'night-untold': {
    why: 'nobody gets a line about the night',
    cuts: [
      [RULES, "if (first === null || last?.kind !== 'back'", "if (first !== null || last?.kind !== 'back'"],
    ],
    found: /in the morning/,
    seed: 10,
  },
  'quiet-unheard': {
    why: 'quiet keeps nobody from being told',
    cuts: [
      [
        WATCH,
        '(quietAt(device.marks, clock.wallMs()) !== null) return;',
        '(device.marks.word === undefined) return;',
      ],
    ],
    found: /in a time of quiet/,
    seed: 2,
  },
  'quiet-after-the-decision': {
    why: 'quiet does not hold back who waits already',
    cuts: [
      [RULES, 'Math.max(readyMs, quietUntilMs ?? readyMs,', 'Math.max(readyMs, readyMs ?? quietUntilMs,'],
    ],
    found: /in a time of quiet/,
    seed: 8,
  },
  'quiet-for-ever': {
    why: 'after the quiet nobody is told',
    cuts: [
      [
        WATCH,
        '(quietAt(device.marks, clock.wallMs()) !== null) return;',
        '(device.marks.quiet !== null) return;',
      ],
    ],
    found: /never told of the silence/,
    seed: 2,
  },
  'quiet-lost-at-a-restart': {
    why: 'a restart of the cloud ends the quiet',
    cuts: [['src/cloud/marks.ts', '  quiet: isQuiet,\n', '  quiet: (value) => isQuiet(value) && false,\n']],
    found: /in a time of quiet/,
    seed: 10,
  },
  'site-as-many': {
    why: 'each device of a site is told for itself',
    cuts: [['src/cloud/telling.ts', '2 * ofSite.length > total', '2 * ofSite.length > total * 9']],
    found: /in \d+ messages/,
    seed: 9,
  },
  'reminded-for-ever': {
    why: 'people are reminded again and again',
    cuts: [[WATCH, 'if (due <= marks.reminded) return;', 'if (due < marks.reminded || due === 0) return;']],
    found: /twice by a reminder/,
    seed: 1,
  },
  'stuck-at-once': {
    why: 'mails that do not leave are told after minutes',
    cuts: [[WATCH, 'nowMs - stuck.sinceMs >= STUCK_MS', 'nowMs - stuck.sinceMs >= STUCK_MS / 6']],
    found: /that mails do not leave, after/,
    seed: 9,
  },
  'word-unheard': {
    why: 'a last word is kept, and told to nobody',
    cuts: [
      [
        WATCH,
        '{ happening, marks: { word: { text, atMs } } }, false',
        '{ happening: null, marks: { word: { text, atMs } } }, false',
      ],
    ],
    found: /last word/,
    seed: 4,
  },
  'marks-of-the-leader': {
    why: 'another leader does not know who was told',
    cuts: [
      [
        'src/cloud/etcd/ledger.ts',
        'const ops = marked.map(({ news }): Op =>',
        'const ops = marked.map(({ news: { told: _, waits: __, ...news } }): Op =>',
      ],
    ],
    found: /twice/,
    isShared: true,
    seed: 1,
  },
};

/** A plugin of rolldown that plants the fault of that name. */
export function planter(name) {
  return cutter(name, [...PLANTS[name].cuts, ['test/simulation/planted.ts', ' = null', ` = '${name}'`]]);
}

/** What is wrong with the plants, without compiling any: each must fit the source. */
export function misfits() {
  return misfitsOf(Object.entries(PLANTS).map(([name, { cuts }]) => [name, cuts]));
}
