/** What becomes of a ready-made mail on its way to the spool, however it is cut into chunks, and what its header says. */

import { t } from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { HEADER_VALUE_OCTETS_MAX, OWN_HEADERS_MAX } from '../../src/base/limits.js';
import { parseAddress } from '../../src/mail/message/address.js';
import { MAIL_HEADER_BYTES_MAX, ReadyMadeReader } from '../../src/mail/mime/ready-made.js';
import { RECEIVED_MAX } from '../../src/mail/mime/ready-made-head.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const ROUNDS = process.env.FIELDPOST_TEST_LONG === '1' ? 100_000 : 5000;
const octets = (text: string) => Buffer.from(text, 'latin1');
const whole = (input: string | Buffer) => read([Buffer.from(input as string)]);

function read(chunks: readonly Buffer[], reader = new ReadyMadeReader()) {
  const out: Buffer[] = [];
  for (const chunk of chunks) {
    // The caller may reuse the memory of its chunk.
    const memory = Buffer.from(chunk);
    out.push(Buffer.from(reader.push(memory)));
    memory.fill('x');
  }
  const { bytes, head } = reader.end();
  return { text: Buffer.concat([...out, bytes]).toString('latin1'), head };
}

function cutAt(bytes: Buffer, random: () => number, most = 5): Buffer[] {
  const chunks = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + Math.floor(random() * most);
    chunks.push(bytes.subarray(at, end));
    at = end;
  }
  return chunks;
}

function refusalOf(chunks: readonly Buffer[]): FieldpostError | null {
  try {
    read(chunks);
  } catch (error) {
    if (error instanceof FieldpostError) return error;
    throw error;
  }
  return null;
}

/** The rules in plain words, one after another, on the whole text. */
function model(text: string): string {
  let rest = text;
  const raw = () => /^[^\n]*\n?/.exec(rest)?.[0] ?? '';
  const line = () =>
    raw()
      .replace(/\r*\n?$/, '')
      .replaceAll('\r', ' ');
  const shift = () => {
    rest = rest.slice(raw().length);
  };
  const isField = (line: string) => /^[!-9;-~]+[ \t]*:/.test(line);
  const section: string[] = [];
  if (/^>?From (?!\s*:)/.test(line())) shift();
  for (; isField(line()) || (section.length > 0 && /^[ \t]/.test(line())); shift()) section.push(line());
  if (line() === '') shift();
  let isDropped = false;
  const kept = section.filter((line) => {
    if (isField(line)) isDropped = /^(?:bcc|resent-bcc|return-path)[ \t]*:/i.test(line);
    return !isDropped;
  });
  const body = rest.replace(/\r*\n|\r/g, '\r\n').replace(/[^\n]$/, '$&\r\n');
  return [...kept, ''].map((line) => `${line}\r\n`).join('') + body;
}

