import t from 'tap';
import { crc32 } from '../../src/base/crc.js';
import type { Place } from '../../src/mail/message/message.js';
import { Contents, READ_AHEAD_BYTES, READ_AHEAD_GAP_BYTES } from '../../src/mail/store/contents.js';
import { systemError } from '../support/system-error.js';

/** A segment 7 in memory, in which contents are written one behind another. */
function bench() {
  const bytes = Buffer.alloc(4 * READ_AHEAD_BYTES);
  const reads: number[] = [];
  let badFrom = Number.POSITIVE_INFINITY;
  let end = 0;
  const kept: string[] = [];
  const keep = async (_place: Place, bytes: Buffer | null) => void kept.push(String(bytes));
  const contents = new Contents(async (_segment, offset, length) => {
    reads.push(length);
    if (offset + length > badFrom) throw systemError('EIO', 'bad sector');
    return Buffer.from(bytes.subarray(offset, offset + length));
  }, keep);
  return {
    contents,
    kept,
    reads,
    bytes,
    breakFrom: (offset: number) => {
      badFrom = offset;
    },
    write(text: string, gap = 10) {
      const offset = end + gap;
      const length = bytes.write(text, offset);
      end = offset + length;
      return { segment: 7, offset, length, crc: crc32(Buffer.from(text)) };
    },
  };
}

t.test('contents that lie one behind another are read with few calls of the disk', async (t) => {
  const { contents, reads, write } = bench();
  const texts = Array.from({ length: 100 }, (_, n) => `${n} ${'x'.repeat(1000)}`);
  const places = texts.map((text) => write(text));
  for (const [n, place] of places.entries()) t.equal(String(await contents.read(place)), texts[n]);
  t.ok(reads.length <= 1 + Math.ceil((100 * 1020) / READ_AHEAD_BYTES) + 1, `${reads.length} reads`);
});

t.test('a single content, or ones far apart, are read as they are', async (t) => {
  const { contents, reads, write } = bench();
  const places = [write('a'), write('b', READ_AHEAD_GAP_BYTES + 1), write('c', READ_AHEAD_GAP_BYTES + 1)];
  for (const place of places) await contents.read(place);
  await contents.read(places[0] as (typeof places)[0]);
  t.same(reads, [1, 1, 1, 1]);
});

t.test('bytes written after the disk was read are read again', async (t) => {
  const { contents, write } = bench();
  for (const place of [write('first'), write('second')]) await contents.read(place);
  t.equal(String(await contents.read(write('third'))), 'third');
});

t.test('an unreadable sector behind a content does not cost the content', async (t) => {
  const { contents, write, breakFrom } = bench();
  const [first, second, third] = [write('first'), write('second'), write('third')];
  await contents.read(first);
  breakFrom(second.offset + second.length);
  t.equal(String(await contents.read(second)), 'second');
  await t.rejects(
    contents.read(third),
    { code: 'storage-failed' },
    'tried again: the disk may read it later',
  );
  breakFrom(Number.POSITIVE_INFINITY);
  t.equal(String(await contents.read(third)), 'third');
});

t.test('content that is read wrongly once is read again', async (t) => {
  const bytes = Buffer.from('first');
  let reads = 0;
  const contents = new Contents(
    async () => (++reads === 1 ? Buffer.from('f?rst') : bytes),
    async () => void t.fail('nothing is damaged'),
  );
  const place = { segment: 7, offset: 5, length: 5, crc: crc32(bytes) };
  t.equal(String(await contents.read(place)), 'first');
  t.equal(reads, 2);
});

t.test('content of another CRC is damage, also in what was read ahead', async (t) => {
  const { contents, bytes, write, kept } = bench();
  const places = [write('first'), write('second'), write('third')];
  for (const { offset } of places) bytes.writeUInt8(0x3f, offset);
  for (const place of places) await t.rejects(contents.read(place), { code: 'storage-damaged' });
  t.same(kept, ['?irst', '?econd', '?hird'], 'the bytes are kept');
});

t.test('content whose segment is gone is damage', async (t) => {
  const kept: (Buffer | null)[] = [];
  const contents = new Contents(
    async () => {
      throw systemError('ENOENT', 'no such file');
    },
    async (_place, bytes) => void kept.push(bytes),
  );
  const place = { segment: 7, offset: 5, length: 5, crc: 0 };
  await t.rejects(contents.read(place), { code: 'storage-damaged' });
  t.same(kept, [null]);
});
