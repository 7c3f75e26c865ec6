/** Names, lists and headers of a client's own: what two independent parsers read is what was posted, and nothing more. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import PostalMime from 'postal-mime';
import { t } from 'tap';
import { parseAddress, withALabel } from '../../src/mail/message/address.js';
import { type Mailbox, parseMailboxes } from '../../src/mail/message/mailbox.js';
import { mailboxesHeader, ownHeader } from '../../src/mail/mime/headers.js';
import { type Letter, render } from '../../src/mail/mime/letter.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const ROUNDS = process.env.FIELDPOST_TEST_LONG === '1' ? 5000 : 500;
const x = (count: number) => 'x'.repeat(count);

function mailbox(address: string, name = ''): Mailbox {
  const parsed = parseAddress(address);
  if (parsed === null) throw new Error(`not an address: ${address}`);
  return { name, address: parsed };
}

function letter(part: Partial<Letter>): Letter {
  return {
    from: mailbox('device@example.org'),
    to: [mailbox('john@example.com')],
    content: { subject: 'Pump', plain: 'It stopped.', html: '' },
    messageId: '01JD3Z0Q8W5V.0123456789abcdef@example.org',
    dateMs: Date.UTC(2026, 10, 20, 9, 41, 30),
    attachments: [],
    ...part,
  };
}

const headOf = (part: Partial<Letter>) => String(render(letter(part)).bytes).split('\r\n\r\n')[0] as string;

t.test('blind recipients are not named', async (t) => {
  t.match(headOf({ to: [] }), /\r\nTo: undisclosed-recipients:;\r\nSubject/);
  const cc = headOf({ to: [], cc: [mailbox('c@example.com')] });
  t.match(cc, /\r\nCc: <c@example.com>\r\nSubject/);
  t.notMatch(cc, /^To:/m);
});

t.test('a name is atoms, a quoted string or encoded words', async (t) => {
  const cases: [name: string, written: string][] = [
    ['John', 'John'],
    ["O'Brien & Sons", "O'Brien & Sons"],
    ['Doe, John', '"Doe, John"'],
    ['J. R.', '"J. R."'],
    ['a "b" \\', '"a \\"b\\" \\\\"'],
    ['a@b', '"a@b"'],
    ['Żaba', '=?UTF-8?B?xbthYmE=?='],
    ['=?UTF-8?Q?x?=', '=?UTF-8?B?PT9VVEYtOD9RP3g/PQ==?='],
    ['a  b', '=?UTF-8?B?YSAgYg==?='],
  ];
  for (const [name, written] of cases)
    t.equal(mailboxesHeader('To', [mailbox('a@b', name)]), `To: ${written} <a@b>\r\n`);
  t.equal(mailboxesHeader('To', [mailbox('a@b', `${x(71)} y`)]), `To: ${x(71)}\r\n y <a@b>\r\n`);
  t.equal(mailboxesHeader('To', [mailbox('a@b', `${x(75)} y`)]), `To:\r\n ${x(75)}\r\n y <a@b>\r\n`);
  t.match(mailboxesHeader('To', [mailbox('a@b', x(76))]), /^To: =\?UTF-8\?B\?/, 'a word too long for a line');
});

t.test('headers of its own are folded at blanks', async (t) => {
  t.equal(ownHeader('X-A', 'a b'), 'X-A: a b\r\n');
  t.equal(
    ownHeader('References', `<${x(60)}@a> <${x(60)}@b> <c@d>`),
    `References: <${x(60)}@a>\r\n <${x(60)}@b> <c@d>\r\n`,
  );
  t.equal(
    ownHeader('References', `<${x(200)}@a>`),
    `References:\r\n <${x(200)}@a>\r\n`,
    'a long id is not cut',
  );
  t.equal(ownHeader('X-A', x(997)), `X-A:\r\n ${x(997)}\r\n`, 'a line of 998');
  t.match(ownHeader('X-A', x(998)), /^X-A:\s+=\?UTF-8\?B\?/);
  t.equal(ownHeader('X-A', 'ż'), 'X-A: =?UTF-8?B?xbw=?=\r\n');
  for (const bad of ['', 'X A', 'X:', 'X\r\n', 'Ż', x(77)]) t.throws(() => ownHeader(bad, 'a'), /good name/);
  t.equal(ownHeader('X-A', 'a\r\nBcc: x').split('\r\n').length, 2, 'a line break is encoded');
  t.throws(
    () => mailboxesHeader('To', [{ name: '', address: 'a\r\nb' as Mailbox['address'] }]),
    /line break/,
  );
});

const PIECES = [
  'a',
  'word',
  ' ',
  ' ',
  '  ',
  '"',
  '\\',
  ',',
  ';',
  ':',
  '<',
  '>',
  '@',
  '(',
  ')',
  '[',
  ']',
  '.',
  '=',
  '=?',
  '?=',
  '=?UTF-8?Q?x?=',
  "'",
  '%',
  '_',
  'ż',
  '日本語',
  '😀',
  'e\u0301',
  'x'.repeat(80),
  'Bcc: x@y',
  'From ',
  '.',
  '<b@c>',
  'a@b',
  '\u00a0',
];
/** What validation would refuse, but could reach the renderer. */
const HOSTILE = [
  '\r',
  '\n',
  '\r\n',
  '\r\nBcc: x@y.z\r\n',
  '\n\n',
  '\0',
  '\x01',
  '\x7f',
  '\t',
  '\x85',
  '\u2028',
];
const ADDRESSES = [
  'a@x.org',
  "o'brien+tag@ex-ample.co",
  "!#$%&'*+/=?^_`{|}~-@example.com",
  `${'l'.repeat(64)}@${'d'.repeat(60)}.pl`,
  'ż@żółw.pl',
];
const NAMES = ['X-Site', 'x-a', 'References', 'In-Reply-To', 'List-Id', `X-${'y'.repeat(70)}`];

