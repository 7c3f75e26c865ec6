/** What becomes of each kind of harmful character, in each form; and times as a reader sees them. */
import t from 'tap';
import {
  cut,
  harmlessName,
  hasControl,
  hasLoneSurrogate,
  isoOf,
  oneLine,
  visible,
  withoutSecrets,
} from '../src/base/text.js';

const KINDS: readonly [kind: string, character: string, escaped: string, inNames: '' | 'stays'][] = [
  ['a control', '\u001b', '\\u001b', ''],
  ['a control of the upper half', '\u009b', '\\u009b', ''],
  ['a line break', '\n', '\\u000a', ''],
  ['a tab', '\t', '\\u0009', ''],
  ['a line separator', '\u2028', '\\u2028', ''],
  ['a paragraph separator', '\u2029', '\\u2029', ''],
  ['a direction override', '\u202e', '\\u202e', ''],
  ['a direction isolate', '\u2066', '\\u2066', ''],
  ['a direction mark', '\u200f', '\\u200f', ''],
  ['an Arabic letter mark', '\u061c', '\\u061c', ''],
  ['a byte order mark', '\ufeff', '\\ufeff', ''],
  ['half a character', '\ud800', '\\ud800', ''],
  ['a joiner', '\u200d', '\\u200d', 'stays'],
  ['a soft hyphen', '\u00ad', '\\u00ad', 'stays'],
  ['a tag', '\u{e0041}', '\\udb40\\udc41', 'stays'],
];

t.test('characters that control a terminal or reverse the order of words', async (t) => {
  for (const [kind, character, escaped, inNames] of KINDS) {
    const text = `a${character}b`;
    t.equal(visible(text), `a${escaped}b`, `${kind} is shown`);
    t.equal(visible(text, character), text, `${kind} can be kept`);
    t.equal(oneLine(text), 'a b', `${kind} is a blank in a line`);
    t.equal(harmlessName(text, ''), inNames === '' ? 'ab' : text, `${kind} in a name`);
    t.equal(harmlessName(text, ' '), inNames === '' ? 'a b' : text, `${kind} in a name, as a blank`);
  }
});

t.test('control characters and lone surrogates are found', async (t) => {
  for (const [kind, character] of KINDS) {
    const text = `\u{1f4a7}${character}b`;
    t.equal(hasControl(text), /control|line break|tab/.test(kind), kind);
    t.equal(hasLoneSurrogate(text), kind === 'half a character', kind);
  }
});

t.test('harmless characters stay', async (t) => {
  const text = 'Żółw 水 "x" \\ \u{1f4a7} \ue000 \u0378';
  for (const form of [visible, oneLine, (name: string) => harmlessName(name, '')]) t.equal(form(text), text);
});

t.test('one line', async (t) => {
  t.equal(oneLine(' \r\n a \u00a0\t\u2028 b \0'), 'a b', 'runs are one blank, none stands outside');
  t.equal(oneLine('x'.repeat(1000)).length, 500);
  t.equal(oneLine('  abc', 2), 'ab', 'blanks that go do not count');
});

t.test('secrets are hidden, and parts of them', async (t) => {
  const secrets = ['open sesame!', 'c2VzYW1lc2VzYW1l==', '', 'abc'];
  for (const [text, shown] of [
    ['it is open sesame!, no?', 'it is (hidden), no?'],
    ['AUTH c2VzYW1lc2VzYW1l==', 'AUTH (hidden)'],
    ['AUTH c2VzYW1lc2', 'AUTH (hidden)'],
    ['"zYW1lc2V"', '"(hidden)"'],
    ['c2VzYW1 is short', 'c2VzYW1 is short'],
    ['sesame is open, abc', 'sesame is open, abc'],
  ] as const)
    t.equal(withoutSecrets(text, secrets), shown);
});

t.test('a cut halves no character', async (t) => {
  t.equal(cut('ab\u{1f4a7}', 4), 'ab\u{1f4a7}');
  t.equal(cut('ab\u{1f4a7}', 3), 'ab');
  t.equal(cut('abc', 2), 'ab');
  t.equal(cut('', 0), '');
});

t.test('a time is written as toISOString writes it', async (t) => {
  const edges = [
    0, -1, 951_782_399_999, 951_782_400_000, 253_402_300_799_999, 253_402_300_800_000, -62_167_219_200_001,
  ];
  for (const ms of [...edges, 1_700_000_000_007]) t.equal(isoOf(ms), new Date(ms).toISOString());
  t.throws(() => isoOf(Number.NaN), RangeError);
});
