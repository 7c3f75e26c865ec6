/** Lines of the journal: what is written is read back, and nothing else is taken for a record. */
import t from 'tap';
import { crc32, crc32WithTable, hex8 } from '../../src/base/crc.js';
import type { StoreEvent } from '../../src/mail/store/event.js';
import { FORMAT } from '../../src/mail/store/format.js';
import {
  CONTENTS_OFFSET,
  decodeLine,
  encodeLine,
  encodeLines,
  merge,
  PADDING_BYTES_MAX,
  seal,
  sumOf,
} from '../../src/mail/store/record.js';
import { seededRandom, testSeed } from '../support/random.js';

const AT = { wallMs: 1_700_000_000_000, boot: 'b0070001', bootMs: 5 };

function acceptedOf(texts: readonly string[]): { events: StoreEvent[]; contents: Buffer[] } {
  const contents = texts.map((text) => Buffer.from(JSON.stringify({ plain: text })));
  const messages = contents.map((content, i) => ({
    id: `id${i}`,
    type: 1,
    destination: 'a@b',
    ...sumOf(content),
  }));
  return { events: [{ e: 'accepted', at: AT, reachMs: 0, messages } as unknown as StoreEvent], contents };
}

t.test('a record comes back with its contents where the line says they are', async (t) => {
  const record = acceptedOf(['one', 'żółw\r\n\u2028\u0000"\\', 'x'.repeat(70_000), '']);
  const sealed = seal(record);
  const line = encodeLine(sealed, { segment: 7, synced: 4711 });
  t.ok(line.length <= sealed.bytesMax, 'not longer than promised');
  t.notOk(line.subarray(0, -1).includes(0x0a), 'a line is a record');
  t.notOk(line.includes(0), 'no zero byte');
  const back = decodeLine(line, 7);
  t.equal(decodeLine(line, 8), null, 'in another segment it is none');
  t.equal(back?.synced, 4711);
  t.same(back?.events, record.events);
  t.same(back?.contents, record.contents);
  let at = CONTENTS_OFFSET;
  for (const content of record.contents) {
    t.ok(line.subarray(at, at + content.length).equals(content));
    at += content.length + 1;
  }
  t.match(line.toString(), /^[0-9a-f]{8} \{[^\n]*\}\n$/, 'less and jq can read it');
  JSON.parse(line.toString().slice(9));
});

t.test('a member of a newer version may look like the end of the contents', async (t) => {
  const record = acceptedOf(['],"synced":1,"events":[]}', 'b']);
  for (const more of [
    { a: [1], synced: 2 },
    { a: [[1], { synced: 3 }] },
    { events: [{ b: [], synced: 4, events: [] }] },
  ]) {
    const events = [
      ...record.events,
      { e: 'later', more },
      { e: 'later', ...more },
    ] as unknown as StoreEvent[];
    const back = decodeLine(encodeLine(seal({ ...record, events }), { segment: 7, synced: 4711 }), 7);
    t.same(back, { synced: 4711, events, contents: record.contents });
  }
});

t.test('no member of the head is missed, wherever a newer version writes it', async (t) => {
  const payload = Buffer.from(
    '{"contents":["a"],"format":{"major":1,"minor":7},"store":"s","follows":{"segment":1,"upTo":2},' +
      '"more":[1],"synced":0,"events":[]}',
  );
  const line = Buffer.concat([Buffer.from(`${hex8(crc32(payload, 7))} `), payload, Buffer.from('\n')]);
  const head = { store: 's', follows: { segment: 1, upTo: 2 }, format: { major: 1, minor: 7 } };
  t.same(decodeLine(line, 7)?.head, head);
});

t.test('padding changes no record', async (t) => {
  const records = [acceptedOf(['one']), acceptedOf(['two', 'ż'])].map(seal);
  const context = { segment: 7, synced: 0 };
  for (const spaces of [0, 1, PADDING_BYTES_MAX]) {
    let end = 0;
    const { bytes, starts } = encodeLines(records, 100, context, (at) => {
      end = at;
      return spaces;
    });
    t.equal(100 + bytes.length, end + spaces);
    const [first = 0, second = 0] = starts;
    t.same(decodeLine(bytes.subarray(0, second - first), 7)?.contents, records[0]?.contents);
    const last = bytes.subarray(second - first);
    t.same(decodeLine(last, 7)?.contents, records[1]?.contents);
    t.same(decodeLine(last, 7)?.events, records[1]?.events);
    const spoilt = Buffer.from(last);
    spoilt.writeUInt8(0x21, last.length - 2);
    t.equal(decodeLine(spoilt, 7), null, 'the checksum covers it');
  }
});

t.test('a head says what it follows, and carries what was in doubt', async (t) => {
  const carried = merge([acceptedOf(['a']), { events: [{ e: 'flushed' }], contents: [] }, acceptedOf(['b'])]);
  const head = { store: '0123456789abcdef', follows: { segment: 12, upTo: 345 } };
  const back = decodeLine(encodeLine(seal(carried), { segment: 9, synced: 0, head }), 9);
  t.same(back?.head, { ...head, format: FORMAT });
  t.same(back?.contents, carried.contents);
  t.equal(back?.events.length, 3);
  const empty = encodeLine(seal({ events: [], contents: [] }), { segment: 9, synced: 0, head });
  t.same(decodeLine(empty, 9)?.head, { ...head, format: FORMAT });
});

t.test('other lines are not records', async (t) => {
  for (const text of ['', '\n', 'x', '00000000 \n', '00000000 {}\n', 'ffffffff {"synced":0,"events":[]}\n']) {
    t.equal(decodeLine(Buffer.from(text), 0), null, JSON.stringify(text));
  }
});

t.test("the CRC is zlib's, with and without zlib", async (t) => {
  const byTable = crc32WithTable();
  t.equal(byTable(Buffer.from('123456789')), 0xcbf43926, 'the check value of CRC-32');
  const seed = testSeed();
  t.comment(`seed ${seed}`);
  const random = seededRandom(seed);
  for (let i = 0; i < 200; i++) {
    const bytes = Buffer.from(Array.from({ length: i }, () => Math.floor(random() * 256)));
    if (crc32(bytes) !== byTable(bytes) || crc32(bytes, i) !== byTable(bytes, i))
      t.fail(`they differ for ${bytes.toString('hex')}`);
  }
});
