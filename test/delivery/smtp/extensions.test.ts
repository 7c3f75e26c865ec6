import { test } from 'tap';
import { parseExtensions } from '../../../src/mail/delivery/smtp/protocol.js';

test('EHLO keywords are read in any case, in any order, over several lines', async (t) => {
  const found = parseExtensions([
    '250-relay.example greets you',
    '250-pipelining',
    '250-8BitMIME',
    '250-Size 10240000',
    '250-AUTH=login',
    '250-auth PLAIN  cram-md5',
    '250-SMTPUTF8',
    '250 StartTls',
  ]);
  t.match(found, {
    pipelining: true,
    starttls: true,
    eightBitMime: true,
    smtpUtf8: true,
    size: true,
    sizeLimit: 10_240_000,
  });
  t.same([...found.auth].sort(), ['CRAM-MD5', 'LOGIN', 'PLAIN']);
});

test('nothing is taken from the first line, or from a word inside another', async (t) => {
  const found = parseExtensions([
    '250-PIPELINING STARTTLS',
    '250-X-PIPELINING',
    '250 HELP STARTTLS AUTH PLAIN',
  ]);
  t.match(found, { pipelining: false, starttls: false, size: false, sizeLimit: null });
  t.equal(found.auth.size, 0);
  t.match(parseExtensions(['250']), { pipelining: false, eightBitMime: false });
  t.match(parseExtensions(['250-x', '250-', '250']), { pipelining: false });
});

test('SIZE without a number, with 0 or with nonsense names no limit (RFC 1870)', async (t) => {
  for (const line of ['250 SIZE', '250 SIZE 0', '250 SIZE many', '250 SIZE -1', `250 SIZE ${'9'.repeat(40)}`])
    t.match(parseExtensions(['250-x', line]), { size: true, sizeLimit: null }, line);
  t.equal(parseExtensions(['250-x', '250 SIZE 1']).sizeLimit, 1);
});
