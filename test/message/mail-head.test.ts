/** Who gets a posted mail, who sends it, its own headers, priority and life: as JSON and as a form. */
import { t } from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { EXPIRES_IN_MS_MAX, HEADER_VALUE_OCTETS_MAX, MAIL_RECIPIENTS_MAX } from '../../src/base/limits.js';
import type { Address } from '../../src/mail/message/address.js';
import { type DraftLimits, parseDrafts, parseEmail } from '../../src/mail/message/draft.js';
import { fieldsOfForm } from '../../src/mail/message/fields.js';
import type { EmailDraft } from '../../src/mail/message/message.js';

const LIMITS: DraftLimits = {
  maxBatch: 10,
  cloud: {},
  mayBeFrom: (address) => address.endsWith('@ours.org'),
  homesOf: (address) => {
    if (!address.endsWith('@localhost')) return [address];
    return address.startsWith('people') ? (['anna@x.org', 'bob@x.org'] as Address[]) : [];
  },
};
const HI = { type: 1, subject: 'Hi' };

function draftOf(fields: object, limits = LIMITS): EmailDraft {
  return parseDrafts([{ ...HI, ...fields }], limits)[0] as EmailDraft;
}

/** Each fault as its pointer and detail. */
function faultsOf(fields: object, limits = LIMITS): string[] {
  try {
    draftOf(fields, limits);
  } catch (error) {
    if (error instanceof FieldpostError)
      return error.faults.map(({ pointer, detail }) => `${pointer} ${detail}`);
    throw error;
  }
  return [];
}

/** What a form with these texts makes. */
const formOf = (texts: Record<string, string[]>) => {
  const faults: string[] = [];
  const report = (...parts: unknown[]) => void faults.push(parts.join(' '));
  const fields = fieldsOfForm(new Map(Object.entries(texts)), report);
  return { draft: parseEmail(fields, { ...LIMITS, takesCommas: true }, report), faults };
};

/** The recipients of the draft, and what its head says: names and addresses. */
function addressed(fields: object) {
  const { destination, others = [], content } = draftOf(fields);
  const told = (list: readonly { name: string; address: string }[] | undefined) =>
    list?.map(({ name, address }) => (name === '' ? address : `${name} <${address}>`));
  return {
    recipients: [destination, ...others].join(' '),
    to: told(content.head?.to),
    cc: told(content.head?.cc),
  };
}

t.test('a mail with one destination is what it was', async (t) => {
  t.strictSame(draftOf({ destination: 'a@x' }), {
    type: 1,
    destination: 'a@x',
    content: { subject: 'Hi', plain: '', html: '' },
    attachments: [],
    ignored: [],
  });
  for (const empty of [null, []]) {
    const fields = { to: empty, cc: empty, bcc: empty, reply_to: empty, headers: empty && {} };
    t.strictSame(
      draftOf({ destination: 'a@x', ...fields, from: null, priority: null, expires_in_s: null }),
      draftOf({ destination: 'a@x' }),
    );
  }
  t.strictSame(draftOf({ destination: 'a@x', from: '', reply_to: '' }), draftOf({ destination: 'a@x' }));
});

t.test('an empty value of a wrong kind is a fault', async (t) => {
  const kinds: Readonly<Record<string, readonly unknown[]>> = {
    to: ['', {}, false],
    cc: ['', {}, false],
    bcc: ['', {}, false],
    reply_to: [{}, false],
    from: [{}, [], false],
    headers: ['', [], false],
    subject: [{}, [], false],
    priority: ['', {}, [], false],
    expires_in_s: ['', {}, [], false],
  };
  for (const [name, values] of Object.entries(kinds))
    for (const value of values)
      t.match(
        faultsOf({ destination: 'a@x', plain: 'x', [name]: value }),
        [new RegExp(`^/0/${name} (?:must|may)`)],
        `${name}: ${JSON.stringify(value)}`,
      );
});

