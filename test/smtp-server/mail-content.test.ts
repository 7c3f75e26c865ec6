/** Where a mail ends: the same wherever the packets end, and only at CR LF . CR LF. */
import { test } from 'tap';
import { MailContent } from '../../src/mail/smtp-server/wire.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

/** The mail in `chunks`, and what follows it; `rest` is null if it does not end. */
function read(chunks: readonly Buffer[]): { text: string; rest: string | null } {
  const content = new MailContent();
  const pieces: Buffer[] = [];
  for (const [index, chunk] of chunks.entries()) {
    const end = content.push(chunk, pieces);
    if (end === null) continue;
    const rest = Buffer.concat([chunk.subarray(end), ...chunks.slice(index + 1)]).toString('latin1');
    return { text: Buffer.concat(pieces).toString('latin1'), rest };
  }
  return { text: Buffer.concat(pieces).toString('latin1'), rest: null };
}

function split(random: () => number, bytes: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + Math.floor(random() ** 3 * 40);
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return chunks;
}

const CONTENT = '.. one\r\n...\r\n..\r\n\r\n.x\r\nbare\n.\nlf\r.\r\n.\r \r\nend\r\n';
// RFC 5321 §4.5.2: the first dot of a line goes; so does one behind a bare LF, but not behind a bare CR.
const UNSTUFFED = '. one\r\n..\r\n.\r\n\r\nx\r\nbare\n\nlf\r.\r\n\r \r\nend\r\n';

test('a mail does not depend on the packets', async (t) => {
  const sent = Buffer.from(`${CONTENT}.\r\n.\r\nNOOP\r\n`);
  const expected = { text: UNSTUFFED, rest: '.\r\nNOOP\r\n' };
  t.same(read([sent]), expected);
  t.same(read([...sent].map((byte) => Buffer.from([byte]))), expected, 'one octet at a time');
  for (let first = 1; first < sent.length; first++) {
    for (let second = first; second < sent.length; second++) {
      const chunks = [sent.subarray(0, first), sent.subarray(first, second), sent.subarray(second)];
      const found = read(chunks);
      if (JSON.stringify(found) !== JSON.stringify(expected)) t.same(found, expected, `${first} ${second}`);
    }
  }
  t.same(read([Buffer.from('.\r\nQUIT')]), { text: '', rest: 'QUIT' }, 'an empty mail');
});

test('nothing but CR LF . CR LF ends a mail', async (t) => {
  const breaks = ['\n', '\r', '\r\n', '\n\r', '\r\r\n', '\r\0\n', '\0', '\x0b', '\x85', ''];
  let forms = 0;
  for (const before of breaks) {
    for (const after of breaks) {
      const sent = `one${before}.${after}two`;
      const found = read([Buffer.from(sent, 'latin1')]);
      // CR CR LF ends with CR LF, and so is a line break.
      const isEnd = /\r\n$/.test(before) && after === '\r\n';
      t.equal(found.rest, isEnd ? 'two' : null, JSON.stringify(sent));
      if (!isEnd) t.equal(found.text, sent.replace(/\n\./, '\n'), JSON.stringify(sent));
      forms++;
    }
  }
  t.equal(forms, 100);
});

test('any octets come out as they went in', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const parts = [
    '\r\n',
    '.',
    '\r\n.',
    '\r\n.\r',
    '\r',
    '\n',
    '\0',
    '\xff',
    'MAIL FROM:<>',
    'x'.repeat(70),
    '..',
  ];
  for (let round = 0; round < 3000; round++) {
    const text = Array.from({ length: Math.floor(random() * 30) }, () => pick(random, parts)).join('');
    const stuffed = `${text.replace(/(^|\n)\./g, '$1..')}\r\n.\r\nQUIT\r\n`;
    const found = read(split(random, Buffer.from(stuffed, 'latin1')));
    if (found.text !== `${text}\r\n` || found.rest !== 'QUIT\r\n') {
      t.same(found, { text: `${text}\r\n`, rest: 'QUIT\r\n' });
    }
  }
});
