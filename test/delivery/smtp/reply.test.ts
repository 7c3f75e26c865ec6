import { test } from 'tap';
import { REPLY_CHARS_MAX } from '../../../src/base/limits.js';
import { isLastLine, parseReply } from '../../../src/mail/delivery/smtp/protocol.js';

test('one line is a reply: code, enhanced code, words', async (t) => {
  t.same(parseReply(['550 5.1.1 no such user']), {
    code: 550,
    enhanced: '5.1.1',
    text: '550 5.1.1 no such user',
  });
  t.same(parseReply(['250 ok']), { code: 250, enhanced: null, text: '250 ok' });
});

test('a bare code is a reply (RFC 5321 §4.2.1 asks clients to take it)', async (t) => {
  t.same(parseReply(['250']), { code: 250, enhanced: null, text: '250' });
  t.same(parseReply(['354 ']), { code: 354, enhanced: null, text: '354' });
});

test('several lines become one, the enhanced code said once', async (t) => {
  const lines = ['550-5.1.1 The account', '550-5.1.1 you wrote to', '550 5.1.1 does not exist.'];
  t.same(parseReply(lines), {
    code: 550,
    enhanced: '5.1.1',
    text: '550 5.1.1 The account you wrote to does not exist.',
  });
  t.same(parseReply(['250-', '250-a', '250']), { code: 250, enhanced: null, text: '250 a' });
});

test('an enhanced code counts only at the beginning, whole, and of the same class', async (t) => {
  t.equal(parseReply(['550 see 5.1.1'])?.enhanced, null);
  t.equal(parseReply(['550 5.1.1234 x'])?.enhanced, null);
  t.equal(parseReply(['550 5.1.1.2 x'])?.enhanced, null);
  t.equal(parseReply(['450 5.1.1 x'])?.enhanced, null, 'a permanent code in a temporary reply');
  t.equal(parseReply(['452 4.2.2'])?.enhanced, '4.2.2');
});

test('lines that are not a reply are refused', async (t) => {
  const garbage = [
    '',
    '25',
    '2500 x',
    '150 x',
    '650 x',
    'foo bar',
    '2xx hello',
    '250_x',
    ' 250 x',
    '250ok',
    'HTTP/1.1 400 Bad',
  ];
  for (const line of garbage) {
    t.equal(parseReply([line]), null, JSON.stringify(line));
    t.equal(isLastLine(line), null, JSON.stringify(line));
  }
  t.equal(parseReply([]), null);
  t.equal(parseReply(['250-yes', '550 no']), null, 'lines that disagree');
});

test('the last line is the one whose code no hyphen follows', async (t) => {
  t.equal(isLastLine('250-PIPELINING'), false);
  t.equal(isLastLine('250-'), false);
  t.equal(isLastLine('250 ok'), true);
  t.equal(isLastLine('250'), true);
});

test('the text is one line of at most REPLY_CHARS_MAX without controls', async (t) => {
  t.equal(parseReply(['550 a\u0000b\u001b[31mc\u202Ed\te'])?.text, '550 a b [31mc d e');
  const long = parseReply([`550 ${'x'.repeat(REPLY_CHARS_MAX * 2)}`])?.text ?? '';
  t.equal(long.length, REPLY_CHARS_MAX);
  // "550 " and 495 letters: the pair would be cut in two at 500.
  const cut = parseReply([`550 ${'x'.repeat(REPLY_CHARS_MAX - 5)}😀😀`])?.text ?? '';
  t.equal(cut, `550 ${'x'.repeat(REPLY_CHARS_MAX - 5)}`);
});