t.test('recipients are those of destination, to, cc and bcc', async (t) => {
  t.same(addressed({ to: ['a@x', 'Ann <b@x>'] }), {
    recipients: 'a@x b@x',
    to: ['a@x', 'Ann <b@x>'],
    cc: undefined,
  });
  t.same(addressed({ destination: 'a@x', to: ['b@x'], cc: ['c@x'], bcc: ['d@x'] }), {
    recipients: 'a@x b@x c@x d@x',
    to: ['a@x', 'b@x'],
    cc: ['c@x'],
  });
  t.same(
    addressed({ bcc: ['a@x', 'b@x'] }),
    { recipients: 'a@x b@x', to: [], cc: undefined },
    'all are blind',
  );
  t.same(addressed({ destination: 'a@x', bcc: ['b@x'] }), {
    recipients: 'a@x b@x',
    to: ['a@x'],
    cc: undefined,
  });
  t.same(addressed({ cc: ['a@x'] }), { recipients: 'a@x', to: [], cc: ['a@x'] });
  t.same(addressed({ destination: '', to: ['a@x'] }), { recipients: 'a@x', to: ['a@x'], cc: undefined });
  t.same(
    addressed({
      destination: 'a@X.org',
      to: ['Ann <a@x.ORG>', 'A@x.org', 'Eve <a@x.org>'],
      cc: ['b@x', 'A@X.ORG'],
      bcc: ['B@x', 'b@X'],
    }),
    { recipients: 'a@X.org A@x.org b@x B@x', to: ['Ann <a@X.org>', 'A@x.org'], cc: ['b@x'] },
    'once each; only a domain has no case',
  );
  const many = Array.from({ length: MAIL_RECIPIENTS_MAX }, (_, index) => `p${index}@x`);
  t.equal(
    draftOf({ to: many.slice(0, 50), cc: many.slice(50), bcc: many }).others?.length,
    MAIL_RECIPIENTS_MAX - 1,
  );
  t.same(faultsOf({ destination: 'a@x', cc: many }), ['/0/cc must not make more than 100 recipients in all']);
});

t.test('faults of recipients are at their places', async (t) => {
  t.same(faultsOf({}), [
    '/0/destination is required, one email address, unless to, cc or bcc names the recipients',
  ]);
  t.match(faultsOf({ destination: 'x', to: ['a@x'] }), [
    /^\/0\/destination must be exactly one email address/,
  ]);
  t.match(faultsOf({ destination: 5, to: ['a@x'] }), [/^\/0\/destination /]);
  t.match(faultsOf({ to: 'a@x' }), [/^\/0\/to must be an array of addresses/]);
  t.match(faultsOf({ to: ['a@x', 'a b', 5, 'a@x, b@x'], cc: [''] }), [
    /^\/0\/to\/1 .*; "a b" is not$/,
    /^\/0\/to\/2 must be a string/,
    /^\/0\/to\/3 /,
    /^\/0\/cc\/0 /,
  ]);
  t.match(faultsOf({ to: ['a@x\r\nBcc: b@x'] }), [/"a@x\\\\u000d\\\\u000aBcc: b@x" is not$/]);
  t.match(faultsOf({ to: [`${'n'.repeat(129)} <a@x>`] }), [/^\/0\/to\/0 has a name longer than 128/]);
  t.equal(faultsOf({ to: [`${'n'.repeat(128)} <a@x>`] }).length, 0);
  t.equal(
    faultsOf({ to: Array(100_000).fill('x') }).length,
    MAIL_RECIPIENTS_MAX + 1,
    'not an endless answer',
  );
  t.same(faultsOf({ type: 9, to: ['a@x'] }).length, 1, 'only the type');
});

t.test("the sender is the client's only if it may be", async (t) => {
  const draft = draftOf({ destination: 'a@x', from: 'Pump 3 <pump@ours.org>' });
  t.equal(draft.from, 'pump@ours.org');
  t.same(draft.content.head, { fromName: 'Pump 3', hasOwnFrom: true }, 'the one recipient is not repeated');
  t.same(draftOf({ destination: 'a@x', from: 'pump@ours.org' }).content.head, { hasOwnFrom: true });
  t.match(faultsOf({ destination: 'a@x', from: 'pump@theirs.org' }), [
    /^\/0\/from may only be .* see FIELDPOST_FROM_ALLOWED$/,
  ]);
  const none = { ...LIMITS, mayBeFrom: () => false };
  t.match(
    faultsOf({ destination: 'a@x', from: 'pump@ours.org' }, none),
    [/FIELDPOST_FROM_ALLOWED/],
    'by default none may be',
  );
  for (const from of [
    'x',
    5,
    ['pump@ours.org'],
    'a@ours.org, b@ours.org',
    {},
    true,
    `${'n'.repeat(129)} <a@ours.org>`,
  ]) {
    t.match(faultsOf({ destination: 'a@x', from }), [/^\/0\/from /], JSON.stringify(from).slice(0, 30));
  }
});

