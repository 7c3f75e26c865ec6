/** local-api §1, field by field: what is taken, what is refused, and where the fault is said to be. */
import { test } from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { SUBJECT_CHARS_MAX } from '../../src/base/limits.js';
import { APP_DATA_BYTES_MAX, type DraftLimits, parseDrafts } from '../../src/mail/message/draft.js';

const LIMITS: DraftLimits = {
  maxBatch: 100,
  cloud: null,
  mayBeFrom: () => false,
  homesOf: (address) => [address],
};
const email = (fields: object) => ({ type: 1, destination: 'john@example.com', subject: 'Hi', ...fields });
const sms = (fields: object) => ({ type: 2, destination: '+31612345678', message: 'Hi', ...fields });
const push = (fields: object) => ({ type: 4, destination: 'OWNER', message: 'Hi', ...fields });

function refusalOf(body: unknown, limits = LIMITS): FieldpostError {
  try {
    parseDrafts(body, limits);
  } catch (error) {
    if (error instanceof FieldpostError) return error;
    throw error;
  }
  throw new Error('was not refused');
}

const pointersOf = (body: unknown, limits = LIMITS) =>
  refusalOf(body, limits).faults.map(({ pointer }) => pointer);

test('an email is taken', async (t) => {
  const whole = email({ plain: 'text', html: '<p>text</p>' });
  t.same(parseDrafts([whole], LIMITS), [
    {
      type: 1,
      destination: 'john@example.com',
      content: { subject: 'Hi', plain: 'text', html: '<p>text</p>' },
      attachments: [],
      ignored: [],
    },
  ]);
  for (const field of ['subject', 'plain', 'html']) {
    const drafts = parseDrafts([{ type: 1, destination: 'a@b.c', [field]: 'x' }], LIMITS);
    t.same(
      drafts[0]?.content,
      { subject: '', plain: '', html: '', [field]: 'x' },
      `${field} alone is enough`,
    );
  }
  const nulls = parseDrafts([email({ plain: null, html: null })], LIMITS);
  t.same(nulls[0]?.content, { subject: 'Hi', plain: '', html: '' }, 'null is absent');
  t.equal(
    parseDrafts([email({}), email({ destination: 'b@example.com' })], LIMITS)[1]?.destination,
    'b@example.com',
  );
});

test('line breaks of the texts become CRLF', async (t) => {
  for (const field of ['plain', 'html'] as const) {
    const [draft] = parseDrafts([email({ [field]: 'a\nb\rc\r\nd\n\re\r\rf\r\r\n' })], LIMITS);
    t.match(draft?.content, { [field]: 'a\r\nb\r\nc\r\nd\r\n\r\ne\r\n\r\nf\r\n' });
  }
});

test('unknown fields are named, never an error', async (t) => {
  const body = JSON.parse(
    '[{"type":1,"destination":"a@b.c","plain":"x","sound":"y","__proto__":{"subject":"no"},"constructor":1,"message":"z"}]',
  );
  const [draft] = parseDrafts(body, LIMITS);
  t.same(draft?.ignored, ['sound', '__proto__', 'constructor', 'message']);
  t.match(draft?.content, { subject: '' });
});

test('the shape at the top', async (t) => {
  for (const body of ['x', 1, null, true, []]) {
    t.equal(refusalOf(body).code, 'malformed-request', JSON.stringify(body));
  }
  for (const element of [null, 1, 'x', [], [email({})], true]) {
    t.same(pointersOf([email({}), element]), ['/1'], JSON.stringify(element));
  }
  t.same(parseDrafts(email({}), LIMITS), parseDrafts([email({})], LIMITS), 'one message is an array of one');
  t.same(pointersOf({}), ['/type', '/destination'], 'its faults are at the fields of the body');
  t.same(pointersOf(email({ subject: '', plain: '', html: '' })), [''], 'and that of all of it at the body');
  const [sms] = refusalOf({ type: 2, destination: '+316', message: 'x' }, { ...LIMITS, cloud: null }).faults;
  t.equal(sms?.pointer, '/type');
  t.equal(parseDrafts([email({}), email({})], { ...LIMITS, maxBatch: 2 }).length, 2, 'exactly the limit');
  const large = refusalOf([email({}), email({}), email({})], { ...LIMITS, maxBatch: 2 });
  t.equal(large.code, 'too-large');
  t.match(large.message, /limit of 2 \(FIELDPOST_MAX_BATCH\)/);
});

