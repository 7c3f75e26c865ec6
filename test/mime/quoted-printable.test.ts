import { t } from 'tap';
import { encodeQuotedPrintable } from '../../src/mail/mime/encodings.js';

const encoded = (text: string) => encodeQuotedPrintable(text).toString('latin1');

t.test('single characters, by hand from RFC 2045 §6.7', async (t) => {
  const table: [string, string, string][] = [
    ['', '', 'nothing is nothing'],
    ['plain ~!', 'plain ~!', 'rule 2: visible ASCII stands for itself'],
    ['a=b', 'a=3Db', 'rule 1: the equals sign never does'],
    ['\x00\x07\x1b\x7f', '=00=07=1B=7F', 'rule 1: control characters, in upper-case hex'],
    ['é', '=C3=A9', 'rule 1: the octets of UTF-8'],
    ['😀', '=F0=9F=98=80', 'beyond the basic plane'],
    ['\ud83d', '=EF=BF=BD', 'half a surrogate pair has no UTF-8: the replacement character'],
    ['a b\tc', 'a b\tc', 'rule 3: blanks and tabs within a line stand for themselves'],
    ['a ', 'a=20', 'rule 3: a blank at the end of the text'],
    ['a \r\nb\t\r\n', 'a=20\r\nb=09\r\n', 'rule 3: and at the end of a line'],
    ['a  \n', 'a =20\r\n', 'only the last blank of a line is at its end'],
    [' \r\n', '=20\r\n', 'a line that is a blank'],
    ['a\r\nb', 'a\r\nb', 'rule 4: a line break is a line break'],
    ['a\nb\rc\r\rd\n\ne\n\rf', 'a\r\nb\r\nc\r\n\r\nd\r\n\r\ne\r\n\r\nf', 'bare CR and LF are line breaks'],
    ['.', '=2E', 'a dot alone'],
    ['.\r\n..x\r\na.b', '=2E\r\n=2E.x\r\na.b', 'a dot begins no line'],
    [
      'From me\r\n From me\r\nFromage',
      '=46rom me\r\n From me\r\nFromage',
      'nor does what mbox takes for a mail',
    ],
  ];
  for (const [text, expected, why] of table) t.equal(encoded(text), expected, why);
});

t.test('soft breaks (rule 5)', async (t) => {
  const x = (count: number) => 'x'.repeat(count);
  t.equal(encoded(x(75)), x(75), '75 characters are one line');
  t.equal(
    encoded(x(76)),
    `${x(75)}=\r\nx`,
    'the next one goes to another, which has room for one more octet',
  );
  t.equal(encoded(`${x(74)} \r\n`), `${x(74)}=\r\n=20\r\n`, 'an encoded blank needs three');
  t.equal(encoded(`${x(72)} \r\n`), `${x(72)}=20\r\n`, 'and has them');
  t.equal(encoded(`${x(74)} y`), `${x(74)} =\r\ny`, 'a blank before a soft break is not at the end');
  t.equal(encoded(`${x(75)}.y`), `${x(75)}=\r\n=2Ey`, 'a dot that a soft break puts first');
  t.equal(encoded(`${x(75)}From y`), `${x(75)}=\r\n=46rom y`, 'a From that a soft break puts first');
  t.equal(encoded(`${x(63)}😀`), `${x(63)}=F0=9F=98=80`, 'a character that just fits');
  t.equal(encoded(`${x(64)}😀`), `${x(64)}=\r\n=F0=9F=98=80`, 'a character is not cut in two');
  t.equal(encoded(`${x(66)}日`), `${x(66)}=E6=97=A5`);
  t.equal(encoded(`${x(67)}日`), `${x(67)}=\r\n=E6=97=A5`);
  t.equal(encoded(`${x(69)}é`), `${x(69)}=C3=A9`);
  t.equal(encoded(`${x(70)}é`), `${x(70)}=\r\n=C3=A9`);
});

t.test('the longest text for its length fits', async (t) => {
  for (const character of ['=', 'é', '日', '😀', '\n', ' \n', '.\n']) {
    const text = character.repeat(10_000);
    const lines = encoded(text).split('\r\n');
    t.ok(lines.every((line) => line.length <= 76));
    const octets = lines
      .join('\n')
      .replace(/=\n/g, '')
      .replace(/=(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
    t.equal(Buffer.from(octets, 'latin1').toString(), text);
  }
});
