/** Files in JSON: what is taken of them, every way in which one can be wrong, and that a refused request leaves nothing. */
import { type Test, test } from 'tap';
import { FORM_FIELD_BYTES_MAX } from '../../src/device/api/form-guard.js';
import { type Answer, EMAIL, MESSAGES, startApi, type TestApi } from '../support/api.js';
import { settled } from '../support/clock.js';
import { bodyOf, NEEDED, postBody } from '../support/form.js';
import { stall } from '../support/stall.js';

const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64');
const FILE = { name: 'a.bin', type: 'application/x-a', content: base64('abc') };
const MAIL = { ...EMAIL, attachments: [FILE] };

/** The files of each message, with the oldest first. */
async function filesOf(api: TestApi) {
  const { messages } = api.store.list({ status: null, limit: 1000, after: null });
  return await Promise.all(
    messages.reverse().map(async ({ attachments }) => {
      const found = [];
      for (const { id, size, crc, ...named } of attachments) {
        const content = await api.file(id);
        if (content?.length !== size) throw new Error(`${size} octets are promised`);
        found.push({ ...named, content: content.toString('latin1') });
      }
      return found;
    }),
  );
}

async function isClean(t: Test, api: TestApi, size = 0): Promise<void> {
  t.equal(api.size, size, 'nothing is queued');
  t.equal((await api.files()).length, (await filesOf(api)).flat().length, 'no file is left');
  t.equal(api.uploads, 0, 'no upload is left open');
  t.same(api.errors, [], 'no fault of ours');
}

function isRefused(t: Test, answer: Answer, status: number, code: string, detail: RegExp): void {
  t.equal(answer.status, status, answer.body);
  t.match(answer.json, { type: `urn:fieldpost:problem:${code}`, detail });
}

test('each message of an array has its own files', async (t) => {
  await using api = await startApi();
  const octets = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
  const picture = { name: '../ü.png', type: 'IMAGE/png', content: base64(octets), content_id: '<logo@x>' };
  const answer = await api.post([
    { ...MAIL, attachments: [FILE, picture] },
    EMAIL,
    { ...MAIL, to: ['a@x.com', 'b@x.com'], attachments: [{ name: '..', content: '', type: null }] },
    { ...MAIL, attachments: [] },
    { ...MAIL, attachments: null },
  ]);
  t.equal(answer.status, 202, answer.body);
  t.notOk(
    answer.json.some((entry: object) => 'ignored' in entry),
    'an empty list is a field, too',
  );
  const whole = { name: 'a.bin', type: 'application/x-a', content: 'abc' };
  const empty = { name: 'attachment', type: 'application/octet-stream', content: '' };
  const shown = { name: 'ü.png', type: 'image/png', cid: 'logo@x', content: octets.toString('latin1') };
  t.same(await filesOf(api), [[whole, shown], [], [empty], [empty], [empty], [], []]);
  t.equal((await api.files()).length, 3, 'recipients share them');
  t.equal(api.uploads, 0);
  t.equal(api.nudges, 1);
  const view = await api.call('GET', `${MESSAGES}/${answer.json[0].id}`);
  t.strictSame(view.json.attachments[1], { name: 'ü.png', type: 'image/png', size: 256 });
});

test('a single message may have files', async (t) => {
  await using api = await startApi();
  t.equal((await api.post(MAIL)).status, 202);
  t.equal((await filesOf(api)).flat().length, 1);
});