test('the collapse key', async (t) => {
  const parsed = (fields: object) => parseDrafts([email(fields)], LIMITS)[0];
  const long = 'x'.repeat(64);
  for (const key of ['a', '!~', 'pump-3/leak', long])
    t.match(parsed({ collapse_key: key }), { collapse: key });
  for (const key of ['', 'a b', `${long}x`, 'é', 'a\n', 7, {}, true])
    t.same(pointersOf([email({ collapse_key: key })]), ['/0/collapse_key'], JSON.stringify(key));
  t.match(parsed({ collapse_key: 'a', collapse_count: true }), { collapse: 'a', counts: true });
  t.notHas(parsed({ collapse_key: 'a', collapse_count: false }), { counts: true });
  t.same(pointersOf([email({ collapse_count: true })]), ['/0/collapse_count'], 'it needs a key');
  t.same(pointersOf([email({ collapse_key: 'a', collapse_count: 1 })]), ['/0/collapse_count']);
  t.same(pointersOf([email({ collapseKey: 'a' })]), ['/0/collapseKey'], 'another spelling');
  t.notOk('collapse' in (parsed({ collapse_key: null, collapse_count: null }) ?? {}), 'null is absent');
  const short = { ...push({}), collapse_key: 'a', collapse_count: true };
  const [draft] = parseDrafts([short], { ...LIMITS, cloud: {} });
  t.match(draft, { collapse: 'a', ignored: ['collapse_count'] }, 'nothing could show the count');
  t.notOk(draft && 'counts' in draft);
});

test('faults of an email are at their fields', async (t) => {
  const cases: [string, unknown, string[]][] = [
    ['no type', { destination: 'a@b.c', subject: 'x' }, ['/0/type']],
    ['neither type nor destination', {}, ['/0/type', '/0/destination']],
    ...[0, 5, 1.5, '1', null, true, [1], Number.NaN].map((type): [string, unknown, string[]] => [
      `type ${String(type)}`,
      email({ type }),
      ['/0/type'],
    ]),
    ['no destination', { type: 1, subject: 'x' }, ['/0/destination']],
    ['null destination', email({ destination: null }), ['/0/destination']],
    ['a list of destinations', email({ destination: ['a@b.c'] }), ['/0/destination']],
    ['two addresses', email({ destination: 'a@b.c, d@e.f' }), ['/0/destination']],
    ['a display name', email({ destination: 'A <a@b.c>' }), ['/0/destination']],
    ['a blank around it', email({ destination: ' a@b.c' }), ['/0/destination']],
    ['a line break in it', email({ destination: 'a@b.c\r\nRCPT TO:<d@e.f>' }), ['/0/destination']],
    ['subject not text', email({ subject: 1 }), ['/0/subject']],
    ...['\n', '\r', '\r\n', '\0', '\t', '\x7f', '\x85'].map((c): [string, unknown, string[]] => [
      `subject with ${escape(c)}`,
      email({ subject: `a${c}b` }),
      ['/0/subject'],
    ]),
    ['plain not text', email({ plain: {} }), ['/0/plain']],
    ['html not text', email({ html: ['x'] }), ['/0/html']],
    ['nothing to say', email({ subject: '', plain: '', html: null }), ['/0']],
    ['only unknown fields', { type: 1, destination: 'a@b.c', sound: 'x' }, ['/0']],
    ...['subject', 'plain', 'html'].flatMap((name) =>
      ['\ud800', '\udc00x', 'x\ud83d'].map((text): [string, unknown, string[]] => [
        `${name} ${escape(text)}`,
        email({ [name]: text }),
        [`/0/${name}`],
      ]),
    ),
  ];
  for (const [name, message, pointers] of cases) t.same(pointersOf([message]), pointers, name);
  t.equal(parseDrafts([email({ plain: '\ud83d\ude00' })], LIMITS).length, 1, 'a whole pair is a character');
});

test('a subject may have exactly its limit, counted in characters', async (t) => {
  for (const character of ['a', 'é', '\ud83d\ude00']) {
    const subject = character.repeat(SUBJECT_CHARS_MAX);
    t.match(parseDrafts([email({ subject })], LIMITS), [{ content: { subject } }]);
    t.same(pointersOf([email({ subject: `${subject}a` })]), ['/0/subject']);
  }
  t.same(pointersOf([email({ subject: 'a'.repeat(100_000) })]), ['/0/subject']);
});

