/**
 * Random and mutilated forms in random pieces: each is answered within its deadline, none with 500, and what is
 * accepted is, octet by octet, what a strict reader of the whole body finds. FIELDPOST_TEST_LONG=1 makes it long,
 * FIELDPOST_TEST_SEED repeats a run.
 */
// A process of its own: it takes long.
import { type Test, test } from 'tap';
import { MESSAGES, requestText, type TestApi } from '../support/api.js';
import {
  BOUNDARY,
  bodyOf,
  NEEDED,
  type PartToMake,
  partOf,
  type ReadPart,
  readForm,
} from '../support/form.js';
import { fuzz, type Heard, IS_LONG, mutilate, type Random } from '../support/fuzz.js';
import { pick } from '../support/random.js';

const FORMS = IS_LONG ? 20_000 : 2_000;
/** An answer that takes so long does not come, on however busy a machine. */
const DEADLINE_MS = 200_000;
/** Of the characters that RFC 6838, section 4.2, allows. */
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/;
const TEXTS = ['type', 'destination', 'subject', 'plain', 'html'];

const PIECES = [
  '\r\n',
  '\r',
  '\n',
  '--',
  '-',
  `\r\n--${BOUNDARY}`,
  `\r\n--${BOUNDARY}--`,
  `\r\n--${BOUNDARY}--\n`,
  `\r\n--${BOUNDARY}--\r`,
  `--${BOUNDARY}`,
  `\n--${BOUNDARY}`,
  `\r--${BOUNDARY}`,
  '\ufeff',
  `\r\n--${BOUNDARY.slice(0, -1)}`,
  '\r\n\r\n',
  ' ',
  '\t',
  '"',
  ';',
  '=',
  '\\',
  '\0',
  'é',
  'Content-Disposition: form-data; name="x"',
  'Content-Type: image/png',
  '\r\nContent-ID: <x>',
  'Content-Type: text/plain; charset=utf-8',
  '\r\nContent-Transfer-Encoding: base64',
];

/** Content that has what looks like a boundary but, for `isSafe`, is none. */
function makeContent(random: Random, isSafe: boolean): Buffer {
  const pieces: Buffer[] = [];
  while (random() < 0.7) {
    const length = Math.floor(random() ** 4 * 3000);
    if (random() < 0.5) pieces.push(Buffer.from(Array.from({ length }, () => Math.floor(random() * 256))));
    else pieces.push(Buffer.from(pick(random, PIECES)));
  }
  const content = Buffer.concat(pieces);
  return isSafe && content.includes(BOUNDARY) ? Buffer.from('\r\n--a-boundar') : content;
}

function makeForm(random: Random): { body: Buffer; isGood: boolean } {
  const isGood = random() < 0.3;
  const parts: (PartToMake | Buffer)[] = [...NEEDED];
  while (random() < 0.6) {
    const content = makeContent(random, isGood);
    const name = pick(random, ['file', 'x', 'plain.txt', 'ü', '__proto__', 'a%22b']);
    const filename = pick(random, ['a.bin', 'ü.txt', '../x', 'C:\\y', '', 'a%22.b', 'z', '..']);
    const file = {
      name,
      filename,
      content,
      type: pick(random, ['text/csv', 'image/PNG', 'a/b; charset=x', '']),
      id: pick(random, ['<a>', 'b@c', '']),
    };
    const free = ['plain', 'html', 'sound'].filter(
      (name) => !parts.some((one) => (one as PartToMake).name === name),
    );
    const text = { name: pick(random, [...free, 'x']), content: content.toString('base64') };
    parts.splice(Math.floor(random() * (parts.length + 1)), 0, random() < 0.7 ? file : text);
  }
  const body = bodyOf(parts.map((part) => (Buffer.isBuffer(part) ? part : partOf(part))));
  return { body: isGood ? body : mutilate(random, body, PIECES), isGood };
}

