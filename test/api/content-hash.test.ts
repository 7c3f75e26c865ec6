/** What makes two requests with one idempotency key different. */
import { createHash } from 'node:crypto';
import { t } from 'tap';
import { hashOf, type PostedFile } from '../../src/device/api/intake.js';
import { parseDrafts } from '../../src/mail/message/draft.js';

const MAIL = { type: 1, destination: 'a@x', subject: 'Hi' };
const hash = (...messages: object[]) =>
  hashOf(
    parseDrafts(messages, {
      maxBatch: 10,
      cloud: {},
      mayBeFrom: () => true,
      homesOf: (address) => [address],
    }),
    [],
  );
const DRAFTS = parseDrafts([MAIL, MAIL], {
  maxBatch: 10,
  cloud: {},
  mayBeFrom: () => true,
  homesOf: (address) => [address],
});
const file = (sum: string, cid?: string): PostedFile => ({
  attachment: { id: sum, name: 'a', type: 'b/c', size: 1, crc: 1, ...(cid !== undefined && { cid }) },
  sum,
});
/** The hash of two mails with these files each. */
const hashWith = (...files: PostedFile[][]) =>
  hashOf(
    DRAFTS.map((draft, at) => ({ ...draft, attachments: (files[at] ?? []).map((one) => one.attachment) })),
    files.flat(),
  );
const sha256 = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('hex');

t.test('a message without the newer fields has the hash that older versions wrote', async (t) => {
  t.equal(hash(MAIL), sha256([[1, 'a@x', 'Hi', '', '']]));
  t.equal(hash({ ...MAIL, to: [], from: null, priority: 'normal', extra: 1 }), hash(MAIL));
  const sms = { type: 2, destination: '+31612345678', message: 'Hi' };
  t.equal(hash(sms), sha256([[2, '+31612345678', 'Hi', null, null, null]]));
});

t.test('each field makes a difference', async (t) => {
  const hashes = [
    {},
    { to: ['a@x'] },
    { to: ['b@x'] },
    { cc: ['b@x'] },
    { bcc: ['b@x'] },
    { to: ['Ann <b@x>'] },
    { from: 'c@x' },
    { from: 'd@x' },
    { from: 'C <c@x>' },
    { reply_to: 'b@x' },
    { headers: { 'X-A': 'b' } },
    { headers: { 'X-A': 'c' } },
    { priority: 'high' },
    { expires_in_s: 1 },
    { expires_in_s: 2 },
    { collapse_key: 'a' },
    { collapse_key: 'b' },
    { collapse_key: 'a', collapse_count: true },
  ].map((fields) => hash({ ...MAIL, ...fields }));
  t.equal(new Set(hashes).size, hashes.length);
});

t.test('each file counts with the message that has it', async (t) => {
  const none = [1, 'a@x', 'Hi', '', ''];
  t.equal(hashWith([file('1')], []), sha256([[...none, ['a', 'b/c', '1']], none]), 'as in older versions');
  const hashes = [
    hashWith([], []),
    hashWith([file('1')], []),
    hashWith([], [file('1')]),
    hashWith([file('1')], [file('2')]),
    hashWith([file('2')], [file('1')]),
    hashWith([file('1'), file('2')], []),
    hashWith([file('1', 'x')], []),
    hashWith([file('1', 'y')], []),
  ];
  t.equal(new Set(hashes).size, hashes.length);
});