test('each fault has its pointer, and refuses all messages', async (t) => {
  await using api = await startApi();
  const cases: [attachments: unknown, ...faults: [pointer: string, detail: RegExp][]][] = [
    ['x', ['', /array of files/]],
    [{ ...FILE }, ['', /array of files/]],
    [
      [FILE, 'x'],
      ['/1', /must be an object/],
    ],
    [[{}], ['/0/name', /is required/], ['/0/content', /is required/]],
    [[{ ...FILE, name: '' }], ['/0/name', /is required/]],
    [[{ ...FILE, name: 'x'.repeat(256) }], ['/0/name', /more than 255/]],
    [[{ ...FILE, type: `a/${'b'.repeat(254)}` }], ['/0/type', /more than 255/]],
    [[{ ...FILE, type: 1 }], ['/0/type', /must be a string/]],
    [[{ ...FILE, content_id: 'a b' }], ['/0/content_id', /1 to 200 visible/]],
    [[{ ...FILE, encoding: 'hex' }], ['/0/encoding', /is no member/]],
    [
      [FILE, { ...FILE, 'a/b': 1 }],
      ['/1/a~1b', /is no member/],
    ],
    ...['YWJj\n', 'YWJ j', 'YWJ', 'YW=', 'YW', 'Y===', 'YWJjY', '====', 'YR==', 'YW==YWJj', '-_-_', 'ü'].map(
      (content): [unknown, [string, RegExp]] => [
        [FILE, { ...FILE, content }],
        ['/1/content', /standard alphabet/],
      ],
    ),
  ];
  for (const [attachments, ...faults] of cases) {
    for (const isArray of [true, false]) {
      const mail = { ...EMAIL, attachments };
      const answer = await api.post(isArray ? [MAIL, mail] : mail);
      isRefused(t, answer, 422, 'invalid', /nothing was queued/);
      const root = isArray ? '/1/attachments' : '/attachments';
      t.match(
        answer.json.errors,
        faults.map(([pointer, detail]) => ({ pointer: root + pointer, detail })),
        JSON.stringify(attachments).slice(0, 100),
      );
      t.equal(answer.json.errors.length, faults.length);
    }
  }
  const sms = { type: 2, destination: '+31612345678', message: 'x', attachments: [FILE] };
  const refused = (await api.post([MAIL, sms])).json.errors;
  t.match(refused[0], { pointer: '/1/attachments', detail: /only an email has files/ });
  t.match((await api.post([{ ...EMAIL, files: [FILE] }])).json.errors[0].detail, /in attachments/);
  const form = await postBody(api, bodyOf([...NEEDED, { name: 'attachments', content: '[]' }]));
  t.match(form.json.errors, [{ pointer: 'attachments', detail: /parts with a filename/ }]);
  await isClean(t, api);
});

test('each limit: exactly, and one more', async (t) => {
  const options = { maxAttachments: 2, maxMessageBytes: 1000, maxBodyBytes: 10_000 };
  await using api = await startApi({ settings: options });
  const sized = (bytes: number) => ({ ...FILE, content: base64(Buffer.alloc(bytes)) });
  const rest = 'Hi'.length;
  t.equal((await api.post([{ ...EMAIL, attachments: [sized(600), sized(400 - rest)] }])).status, 202);
  const large = await api.post([MAIL, { ...EMAIL, attachments: [sized(600), sized(401 - rest)] }]);
  isRefused(t, large, 413, 'too-large', /FIELDPOST_MAX_MESSAGE/);
  const many = await api.post([MAIL, { ...EMAIL, attachments: [FILE, FILE, FILE] }]);
  isRefused(t, many, 413, 'too-large', /more than 2 files \(FIELDPOST_MAX_ATTACHMENTS\)/);
  const body = await api.post([{ ...EMAIL, attachments: [sized(10_000)] }]);
  isRefused(t, body, 413, 'too-large', /FIELDPOST_MAX_BODY/);
  const text = await api.post([{ ...EMAIL, plain: 'x'.repeat(2000) }]);
  t.equal(text.status, 202, 'a mail without files has no other limit than before');
  await isClean(t, api, 2);
});

test('a mail too large for the relays is refused before a file is stored', async (t) => {
  await using api = await startApi({ mailLimitBytes: () => 1000 });
  let uploads = 0;
  const begin = api.store.upload.bind(api.store);
  api.store.upload = async (...given) => {
    uploads++;
    return await begin(...given);
  };
  const large = { ...FILE, content: base64(Buffer.alloc(1000)) };
  const answer = await api.post([MAIL, { ...EMAIL, attachments: [large] }]);
  isRefused(t, answer, 413, 'too-large', /the relay takes at most 1000/);
  t.equal(uploads, 0);
  await isClean(t, api);
});