const CASES: [why: string, input: string, output: string][] = [
  ['a mail', 'Subject: x\r\nTo: a@b\r\n\r\nBody\r\n', 'Subject: x\r\nTo: a@b\r\n\r\nBody\r\n'],
  [
    'line ends of any kind',
    'A: 1\nB: 2\r\n\nx\ry\n\rz\r\rw\r\n',
    'A: 1\r\nB: 2\r\n\r\nx\r\ny\r\n\r\nz\r\n\r\nw\r\n',
  ],
  [
    'line ends of CR CR LF',
    'A: 1\r\r\nB: 2\r\r\r\n\r\r\n.\r\r\n\r\r\nx\r\r\n',
    'A: 1\r\nB: 2\r\n\r\n.\r\n\r\nx\r\n',
  ],
  ['a CR in the header', 'A: 1\rBcc: x@y\r\rB: 2\n\n', 'A: 1 Bcc: x@y  B: 2\r\n\r\n'],
  ['a CR before a header', 'A: 1\n\rBcc: x@y\n\n', 'A: 1\r\n Bcc: x@y\r\n\r\n'],
  ['a CR in a first line that is no header', 'hi\rA: 1\n', '\r\nhi\r\nA: 1\r\n'],
  ['CRs at the end of all', 'A: 1\n\nx\r\r', 'A: 1\r\n\r\nx\r\n\r\n'],
  ['an open header that ends in CRs', 'A: 1\r\r', 'A: 1\r\n\r\n'],
  ['an open last line', 'A: 1\n\nx', 'A: 1\r\n\r\nx\r\n'],
  ['an open last line that ends in CR', 'A: 1\n\nx\r', 'A: 1\r\n\r\nx\r\n'],
  ['nothing', '', '\r\n'],
  ['only a line break', '\n', '\r\n'],
  ['a header section without a body', 'A: 1\n', 'A: 1\r\n\r\n'],
  ['a header section without its last line break', 'A: 1', 'A: 1\r\n\r\n'],
  ['no header', 'hi\n', '\r\nhi\r\n'],
  ['no header and no line break', 'hi', '\r\nhi\r\n'],
  [
    'a section without its empty line',
    'A: 1\nhi: there\nhi there\nB: 2\n',
    'A: 1\r\nhi: there\r\n\r\nhi there\r\nB: 2\r\n',
  ],
  ['a section of CRs', 'A: 1\r\rhi', 'A: 1  hi\r\n\r\n'],
  ['a folded line before all fields', ' x\nA: 1\n', '\r\n x\r\nA: 1\r\n'],
  [
    'Bcc and Return-Path',
    'Bcc: a@b,\n c@d\nA: 1\nRETURN-PATH : <x>\n\t\nbcc:\nB: 2\n 3\n\nBcc: x\n',
    'A: 1\r\nB: 2\r\n 3\r\n\r\nBcc: x\r\n',
  ],
  ['Resent-Bcc', 'Resent-Bcc: a@b\n\n', '\r\n'],
  ['only Bcc', 'Bcc: a@b', '\r\n'],
  ['the line of an mbox', 'From a@b Fri Nov 20\nA: 1\n\n', 'A: 1\r\n\r\n'],
  ['the quoted line of an mbox', '>From a@b\nA: 1\n\n', 'A: 1\r\n\r\n'],
  ['nothing but the line of an mbox', 'From a@b', '\r\n'],
  ['such a line where it is none', 'A: 1\n\nFrom x\n>From y\n', 'A: 1\r\n\r\nFrom x\r\n>From y\r\n'],
  ['the obsolete form of From', 'From : a@b\n\n', 'From : a@b\r\n\r\n'],
  ['dots are for SMTP', 'A: 1\n\n.\n..x\n', 'A: 1\r\n\r\n.\r\n..x\r\n'],
  ['octets that are no text', 'A: \xff\xfe\n\n\x80\x01\x1b\xff\n', 'A: \xff\xfe\r\n\r\n\x80\x01\x1b\xff\r\n'],
  ['a blank line of blanks is folded', 'A: 1\n \nB: 2\n\nx', 'A: 1\r\n \r\nB: 2\r\n\r\nx\r\n'],
];

t.test('what comes out, in one chunk and octet by octet', async (t) => {
  for (const [why, input, output] of CASES) {
    t.equal(read([octets(input)]).text, output, why);
    t.equal(read([...octets(input)].map((byte) => Buffer.of(byte))).text, output, `${why}, octet by octet`);
    t.equal(model(input), output, `the model agrees: ${why}`);
    t.equal(read([octets(output)]).text, output, `${why}: what came out comes out again`);
  }
});

t.test('however a mail is cut, the spool gets the same', async (t) => {
  const random = seededRandom(seed);
  const pieces = [
    '\r',
    '\n',
    '\r\n',
    '\r\n',
    '\r\n\r\n',
    'a',
    'From ',
    'A: 1',
    'Bcc: x',
    'return-path:',
    ' ',
    '\t',
    ':',
    'long line of text',
    '\xe9',
  ];
  for (let round = 0; round < ROUNDS; round++) {
    let text = '';
    for (let left = random() * 14; left > 0; left--) text += pick(random, pieces);
    const found = read(cutAt(octets(text), random, 2 + (round % 7))).text;
    if (found !== model(text))
      t.equal(found, model(text), `seed ${seed}, round ${round}: ${JSON.stringify(text)}`);
  }
  t.pass(`${ROUNDS} mails`);
});

t.test('what needs no change is neither copied nor held', async (t) => {
  const reader = new ReadyMadeReader();
  t.equal(reader.push(octets('Subject: x\r\n')).length, 0, 'the header section is held until it is whole');
  t.equal(reader.push(octets('\r\n')).toString(), 'Subject: x\r\n\r\n');
  for (const text of [
    'a line\r\n',
    '\r\n',
    'half a li',
    'ne\r\n\r\nends in CR\r',
    '\nLF\r\n',
    '\r',
    '\n',
    'x',
    `${'y'.repeat(997)}\r\n`,
  ]) {
    const chunk = octets(text);
    t.equal(reader.push(chunk), chunk, JSON.stringify(text.slice(0, 30)));
  }
  t.equal(reader.end().bytes.length, 0);
});

