/** Address lists as mailers and people write them, against tables and two independent parsers. */
import { spawnSync } from 'node:child_process';
import { addressParser } from 'postal-mime';
import { t } from 'tap';
import { parseAddress } from '../../src/mail/message/address.js';
import { decodeWords } from '../../src/mail/message/encoded-words.js';
import { parseMailbox, parseMailboxes } from '../../src/mail/message/mailbox.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

/** `Name=address` of each, and the fault. */
function told(value: string): (string | null)[] {
  const { mailboxes, fault } = parseMailboxes(value);
  return [...mailboxes.map(({ name, address }) => (name === '' ? address : `${name}=${address}`)), fault];
}

t.test('one mailbox', async (t) => {
  const good: [text: string, name: string, address: string][] = [
    ['john@x', '', 'john@x'],
    [' john@x ', '', 'john@x'],
    ['<john@x>', '', 'john@x'],
    ['John <john@x>', 'John', 'john@x'],
    ['John   van  Doe<john@x>', 'John van Doe', 'john@x'],
    ['"Doe, John" <john@x>', 'Doe, John', 'john@x'],
    ['"a \\"b\\" \\\\ c" <john@x>', 'a "b" \\ c', 'john@x'],
    ['John Q. Public <john@x>', 'John Q. Public', 'john@x'],
    ['John "Jo" Doe <john@x>', 'John Jo Doe', 'john@x'],
    ['Żaba <żaba@żółw.pl>', 'Żaba', 'żaba@żółw.pl'],
    ['=?utf-8?q?=C5=BBaba?= =?utf-8?q?_x?= y <john@x>', 'Żaba x y', 'john@x'],
    ['"=?utf-8?q?x?=" <john@x>', '=?utf-8?q?x?=', 'john@x'],
    ['john@x (John (the) Doe)', 'John (the) Doe', 'john@x'],
    ['John (sic) <john@x> (work)', 'John', 'john@x'],
    ['"" <john@x>', '', 'john@x'],
    ['"john.doe"@x', '', 'john.doe@x'],
    ['john . doe @ x . org', '', 'john.doe@x.org'],
    ['<@a,@b:john@x>', '', 'john@x'],
    ['x@[IPv6:2001:db8::1]', '', 'x@[IPv6:2001:db8::1]'],
    ['[ops] <a@b>', '[ops]', 'a@b'],
    ['me@home <a@b>', 'me@home', 'a@b'],
    ['=?utf-8?q?a=0D=0ABcc=3A_b=00?= <a@b>', 'a Bcc: b', 'a@b'],
    ["o'brien <o'brien+tag@x>", "o'brien", "o'brien+tag@x"],
  ];
  for (const [text, name, address] of good) t.same(parseMailbox(text), { name, address }, text);
  const bad = [
    '',
    ' ',
    'john',
    '@x',
    'john@',
    'a@b, c@d',
    'a@b,',
    ',a@b',
    'a@b;',
    'g: a@b;',
    'g:;',
    'a b@c',
    'a@b c',
    '<a@b',
    'a@b>',
    '<a@b> x',
    '<a@b> <c@d>',
    '<>',
    'John <>',
    '"John <a@b>',
    'John (<a@b>',
    'a@b (c',
    '"a@b"',
    '"a@"b',
    '"a." b@c',
    'a"b"@c',
    '"a b"@c',
    'a@b\r\nBcc: c@d',
    'x\0 <a@b>',
    'x\n <a@b>',
    'a@b@c',
    'a..b@c',
    'Doe, John <a@b>',
    'John: <a@b>',
    '<a@b',
    '[a@b',
    'a@[b',
    '<a@b;>',
    '\\a@b',
    'a <b> c@d',
    '"a"b@c',
    '<@a,@b>',
    '(a)',
    '<<a@b>>',
    'a\ud800 b',
  ];
  for (const text of bad) t.equal(parseMailbox(text), null, JSON.stringify(text));
});

t.test('lists, and the first bad piece of each', async (t) => {
  const good: [value: string, told: string[]][] = [
    ['', []],
    [' \r\n ', []],
    [' , ,', []],
    ['a@x, b@y,\r\n\tC <c@z>', ['a@x', 'b@y', 'C=c@z']],
    ['"a, b" <a@x>,(c, d) b@y,', ['a, b=a@x', 'c, d=b@y']],
    ['team: a@x, B <b@y>; , c@z', ['a@x', 'B=b@y', 'c@z']],
    ['undisclosed-recipients:;', []],
    ['"a: b;" : a@x;b@y', ['a@x', 'b@y']],
    ['a@x,a@x', ['a@x', 'a@x']],
    ['"folded\r\n name" <a@x>', ['folded name=a@x']],
    ['a@x (comment) , (one) (two) b@y', ['comment=a@x', 'one=b@y']],
  ];
  for (const [value, list] of good) t.same(told(value), [...list, null], value);
  const bad: [value: string, told: string[], fault: string][] = [
    ['a@x, john, b@y', ['a@x', 'b@y'], '"john" is not an email address'],
    ['a@x; b@y', ['a@x', 'b@y'], 'a semicolon is not where a group ends; commas separate addresses'],
    ['x, g: a@x', ['a@x'], '"x" is not an email address'],
    ['g: a@x', ['a@x'], 'a group has no semicolon at its end'],
    ['g: h: a@x;;', ['a@x'], '"h" is not an email address'],
    ['a  b\r\n c@d\x1b', [], '"a b c@d\\\\u001b" is not an email address'],
    [`${'x'.repeat(100)}, y`, [], `"${'x'.repeat(80)}" is not an email address`],
    ['"a', [], '"\\"a" is not an email address'],
    [': a@x;', ['a@x'], '"" is not an email address'],
  ];
  for (const [value, list, fault] of bad) t.same(told(value), [...list, fault], value);
});

