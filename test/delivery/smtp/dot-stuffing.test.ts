import { test } from 'tap';
import { DotStuffing, stuffWhole } from '../../../src/mail/delivery/smtp/protocol.js';
import { seededRandom, testSeed } from '../../support/random.js';

/** The rules in plain words, one after another, on the whole text. */
function model(text: string): string {
  const lines = text.split(/\r\n|\r|\n/);
  if (lines.at(-1) === '') lines.pop();
  return `${lines.map((line) => `${line.startsWith('.') ? '.' : ''}${line}\r\n`).join('')}.\r\n`;
}

test('lines end in CRLF, leading dots are doubled, the final dot follows', async (t) => {
  const cases: [string, string][] = [
    ['', '.\r\n'],
    ['a', 'a\r\n.\r\n'],
    ['a\r\n', 'a\r\n.\r\n'],
    ['a\nb\rc', 'a\r\nb\r\nc\r\n.\r\n'],
    ['\r', '\r\n.\r\n'],
    ['\n\n\r\r', '\r\n\r\n\r\n\r\n.\r\n'],
    ['.', '..\r\n.\r\n'],
    ['.\r\n', '..\r\n.\r\n'],
    ['a\r\n.\r\nMAIL FROM:<x@y>\r\n', 'a\r\n..\r\nMAIL FROM:<x@y>\r\n.\r\n'],
    ['a\n.\nMAIL', 'a\r\n..\r\nMAIL\r\n.\r\n'],
    ['a\r.\rMAIL', 'a\r\n..\r\nMAIL\r\n.\r\n'],
    ['a\r\n..b\r\n.c\r\nd.\r\n', 'a\r\n...b\r\n..c\r\nd.\r\n.\r\n'],
  ];
  for (const [text, wire] of cases) {
    t.equal(stuffWhole(Buffer.from(text)).toString(), wire, JSON.stringify(text));
    t.equal(model(text), wire, 'the model agrees');
  }
});

test('however a text is cut, the wire gets the same', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const letters = ['.', '\r', '\n', '\r\n', 'a', '\r\n.', '.\r\n', 'long line of text'];
  for (let round = 0; round < 3000; round++) {
    let text = '';
    for (let left = random() * 12; left > 0; left--) text += letters[Math.floor(random() * letters.length)];
    const bytes = Buffer.from(text);
    const stuffing = new DotStuffing();
    const out: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + Math.floor(random() * 4);
      out.push(Buffer.from(stuffing.push(bytes.subarray(at, end))));
      at = end;
    }
    const wire = Buffer.concat([...out, stuffing.end()]).toString();
    if (wire !== model(text))
      t.equal(wire, model(text), `seed ${seed}, round ${round}: ${JSON.stringify(text)}`);
  }
  t.equal(bytesKept(), true, 'what needs no change is not copied');
});

function bytesKept(): boolean {
  const clean = Buffer.from('Subject: x\r\n\r\nno dots in front.\r\n');
  return new DotStuffing().push(clean) === clean;
}