test('SMS, phone and push are checked, then refused without a cloud', async (t) => {
  const good = [
    sms({}),
    sms({ message: '😀'.repeat(1600) }),
    sms({ type: 3, message: 'a'.repeat(1601) }),
    sms({ type: 3, destination: `+${'1'.repeat(15)}` }),
    push({}),
    push({ destination: 'a@b.c', title: 'T', auto_open: false, app_data: { deep: [1] } }),
    push({ destination: 'A1_B', title: null, auto_open: null, app_data: null }),
    push({ app_data: 'x'.repeat(APP_DATA_BYTES_MAX - 2) }),
  ];
  for (const message of good) {
    const { code, faults } = refusalOf([message]);
    t.equal(code, 'invalid');
    t.match(
      faults,
      [{ pointer: '/0/type', detail: /FIELDPOST_CLOUD/ }],
      JSON.stringify(message).slice(0, 80),
    );
    t.equal(faults.length, 1);
  }
  const deep = JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`);
  const bad: [object, string][] = [
    [sms({ message: 'é'.repeat(1601) }), 'message'],
    [sms({ destination: undefined }), 'destination'],
    [sms({ destination: '0612345678' }), 'destination'],
    [sms({ destination: '+0612345678' }), 'destination'],
    [sms({ destination: `+${'1'.repeat(16)}` }), 'destination'],
    [sms({ destination: '+' }), 'destination'],
    [sms({ destination: '+316\n' }), 'destination'],
    [sms({ destination: 'a@b.c' }), 'destination'],
    [sms({ type: 3, destination: 'OWNER' }), 'destination'],
    [sms({ message: '' }), 'message'],
    [sms({ message: null }), 'message'],
    [sms({ message: undefined }), 'message'],
    [sms({ message: 7 }), 'message'],
    [sms({ message: '\ud800' }), 'message'],
    [push({ destination: 'owner' }), 'destination'],
    [push({ destination: '1OWNER' }), 'destination'],
    [push({ destination: 5 }), 'destination'],
    [push({ title: 5 }), 'title'],
    [push({ auto_open: 'yes' }), 'auto_open'],
    [push({ app_data: 'x'.repeat(APP_DATA_BYTES_MAX - 1) }), 'app_data'],
    [push({ app_data: deep }), 'app_data'],
  ];
  for (const [message, field] of bad) t.same(pointersOf([message]), [`/0/${field}`, '/0/type'], field);
});

test('with a cloud SMS, phone and push are taken, among emails', async (t) => {
  const limits = { ...LIMITS, cloud: {} };
  const whole = push({ title: 'T', auto_open: false, app_data: { deep: [1, null] }, sound: 'loud' });
  const none = push({ title: '', auto_open: null, app_data: null });
  const call = sms({ type: 3, title: 'no such field here' });
  const drafts = parseDrafts([sms({}), email({}), whole, none, call], limits);
  const attachments: unknown[] = [];
  t.strictSame(drafts, [
    { type: 2, destination: '+31612345678', content: { message: 'Hi' }, attachments, ignored: [] },
    {
      type: 1,
      destination: 'john@example.com',
      content: { subject: 'Hi', plain: '', html: '' },
      attachments,
      ignored: [],
    },
    {
      type: 4,
      destination: 'OWNER',
      content: { message: 'Hi', title: 'T', auto_open: false, app_data: { deep: [1, null] } },
      attachments,
      ignored: ['sound'],
    },
    { type: 4, destination: 'OWNER', content: { message: 'Hi' }, attachments, ignored: [] },
    { type: 3, destination: '+31612345678', content: { message: 'Hi' }, attachments, ignored: ['title'] },
  ]);
  t.same(pointersOf([sms({}), sms({ destination: 'x' })], limits), ['/1/destination'], 'all or none');
});

test('all faults of all messages are named at once, those of fields before the missing cloud', async (t) => {
  const body = [
    sms({}),
    email({ destination: 'x', subject: 'a\nb', plain: 1 }),
    null,
    email({}),
    sms({ message: '' }),
  ];
  const pointers = ['/1/destination', '/1/subject', '/1/plain', '/2', '/4/message', '/0/type', '/4/type'];
  t.same(pointersOf(body), pointers);
  t.match(refusalOf(body).message, /^7 faults/);
});
