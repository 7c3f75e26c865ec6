/** Forms (local-api §1): what is taken of them, every way in which one can be wrong, and every way in which one ends. */
import { type Test, test } from 'tap';
import type { ErrorCode } from '../../src/base/errors.js';
import { BODIES_BYTES_MAX } from '../../src/base/http/connections.js';
import { HEADER_SECTION_BYTES_MAX, REQUEST_IDLE_MS, SECOND_MS } from '../../src/base/limits.js';
import { FORM_FIELD_BYTES_MAX, FORM_FRAME_BYTES_MAX } from '../../src/device/api/form-guard.js';
import {
  type Answer,
  EMAIL,
  MESSAGES,
  type RawClient,
  requestText,
  startApi,
  type TestApi,
} from '../support/api.js';
import { settled } from '../support/clock.js';
import type { Fault } from '../support/faulty-disk.js';
import { BOUNDARY, bodyOf, NEEDED, type PartToMake, postBody, rawPart } from '../support/form.js';
import { stall } from '../support/stall.js';

/** The disk fails, and the store has noticed. */
async function breakForGood(api: TestApi): Promise<void> {
  api.breakDisk();
  await api.store.hold().catch(() => undefined);
}

const FILE: PartToMake = { name: 'file', filename: 'a.bin', type: 'application/x-a', content: 'abc' };
const HEADER_OF_FILE = [
  'Content-Disposition: form-data; name="file"; filename="a.bin"',
  'Content-Type: application/x-a',
];
const FORM = { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` };
const CODES: Record<number, string> = {
  400: 'malformed-multipart',
  413: 'too-large',
  415: 'unsupported-media-type',
  422: 'invalid',
  408: 'timeout',
  503: 'busy',
};

/** The attachments of the newest message. */
async function newest(api: TestApi): Promise<{ name: string; type: string; content: string }[]> {
  const [message] = api.store.list({ status: null, limit: 1, after: null }).messages;
  const found = [];
  for (const { id, name, type } of message?.attachments ?? []) {
    found.push({ name, type, content: (await api.file(id))?.toString('latin1') ?? 'gone' });
  }
  return found;
}

async function isClean(t: Test, api: TestApi): Promise<void> {
  t.equal(api.size, 0, 'nothing is queued');
  t.same(await api.files(), [], 'no file is left');
  t.equal(api.uploads, 0, 'no upload is left open');
  t.equal(api.store.room().used.messages, 0, 'no room is kept');
  t.same(api.errors, [], 'no fault of ours');
}

function isRefused(t: Test, answer: Answer, status: number, detail: RegExp, code = CODES[status]): void {
  t.equal(answer.status, status, answer.body);
  t.match(answer.json, { type: `urn:fieldpost:problem:${code}`, detail });
}

/** The part of the body before `at`. */
const cut = (body: Buffer, at: string) => body.subarray(0, body.indexOf(at));

/** A client that has sent the head of a POST of `body`, and as much of it as `sent`. */
async function beginPost(api: TestApi, body: Buffer, sent = body): Promise<RawClient> {
  const client = await api.connect();
  client.write(requestText('POST', MESSAGES, FORM, body.length));
  client.write(sent);
  return client;
}

test('a form is one email with its files', async (t) => {
  await using api = await startApi();
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const answer = await postBody(
    api,
    bodyOf([
      FILE,
      { name: 'plain', content: 'a\nb' },
      { name: 'sound', content: 'x' },
      { ...FILE, name: 'any', filename: 'b.png', type: 'image/PNG', content: bytes },
      { name: '__proto__', content: 'y' },
      { name: 'sound', content: 'x' },
      ...NEEDED,
      { ...FILE, filename: 'empty.txt', type: 'text/plain', content: '' },
      { name: 'html', content: '<b>ü</b>' },
      { name: 'type', content: '1' },
    ]),
  );
  t.equal(answer.status, 202);
  t.same(answer.json, [
    {
      id: answer.json[0].id,
      type: 1,
      destination: 'john@example.com',
      status: 'queued',
      ignored: ['sound', '__proto__'],
    },
  ]);
  t.same(await newest(api), [
    { name: 'a.bin', type: 'application/x-a', content: 'abc' },
    { name: 'b.png', type: 'image/png', content: bytes.toString('latin1') },
    { name: 'empty.txt', type: 'text/plain', content: '' },
  ]);
  const message = api.store.get(answer.json[0].id);
  t.same(message && (await api.store.content(message)), { subject: 'Hi', plain: 'a\r\nb', html: '<b>ü</b>' });
  t.equal(api.nudges, 1);
  t.equal(api.uploads, 0);
  const told = await api.call('GET', `${MESSAGES}/${answer.json[0].id}`);
  t.same(told.json.attachments[1], { name: 'b.png', type: 'image/png', size: 256 });
});

test('names and types', async (t) => {
  await using api = await startApi();
  const names: [parameters: string, name: string][] = [
    ['filename="Grüße 🦆.txt"', 'Grüße 🦆.txt'],
    ['filename="x"; filename*=UTF-8\'\'%e2%82%ac%20rates.txt', '€ rates.txt'],
    ["filename*=iso-8859-1'en'%A3.txt", '£.txt'],
    ['filename="C:\\temp\\x.txt"', 'x.txt'],
    ['filename="../../etc/passwd"', 'passwd'],
    ["filename*=UTF-8''..%2F..%5Cx%00%0a%7f%c2%85.txt", 'x.txt'],
    ["filename*=UTF-8''exe%E2%80%AEtxt.a", 'exetxt.a'],
    ["filename*=UTF-8''%ef%bf%bd.txt", '\ufffd.txt'],
    ["filename*=UTF-8''", 'attachment'],
    ['filename="a%22b%0D%0A%20.txt"', 'a"b%20.txt'],
    ['filename="a\\"b.txt"', 'a"b.txt'],
    ['filename="a;b=c.txt"', 'a;b=c.txt'],
    ['filename=token.txt', 'token.txt'],
    ['filename=token.txt ;', 'token.txt'],
    // Written by hand, in more than one way wrong, but nobody reads it differently.
    ['; filename = /var/log/Grüße(1)=x.txt', 'Grüße(1)=x.txt'],
    [`filename="${'n'.repeat(255)}"`, 'n'.repeat(255)],
    ['filename=".."', 'attachment'],
    ['filename=""', 'attachment'],
  ];
  const octets = 'application/octet-stream';
  const header = (parameters: string, ...more: string[]) => [
    `Content-Disposition: form-data; ${parameters}`,
    ...more,
  ];
  const P = 'name="f"; filename="p"';
  const cases: [header: string[], name: string, type: string][] = [
    ...names.map(([told, name]): [string[], string, string] => [
      header(`name="file"; ${told}`, 'Content-Type: a/b'),
      name,
      'a/b',
    ]),
    [header('name="file"', 'Content-Type: image/jpeg'), 'attachment', 'image/jpeg'],
    [header('name="plain"; filename="p.txt"'), 'p.txt', octets],
    [header(P, 'Content-Type: text/CSV; header=present; charset="UTF-8"'), 'p', 'text/csv; charset=utf-8'],
    [['content-type:text/html', 'CONTENT-DISPOSITION:Form-Data;NAME=f;\r\n\tFILENAME="p"'], 'p', 'text/html'],
    [header(P, 'Content-Type: nonsense'), 'p', octets],
    [header('name=""; filename="p"', 'Content-Transfer-Encoding: Binary', 'X-Other: a'), 'p', octets],
  ];
  for (const [header, name, type] of cases) {
    const answer = await postBody(api, bodyOf([...NEEDED, rawPart(header, 'x')]));
    t.equal(answer.status, 202, answer.body);
    t.same(await newest(api), [{ name, type, content: 'x' }], header.join(' '));
    t.notOk(answer.json[0].ignored, 'a file is under no field');
  }
  const nothingChosen = { name: 'file', filename: '', type: 'application/octet-stream', content: '' };
  t.equal((await postBody(api, bodyOf([...NEEDED, nothingChosen]))).status, 202);
  t.same(await newest(api), [], 'what browsers send where no file was chosen is none');
  t.equal((await postBody(api, bodyOf([...NEEDED, { ...nothingChosen, filename: '..' }]))).status, 202);
  t.match(await newest(api), [{ name: 'attachment', content: '' }], 'an empty file of a strange name is one');
});

test('a part may have a Content-ID', async (t) => {
  await using api = await startApi();
  const post = (id: string, name = 'picture', filename = '; filename="a.png"') =>
    postBody(
      api,
      bodyOf([
        ...NEEDED,
        rawPart([`Content-Disposition: form-data; name="${name}"${filename}`, `Content-Id: ${id}`], 'x'),
      ]),
    );
  const longest = `!~"'@%:.${'x'.repeat(192)}`;
  for (const id of ['picture', '<picture>', '< picture >', '', longest, `<${longest}>`]) {
    const answer = await post(id);
    if (id.includes(' ')) continue;
    t.equal(answer.status, 202, answer.body);
    const cid = id.replace(/[<>]/g, '');
    const [file] = api.store.get(answer.json[0].id)?.attachments ?? [];
    t.strictSame(file?.cid, cid === '' ? undefined : cid, id);
    const { attachments } = (await api.call('GET', `${MESSAGES}/${answer.json[0].id}`)).json;
    t.strictSame(
      attachments,
      [{ name: 'a.png', type: 'application/octet-stream', size: 1 }],
      'no view has it',
    );
  }
  const count = api.size;
  const files = (await api.files()).length;
  for (const id of ['< picture >', 'a b', '<a', 'a>', '<>', '<<a>>', 'ü', `${longest}x`]) {
    const answer = await post(id);
    isRefused(t, answer, 422, /cannot be taken/);
    t.match(answer.json.errors, [{ pointer: 'picture', detail: /Content-ID that is not 1 to 200/ }], id);
  }
  t.equal(
    (
      await postBody(
        api,
        bodyOf([...NEEDED, rawPart(['Content-Disposition: form-data; name="html"', 'Content-ID: a b'], 'x')]),
      )
    ).status,
    202,
    'that of a text says nothing',
  );
  t.equal(api.size, count + 1);
  t.equal((await api.files()).length, files);
});

