/** JSON values that no field expects. */
import { pick } from './random.js';

const NAMES = [
  'X-A',
  'toString',
  'valueOf',
  'length',
  '__proto__',
  'References',
  'To',
  'constructor',
  'address',
  '',
];

/** Stands for an array that is deeper than JSON.stringify can write. */
export const DEEP = '(deep)';
/** The JSON of a value. */
export const textOf = (value: unknown) =>
  JSON.stringify(value).replaceAll(JSON.stringify(DEEP), '['.repeat(20_000) + ']'.repeat(20_000));

const HOSTILE: readonly unknown[] = [
  { toString: 1, valueOf: 1 },
  { length: 5 },
  { length: -1, toString: null },
  DEEP,
  ['a@example.com', { toString: 1 }],
  { 'X-A': { toString: 1, valueOf: 1 } },
  { 'X-A': DEEP },
];

/** Any JSON value. */
export function anyValue(random: () => number, levels = 3): unknown {
  const simple = [
    null,
    true,
    0,
    -1,
    1.5,
    1e308,
    '',
    'a@example.com',
    '\u0000',
    '\ud800',
    'x'.repeat(3000),
    ...HOSTILE,
  ];
  if (levels === 0 || random() < 0.5) return pick(random, simple);
  const values = Array.from({ length: Math.floor(random() * 4) }, () => anyValue(random, levels - 1));
  return random() < 0.5 ? values : Object.fromEntries(values.map((value) => [pick(random, NAMES), value]));
}
