import { t } from 'tap';
import { readMail } from '../../src/dev/reader.js';
import { type Address, parseAddress } from '../../src/mail/message/address.js';
import { type LetterFile, render } from '../../src/mail/mime/letter.js';
import { seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

/** The mail, with the sizes of its attachments. */
function read(raw: Buffer) {
  const { attachments, ...texts } = readMail(raw);
  return {
    ...texts,
    attachments: attachments.map(({ name, type, octets }) => ({ name, type, size: octets.length })),
  };
}

const lines = (...of: string[]) => Buffer.from(of.join('\r\n'));

t.test('mails of our own renderer are read exactly', async (t) => {
  const device = { name: '', address: parseAddress('device@example.org') as Address };
  const texts = [
    '',
    'a',
    'a\r\n',
    '\r\n.\r\n',
    ' \t',
    '=20=\r\n',
    '--=_mixed\r\n',
    'Zażółć — 日本 👨‍👩‍👧',
    '\ufeffx',
    'x'.repeat(5000),
  ];
  const names = ['a.txt', 'a "b".txt', 'Zażółć gęślą jaźń.pdf', '日本語'.repeat(28), '😀', 'a=?b', '', "'*%"];
  const attachments = names.map((name, at): LetterFile => {
    return {
      name,
      type: 'image/png',
      size: at * 100,
      async *open() {
        yield Buffer.alloc(at * 100, at);
      },
    };
  });
  for (const attached of [[], attachments]) {
    for (const plain of texts) {
      for (const html of texts) {
        const subject = plain.replace(/[\r\n]/g, '');
        const content = { subject, plain, html };
        const letter = { from: device, to: [device], content, messageId: 'a@b', dateMs: 0 };
        const { bytes } = render({ ...letter, attachments: attached });
        const chunks = [];
        for await (const chunk of Buffer.isBuffer(bytes) ? [bytes] : bytes) chunks.push(chunk);
        t.same(read(Buffer.concat(chunks)), {
          subject,
          plain: plain === '' && html !== '' ? null : plain,
          html: html === '' ? null : html,
          attachments: attached.map(({ name, type, size }) => ({ name, type, size })),
        });
      }
    }
  }
});

t.test('mails of others', async (t) => {
  const subject = (value: string) => readMail(lines(`SUBJECT: ${value}`, '', '')).subject;
  // RFC 2047 §8.
  t.equal(subject('=?ISO-8859-1?Q?a?='), 'a');
  t.equal(subject('=?ISO-8859-1?Q?a?= b'), 'a b');
  t.equal(subject('=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?='), 'ab');
  t.equal(subject('=?ISO-8859-1?Q?a?=\r\n =?ISO-8859-1?Q?b?='), 'ab');
  t.equal(subject('=?ISO-8859-1?Q?a_b?='), 'a b');
  t.equal(subject('=?ISO-8859-1?Q?a?= =?ISO-8859-2?Q?_b?='), 'a b');
  t.equal(subject('=?iso-8859-2?q?=BF=F3=B3w?='), 'żółw');
  t.equal(subject('=?utf-8*pl?B?xbw=?='), 'ż', 'with a language (RFC 2231 §5)');
  t.equal(subject('=?utf-8?Q?=C5?= =?utf-8?Q?=BC?='), 'ż', 'a character cut in two');
  t.equal(subject('=?ISO-8859-1?Q?=E6?= =?ISO-8859-2?Q?=BF?='), 'æż');
  t.equal(subject('=?no-such?Q?=E9?='), 'é');
  t.equal(subject('żółw'), 'żółw', 'RFC 6532');

  const odd = read(
    lines(
      'Content-Type: multipart/mixed; boundary=b',
      '',
      'for old mail programs',
      '--b ',
      'Content-type: TEXT/Plain; charset="iso-8859-2"',
      'Content-Transfer-Encoding: 8bit',
      '',
      'text',
      '--b',
      'Content-Type: multipart/related; boundary="b b"',
      '',
      '--b b',
      'Content-Type: text/html',
      '',
      '<p>',
      '--bb is text, and so is',
      ' --b b',
      '--b b',
      'Content-Type: image/png; name="=?utf-8?B?xbw=?=.png"',
      'Content-Transfer-Encoding: BASE64',
      '',
      'AAAA',
      'AAA=',
      '--b b--',
      '--b',
      '',
      'a second text',
      '--b',
      // RFC 2231 §4.1.
      'Content-Type: application/x-stuff',
      "Content-Disposition: attachment; filename*0*=us-ascii'en'This%20is%20even%20more%20;",
      ' filename*1*=%2A%2A%2Afun%2A%2A%2A%20; filename*2="isn\'t it!"',
      '',
      'cut short',
    ),
  );
  t.same(odd, {
    subject: '',
    plain: 'text',
    html: '<p>\r\n--bb is text, and so is\r\n --b b',
    attachments: [
      { name: 'ż.png', type: 'image/png', size: 5 },
      { name: '', type: 'text/plain', size: 13 },
      { name: "This is even more ***fun*** isn't it!", type: 'application/x-stuff', size: 9 },
    ],
  });
});

t.test('texts that are not mails', async (t) => {
  const nothing = { subject: '', plain: '', html: null, attachments: [] };
  t.same(read(Buffer.alloc(0)), nothing);
  t.same(read(Buffer.from('\r\ntext')), { ...nothing, plain: 'text' });
  t.same(read(Buffer.from('Subject: a\nX: y\n\ntext')), { ...nothing, subject: 'a', plain: 'text' });
  t.same(read(Buffer.from('Subject: only')), { ...nothing, subject: 'only' });
  t.same(read(Buffer.from('Content-Type: multipart/mixed; boundary=b\r\n\r\nno parts')), {
    ...nothing,
    plain: null,
  });
  let deep = Buffer.from('text');
  for (let depth = 0; depth < 1000; depth++) {
    deep = lines(`Content-Type: multipart/mixed; boundary=b${depth}`, '', `--b${depth}`, String(deep));
  }
  t.same(readMail(deep).plain, null, 'parts nested too deeply');

  const draw = seededRandom(seed);
  const pieces = [...'\n:;="\\\xff\0', '\r\n', '--b', '--', '=?utf-8?q?', '?=', "*0*=''%", 'text/html'];
  pieces.push('Content-Type: multipart/mixed; boundary=b', 'Content-Type: text/plain; charset=', 'Subject: ');
  pieces.push('Content-Transfer-Encoding: base64', 'Content-Disposition: attachment; filename*=');
  for (let count = 0; count < 20_000; count++) {
    const garbage = Array.from({ length: 30 }, () => pieces[Math.floor(draw() * pieces.length)]).join('');
    readMail(Buffer.from(garbage, 'latin1'));
  }
  t.pass('20,000 random texts');
});