test('text in the charset of its label', async (t) => {
  await using api = await startApi();
  const plain = (charset: string, octets: string) =>
    bodyOf([
      ...NEEDED,
      rawPart(
        ['Content-Disposition: form-data; name="plain"', `Content-Type: text/plain; charset=${charset}`],
        Buffer.from(octets, 'latin1'),
      ),
    ]);
  const high = Array.from({ length: 0x60 }, (_, i) => String.fromCharCode(0xa0 + i)).join('');
  const utf8 = Buffer.from('Grüße €').toString('latin1');
  for (const [charset, octets, text] of [
    ['ISO-8859-1', 'All is well', 'All is well'],
    ['iso-8859-1', high, high],
    ['"latin1"', 'Gr\xfc\xdfe', 'Grüße'],
    // What Windows writes where ISO-8859-1 has control characters.
    ['iso-8859-1', '\x80 \x93a\x94 \x9f', '€ “a” Ÿ'],
    ['Windows-1252', '\x81\x8d\x8f\x90\x9d', '\x81\x8d\x8f\x90\x9d'],
    ['us-ascii', 'All', 'All'],
    ['us-ascii', utf8, 'Grüße €'],
    ['UTF-8', utf8, 'Grüße €'],
  ] as const) {
    const answer = await postBody(api, plain(charset, octets));
    t.equal(answer.status, 202, answer.body);
    const message = api.store.get(answer.json[0].id);
    t.match(message && (await api.store.content(message)), { plain: text }, charset);
  }
});