t.test('replies', async (t) => {
  const replyTo = (value: unknown) => draftOf({ destination: 'a@x', reply_to: value }).content.head?.replyTo;
  t.same(replyTo('Ops <o@x>'), [{ name: 'Ops', address: 'o@x' }]);
  t.same(replyTo(['o@x', 'p@x']), [
    { name: '', address: 'o@x' },
    { name: '', address: 'p@x' },
  ]);
  t.match(faultsOf({ destination: 'a@x', reply_to: 'o' }), [/^\/0\/reply_to\/0 /]);
  t.match(faultsOf({ destination: 'a@x', reply_to: { a: 1 } }), [/^\/0\/reply_to must be an array/]);
  t.match(faultsOf({ destination: 'a@x', reply_to: Array(101).fill('o@x') }), [
    /^\/0\/reply_to must not have more than 100/,
  ]);
});

t.test('headers of its own', async (t) => {
  const fields = (headers: unknown) => ({ destination: 'a@x', headers });
  const given = {
    'X-Site': ' north  żaba ',
    references: ' <a@b>  <c@d>',
    'List-Id': 'pumps',
    'auto-submitted': 'no',
  };
  t.same(draftOf(fields(given)).content.head?.headers, [
    ['X-Site', ' north  żaba '],
    ['references', '<a@b> <c@d>'],
    ['List-Id', 'pumps'],
    ['auto-submitted', 'no'],
  ]);
  const bad: [headers: object, pointer: RegExp][] = [
    ...[
      'Subject',
      'From',
      'Bcc',
      'Message-ID',
      'Content-Type',
      'MIME-Version',
      'Received',
      'X-',
      'X A',
      'X-A:',
      'X-\r\n',
      'X-Ż',
      'List-',
      '',
      'Referencesx',
      'XX-A',
    ].map((name): [object, RegExp] => [{ [name]: 'x' }, /is not among the allowed headers/]),
    [{ [`X-${'a'.repeat(75)}`]: 'x' }, /longer than 76/],
    ...['\r\n', '\n', '\0', '\t', '\x7f', '\x85'].map((c): [object, RegExp] => [
      { 'X-A': `a${c}b` },
      /^\/0\/headers\/X-A must not contain line breaks/,
    ]),
    [{ 'X-A': 5 }, /must be a string/],
    [{ 'X-A': ' ' }, /must not be empty/],
    [{ 'X-A': '\ud800' }, /surrogate/],
    [{ 'X-A': `${'ż'.repeat(HEADER_VALUE_OCTETS_MAX / 2)}a` }, /longer than 998 octets/],
    [{ References: 'ż' }, /must be ASCII/],
    [{ 'X-A': 'a', 'x-a': 'b' }, /^\/0\/headers\/x-a is there twice/],
    [{ 'X-A~/': 'a\n' }, /^\/0\/headers\/X-A~0~1 /],
  ];
  for (const [headers, fault] of bad)
    t.match(faultsOf(fields(headers)), [fault], JSON.stringify(headers).slice(0, 40));
  t.equal(faultsOf(fields({ [`X-${'a'.repeat(74)}`]: 'ż'.repeat(HEADER_VALUE_OCTETS_MAX / 2) })).length, 0);
  t.match(faultsOf(fields(['X-A'])), [/must be an object/]);
  t.match(faultsOf(fields('X-A: b')), [/must be an object/]);
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`X-${index}`, 'a']));
  t.equal(faultsOf(fields(many(20))).length, 0);
  t.match(faultsOf(fields(many(21))), [/more than 20/]);
});

t.test('priority and life, for messages of any type', async (t) => {
  for (const message of [
    { ...HI, destination: 'a@x' },
    { type: 2, destination: '+31612345678', message: 'Hi' },
  ]) {
    const parsed = (fields: object) => parseDrafts([{ ...message, ...fields }], LIMITS)[0];
    t.match(parsed({ priority: 'high', expires_in_s: 60 }), { urgent: true, lifeMs: 60_000, ignored: [] });
    t.strictSame(parsed({ priority: 'normal' }), parsed({}));
    t.equal(parsed({ expires_in_s: EXPIRES_IN_MS_MAX / 1000 })?.lifeMs, EXPIRES_IN_MS_MAX);
    for (const priority of ['High', 'low', 1, true, {}])
      t.match(faultsOf({ ...message, priority }), [/^\/0\/priority must be/]);
    for (const life of [0, -1, 1.5, '60', 2_592_001, Number.NaN, 1e300, true, []]) {
      t.match(
        faultsOf({ ...message, expires_in_s: life }),
        [/^\/0\/expires_in_s must be an integer from 1 to 2592000 /],
        String(life),
      );
    }
  }
});