function textFrom(random: () => number, pieces: readonly string[]): string {
  let text = '';
  for (let left = random() * 8; left > 0; left--) text += pick(random, pieces);
  return text;
}

function letterFrom(random: () => number, pieces: readonly string[]): Letter {
  const one = () => mailbox(pick(random, ADDRESSES), random() < 0.3 ? '' : textFrom(random, pieces).trim());
  const list = (least: number) => Array.from({ length: least + Math.floor(random() * 4) }, one);
  const value = () => textFrom(random, pieces).trim() || 'x';
  const headers = Array.from(
    { length: Math.floor(random() * 4) },
    () => [pick(random, NAMES), value()] as const,
  );
  return letter({ from: one(), to: list(1), cc: list(0), replyTo: list(0), headers });
}

function byPython(mails: readonly Buffer[]): ReturnType<typeof JSON.parse>[] | null {
  const input = mails.flatMap((mail) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(mail.length);
    return [length, mail];
  });
  const run = spawnSync('python3', [fileURLToPath(new URL('parse_mail.py', import.meta.url))], {
    input: Buffer.concat(input),
    maxBuffer: 1 << 30,
  });
  if (run.error !== undefined) return null;
  if (run.status !== 0) throw new Error(run.stderr.toString());
  return run.stdout
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** A domain beyond ASCII goes as its A-label. */
const onWire = (mailbox: Mailbox): Mailbox => ({ ...mailbox, address: withALabel(mailbox.address) });

const pairs = (list: readonly { name: string; address?: string | undefined }[] = []) =>
  list.map(({ name, address }) => [name, address]);

t.test('random heads are read back as they were posted', async (t) => {
  const random = seededRandom(seed);
  const letters = Array.from({ length: ROUNDS }, () => letterFrom(random, PIECES));
  const mails = letters.map((sent) => render(sent).bytes as Buffer);
  const pythons = byPython(mails);
  if (pythons === null) t.comment('there is no python3 here');
  for (const [index, sent] of letters.entries()) {
    const bytes = mails[index] as Buffer;
    const lines = bytes.toString('latin1').split('\r\n');
    const long = lines.find((line) => line.length > 76 && !/^ ?\S*<.*>,?$|^[\w-]+:|^ \S+$/.test(line));
    if (long !== undefined || lines.some((line) => line.length > 998)) t.fail(`too long: ${long}`);
    const own = (sent.headers ?? []).map(([name, value]) => [name.toLowerCase(), value]);
    const posted = {
      from: pairs([sent.from].map(onWire)),
      to: pairs(sent.to.map(onWire)),
      cc: pairs(sent.cc?.map(onWire)),
      replyTo: pairs(sent.replyTo?.map(onWire)),
    };
    const words = `seed ${seed}, letter ${index}`;
    const mail = await PostalMime.parse(bytes);
    const found = {
      from: pairs(mail.from && [mail.from]),
      to: pairs(mail.to),
      cc: pairs(mail.cc),
      replyTo: pairs(mail.replyTo),
    };
    if (JSON.stringify(found) !== JSON.stringify(posted)) t.same(found, posted, `${words}: postal-mime`);
    const { headers, ...people } = pythons?.[index]?.head ?? { headers: [], ...posted };
    // Python keeps the blank between two encoded words of a name, and makes one blank of two.
    const dense = (value: unknown) => JSON.stringify(value).replace(/\s/g, '');
    if (dense(people) !== dense(posted)) t.same(people, posted, `${words}: Python`);
    const theirs = headers
      .map(([name, value]: [string, string]) => [name.toLowerCase(), value.trim()])
      .filter(([name = '']) => NAMES.some((one) => one.toLowerCase() === name));
    if (pythons !== null && JSON.stringify(theirs) !== JSON.stringify(own))
      t.same(theirs, own, `${words}: Python`);
    // And by our own reader.
    const header = /^To: ?([\s\S]*?)\r\n(?! )/m.exec(bytes.toString())?.[1] ?? '';
    const { mailboxes, fault } = parseMailboxes(header);
    const to = sent.to.map(onWire);
    if (fault !== null || JSON.stringify(mailboxes) !== JSON.stringify(to))
      t.same(mailboxes, to, `${words}: ours`);
  }
  t.pass(`${letters.length} letters`);
});

t.test('no value begins another header, ever', async (t) => {
  const random = seededRandom(seed);
  for (let round = 0; round < ROUNDS; round++) {
    const sent = letterFrom(random, [...PIECES, ...HOSTILE]);
    const bytes = render(sent).bytes as Buffer;
    const { headers } = await PostalMime.parse(bytes);
    const names = [
      'from',
      'to',
      ...(sent.cc?.length ? ['cc'] : []),
      ...(sent.replyTo?.length ? ['reply-to'] : []),
    ];
    names.push('subject', 'date', 'message-id', 'mime-version', 'auto-submitted');
    names.push(
      ...(sent.headers ?? []).map(([name]) => name.toLowerCase()),
      'content-type',
      'content-transfer-encoding',
    );
    const found = headers.map(({ key }) => key);
    if (JSON.stringify(found.toSorted()) !== JSON.stringify(names.toSorted()))
      t.same(found, names, `seed ${seed}, round ${round}`);
    const text = bytes.toString('latin1');
    if (/\r(?!\n)|(?<!\r)\n|\0/.test(text)) t.fail(`seed ${seed}, round ${round}: a bare line break`);
    if (!text.endsWith('\r\n\r\nIt stopped.=\r\n')) t.fail(`seed ${seed}, round ${round}: the body`);
  }
  t.pass(`${ROUNDS} letters`);
});