t.test('a line that no relay takes is named', async (t) => {
  const x = (count: number) => 'x'.repeat(count);
  const head = `Subject: ${x(989)}\r\n`;
  const cases: [why: string, input: string, number: number | null][] = [
    ['a header line of 998', `${head}\r\n`, null],
    ['a header line of 999', `A: 1\r\nSubject: ${x(990)}\r\n\r\n`, 2],
    ['an open header line of 999', `A: 1\nB: 2\nSubject: ${x(990)}`, 3],
    ['a header line of 999 with its CRs', `A: 1\nSubject: ${x(400)}${'\r'.repeat(590)}x`, 2],
    ['a header line of 998 and CRs', `${head.trim()}\r\r\r\n\r\n`, null],
    ['a header of CRs', `A: ${'\r'.repeat(10_000)}`, 1],
    ['CRs that are no line', '\r'.repeat(10_000), null],
    ['lines of 998', `${head}\r\n${x(998)}\r\n${x(998)}\n${x(998)}\r${x(998)}`, null],
    ['a line of 999', `${head}\r\n\r\n${x(999)}\r\n`, 4],
    ['after CRs', `${head}\n\r\r\r${x(999)}`, 6],
    ['after CRs that belong to a line end', `${head}\r\r\n\r\r\r\n${x(999)}`, 4],
    ['after LFs', `${head}\n\n\n${x(999)}`, 5],
    ['after line breaks of all kinds', `${head}\r\na\r\nb\rc\nd\r\n\n\r${x(999)}`, 9],
    ['the first line of all', x(999), 1],
    ['a NUL in the header', 'A: 1\r\nB: \0\r\n\r\n', 2],
    ['a NUL in a first line', '\0', 1],
    ['a NUL in the body', 'A: 1\r\n\r\nx\r\nx\0', 4],
    ['a NUL in a body of LFs', 'A: 1\n\nx\nx\n\0', 5],
    ['a NUL after CR', 'A: 1\n\nx\r\0', 4],
  ];
  for (const [why, input, number] of cases) {
    const random = seededRandom(seed);
    for (const chunks of [
      [octets(input)],
      cutAt(octets(input), random, 700),
      [...octets(input)].map((byte) => Buffer.of(byte)),
    ]) {
      const refusal = refusalOf(chunks);
      if (number === null) t.equal(refusal, null, why);
      else {
        const detail = new RegExp(`line ${number} (?:has a NUL|is longer than 998 octets)$`);
        t.match(
          refusal,
          { code: 'invalid', message: detail, faults: [{ pointer: 'body', detail }] },
          `${why}, in ${chunks.length} chunks`,
        );
      }
    }
  }
});

t.test('a header section has a limit', async (t) => {
  const line = `X: ${'x'.repeat(59)}\r\n`;
  const fits = line.repeat(MAIL_HEADER_BYTES_MAX / 64);
  t.equal(fits.length, MAIL_HEADER_BYTES_MAX);
  t.equal(whole(`${fits}\r\nbody\r\n`).text, `${fits}\r\nbody\r\n`);
  t.match(refusalOf([octets(`${fits}Y:\r\n\r\n`)]), {
    code: 'invalid',
    message: /larger than 65536 bytes at line 1025$/,
  });
  t.match(
    refusalOf([octets(`${`${line.replace('X', 'Bcc')}`.repeat(1024)}\r\n`)]),
    { code: 'invalid' },
    'what is dropped counts, too',
  );
  t.equal(refusalOf([octets(`A: 1\n\n${fits}${fits}`)]), null, 'a body has none');
});

t.test('a mail that goes round in a loop is refused', async (t) => {
  const received = (count: number) =>
    'Received: from a by b;\r\n\tFri, 20 Nov 2026 09:41:30 +0000\r\n'.repeat(count);
  t.equal(refusalOf([octets(`${received(RECEIVED_MAX - 1)}\r\n`)]), null);
  t.match(refusalOf([octets(`${received(RECEIVED_MAX)}\r\n`)]), {
    code: 'invalid',
    message: /loop/,
    faults: [{ pointer: 'received' }],
  });
  t.match(refusalOf([octets(received(RECEIVED_MAX))]), { code: 'invalid' }, 'also without a body');
  t.equal(
    refusalOf([octets(`A: 1\r\n\r\n${received(RECEIVED_MAX)}`)]),
    null,
    'those of an attached mail do not count',
  );
});

t.test('the subject is for people', async (t) => {
  const cases: [header: string, subject: string][] = [
    ['To: a@b', ''],
    ['Subject:', ''],
    ['Subject: Pump', 'Pump'],
    ['SUBJECT : Pump \r\n stopped ', 'Pump  stopped'],
    ['Subject: first\r\nSubject: second', 'first'],
    ['Subject: =?UTF-8?B?xbxhYmE=?=', 'żaba'],
    ['Subject: =?utf-8?q?=C5=BCaba_1?= and =?ISO-8859-1?Q?caf=E9?=', 'żaba 1 and café'],
    ['Subject: =?utf-8?q?a?=\r\n =?utf-8?q?b?= =?us-ascii*en?q?c?=', 'abc'],
    ['Subject: =?utf-8?b?8J+Y?= =?utf-8?b?gA==?=', '😀'],
    ['Subject: =?koi8-r?q?=C1?= x', '=?koi8-r?q?=C1?= x'],
    ['Subject: =?utf-8?x?a?= =?', '=?utf-8?x?a?= =?'],
    ['Subject: =?utf-8?q?a=0D=0ABcc:_x=1B[2J=E2=80=AE?=', 'a Bcc: x [2J'],
    ['Subject: \x1b\x07a\x7f', 'a'],
  ];
  for (const [header, subject] of cases) t.equal(whole(`${header}\r\n\r\n`).head.subject, subject, header);
  t.equal(whole(Buffer.from('Subject: żaba\n')).head.subject, 'żaba', 'UTF-8 as it is (RFC 6532)');
  t.equal(read([octets('Subject: caf\xe9\n')]).head.subject, 'café', 'octets of old mailers');
});

