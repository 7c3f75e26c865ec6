/** Every event is taken as it is written, and not with a member of another type. */
import t from 'tap';
import { crc32, hex8 } from '../../src/base/crc.js';
import { decodeContent, encodeContent } from '../../src/mail/store/document.js';
import type { StoreEvent } from '../../src/mail/store/event.js';
import { decodeLine } from '../../src/mail/store/record.js';
import { scan } from '../../src/mail/store/recovery.js';

const at = { boot: 'b0070001', bootMs: 5.5 };
const id = '0000001ABCDEFGH';
const sum = { length: 3, crc: 7 };
const file = { id: '0123456789abcdef0123', name: 'a.txt', type: 'text/plain', size: 4, crc: 5 };
const entry = { uid: 'u', type: 2, destination: '+491511', lang: 'en', name: 'Anna' };
const mark = { lineage: 'l', counter: 3, nonce: 'n' };
const base = { etag: '"1"', document: [entry, 5], given: [7], more: { colour: 'blue' } };
const outcome = { id, attempts: 2, reply: '250 OK', reachMs: 60_000 };
const extras = { mail: id, messageId: 'a@b', lifeMs: 5, collapse: 'k', replaced: 2 };

/** With all members whose type is looked at. */
const EVENTS: Readonly<Record<StoreEvent['e'], object>> = {
  boot: { boot: 'b0070001', startMs: -5.5 },
  accepted: {
    ...{ at, reachMs: 0, key: 'k', hash: 'h' },
    messages: [
      { id, ...sum, type: 1, destination: 'a@b', from: '', subject: 's', extras, attachments: [file] },
    ],
  },
  deferred: { ...outcome, due: at },
  sent: { ...outcome, at },
  failed: { ...outcome, at },
  expired: { ...outcome, at },
  cancelled: { id, at },
  replaced: { id, by: id, at, count: 3 },
  retried: { id, at, reachMs: 5 },
  flushed: {},
  held: { held: true },
  relocated: { messages: [{ id, ...sum, shares: true, type: 1, destination: 'a@b', at, reachMs: 1 }] },
  purged: {},
  dropped: { ids: [id] },
  destination: { id: 1, entry },
  'destination removed': { id: 1 },
  merged: { base, entries: [[1, entry]], hidden: [5], attempt: { document: [5], mark } },
  'hidden removed': { value: 5 },
  cloud: { cloud: 'https://a' },
  attempted: { attempt: { document: [], mark } },
  stored: { etag: '"2"' },
};

/** Below these a document of the cloud is kept as it is. */
const FREE = ['document', 'given', 'more', 'hidden', 'value'];

/** The value with one of its parts, at any depth, of another type; and where. */
function* spoilt(value: unknown, path = ''): Generator<[path: string, value: unknown]> {
  yield [path, typeof value === 'object' ? 'text' : typeof value === 'string' ? 5 : 'text'];
  if (typeof value === 'number') yield [path, null];
  if (typeof value !== 'object' || value === null) return;
  for (const [name, part] of Object.entries(value)) {
    for (const [where, other] of spoilt(part, `${path}/${name}`)) {
      const isFree = FREE.some((free) => where.includes(`/${free}/`)) || name === 'value';
      if (isFree) continue;
      yield [where, Array.isArray(value) ? value.with(Number(name), other) : { ...value, [name]: other }];
    }
  }
}

function lineOf(payload: unknown): Buffer {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return Buffer.from(`${hex8(crc32(Buffer.from(text), 1))} ${text}\n`);
}
const recordOf = (event: unknown) => decodeLine(lineOf({ synced: 0, events: [event] }), 1);

t.test('each event, and each of its members with another type', async (t) => {
  let count = 0;
  for (const [e, members] of Object.entries(EVENTS)) {
    t.ok(recordOf({ e, ...members }), e);
    t.ok(recordOf({ e, ...members, newer: [] }), `${e}, with a member of a newer version`);
    for (const [path, other] of spoilt(members)) {
      if (path === '') continue;
      count++;
      if (recordOf({ e, ...(other as object) })) t.fail(`${e}${path} as in ${JSON.stringify(other)}`);
    }
  }
  t.ok(count > 100, `${count} other shapes`);
  t.ok(recordOf({ e: 'mood' }), 'an event of a newer version');
  for (const event of [null, 5, [], {}, { e: 5 }]) t.equal(recordOf(event), null, JSON.stringify(event));
});

t.test('the payload of a record', async (t) => {
  const head = { store: 's', follows: { segment: 0, upTo: 0 }, synced: 5, events: [] };
  t.ok(decodeLine(lineOf(head), 1)?.head);
  for (const [path, other] of spoilt(head)) t.equal(decodeLine(lineOf(other), 1), null, path);
  for (const text of ['{', '[]', 'null', '{"synced":0}', '{"synced":-1,"events":[]}', '[['.repeat(50_000)])
    t.equal(decodeLine(lineOf(text), 1), null, text.slice(0, 40));
});

t.test('a right checksum tells another shape from a torn write', async (t) => {
  const bytes = Buffer.concat([
    lineOf({ synced: 0, events: [] }),
    lineOf({ events: [] }),
    Buffer.from('ab {'),
  ]);
  const pieces = scan(bytes, { segment: 1, from: 0, upTo: null });
  t.match(pieces, [{ record: {} }, { record: null, isForeign: true }, { record: null }]);
  t.equal(pieces[2]?.isForeign, undefined);
});

t.test('a content of another shape is none', async (t) => {
  const mailbox = { name: '', address: 'a@b' };
  const head = { fromName: 'A', to: [mailbox], cc: [mailbox], replyTo: [mailbox], headers: [['X-A', 'b']] };
  const mail = { type: 1, extras: undefined } as const;
  const kinds = [
    [mail, { subject: 's', plain: 'p', html: 'h', head }],
    [
      { type: 1, extras: { isReadyMade: true } },
      { subject: 's', missing: ['date'], fromName: 'A', fromHeader: 'B' },
    ],
    [
      { type: 2, extras: undefined },
      { message: 'm', title: 't' },
    ],
  ] as const;
  for (const [message, content] of kinds) {
    const bytes = encodeContent(content as never);
    t.same(decodeContent(bytes, message), content);
    for (const [path, other] of spoilt(content))
      t.equal(decodeContent(Buffer.from(JSON.stringify(other)), message), null, path);
    for (const [another] of kinds)
      if (another !== message) t.equal(decodeContent(bytes, another), null, 'of another message');
  }
  t.equal(decodeContent(Buffer.from('{'), mail), null);
});