test('field faults are at the names of their fields', async (t) => {
  await using api = await startApi();
  const cases: [parts: PartToMake[], pointers: string[]][] = [
    [[FILE], ['destination', '']],
    [[], ['destination', '']],
    [
      [...NEEDED, ...NEEDED, FILE],
      ['destination', 'subject'],
    ],
    [[...NEEDED, { name: 'type', content: '2' }], ['type']],
    [[...NEEDED, { name: 'type', content: '' }], ['type']],
    [[...NEEDED, { name: 'type', content: '1 ' }], ['type']],
    [
      [{ name: 'destination', content: 'x' }, { name: 'subject', content: 'a\nb' }, FILE],
      ['destination', 'subject'],
    ],
  ];
  for (const [parts, pointers] of cases) {
    const answer = await postBody(api, bodyOf(parts));
    isRefused(t, answer, 422, /nothing was queued/);
    t.same(answer.json.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), pointers.sort());
    await isClean(t, api);
  }
  const long = await postBody(api, bodyOf([...NEEDED, { ...FILE, filename: 'n'.repeat(256) }]));
  isRefused(t, long, 422, /cannot be taken/);
  t.match(long.json.errors, [{ pointer: 'file', detail: /more than 255/ }]);
  const typed = (chars: number) =>
    postBody(api, bodyOf([...NEEDED, { ...FILE, type: `text/${'t'.repeat(chars - 'text/'.length)}` }]));
  t.equal((await typed(255)).status, 202);
  const longType = await typed(256);
  isRefused(t, longType, 422, /cannot be taken/);
  t.match(longType.json.errors, [{ pointer: 'file', detail: /media type of more than 255/ }]);
});

test('a form that cannot be read is refused whole', async (t) => {
  await using api = await startApi();
  const good = bodyOf([FILE, ...NEEDED]);
  const text = good.toString('latin1');
  const swap = (from: string, to: string) => Buffer.from(text.replace(from, to), 'latin1');
  const withHeader = (...lines: string[]) => bodyOf([...NEEDED, rawPart(lines, 'x')]);
  const told = (parameters: string, ...more: string[]) =>
    withHeader(`Content-Disposition: form-data; ${parameters}`, ...more);
  const textIn = (charset: string) => told('name=plain', `Content-Type: text/plain; charset=${charset}`);
  const D = 'Content-Disposition: form-data; name="file"; filename="a"';
  const cases: [status: number, detail: RegExp, bodies: Record<string, Buffer>][] = [
    [
      400,
      /ends before its last boundary/,
      {
        'ends within the content': cut(good, 'bc\r\n'),
        'ends in front of its last boundary': cut(good, `\r\n--${BOUNDARY}--`),
        'ends within its last boundary': cut(good, '--\r\n'),
        'ends within a header': cut(good, '\r\n\r\nabc'),
        // This makes busboy wait for ever, with the file open.
        'ends behind a file that ends at once': Buffer.from(
          `--${BOUNDARY}\r\n${D}\r\n\r\n\r\n--${BOUNDARY}\r\n--`,
        ),
      },
    ],
    [400, /goes on behind its end/, { 'goes on behind its end': Buffer.concat([good, good]) }],
    [400, /does not occur/, { 'no boundary': Buffer.from('abc') }],
    [
      400,
      /begins like a boundary but is none.*CR LF/,
      {
        'another boundary': swap(BOUNDARY, `${BOUNDARY}x`),
        'lines that end in LF': Buffer.from(text.replaceAll('\r\n', '\n')),
        'content that begins a line like the boundary': swap('abc', `a\r\n--${BOUNDARY}x\r\nb`),
        'and with one dash': swap('abc', `a\r\n--${BOUNDARY}-\r\nb`),
        'and with a CR': swap('abc', `a\r\n--${BOUNDARY}\rx`),
        'garbage behind the last boundary': Buffer.concat([good.subarray(0, -2), Buffer.from('x')]),
        'blanks behind the boundary, too many': swap(BOUNDARY, `${BOUNDARY}${' '.repeat(65)}`),
      },
    ],
    [400, /lacks the line break/, { 'no line break in an empty part': swap('\r\n\r\nabc\r\n', '\r\n\r\n') }],
    [400, /ends within its header/, { 'a part that is but a header': swap('\r\n\r\nabc\r\n', '\r\n') }],
    [
      400,
      /no header Content-Disposition;|no header Content-Disposition$/,
      { 'no header': swap('Content-Disposition: form-data; name="subject"\r\n', '') },
    ],
    [
      400,
      /Content-Disposition of a part is not form-data with a name/,
      {
        'no name': told('filename="a"'),
        'an attachment': withHeader('Content-Disposition: attachment; name="a"'),
      },
    ],
    [
      400,
      /Content-Disposition of a part cannot be read from "x\\"; filename=\\"a\\"" on; .*%22/,
      { 'a stray quote': told('name="file"x"; filename="a"') },
    ],
    [400, /cannot be read from "name=\\"file; /, { 'an open quote': told('name="file; filename=a') }],
    [
      400,
      /cannot be read from "disk\.txt\\"" on/,
      { 'a quote in a name': told('name="file"; filename="5" disk.txt"') },
    ],
    [
      400,
      /cannot be read from "Gr\u00fc\u00dfe b\.txt" on; a value with blanks stands in quotes/,
      { 'a bare blank in a name': told('name=file; filename=a Grüße b.txt') },
    ],
    [
      400,
      /Content-Disposition of a part has more than one name/,
      { 'two names': told('name="a"; name="b"') },
    ],
    [
      400,
      /Content-Disposition of a part has more than one filename/,
      { 'two file names': told('name="a"; filename="b"; FileName="b"') },
    ],
    [
      415,
      /"file" has several files in one part; send each as a part of its own.*-F file=@two/,
      {
        // As by curl -F 'file=@one,two'.
        'a form in the form': bodyOf([
          ...NEEDED,
          rawPart(
            ['Content-Disposition: form-data; name="file"', 'Content-Type: multipart/mixed; boundary=inner'],
            bodyOf([FILE, FILE], 'inner'),
          ),
        ]),
      },
    ],
    [
      415,
      /"plain" has several files/,
      { 'a text in parts': told('name=plain', 'Content-Type: Multipart/Alternative; boundary=x') },
    ],
    [400, /more than one header Content-Disposition/, { 'two dispositions': withHeader(D, D) }],
    [
      400,
      /more than one header content-type/,
      { 'two types': withHeader(D, 'Content-Type: a/b', 'content-type: c/d') },
    ],
    [
      400,
      /is no header/,
      {
        'a line that is no header': withHeader(D, 'abc'),
        'a NUL in a header': withHeader(`${D}\0`),
        'a bare LF in a header': withHeader(`${D}\nX: y`),
      },
    ],
    [
      400,
      /header of a part is not UTF-8/,
      { 'Latin-1': bodyOf([...NEEDED, Buffer.from(`${D.slice(0, -1)}\xe9"\r\n\r\nx`, 'latin1')]) },
    ],
    [
      400,
      /filename\*/,
      {
        'half a code': told("name=a; filename*=UTF-8''%e2%8"),
        'not UTF-8': told("name=a; filename*=UTF-8''%ff"),
        'another charset': told("name=a; filename*=koi8-r''a"),
        'a name in sections': told('name=a; filename*0="a"; filename*1="b"'),
      },
    ],
    [
      415,
      /bytes as they are/,
      {
        base64: withHeader(D, 'Content-Transfer-Encoding: base64'),
        'quoted-printable': told('name=x', 'Content-Transfer-Encoding: quoted-printable'),
      },
    ],
    [415, /taken in UTF-8, ISO-8859-1/, { 'in Greek': textIn('iso-8859-7'), 'in no charset': textIn('""') }],
    [400, /Content-Type of the field "plain" cannot be/, { 'text of an unreadable type': textIn('"') }],
    [
      400,
      /"plain" is not UTF-8; .*name the charset/,
      {
        'half a character': bodyOf([...NEEDED, { name: 'plain', content: Buffer.from([0x61, 0xf0, 0x9f]) }]),
      },
    ],
  ];
  for (const [status, detail, bodies] of cases) {
    for (const [what, body] of Object.entries(bodies)) {
      for (const step of [body.length, 1]) {
        await using one = await startApi();
        t.comment(what);
        isRefused(t, await postInSteps(one, body, step), status, detail);
        await isClean(t, one);
      }
    }
  }
  const unknown = bodyOf([...NEEDED, { name: 'x', content: Buffer.from([0xff]) }]);
  t.equal((await postBody(api, unknown)).status, 202, 'a field that is not read need not be UTF-8');
  t.equal((await postBody(api, good)).status, 202, 'and the good one is good');
  t.equal(
    (await postBody(api, Buffer.concat([Buffer.from('Hello.\r\n'), good, Buffer.from('Bye.\r\n')]))).status,
    202,
    'RFC 2046: what stands before and behind is passed over',
  );
  t.equal((await postBody(api, swap(BOUNDARY, `${BOUNDARY} \t`))).status, 202, 'RFC 2046: transport padding');
  for (const end of ['', '\n', '\r', ' \n', '\t\r', '\n\n', '\r\r\n', '\nBye.', '\r\n\0']) {
    const body = Buffer.concat([good.subarray(0, -2), Buffer.from(end)]);
    for (const step of [body.length, 1]) {
      const answer = await postInSteps(api, body, step);
      t.equal(answer.status, 202, `${JSON.stringify(end)} behind the last boundary: nothing can be lost`);
    }
  }
});

