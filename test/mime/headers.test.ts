import { t } from 'tap';
import {
  formatDate,
  header,
  attachmentHeaders as headersOf,
  subjectHeader,
} from '../../src/mail/mime/headers.js';

const attachmentHeaders = (name: string, type: string) => headersOf({ name, type }, false);
const x = (count: number) => 'x'.repeat(count);

t.test('a date is as RFC 5322 §3.3 has it, in UTC', async (t) => {
  t.equal(formatDate(0), 'Thu, 01 Jan 1970 00:00:00 +0000');
  // RFC 5322 §A.1.1: Fri, 21 Nov 1997 09:55:06 -0600.
  t.equal(formatDate(Date.UTC(1997, 10, 21, 15, 55, 6, 999)), 'Fri, 21 Nov 1997 15:55:06 +0000');
});

t.test('a plain subject stays readable and unfolds to itself', async (t) => {
  t.equal(subjectHeader(''), 'Subject:\r\n');
  t.equal(subjectHeader('Pump stopped'), 'Subject: Pump stopped\r\n');
  t.equal(subjectHeader(x(67)), `Subject: ${x(67)}\r\n`, 'the line is 76 long');
  t.equal(
    subjectHeader(`${x(65)} y z`),
    `Subject: ${x(65)} y\r\n z\r\n`,
    'folded before the word that is too much',
  );
  t.equal(subjectHeader(`${x(66)} y`), `Subject: ${x(66)}\r\n y\r\n`, 'the blank counts');
  t.equal(subjectHeader(`a ${x(75)} b`), `Subject: a\r\n ${x(75)}\r\n b\r\n`, 'a continuation line of 76');
});

t.test('a subject that would not survive is in encoded words (RFC 2047)', async (t) => {
  const word = (text: string) => `=?UTF-8?B?${Buffer.from(text).toString('base64')}?=`;
  const table: [string, string][] = [
    ['é', 'not ASCII'],
    [' a', 'a blank in front'],
    ['a ', 'a blank behind'],
    ['a  b', 'two blanks'],
    [' ', 'only a blank'],
    ['a\tb', 'a tab'],
    ['=?x?=', 'looks like an encoded word'],
    ['\x1b[2J', 'a control character'],
  ];
  for (const [subject, why] of table) t.equal(subjectHeader(subject), `Subject: ${word(subject)}\r\n`, why);
  t.equal(
    subjectHeader(x(68)),
    `Subject: ${word(x(39))}\r\n ${word(x(29))}\r\n`,
    'a word too long for the first line',
  );
  t.equal(
    subjectHeader(`a ${x(76)}`),
    `Subject: ${word(`a ${x(37)}`)}\r\n ${word(x(39))}\r\n`,
    'and for the second',
  );
  t.equal(
    subjectHeader('😀'.repeat(21)),
    `Subject: ${[9, 11, 1].map((count) => word('😀'.repeat(count))).join('\r\n ')}\r\n`,
    'no character is cut in two',
  );
});

t.test('an attachment is named', async (t) => {
  t.equal(
    attachmentHeaders('log.txt', 'text/plain'),
    'Content-Type:\r\n text/plain;\r\n name="log.txt"\r\nContent-Transfer-Encoding: base64\r\n' +
      'Content-Disposition: attachment;\r\n filename="log.txt"\r\n',
  );
  const disposition = (name: string) => attachmentHeaders(name, 'a/b').split('attachment;\r\n ')[1];
  t.equal(disposition('Prüf "1".txt'), "filename*=UTF-8''Pr%C3%BCf%20%221%22.txt\r\n");
  t.equal(disposition("a*b'c%"), `filename="a*b'c%"\r\n`, 'a quoted string may hold these');
  t.equal(
    disposition("é*'%"),
    "filename*=UTF-8''%C3%A9%2A%27%25\r\n",
    'an extended value may not (RFC 2231 §7)',
  );
  t.equal(
    disposition('é'.repeat(10)),
    `filename*0*=UTF-8''${'%C3%A9'.repeat(9)};\r\n filename*1*=%C3%A9\r\n`,
  );
  t.match(attachmentHeaders('Prüf "1".txt', 'a/b'), '\r\n name="Pr_f _1_.txt"\r\n', 'the fallback');
  t.match(
    attachmentHeaders(`${x(80)}😀.csv`, 'a/b'),
    `\r\n name="${x(49)}_.csv"\r\n`,
    'keeps the end of the name',
  );
});

t.test('an attachment has a type that may be base64', async (t) => {
  const type = (given: string) =>
    /^Content-Type:\r\n (.*);\r\n name/.exec(attachmentHeaders('a', given))?.[1];
  t.equal(type('image/svg+xml'), 'image/svg+xml');
  const long = 'application/vnd.openxmlformats-officedocument.presentationml.presentation';
  t.equal(type(long), long);
  t.equal(type('text/csv; charset=iso-8859-1'), 'text/csv; charset=iso-8859-1');
  for (const bad of [
    '',
    'text',
    'text/',
    'a/b; c=d',
    'text/csv; charset="x"',
    'message/rfc822; charset=utf-8',
    'a b/c',
    'a/b\r\nBcc: x',
    'message/rfc822',
    'Multipart/mixed',
    `a/${x(80)}`,
  ]) {
    t.equal(type(bad), 'application/octet-stream', bad);
  }
});

t.test('nothing ends a header early', async (t) => {
  for (const bad of ['\r', '\n', '\0', '\r\n']) {
    t.throws(() => header('To', `a${bad}b`), /no line break/);
    t.throws(() => subjectHeader(`a${bad}b`), /no line break/);
    t.throws(() => attachmentHeaders(`a${bad}b`, 'a/b'), /no line break/);
  }
});