/** The request in random pieces. */
function makeRequest(random: Random, body: Buffer): Buffer[] {
  const type = { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` };
  const largest = random() < 0.1 && body.length < 1000 ? 1 : pick(random, [30, 300, 3000, 100_000]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const length = 1 + Math.floor(random() * largest);
    pieces.push(body.subarray(at, at + length));
    at += length;
  }
  if (random() < 0.5) return [Buffer.from(requestText('POST', MESSAGES, type, body.length || 1)), ...pieces];
  const chunked = pieces.map((piece) =>
    Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]),
  );
  const head = requestText('POST', MESSAGES, { ...type, 'Transfer-Encoding': 'chunked' });
  return [Buffer.from(head), ...chunked, Buffer.from('0\r\n\r\n')];
}

/** What the mail of these parts is. */
function expected(parts: readonly ReadPart[]) {
  const isFile = ({ name, filename, type }: ReadPart) =>
    filename !== null || (type !== '' && !/^text\//i.test(type) && !TEXTS.includes(name));
  const text = (name: string) => {
    const found = parts.filter((part) => !isFile(part) && part.name === name);
    // However many CRs are before an LF, it is one line end.
    return (found[0]?.content.toString() ?? '').replace(/\r+\n|\r|\n/g, '\r\n');
  };
  const files = parts
    .filter((part) => isFile(part))
    .map(({ filename, type, cid, content }) => {
      const last = (filename ?? '').replaceAll('%22', '"').split('/').at(-1)?.split('\\').at(-1) ?? '';
      const seen = last.replace(/[\p{Cc}\ufeff]/gu, '').trim();
      const name = seen === '.' || seen === '..' ? 'attachment' : seen;
      const media = type.split(';')[0]?.trim().toLowerCase() ?? '';
      return { name, type: MEDIA_TYPE.test(media) ? media : 'application/octet-stream', cid, content };
    })
    .filter(({ name, content }) => name !== '' || content.length > 0)
    .map((file) => ({ ...file, name: file.name || 'attachment' }));
  return { subject: text('subject'), plain: text('plain'), html: text('html'), files };
}

async function accepted(api: TestApi, id: string) {
  const message = api.store.get(id);
  if (message === undefined) throw new Error('there is none');
  const files = [];
  for (const { id, name, type, cid = '' } of message.attachments) {
    files.push({ name, type: type.split(';')[0], cid, content: await api.file(id) });
  }
  return { ...(await api.store.content(message)), files };
}

/** Sends a form and compares what the store has with what a strict reader finds. */
async function tryOne(t: Test, api: TestApi, random: Random): Promise<Heard[]> {
  const { body, isGood } = makeForm(random);
  await using client = await api.connect();
  let isLate = false;
  const deadline = setTimeout(() => {
    isLate = true;
    client.socket.destroy();
  }, DEADLINE_MS);
  for (const piece of makeRequest(random, body)) client.write(piece);
  client.socket.end();
  await client.ended;
  clearTimeout(deadline);
  const shown = JSON.stringify(body.toString('latin1'));
  if (isLate) t.fail(`no answer: ${shown}`);
  const answer = await client.answer();
  if (isGood && answer.status !== 202) t.fail(`a good form was refused, ${answer.body}: ${shown}`);
  if (answer.status !== 202) return [{ status: answer.status, queued: 0 }];
  const parts = readForm(body);
  if (parts === null) t.fail(`accepted what a strict reader refuses: ${shown}`);
  else t.same(await accepted(api, answer.json[0].id), expected(parts), shown.slice(0, 3000));
  return [{ status: 202, queued: 1 }];
}

test(`mutated forms are accepted as a strict reader reads them, or refused (${FORMS})`, async (t) => {
  const options = { settings: { maxAttachments: 100 }, tries: FORMS, statuses: [202, 400, 422] };
  await fuzz(t, options, (api, random) => tryOne(t, api, random));
});