/** Posts a chunked body in steps of so many bytes. */
async function postInSteps(api: TestApi, body: Buffer, step: number): Promise<Answer> {
  await using client = await api.connect();
  client.write(requestText('POST', MESSAGES, { ...FORM, 'Transfer-Encoding': 'chunked' }));
  const pieces = [];
  for (let at = 0; at < body.length; at += step) {
    const piece = body.subarray(at, at + step);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  client.write(Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]));
  return await client.answer();
}

test('the Content-Type', async (t) => {
  await using api = await startApi();
  const body = bodyOf([...NEEDED, FILE]);
  for (const type of [
    `multipart/form-data; boundary="${BOUNDARY}"`,
    `Multipart/Form-Data;charset=utf-8; BOUNDARY=${BOUNDARY};`,
  ]) {
    t.equal((await postBody(api, body, { headers: { 'Content-Type': type } })).status, 202, type);
  }
  const tokens = "!#$%&'*+-.^_`|~";
  for (const boundary of ['b'.repeat(70), "a 'b", '*****', 'a$b', tokens, `()/:=?,${tokens}`]) {
    const quoted = await postBody(api, bodyOf(NEEDED, boundary), { boundary: `"${boundary}"` });
    t.equal(quoted.status, 202, boundary);
    if (boundary.includes(' ')) continue;
    const bare = await postBody(api, bodyOf([...NEEDED, FILE], boundary), { boundary });
    t.equal(bare.status, 202, boundary);
    t.match(await newest(api), [{ content: 'abc' }], boundary);
  }
  await using refusing = await startApi();
  const posted = (headers: Record<string, string>) => postBody(refusing, body, { headers });
  for (const [parameter, detail] of [
    ['', /names no boundary/],
    [';', /names no boundary/],
    ['; boundary', /cannot be read from "; boundary" on|cannot be read from "boundary" on/],
    ['; boundary=', /cannot be read from "boundary=" on/],
    ['; boundary=""', /not 1 to 70 of the allowed/],
    [`; boundary=${'b'.repeat(71)}`, /not 1 to 70 of the allowed/],
    ['; boundary="a "', /not 1 to 70 of the allowed/],
    ['; boundary="a{b"', /not 1 to 70 of the allowed/],
    ['; boundary=a"b', /cannot be read from "\\"b" on/],
    ['; boundary=a b', /cannot be read from "b" on/],
    ['; boundary=a; boundary=b', /has more than one boundary/],
    ['; boundary="ä"', /not 1 to 70 of the allowed/],
  ] as const) {
    isRefused(t, await posted({ 'Content-Type': `multipart/form-data${parameter}` }), 400, detail);
  }
  for (const type of [
    `multipart/mixed; boundary=${BOUNDARY}`,
    'application/x-www-form-urlencoded',
    'multipart/form-datax',
  ]) {
    isRefused(t, await posted({ 'Content-Type': type }), 415, /JSON/);
  }
  isRefused(t, await posted({ 'Content-Encoding': 'gzip' }), 415, /Content-Encoding/);
  isRefused(t, await postBody(refusing, Buffer.alloc(0)), 400, /^The body is empty$/);
  await isClean(t, refusing);
});

test('a boundary that readers disagree about is refused, with its place', async (t) => {
  const good = bodyOf([FILE, ...NEEDED]);
  const dashes = `--${BOUNDARY}`;
  const second = good.indexOf(dashes, 1);
  const last = good.indexOf(`${dashes}--`);
  /** The form with these bytes in place of the line break in front of the boundary at `at`. */
  const broken = (at: number, bytes: string) =>
    Buffer.concat([good.subarray(0, at - 2), Buffer.from(bytes), good.subarray(at)]);
  const cases: [what: string, body: Buffer, place: number, where: string][] = [];
  for (const front of ['\n', '\r', ' ', '\t', '\0', '\ufeff', 'text', 'text\n', '\r\n ', '-', '\r\n\n']) {
    const bytes = Buffer.from(front);
    const what = `${JSON.stringify(front)} in front of the first boundary`;
    cases.push([what, Buffer.concat([bytes, good]), bytes.length, 'outside the parts']);
    const behind = Buffer.concat([good, bytes, Buffer.from(`${dashes}--\r\n`)]);
    if (front !== '-') cases.push([`${what}, behind the end`, behind, good.length + bytes.length, 'outside']);
  }
  for (const end of ['\n', '\r', '\n\r', '\n\n', 'x\n']) {
    const what = `${JSON.stringify(end)} in front of`;
    cases.push([`${what} a middle boundary`, broken(second, end), second - 2 + end.length, 'in part 1']);
    cases.push([`${what} the last boundary`, broken(last, end), last - 2 + end.length, 'in part 3']);
  }
  await using api = await startApi();
  for (const [what, body, place, where] of cases) {
    for (const stepBytes of [body.length, 1, 7, 50]) {
      const answer = await postInSteps(api, body, stepBytes);
      isRefused(t, answer, 400, new RegExp(`at offset ${place} of the body, ${where}`));
      t.comment(what);
    }
  }
  await isClean(t, api);
  for (const preamble of ['\r\n', 'This is a form.\r\n', '\n\n--a-boundar\r\n', '\r\n\r\n']) {
    const answer = await postBody(api, Buffer.concat([Buffer.from(preamble), good]));
    t.equal(answer.status, 202, `a preamble of lines is allowed: ${JSON.stringify(preamble)}`);
  }
  const within = bodyOf([...NEEDED, { ...FILE, content: `a${dashes}\r\n-${dashes}${dashes}` }]);
  for (const stepBytes of [within.length, 1, 7]) {
    t.equal((await postInSteps(api, within, stepBytes)).status, 202, 'within a line it is content to all');
  }
});

test('a form with fields of other mailers is refused; empty ones are ignored', async (t) => {
  await using api = await startApi();
  const parts = [
    { name: 'text', content: 'The alarm' },
    { name: 'recipients', content: 'a@example.com' },
    // Somebody forgot the @ of curl's -F file=@path.
    { name: 'file', content: '/var/log/messages' },
    { name: 'bcc', content: '' },
  ];
  const answer = await postBody(api, bodyOf([...NEEDED, ...parts]));
  isRefused(t, answer, 422, /3 faults/);
  t.match(answer.json.errors, [
    { pointer: 'text', detail: /called plain/ },
    { pointer: 'recipients', detail: /to, cc and bcc/ },
    { pointer: 'file', detail: /with a filename/ },
  ]);
  await isClean(t, api);
  const taken = await postBody(
    api,
    bodyOf([...NEEDED, { name: 'recipients', content: '' }, { ...FILE, name: 'attachments' }]),
  );
  t.match(taken.json, [{ ignored: ['recipients'] }]);
});

test('a wrong boundary is reported as such, however large the form', async (t) => {
  await using api = await startApi();
  const body = bodyOf([...NEEDED, { ...FILE, content: Buffer.alloc(2 * FORM_FRAME_BYTES_MAX, 'x') }]);
  const answer = await postBody(api, body, { boundary: 'another' });
  isRefused(t, answer, 400, /does not occur/);
  await isClean(t, api);
});

test('each limit: exactly, and one more', async (t) => {
  const texts = 'john@example.com'.length + 'Hi'.length;
  const file = (bytes: number, filename = 'a') => ({
    name: 'file',
    filename,
    content: Buffer.alloc(bytes, 'a'),
  });
  const frame = (bytes: number) => {
    const body = bodyOf(NEEDED);
    return Buffer.concat([
      Buffer.alloc(bytes - (body.length - texts - 2) - 2, 'p'),
      Buffer.from('\r\n'),
      body.subarray(0, -2),
    ]);
  };
  const nameless = [file(1), file(1, ''), file(1, ''), file(0, '')];
  const header = (bytes: number) => [
    'Content-Disposition: form-data; name=x',
    `X: ${'x'.repeat(bytes - 45)}`,
  ];
  const cases: [make: (extra: number) => Buffer, detail: string][] = [
    [
      (extra) => bodyOf([...NEEDED, file(1000 - texts + extra)]),
      'larger than 1000 bytes (FIELDPOST_MAX_MESSAGE)',
    ],
    [(extra) => bodyOf([file(500), ...NEEDED, file(500 - texts + extra)]), 'larger than 1000 bytes'],
    [
      (extra) => bodyOf([...NEEDED, file(0), file(1), file(2), ...Array(extra).fill(file(0))]),
      'more than 3 files (FIELDPOST_MAX_ATTACHMENTS)',
    ],
    [(extra) => bodyOf([...NEEDED, ...nameless, ...Array(extra).fill(file(1, ''))]), 'more than 3 files'],
    [
      (extra) => frame(FORM_FRAME_BYTES_MAX + extra),
      `text around the parts are larger than ${FORM_FRAME_BYTES_MAX}`,
    ],
    [
      (extra) => bodyOf([...NEEDED, rawPart(header(HEADER_SECTION_BYTES_MAX + extra), '')]),
      `header of a part is larger than ${HEADER_SECTION_BYTES_MAX}`,
    ],
  ];
  for (const [make, words] of cases) {
    const detail = new RegExp(words.replace(/[()]/g, '\\$&'));
    await using api = await startApi({ settings: { maxMessageBytes: 1000, maxAttachments: 3 } });
    const exact = await postBody(api, make(0));
    t.equal(exact.status, 202, `not ${words}: ${exact.body}`);
    await using refusing = await startApi({ settings: { maxMessageBytes: 1000, maxAttachments: 3 } });
    isRefused(t, await postBody(refusing, make(1)), 413, detail);
    isRefused(t, await postInSteps(refusing, make(1), 700), 413, detail);
    await isClean(t, refusing);
  }
  for (const name of ['plain', 'unknown']) {
    await using api = await startApi();
    const make = (extra: number) =>
      bodyOf([FILE, ...NEEDED, { name, content: 'x'.repeat(FORM_FIELD_BYTES_MAX + extra) }]);
    const detail = new RegExp(`"${name}" is larger than ${FORM_FIELD_BYTES_MAX}`);
    isRefused(t, await postBody(api, make(1)), 413, detail);
    await isClean(t, api);
    t.equal((await postBody(api, make(0))).status, 202);
  }
  await using none = await startApi({ settings: { maxAttachments: 0 } });
  isRefused(t, await postBody(none, bodyOf([...NEEDED, FILE])), 413, /more than 0 files/);
});

test('a mail too large for the relays is refused when they have announced their limit', async (t) => {
  let limit: number | null = null;
  const start = () => startApi({ mailLimitBytes: () => limit });
  const file = (bytes: number) => bodyOf([...NEEDED, { ...FILE, content: Buffer.alloc(bytes, 'x') }]);
  const rest = 'Hi'.length;
  const words = (bytes: number) =>
    new RegExp(`${bytes} bytes or more on its way, and the relay takes at most ${limit} `);
  // 57 octets are a line of 78, as base64.
  limit = 780_000 + rest;
  await using api = await start();
  t.equal((await postBody(api, file(570_000))).status, 202, 'exactly');
  await using refusing = await start();
  isRefused(t, await postBody(refusing, file(570_001)), 413, words(780_006));
  await isClean(t, refusing);
  const plain = (chars: number) => [
    { type: 1, destination: 'john@example.com', subject: 'Hi', plain: 'x'.repeat(chars) },
  ];
  limit = 100_000;
  t.equal((await api.post(plain(100_000 - rest))).status, 202);
  isRefused(t, await refusing.post(plain(100_001 - rest)), 413, words(100_001));
  isRefused(t, await refusing.post([...plain(1), ...plain(100_001 - rest)]), 413, words(100_001));
  // Files alone are enough, before they have come whole.
  await using client = await refusing.connect();
  client.write(requestText('POST', MESSAGES, FORM, 1_000_000));
  client.write(file(500_000).subarray(0, -50));
  isRefused(t, await client.answer(), 413, /the relay takes at most 100000/);
  // So is what is declared, before a byte.
  await using early = await refusing.connect();
  early.write(requestText('POST', MESSAGES, { ...FORM, Expect: '100-continue' }, 2_000_000));
  isRefused(t, await early.answer(), 413, /the relay takes at most 100000/);
  await isClean(t, refusing);
  // What was accepted before the relay had told is answered as it was.
  limit = null;
  const key = { 'Idempotency-Key': 'k' };
  const first = await postBody(refusing, file(570_001), { headers: key });
  t.equal(first.status, 202);
  limit = 1;
  t.equal((await postBody(refusing, file(570_001), { headers: key })).json[0].id, first.json[0].id);
});

test('a form is refused before its body and before 100 Continue, if that is possible', async (t) => {
  const small = { maxQueue: 10_000, maxSpoolBytes: 500 };
  const nothing = () => undefined;
  const cases: [
    begin: (api: TestApi) => unknown,
    headers: Record<string, string>,
    status: number,
    budget?: typeof small,
  ][] = [
    [nothing, { 'Content-Length': String(2000 + FORM_FRAME_BYTES_MAX) }, 413],
    [nothing, {}, 429, small],
    [(api) => api.fillDisk(), {}, 507],
    [breakForGood, {}, 503],
    [nothing, { 'Content-Type': 'multipart/form-data' }, 400],
    [nothing, { 'Content-Encoding': 'br' }, 415],
  ];
  for (const [begin, headers, status, budget = {}] of cases) {
    for (const expect of [{}, { Expect: '100-continue' }]) {
      await using api = await startApi({ settings: { maxMessageBytes: 1000 }, budget });
      await begin(api);
      await using client = await api.connect();
      client.write(requestText('POST', MESSAGES, { ...FORM, ...expect, ...headers }, 1000));
      const answer = await client.answer();
      t.equal(answer.status, status, 'the first answer');
      t.equal(answer.headers.connection, 'close');
      t.equal(await client.ended, false);
      await isClean(t, api);
    }
  }
  await using api = await startApi();
  await api.store.hold();
  const body = bodyOf([...NEEDED, FILE]);
  await using client = await api.connect();
  client.write(requestText('POST', MESSAGES, { ...FORM, Expect: '100-continue' }, body.length));
  t.equal((await client.answer()).status, 100, 'a hold refuses nothing');
  client.write(body);
  t.equal((await client.answer()).status, 202);
});

test('Idempotency-Key', async (t) => {
  await using api = await startApi();
  const key = { 'Idempotency-Key': 'k1' };
  const first = await postBody(api, bodyOf([...NEEDED, FILE, { name: 'x', content: '' }]), { headers: key });
  t.equal(first.status, 202);
  // Another boundary, order and unknown field: the same message. Also when nothing new could be stored.
  await api.fillDisk();
  const again = await postBody(api, bodyOf([FILE, ...NEEDED.toReversed()], 'b2'), {
    headers: key,
    boundary: 'b2',
  });
  t.equal(again.status, 202, again.body);
  t.equal(again.headers['idempotency-replayed'], 'true');
  t.equal(again.json[0].id, first.json[0].id);
  t.notOk('ignored' in again.json[0]);
  await api.emptyDisk();
  for (const other of [
    [...NEEDED, { ...FILE, content: 'abd' }],
    [...NEEDED, { ...FILE, filename: 'a.bim' }],
    [...NEEDED, { ...FILE, type: 'application/x-b' }],
    [...NEEDED, rawPart([...HEADER_OF_FILE, 'Content-ID: a'], 'abc')],
    [...NEEDED],
    [...NEEDED, FILE, FILE],
    [...NEEDED, FILE, { name: 'plain', content: 'x' }],
  ]) {
    isRefused(t, await postBody(api, bodyOf(other), { headers: key }), 422, /other content/);
  }
  isRefused(t, await api.post([EMAIL], key), 422, /other content/);
  t.equal(api.size, 1);
  t.equal((await api.files()).length, 1);
  t.equal(api.uploads, 0);
  const bare = { 'Idempotency-Key': 'k2' };
  await api.post([EMAIL], bare);
  const asForm = await postBody(api, bodyOf(NEEDED), { headers: bare });
  t.equal(asForm.headers['idempotency-replayed'], 'true', 'one message, in whatever form');
});

test('the same key while the first body is still on its way', async (t) => {
  await using api = await startApi();
  const body = bodyOf([...NEEDED, FILE]);
  for (const end of ['finish', 'leave']) {
    const key = { 'Idempotency-Key': end };
    await using first = await api.connect();
    first.write(requestText('POST', MESSAGES, { ...FORM, ...key }, body.length));
    first.write(body.subarray(0, -20));
    while (api.uploads === 0) await settled();
    const second = await postBody(api, body, { headers: key });
    t.equal(second.status, 409, second.body);
    if (end === 'finish') {
      first.write(body.subarray(-20));
      t.equal((await first.answer()).status, 202);
    } else {
      first.socket.destroy();
      while (api.uploads > 0) await settled();
      t.equal((await postBody(api, body, { headers: key })).status, 202, 'the key is free again');
    }
  }
});

/** Resolves when so many requests have been refused. */
async function refusals(api: TestApi, count: number): Promise<void> {
  while (api.lines.filter((line) => line.includes('request refused')).length < count) await settled();
}

test('a client that goes away leaves nothing behind', async (t) => {
  await using api = await startApi();
  const body = bodyOf([...NEEDED, { ...FILE, content: Buffer.alloc(300_000, 'x') }, FILE]);
  let refused = 0;
  for (const end of ['end', 'destroy', 'resetAndDestroy', 'stay silent'] as const) {
    for (const share of [0.001, 0.5, 0.9999]) {
      await using client = await beginPost(api, body, body.subarray(0, Math.floor(body.length * share)));
      while (api.uploads === 0) await settled();
      if (end === 'stay silent') {
        await api.heard(client);
        await api.clock.advance(REQUEST_IDLE_MS);
        const missing = body.length - Math.floor(body.length * share);
        const words = `30 s, and ${missing} bytes of its Content-Length did not come; .*if the Content-Length`;
        isRefused(t, await client.answer(), 408, new RegExp(words));
      } else client.socket[end]();
      if (end === 'end') isRefused(t, await client.answer(), 400, /cut short/, 'malformed-request');
      refused++;
      await refusals(api, refused);
      await isClean(t, api);
    }
  }
});

test('a client that goes away while the disk is busy leaves nothing behind', async (t) => {
  for (const kind of ['create', 'write', 'sync'] as const) {
    await using api = await startApi();
    const before = api.store.room().used;
    const { release, arrived } = stall(api.disk, (it) => it.kind === kind && it.path.includes('/spool/'));
    const body = bodyOf([...NEEDED, { ...FILE, content: Buffer.alloc(600_000, 'x') }, FILE]);
    await using client = await beginPost(api, body, body.subarray(0, -20));
    await arrived;
    client.socket.destroy();
    for (let turn = 0; turn < 20; turn++) await settled();
    t.equal(api.uploads, 1, 'what is under way is waited for');
    release();
    while (api.uploads > 0) await settled();
    await refusals(api, 1);
    await isClean(t, api);
    t.same(api.store.room().used, before, kind);
  }
});

test('a client that goes away before its body is read is noticed', async (t) => {
  for (const end of ['end', 'destroy', 'resetAndDestroy'] as const) {
    await using api = await startApi();
    const begin = api.store.upload.bind(api.store);
    let isAsked = false;
    let mayGo = false;
    // The disk is looked at first, which takes its time.
    api.store.upload = async (bytes) => {
      isAsked = true;
      while (!mayGo) await settled();
      return await begin(bytes);
    };
    const body = bodyOf([FILE, ...NEEDED]);
    await using client = await beginPost(api, body, body.subarray(0, -30));
    while (!isAsked) await settled();
    await api.heard(client);
    client.socket[end]();
    for (let turn = 0; turn < 20; turn++) await settled();
    mayGo = true;
    if (end === 'end') isRefused(t, await client.answer(), 400, /cut short/, 'malformed-request');
    await refusals(api, 1);
    await isClean(t, api);
  }
});

test('the room that a form keeps in the queue is for its own message', async (t) => {
  await using api = await startApi();
  const accept = api.store.accept.bind(api.store);
  let open = -1;
  api.store.accept = async (...given) => {
    open = api.uploads;
    return await accept(...given);
  };
  t.equal((await postBody(api, bodyOf(NEEDED))).status, 202);
  t.equal(open, 0, 'without files it is given back before');
});

test('a slow disk is not the client to blame for', async (t) => {
  await using api = await startApi();
  const body = bodyOf([...NEEDED, { ...FILE, content: Buffer.alloc(4_000_000, 'x') }]);
  const { release, arrived } = stall(api.disk, ({ path }) => path.includes('/spool/'));
  await using client = await beginPost(api, body);
  await arrived;
  // What fits is still read.
  for (let quiet = 0, read = 0; quiet < 50; quiet++) {
    await settled();
    if (api.readOf(client) !== read) quiet = 0;
    read = api.readOf(client);
  }
  t.ok(api.readOf(client) < 2_000_000, 'then no more is read');
  for (let minute = 0; minute < 4; minute++) await api.clock.advance(60 * SECOND_MS);
  t.equal(client.rest, '');
  release();
  t.equal((await client.answer()).status, 202);
});

test('a form that came whole before it is read waits for the disk', async (t) => {
  await using api = await startApi();
  const begin = api.store.upload.bind(api.store);
  api.store.upload = async (bytes) => {
    await api.heard(client);
    await settled();
    return await begin(bytes);
  };
  const { release, arrived } = stall(api.disk, ({ path }) => path.includes('/spool/'));
  const body = bodyOf([...NEEDED, FILE]);
  await using client = await beginPost(api, body);
  await arrived;
  for (let turn = 0; turn < 20; turn++) await settled();
  t.equal(client.rest, '');
  release();
  t.equal((await client.answer()).status, 202);
  t.match(await newest(api), [{ name: 'a.bin', content: 'abc' }]);
});

test('a disk that fails in the middle', async (t) => {
  const chunked = { 'Transfer-Encoding': 'chunked' };
  const cases: [code: ErrorCode, fail: (api: TestApi) => Fault, headers: Record<string, string>][] = [
    ['storage-full', () => 'error:ENOSPC', {}],
    ['storage-failed', () => 'error:EIO', {}],
    // What comes without a length is refused once there is too much of it.
    ['queue-full', () => 'ok', chunked],
  ];
  for (const [code, fail, headers] of cases) {
    await using api = await startApi({ budget: { maxSpoolBytes: 12_000_000 } });
    let written = 0;
    api.disk.onOperation = (_, { kind, path }) =>
      kind === 'write' && path.includes('/spool/') && ++written > 1 ? fail(api) : 'ok';
    await using client = await api.connect();
    const body = bodyOf([
      ...NEEDED,
      FILE,
      { ...FILE, content: Buffer.alloc(code === 'queue-full' ? 13_000_000 : 3_000_000, 'x') },
    ]);
    // The rest never comes: the answer does not wait for it.
    if (code === 'queue-full') {
      client.write(requestText('POST', MESSAGES, { ...FORM, ...headers }));
      client.write(`${body.length.toString(16)}\r\n`);
    } else client.write(requestText('POST', MESSAGES, FORM, 10_000_000));
    client.write(body);
    const answer = await client.answer();
    t.match(answer.json, { type: `urn:fieldpost:problem:${code}` }, answer.body);
    t.equal(await client.ended, false);
    t.ok(written > 1, 'not before');
    api.disk.onOperation = () => 'ok';
    await isClean(t, api);
  }
});

test('with less memory, bodies may take less', async (t) => {
  // Three quarters of an eighth: 6 MiB.
  await using api = await startApi({ memoryBytes: 64 * 2 ** 20, settings: { maxBodyBytes: 16 * 2 ** 20 } });
  const json = { 'Content-Type': 'application/json' };
  const small = JSON.stringify([{ type: 1, destination: 'john@example.com', subject: 'x' }]);
  const tooLarge = await api.call('POST', MESSAGES, { headers: json, body: small.padEnd(6 * 2 ** 20 + 1) });
  isRefused(t, tooLarge, 413, /6291456 bytes .*memory/);
  await using client = await api.connect();
  const large = small.padEnd(6 * 2 ** 20);
  client.write(requestText('POST', MESSAGES, json, large.length));
  client.write(large.slice(0, -1));
  await api.heard(client);
  const other = await api.call('POST', MESSAGES, { headers: json, body: small });
  isRefused(t, other, 503, /6291456 bytes/);
  client.write(large.slice(-1));
  t.equal((await client.answer()).status, 202);
  t.equal((await api.call('POST', MESSAGES, { headers: json, body: small })).status, 202);
});

test('texts of many forms, and JSON bodies, share what memory there is', async (t) => {
  await using api = await startApi();
  const json = JSON.stringify([
    { type: 1, destination: 'john@example.com', plain: 'x'.repeat(2 ** 20 - 100) },
  ]);
  const clients = await Promise.all(Array.from({ length: BODIES_BYTES_MAX / 2 ** 20 }, () => api.connect()));
  for (const client of clients) {
    client.write(requestText('POST', MESSAGES, { 'Content-Type': 'application/json' }, json.length));
    client.write(json.slice(0, -1));
  }
  for (const client of clients) await api.heard(client);
  const text = bodyOf([...NEEDED, { name: 'plain', content: 'x'.repeat(FORM_FIELD_BYTES_MAX) }]);
  const answer = await postBody(api, text);
  isRefused(t, answer, 503, /bodies of all requests/);
  t.ok(answer.headers['retry-after']);
  const file = bodyOf([...NEEDED, { ...FILE, content: Buffer.alloc(2 ** 20) }]);
  t.equal((await postBody(api, file)).status, 202, 'files take none of it');
  await api.clock.advance(SECOND_MS);
  t.equal((await postBody(api, text)).status, 202, 'bodies that have stopped coming give way');
  const [given, ...kept] = clients as [RawClient, ...RawClient[]];
  isRefused(t, await given.answer(), 408, /silent|nothing has come/);
  for (const client of kept) {
    client.write(json.slice(-1));
    t.equal((await client.answer()).status, 202);
  }
  for (const client of clients) await client[Symbol.asyncDispose]();
  t.equal((await postBody(api, text)).status, 202, 'it is given back');
  t.equal(api.uploads, 0);
});