t.test('a recipient without a domain gets one, if there is one', async (t) => {
  const admin = parseAddress('admin@x.org');
  const asked: string[] = [];
  const qualify = (name: string) => {
    asked.push(name);
    return name === 'nobody' ? null : admin;
  };
  const found = parseMailboxes('root, Root <root>, a@x, john doe, nobody, "a@b", a"b"', qualify);
  t.same(found.mailboxes, [
    { name: '', address: 'admin@x.org' },
    { name: 'Root', address: 'admin@x.org' },
    { name: '', address: 'a@x' },
  ]);
  t.match(found.fault, /"john doe"/);
  t.same(asked, ['root', 'root', 'nobody']);
});

t.test('hostile texts take no longer than kind ones', async (t) => {
  const count = 20_000;
  const texts = [
    '"',
    '(',
    '(a',
    '<',
    '\\',
    '"\\',
    '[',
    ',',
    ';',
    ':',
    ' ',
    '\r\n ',
    '@',
    '.',
    'a ',
    '=?',
    '=?a?q?',
    '=?utf-8?q?a?= ',
    '"a" ',
    '()',
    '(())',
    'a@b,',
    '<a@b>',
    'a:;',
    '\\"',
    '. ',
    '@a:',
    '=?utf-8?q?',
    '?=',
  ].map((piece) => piece.repeat(count));
  texts.push(
    `${'('.repeat(count)}${')'.repeat(count)}a@b`,
    `<${'@a,'.repeat(count)}:a@b>`,
    `a${' '.repeat(count)}@${' '.repeat(count)}b`,
  );
  for (const text of texts) {
    const started = process.cpuUsage();
    parseMailboxes(text);
    parseMailbox(text);
    decodeWords(text);
    const ms = process.cpuUsage(started).user / 1000;
    // Quadratic time would take much longer. Processor time: other programs do not count.
    t.ok(ms < 3000, `${JSON.stringify(text.slice(0, 20))}: ${Math.round(ms)} ms`);
  }
});

t.test('two other parsers find the same in random lists', async (t) => {
  const random = seededRandom(seed);
  const names = [
    '',
    '',
    'John',
    'John Doe',
    '"Doe, John"',
    '"a \\"b\\" \\\\ c"',
    '"x <y@z>"',
    '"g: h;"',
    'Żaba',
    '"@"',
    "O'Brien",
    'J.',
  ];
  const addresses = ['a@x.org', 'b.c@y.org', "o'brien+x@z.org", 'ż@ż.pl', '#x@y.org'];
  const commas = [',', ', ', ' ,', ',\r\n ', ',, '];
  const lists = Array.from({ length: 500 }, () => {
    let text = '';
    for (let left = random() * 6; left > 0; left--) {
      const name = pick(random, names);
      const address = pick(random, addresses);
      text += `${text === '' ? '' : pick(random, commas)}${name === '' && random() < 0.5 ? address : `${name} <${address}>`}`;
    }
    return text;
  });
  const python = spawnSync('python3', ['-c', PYTHON], { input: JSON.stringify(lists) });
  const byPython: [string, string][][] | null = python.error ? null : JSON.parse(String(python.stdout));
  if (byPython === null) t.comment('there is no python3 here');
  for (const [index, list] of lists.entries()) {
    const { mailboxes, fault } = parseMailboxes(list);
    const ours = mailboxes.map(({ name, address }) => [name, address]);
    const words = `seed ${seed}: ${JSON.stringify(list)}`;
    if (fault !== null) t.fail(words, { fault });
    const theirs = addressParser(list.replaceAll('\r\n', '')).map(({ name, address }) => [name, address]);
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) t.same(ours, theirs, words);
    const pythons = byPython?.[index];
    if (pythons !== undefined && JSON.stringify(ours) !== JSON.stringify(pythons))
      t.same(ours, pythons, words);
  }
  t.pass(`${lists.length} lists`);
});

const PYTHON = `
import json, sys
from email.utils import getaddresses
lists = json.load(sys.stdin)
print(json.dumps([[[n, a] for n, a in getaddresses([l]) if a] for l in lists]))
`;
