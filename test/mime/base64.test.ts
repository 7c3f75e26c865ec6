import { t } from 'tap';
import { base64Lines, base64Octets } from '../../src/mail/mime/encodings.js';

async function encoded(chunks: Iterable<Buffer>): Promise<string> {
  let text = '';
  for await (const lines of base64Lines(
    (async function* () {
      yield* chunks;
    })(),
  ))
    text += lines.toString('latin1');
  return text;
}

t.test('lines of 76 characters, whatever the chunks', async (t) => {
  t.equal(await encoded([]), '');
  t.equal(await encoded([Buffer.from('f')]), 'Zg==\r\n', 'RFC 4648 §10');
  t.equal(
    await encoded([Buffer.from('fo'), Buffer.alloc(0), Buffer.from('obar')]),
    'Zm9vYmFy\r\n',
    'RFC 4648 §10',
  );
  for (const size of [56, 57, 58, 113, 114, 115, 1000]) {
    const bytes = Buffer.from(Array.from({ length: size }, (_, at) => (at * 37) & 255));
    const whole = bytes.toString('base64');
    const expected = (whole.match(/.{1,76}/g) ?? []).map((line) => `${line}\r\n`).join('');
    t.equal(base64Octets(size), expected.length);
    for (const step of [1, 3, 56, 57, 58, size]) {
      const chunks = [];
      for (let at = 0; at < size; at += step) chunks.push(bytes.subarray(at, at + step));
      t.equal(await encoded(chunks), expected, `${size} octets in chunks of ${step}`);
    }
  }
  t.equal(base64Octets(0), 0);
});

t.test('a source that reads into the same memory again', async (t) => {
  const memory = Buffer.alloc(10);
  async function* source() {
    for (const text of ['aaaaaaaaaa', 'bbbbbbbbbb', 'cccccccccc']) {
      memory.write(text);
      yield memory;
    }
  }
  let text = '';
  for await (const lines of base64Lines(source())) text += lines.toString('latin1');
  t.equal(Buffer.from(text, 'base64').toString(), 'aaaaaaaaaabbbbbbbbbbcccccccccc');
});