t.test('a form says the same', async (t) => {
  const { draft, faults } = formOf({
    subject: ['Hi'],
    to: ['a@x, "Doe, J" <b@x>', 'c@x'],
    cc: ['', 'd@x,'],
    bcc: ['team: e@x;'],
    from: ['Pump <pump@ours.org>'],
    reply_to: ['o@x, p@x'],
    headers: ['{"X-Site":"north"}'],
    priority: ['high'],
    expires_in_s: ['60'],
  });
  t.same(faults, []);
  t.same(
    draft,
    draftOf({
      to: ['a@x', '"Doe, J" <b@x>', 'c@x'],
      cc: ['d@x'],
      bcc: ['e@x'],
      from: 'Pump <pump@ours.org>',
      reply_to: ['o@x', 'p@x'],
      headers: { 'X-Site': 'north' },
      priority: 'high',
      expires_in_s: 60,
    }),
  );
  t.same(
    formOf({
      destination: ['a@x'],
      subject: ['Hi'],
      to: ['', ' '],
      headers: [''],
      priority: [''],
      expires_in_s: [''],
    }),
    {
      draft: draftOf({ destination: 'a@x' }),
      faults: [],
    },
  );
  t.match(
    formOf({ subject: ['Hi'], to: [','] }).faults,
    [/^destination is required/],
    'commas alone are nobody',
  );
  t.match(
    formOf({
      subject: ['Hi', 'Ho'],
      to: ['a@x', 'b@x, c'],
      from: ['x', 'y'],
      headers: ['{'],
      expires_in_s: ['1 h'],
      priority: ['x', 'y'],
    }).faults,
    [
      /^from must not appear/,
      /^subject must not appear/,
      /^priority must not appear/,
      /^headers must be JSON/,
      /^to "c" is not an email address 1$/,
      /^from must be/,
      /^priority must be/,
      /^expires_in_s must be/,
    ],
  );
});

/** Microseconds of CPU. */
function cpuOf(work: () => unknown): number {
  const before = process.cpuUsage();
  for (let n = 0; n < 20; n++) work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

t.test('a user of the device stands for all who read its mail', async (t) => {
  const both = ['anna@x.org', 'bob@x.org'];
  t.match(draftOf({ destination: 'people@localhost' }), {
    destination: 'anna@x.org',
    others: ['bob@x.org'],
    content: { head: { to: both.map((address) => ({ name: '', address })) } },
  });
  const listed = draftOf({ to: ['bob@x.org'], cc: ['Team <people@localhost>'] });
  t.match(listed.content.head, {
    to: [{ address: 'bob@x.org' }],
    cc: [{ name: 'Team', address: 'anna@x.org' }],
  });
  t.same(listed.others, ['anna@x.org'], 'each once');
});

t.test('an address is measured before it is parsed', async (t) => {
  const long = (chars: number) => [
    `${'a'.repeat(chars)}@x.org`,
    `${'a.'.repeat(chars / 2)}a@x.org`,
    `Ann ${'('.repeat(chars)}<a@x.org>`,
    `"${'\\"'.repeat(chars / 2)}" <a@x.org>`,
    `${'é <a@x> '.repeat(chars / 8)}`,
  ];
  const texts = [long(60_000), long(900_000)] as const;
  const withTexts = (values: readonly string[]) =>
    values.flatMap((text): [string, () => readonly unknown[]][] => [
      ['destination', () => faultsOf({ destination: text })],
      ['to', () => faultsOf({ to: [text] })],
      ['cc', () => faultsOf({ cc: [text] })],
      ['bcc', () => faultsOf({ bcc: [text] })],
      ['from', () => faultsOf({ destination: 'a@x', from: text })],
      ['reply_to', () => faultsOf({ destination: 'a@x', reply_to: text })],
      ['form to', () => formOf({ subject: ['Hi'], to: [text] }).faults],
      ['form from', () => formOf({ subject: ['Hi'], destination: ['a@x'], from: [text] }).faults],
    ]);
  const [short, huge] = texts.map(withTexts) as [ReturnType<typeof withTexts>, ReturnType<typeof withTexts>];
  for (const [index, [name, refuse]] of huge.entries()) {
    t.equal(refuse().length, 1, name);
    const shortRefuse = short[index]?.[1] ?? refuse;
    shortRefuse();
    // What it takes to notice: a collection of garbage may fall into it.
    const [few, many] = [Math.max(cpuOf(shortRefuse), 20_000), cpuOf(refuse)];
    t.ok(many < 5 * few, `${name}: ${many} µs for 900 KB, ${few} for 60 KB`);
  }
});