t.test('ids, missing headers and octets', async (t) => {
  const id = (value: string) => whole(`Message-ID:${value}\n\n`).head.messageId;
  t.equal(id(' <a.b@c>'), 'a.b@c');
  t.equal(id('\r\n <a@b>  '), 'a@b', 'a folded one');
  t.equal(id(` <${'x'.repeat(248)}@b>`), `${'x'.repeat(248)}@b`);
  for (const bad of [
    '',
    ' ',
    ' a@b',
    ' <a@b',
    ' <a@b> <c@d>',
    ' <a b@c>',
    ' <a@b> x',
    ` <${'x'.repeat(249)}@b>`,
    ' <>',
    ' <\xe9@b>',
    ' <a\x01@b>',
  ]) {
    t.equal(id(bad), null, bad);
  }
  t.equal(whole('Message-ID: <a@b>\nMessage-Id: <c@d>\n').head.messageId, null, 'two are none');
  t.same(whole('').head.missing, ['date', 'from', 'message-id']);
  t.same(whole('DATE: x\nfrom : y\nMESSAGE-ID:\n').head.missing, []);
  t.same(whole('X: y\n\nDate: x\nFrom: y\n').head.missing, ['date', 'from', 'message-id'], 'a body has none');
  t.equal(whole('A: b\n\n\xe9').head.isEightBit, false);
  t.equal(read([octets('A: \xe9\n\n')]).head.isEightBit, true);
  t.equal(read([octets('Bcc: \xe9\n\n')]).head.isEightBit, false, 'not in what is dropped');
});

t.test('recipients are those of To, Cc and Bcc', async (t) => {
  const recipients = (text: string) => {
    const { head } = whole(`${text}\n\n`);
    return [
      head.recipients.map(({ name, address }) => (name === '' ? address : `${name}=${address}`)),
      head.recipientFault,
    ];
  };
  t.same(recipients('Bcc: c@x\nCc: b@x\nTo: Ann <a@x>,\n  "Doe, J" <d@x>\nTo: e@x'), [
    ['Ann=a@x', 'Doe, J=d@x', 'e@x', 'b@x', 'c@x'],
    null,
  ]);
  t.same(
    recipients('To: a@X.org, A@x.org\nCc: b@x, a@x.ORG'),
    [['a@X.org', 'A@x.org', 'b@x'], null],
    'once each',
  );
  t.same(recipients('To: team: a@x, =?utf-8?q?=C5=BB?= <b@x>;, c@x (Carl)'), [
    ['a@x', 'Ż=b@x', 'Carl=c@x'],
    null,
  ]);
  t.same(recipients('To: undisclosed-recipients:;'), [[], null]);
  t.same(recipients('Subject: x'), [[], null]);
  t.match(recipients('To: a@x\nCc: b@x, john doe, d@x'), [
    ['a@x', 'b@x', 'd@x'],
    /^Cc: "john doe" is not an email address$/,
  ]);
  t.match(recipients('To: root'), [[], /^To: "root"/]);
  t.same(
    recipients('To: a@x\nResent-To: r@x\nResent-Cc: s@x\nResent-Bcc: t@x\nBcc: b@x'),
    [['r@x', 's@x', 't@x'], null],
    'as sendmail does',
  );
  t.same(recipients('To: a@x\nResent-From: r@x'), [['a@x'], null]);
  const reader = new ReadyMadeReader({
    qualify: (name) => (name === 'root' ? parseAddress('admin@x.org') : null),
  });
  const { head } = read([octets('To: root, a@x, Root User <root>\nCc: nobody\n')], reader);
  t.match(head, {
    recipients: [{ address: 'admin@x.org' }, { address: 'a@x' }],
    recipientFault: /^Cc: "nobody"/,
  });
});

t.test('the headers of its own that a posted mail may have fit a header section', async (t) => {
  t.ok(OWN_HEADERS_MAX * HEADER_VALUE_OCTETS_MAX < MAIL_HEADER_BYTES_MAX / 2);
});
