/**
 * What letters become on the wire, and that two independent parsers, postal-mime and Python's email package,
 * read them back to exactly what was posted.
 */
// A process of its own: it takes long.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import PostalMime from 'postal-mime';
import { type Test, t } from 'tap';
import { type Address, needsSmtpUtf8, parseAddress, withALabel } from '../../src/mail/message/address.js';
import type { Mailbox } from '../../src/mail/message/mailbox.js';
import { type Letter, type LetterFile, type Rendered, render } from '../../src/mail/mime/letter.js';
import { seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

/** How many random letters go to each parser. Python's is slow, so it gets fewer. */
const LETTERS = process.env.FIELDPOST_TEST_LONG === '1' ? 10_000 : 1000;
const LETTERS_PYTHON = 1_000;

const FAMILY = '👨‍👩‍👧‍👦';
const SMTP = 'x\r\n.\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<d@e.f>\r\nDATA\r\n.\r\n.\r\nQUIT\r\n';

function address(text: string): Address {
  const parsed = parseAddress(text);
  if (parsed === null) throw new Error(`not an address: ${text}`);
  return parsed;
}

function mailbox(text: string): Mailbox {
  return { name: '', address: address(text) };
}

function letter(part: Partial<Letter> & { subject?: string; plain?: string; html?: string }): Letter {
  const { subject = '', plain = '', html = '', ...rest } = part;
  return {
    from: mailbox('device@example.org'),
    to: [mailbox('john@example.com')],
    content: { subject, plain, html },
    messageId: '01JD3Z0Q8W5V.0123456789abcdef@example.org',
    dateMs: Date.UTC(2026, 10, 20, 9, 41, 30),
    attachments: [],
    ...rest,
  };
}

function attachment(name: string, content: Buffer, part: Partial<LetterFile> = {}): LetterFile {
  return {
    name,
    type: 'application/x-test',
    size: content.length,
    async *open() {
      const step = 1 + (content.length % 1000);
      for (let at = 0; at < content.length; at += step) yield content.subarray(at, at + step);
    },
    ...part,
  };
}

async function bytesOf(rendered: Rendered): Promise<Buffer> {
  if (Buffer.isBuffer(rendered.bytes)) return rendered.bytes;
  const chunks = [];
  for await (const chunk of rendered.bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Everything that must hold of any message of ours on the wire; the first thing that does not, or null. */
function faultOnTheWire(sent: Letter, rendered: Rendered, bytes: Buffer): string | null {
  if (rendered.size !== bytes.length) return `size ${rendered.size}, but ${bytes.length} octets`;
  const text = bytes.toString('latin1');
  if (!text.endsWith('\r\n')) return 'does not end with a line break';
  if (/\r(?!\n)|(?<!\r)\n|\0/.test(text)) return 'has a bare CR or LF, or a NUL';
  const utf8 = [sent.from, ...sent.to].some((one) => needsSmtpUtf8(one.address));
  for (const line of text.split('\r\n')) {
    const indivisible = /^(?:From|To|Message-ID|Content-ID): </.test(line);
    if (line.length > (indivisible ? 320 : 76)) return `too long: ${line}`;
    if (/[\x80-\xff]/.test(line) && !(utf8 && indivisible)) return `not ASCII: ${line}`;
    if (line.startsWith('.') || line.startsWith('From ')) return `begins badly: ${line}`;
  }
  return null;
}

interface Parsed {
  subject: string;
  from: string[];
  to: string[];
  messageId: string;
  dateMs: number | null;
  plain: string | null;
  html: string | null;
  /** Content in base64. */
  attachments: { name: string | null; type: string; id: string | null; content: string }[];
}

/** What a parser that loses nothing finds in the letter. */
async function expected({ from, to, content, messageId, dateMs, attachments }: Letter): Promise<Parsed> {
  const plain = content.plain.replace(/\r\n?|\n/g, '\r\n');
  const html = content.html.replace(/\r\n?|\n/g, '\r\n');
  return {
    subject: content.subject,
    from: [withALabel(from.address)],
    to: to.map((one) => withALabel(one.address)),
    messageId: `<${messageId}>`,
    dateMs: dateMs === null ? null : Math.floor(dateMs / 1000) * 1000,
    plain: html !== '' && plain === '' ? null : plain,
    html: html === '' ? null : html,
    attachments: await Promise.all(
      inTheirOrder(attachments).map(async (one) => {
        const chunks = [];
        for await (const chunk of one.open()) chunks.push(Buffer.from(chunk));
        const id = one.cid === undefined ? null : `<${one.cid}>`;
        return { name: one.name, type: one.type, id, content: Buffer.concat(chunks).toString('base64') };
      }),
    ),
  };
}

/** Those that the HTML shows come first: in these letters they have such an id. */
function inTheirOrder(attachments: readonly LetterFile[]): LetterFile[] {
  const isShown = ({ cid }: LetterFile) => cid?.startsWith('shown') === true;
  return [...attachments.filter(isShown), ...attachments.filter((one) => !isShown(one))];
}

async function readByPostalMime(bytes: Buffer): Promise<Parsed> {
  const mail = await PostalMime.parse(bytes);
  const addresses = (list: (typeof mail.from)[] | undefined) => (list ?? []).map((one) => one?.address ?? '');
  return {
    subject: mail.subject ?? '',
    from: addresses([mail.from]),
    to: addresses(mail.to),
    messageId: mail.messageId ?? '',
    dateMs: mail.date === undefined ? null : Date.parse(mail.date),
    plain: mail.text ?? null,
    html: mail.html ?? null,
    attachments: mail.attachments.map((one) => ({
      name: one.filename,
      type: one.mimeType,
      id: one.contentId ?? null,
      content: Buffer.from(one.content as ArrayBuffer).toString('base64'),
    })),
  };
}

/**
 * postal-mime hands out text with LF, counts the line break in front of a boundary to the part before it
 * (RFC 2046 §5.1.1 counts it to the boundary), and tells an empty text as none.
 */
function asPostalMimeTells(parsed: Parsed): Parsed {
  // One that the HTML shows without plain text and further files is no part of a mixed mail, but of a related one.
  const parts = parsed.attachments.length > 0 || (parsed.plain !== null && parsed.html !== null);
  const told = (text: string | null) => {
    if (text === null) return null;
    return text.replaceAll('\r\n', '\n') + (parts ? '\n' : '') || null;
  };
  const attachments = parsed.attachments.map((one) => ({ ...one, name: one.name || null }));
  return { ...parsed, plain: told(parsed.plain), html: told(parsed.html), attachments };
}

/** Null where there is no Python. */
function readByPython(mails: readonly Buffer[]): Parsed[] | null {
  const input = mails.flatMap((mail) => {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(mail.length);
    return [head, mail];
  });
  const run = spawnSync('python3', [fileURLToPath(new URL('parse_mail.py', import.meta.url))], {
    input: Buffer.concat(input),
    maxBuffer: 1 << 30,
  });
  if (run.error !== undefined && 'code' in run.error && run.error.code === 'ENOENT') return null;
  if (run.status !== 0) throw new Error(run.stderr.toString());
  const text = (value: string | null) => (value === null ? null : Buffer.from(value, 'base64').toString());
  return run.stdout
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => {
      const { defects, head: _, ...found } = JSON.parse(line);
      if (defects.length > 0) throw new Error(`Python found ${defects.join('; ')}`);
      return { ...found, plain: text(found.plain), html: text(found.html) };
    });
}

/** The same letters for the same seed. */
function randomFrom(start: number) {
  const draw = seededRandom(start);
  const below = (limit: number) => Math.floor(draw() * limit);
  const oneOf = <T>(list: readonly T[]) => list[below(list.length)] as T;
  return { below, oneOf };
}
type Random = ReturnType<typeof randomFrom>;

const INLINE = [
  'a',
  'word',
  ' ',
  ' ',
  '  ',
  '\t',
  '.',
  '..',
  '=',
  '=20',
  '=?',
  '?=',
  '=?UTF-8?Q?x?=',
  '=?x?=',
  '_',
  '-',
];
const SCRIPTS = [
  'ż',
  'Zażółć gęślą jaźń',
  'Ωμέγα',
  '日本語',
  'ポンプ',
  '😀',
  FAMILY,
  '🇵🇱',
  'e\u0301',
  '\u{10ffff}',
  '\uffff',
];
const CONTROLS = ['\x01', '\x07', '\x0b', '\x0c', '\x1b[2J', '\x7f', '\x85', '\xa0', '\u2028', '\u202e'];
const BREAKS = [
  '\r\n',
  '\r\n',
  '\n',
  '\r',
  '\r\n.',
  '\r\n..\r\n',
  '\r\n.\r\n',
  '\r\nFrom ',
  '\r\n--=_mixed\r\n',
  SMTP,
  '\0',
];
const ADDRESSES = [
  "o'brien+tag@ex-ample.co",
  "!#$%&'*+/=?^_`{|}~-@example.com",
  'a.b.c@x',
  `${'l'.repeat(64)}@${'d'.repeat(60)}.${'e'.repeat(60)}.${'f'.repeat(60)}.pl`,
  'pompa@żółw.example',
  'δοκιμή@παράδειγμα.example',
  '用户@例子.example',
  '😀@example.com',
  'x@[127.0.0.1]',
  'x@[IPv6:2001:db8::1]',
].map(mailbox);

const IDS = ['', '@x', '!#$%&*+-/=?^_`{|}~.:', 'x'.repeat(180)];

function randomText(random: Random, pools: readonly (readonly string[])[]): string {
  let text = '';
  for (let left = random.oneOf([0, 1, 2, 3, 8, 8, 30, 100]); left > 0; left--) {
    const piece = random.oneOf(random.oneOf(pools));
    text += random.below(20) === 0 ? piece.repeat(random.below(90)) : piece;
  }
  return text;
}

function randomLetter(random: Random): Letter {
  const body = () =>
    random.below(4) === 0 ? '' : randomText(random, [INLINE, INLINE, SCRIPTS, CONTROLS, BREAKS]);
  const part = {
    from: random.oneOf(ADDRESSES),
    to: [random.oneOf(ADDRESSES)],
    subject: randomText(
      random,
      random.oneOf([[INLINE], [['word', ' ', 'another']], [INLINE, SCRIPTS, CONTROLS]]),
    ),
    plain: body(),
    html: body(),
    messageId: `01JD3Z0Q8W5V.${random.below(1e9)}@example.org`,
    dateMs: random.below(10) === 0 ? null : random.below(4_000_000_000) * 1000 + random.below(1000),
  };
  if (random.below(5) > 0) return letter(part);
  const attachments = Array.from({ length: 1 + random.below(3) }, () => {
    const content = Buffer.from(Array.from({ length: random.below(400) }, () => random.below(256)));
    const type = random.oneOf([
      'text/plain',
      'text/html',
      'image/png',
      'application/vnd.oasis.opendocument.text',
    ]);
    // postal-mime takes what looks like an encoded word in a file name for one.
    const name = randomText(random, [INLINE.filter((piece) => !piece.includes('?')), SCRIPTS]);
    const shown = { type: 'image/png', cid: `shown${random.oneOf(IDS)}${random.below(1e6)}` };
    const others = [{ type }, { type, cid: `kept${random.oneOf(IDS)}` }];
    return attachment(name, content, random.oneOf(part.html === '' ? others : [...others, shown]));
  });
  const html = attachments.reduce(
    (text, { cid = '' }) =>
      cid.startsWith('shown')
        ? `${text}<img src="cid:${random.oneOf([cid, encodeURIComponent(cid)])}">`
        : text,
    part.html,
  );
  return letter({ ...part, html, attachments });
}

async function roundTrip(t: Test, letters: readonly Letter[], forPython: number): Promise<void> {
  const mails = [];
  for (const sent of letters) {
    const rendered = render(sent);
    const bytes = await bytesOf(rendered);
    mails.push(bytes);
    const fault = faultOnTheWire(sent, rendered, bytes);
    if (fault !== null) t.fail(fault, { bytes: bytes.toString('latin1') });
    await compare(t, sent, asPostalMimeTells(await expected(sent)), await readByPostalMime(bytes));
  }
  t.pass(`${mails.length} letters by postal-mime`);
  const found = readByPython(mails.slice(0, forPython));
  if (found === null) {
    t.pass('skipped: there is no python3 here');
    return;
  }
  for (const [index, parsed] of found.entries()) {
    const sent = letters[index] as Letter;
    await compare(t, sent, await expected(sent), parsed);
  }
  t.pass(`${found.length} letters by Python`);
}

async function compare(t: Test, sent: Letter, want: Parsed, found: Parsed): Promise<void> {
  // A comparison of its own first: tap's is slow where thousands are equal.
  const flat = (parsed: Parsed) => JSON.stringify(Object.entries(parsed).sort());
  if (flat(want) !== flat(found)) t.same(found, want, JSON.stringify(sent.content).slice(0, 300));
}

t.test('a letter, octet by octet', async (t) => {
  const rendered = render(letter({ subject: 'Pump', plain: 'It stopped.\r\n' }));
  t.equal(
    String(rendered.bytes),
    [
      'From: <device@example.org>',
      'To: <john@example.com>',
      'Subject: Pump',
      'Date: Fri, 20 Nov 2026 09:41:30 +0000',
      'Message-ID: <01JD3Z0Q8W5V.0123456789abcdef@example.org>',
      'MIME-Version: 1.0',
      'Auto-Submitted: auto-generated',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: quoted-printable',
      '',
      'It stopped.',
      '',
    ].join('\r\n'),
  );
  t.notMatch(String(render(letter({ dateMs: null })).bytes), 'Date:', 'a wrong clock dates nothing');
});

t.test('chosen letters are read back by others as they were posted', async (t) => {
  const x = 'x'.repeat(5000);
  const texts = [
    '',
    'a',
    'a\r\n',
    '\r\n',
    '\n\n\n',
    ' ',
    '.',
    '.\r\n',
    '..',
    SMTP,
    x,
    `${x}\r\n.${x}`,
    'ż'.repeat(5000),
  ];
  texts.push(
    FAMILY.repeat(500),
    'a\rb\nc\r\n\rd',
    'trailing \t \r\n \t',
    'From me\r\n>From you\r\n',
    '--=_mixed--\r\n--=_alternative',
  );
  const subjects = [
    '',
    'Pump',
    'Zażółć gęślą jaźń',
    'Ωμέγα',
    '日本語',
    FAMILY.repeat(40),
    ' a  b ',
    '=?UTF-8?Q?x?=',
    'x'.repeat(998),
    'word '.repeat(199),
  ];
  subjects.push('a =?', 'ends in a blank ', '\t', 'tab\tinside', '😀'.repeat(499), `${'x'.repeat(38)}😀`);
  const letters = [
    ...texts.map((plain) => letter({ plain })),
    ...texts.map((html) => letter({ html })),
    ...texts.map((text) => letter({ plain: text, html: `<p>${text}` })),
    ...texts.map((plain) => letter({ plain, attachments: [attachment('a', Buffer.from(plain))] })),
    ...subjects.map((subject) => letter({ subject })),
    ...ADDRESSES.map((from) => letter({ from, to: [from] })),
  ];
  await roundTrip(t, letters, letters.length);
});

t.test('attachments with nasty names and any octets', async (t) => {
  const names = [
    'a.txt',
    'a b.txt',
    ' a ',
    'a  b',
    '"',
    '\\',
    '..\\x',
    "it's 100%;*.txt",
    'a;b=c',
    'Zażółć.pdf',
    `${FAMILY}.png`,
    '日本語'.repeat(28),
  ];
  names.push(
    'x'.repeat(255),
    'x'.repeat(54),
    'x'.repeat(55),
    "UTF-8''x",
    '\x1b\x07',
    'a\tb',
    'filename*0*=x',
    'a,b',
    '(a)',
    'a@b',
    '.',
    'ż',
  );
  const octets = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
  const letters = names.map((name, at) => letter({ attachments: [attachment(name, octets.subarray(at))] }));
  letters.push(letter({ plain: 'x', html: 'y', attachments: names.map((name) => attachment(name, octets)) }));
  await roundTrip(t, letters, letters.length);
});

t.test('the files that the HTML shows go with it', async (t) => {
  const octets = Buffer.from('picture');
  const png = (cid: string, part: Partial<LetterFile> = {}) =>
    attachment(`${cid}.png`, octets, { type: 'image/png', cid, ...part });
  const file = attachment('b.csv', octets);
  /** The kinds of the entities, each with those in it. */
  const shape = async (plain: string, html: string, ...attachments: LetterFile[]) => {
    const sent = letter({ plain, html, attachments });
    const rendered = render(sent);
    const bytes = await bytesOf(rendered);
    t.equal(faultOnTheWire(sent, rendered, bytes), null);
    return [
      ...String(bytes).matchAll(/^(?:Content-Type:\s*([^;\r]*)|Content-Disposition: (\w+)|--=_(\w+)--)/gm),
    ]
      .map(([, type = '', disposition = '', end = '']) => type || disposition || `/${end}`)
      .join(' ');
  };
  const related = 'multipart/related text/html image/png inline /related';
  t.equal(await shape('', '<img src="cid:a">', png('a')), related);
  t.equal(
    await shape('x', '<img src="cid:a">', png('a')),
    `multipart/alternative text/plain ${related} /alternative`,
  );
  t.equal(
    await shape('x', '<img src=cid:a>', file, png('a')),
    `multipart/mixed multipart/alternative text/plain ${related} /alternative application/x-test attachment /mixed`,
  );
  const mixed = 'multipart/mixed text/html image/png attachment /mixed';
  t.equal(await shape('', '<img src="cid:ab">', png('a')), mixed, 'another id');
  t.equal(await shape('', '<img src="xcid:a">', png('a')), mixed);
  t.equal(await shape('', '<img src="a">', png('a')), mixed);
  t.equal(
    await shape('cid:a', '', png('a')),
    'multipart/mixed text/plain image/png attachment /mixed',
    'plain text shows nothing',
  );
  t.equal(
    await shape('', '<a href="cid:a">', png('a', { type: 'text/html; charset=utf-8' })),
    'multipart/mixed text/html text/html attachment /mixed',
    'a text would be read as one of the mail',
  );
  for (const [html, cid] of [
    ["<b style='background:url(CID:a)'>", 'a'],
    ['<img src=cid:a%40b>', 'a@b'],
    ['<img src="cid:a%40b">', 'a%40b'],
    ['<img src="cid:a&amp;b">', 'a&b'],
    ['<img src="cid:100%">', '100%'],
  ] as const)
    t.equal(await shape('', html, png(cid)), related, html);
  const chosen = [
    letter({
      html: '<img src="cid:shown1"><img src="cid:shown2">',
      attachments: [png('shown1'), file, png('shown2')],
    }),
    letter({ plain: 'x', html: '<img src="cid:shown1">', attachments: [file, png('x'), png('shown1')] }),
    letter({ html: '<img src="cid:shown1">', attachments: [png('shown1')] }),
    letter({ plain: 'x', html: '<img src="cid:shown1">', attachments: [png('shown1', { name: '日本語' })] }),
  ];
  await roundTrip(t, chosen, chosen.length);
});

t.test(`random letters are read back by others as they were posted`, async (t) => {
  const random = randomFrom(seed);
  await roundTrip(
    t,
    Array.from({ length: LETTERS }, () => randomLetter(random)),
    LETTERS_PYTHON,
  );
});

t.test('the same letter is the same octets at every attempt', async (t) => {
  const random = randomFrom(seed);
  for (let count = 0; count < 100; count++) {
    const sent = randomLetter(random);
    if (!(await bytesOf(render(sent))).equals(await bytesOf(render(sent)))) t.fail(JSON.stringify(sent));
  }
});

t.test('attachments are read when they are sent, and closed', async (t) => {
  let open = 0;
  const big = attachment('big', Buffer.alloc(0), {
    size: 1 << 20,
    async *open() {
      open++;
      try {
        for (let count = 0; count < 16; count++) yield Buffer.alloc(1 << 16);
      } finally {
        open--;
      }
    },
  });
  const { bytes } = render(letter({ attachments: [big] }));
  t.equal(open, 0, 'rendering opens nothing');
  for await (const chunk of bytes as AsyncIterable<Buffer>) {
    t.ok(chunk.length < 1 << 17, 'and holds one chunk at a time');
    if (open > 0) break;
  }
  t.equal(open, 0, 'a stream that is given up closes its file');
});

t.test('a mail with an attachment of another size is not ended', async (t) => {
  for (const size of [9, 11, 0]) {
    const { bytes } = render(letter({ attachments: [attachment('a', Buffer.alloc(10), { size })] }));
    const sent: Buffer[] = [];
    await t.rejects(
      async () => {
        for await (const chunk of bytes) sent.push(chunk as Buffer);
      },
      { code: 'storage-damaged' },
    );
    t.notMatch(Buffer.concat(sent).toString(), '--=_mixed--');
  }
});