test('Idempotency-Key', async (t) => {
  await using api = await startApi();
  const key = { 'Idempotency-Key': 'k1' };
  const other = { ...FILE, content: base64('other') };
  const batch = [MAIL, { ...EMAIL, attachments: [other] }];
  const first = await api.post(batch, key);
  t.equal(first.status, 202, first.body);
  await api.fillDisk();
  const again = await api.post(batch, key);
  t.equal(again.headers['idempotency-replayed'], 'true', again.body);
  t.same(again.json, first.json);
  await api.emptyDisk();
  for (const changed of [
    [{ ...EMAIL, attachments: [other] }, MAIL],
    [{ ...EMAIL, attachments: [FILE, other] }, EMAIL],
    [MAIL, { ...EMAIL, attachments: [{ ...other, content_id: 'a' }] }],
    [EMAIL, EMAIL],
  ])
    isRefused(t, await api.post(changed, key), 422, 'invalid', /other content/);
  await isClean(t, api, 2);
  const form = await postBody(
    api,
    bodyOf([...NEEDED, { ...FILE, name: 'f', filename: FILE.name, content: 'abc' }]),
    { headers: { 'Idempotency-Key': 'k2' } },
  );
  const same = await api.post(MAIL, { 'Idempotency-Key': 'k2' });
  t.same(same.json[0].id, form.json[0].id, 'one message, in whatever form');
  t.equal(same.headers['idempotency-replayed'], 'true');
});

test('a disk that fails or is full, and a full queue, leave nothing behind', async (t) => {
  for (const [fault, code] of [
    ['error:ENOSPC', 'storage-full'],
    ['error:EIO', 'storage-failed'],
  ] as const) {
    for (const kind of ['create', 'write', 'sync']) {
      await using api = await startApi();
      let seen = 0;
      api.disk.onOperation = (_, it) =>
        it.kind === kind && it.path.includes('/spool/') && ++seen > 1 ? fault : 'ok';
      const answer = await api.post([MAIL, MAIL, MAIL]);
      t.match(answer.json, { type: `urn:fieldpost:problem:${code}` }, kind);
      api.disk.onOperation = () => 'ok';
      await isClean(t, api);
    }
  }
  await using full = await startApi({ budget: { maxQueue: 20 } });
  for (let count = 0; count < 17; count++) await full.post([EMAIL]);
  isRefused(t, await full.post([MAIL, MAIL, MAIL]), 429, 'queue-full', /./);
  await isClean(t, full, 17);
  t.equal((await full.post([MAIL, MAIL])).status, 202);
  isRefused(t, await full.post([MAIL]), 429, 'queue-full', /./);
  const urgent = { ...MAIL, priority: 'high' };
  isRefused(t, await full.post([urgent, MAIL]), 429, 'queue-full', /./);
  t.equal((await full.post([urgent])).status, 202, 'an urgent one still fits');
});

test('a client that leaves while the disk is busy gets its mails sent', async (t) => {
  await using api = await startApi();
  const { arrived, release } = stall(api.disk, ({ path }) => path.includes('/spool/'));
  const posted = api.post([MAIL, MAIL], { 'Idempotency-Key': 'k' });
  await arrived;
  isRefused(t, await api.post([MAIL, MAIL], { 'Idempotency-Key': 'k' }), 409, 'conflict', /./);
  for (let turn = 0; turn < 20; turn++) await settled();
  t.equal(api.size, 0, 'nothing is promised yet');
  release();
  t.equal((await posted).status, 202);
  await isClean(t, api, 2);
});

test('a text may be longer than in a form', async (t) => {
  await using api = await startApi();
  const plain = 'x'.repeat(FORM_FIELD_BYTES_MAX + 1);
  t.equal((await api.post([{ ...MAIL, plain }])).status, 202);
});
