/**
 * Random and mutilated HTTP: none is answered 500, nothing hangs, and the store has exactly the messages that
 * were answered with 202. FIELDPOST_TEST_LONG=1 makes it long, FIELDPOST_TEST_SEED repeats a run.
 */
import { type Test, test } from 'tap';
import { SECOND_MS } from '../../src/limits.js';
import { EMAIL, MESSAGES, type RawClient, startApi } from '../support/api.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';
const CONNECTIONS = IS_LONG ? 100_000 : 3_000;
/** One store is to hold what was accepted of so many. */
const ROUND = 10_000;
const AT_ONCE = 24;

type Random = () => number;

const METHODS = [
  'POST',
  'POST',
  'POST',
  'GET',
  'HEAD',
  'DELETE',
  'PUT',
  'OPTIONS',
  'CONNECT',
  'post',
  'QUERY',
];
const PATHS = [
  MESSAGES,
  MESSAGES,
  MESSAGES,
  `${MESSAGES}?status=queued&limit=3`,
  `${MESSAGES}?limit=%`,
  `${MESSAGES}/00000001`,
  `${MESSAGES}/00000001/retry`,
  `${MESSAGES}/%2e%2e/%00`,
  '/api/internal/queue/flush',
  '/api/internal/queue/purge',
  '/api/internal/state',
  '/healthz',
  '/metrics',
  '*',
  'http://localhost/healthz',
];
const HEADERS = [
  'Host: localhost',
  'Host: 127.0.0.1:43770',
  'Host: evil.example',
  'Origin: null',
  'Sec-Fetch-Site: cross-site',
  'Content-Type: application/json',
  'Content-Type: application/json; charset=utf-16',
  'Content-Encoding: gzip',
  'Expect: 100-continue',
  'Expect: what',
  'Connection: close',
  'Connection: keep-alive, Upgrade',
  'Upgrade: websocket',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Content-Length: 3',
  'Content-Length: 99999999999999999999',
  'Idempotency-Key: a',
  'Idempotency-Key: b c',
  'X-Nothing:',
  'Cookie: \x01\xff',
];
const VALUES = [
  EMAIL,
  null,
  0,
  -1,
  1e308,
  '',
  'a@b.c',
  '\ud800',
  'x\r\ny',
  [],
  {},
  [EMAIL],
  true,
  'x'.repeat(2000),
];
const FIELDS = [
  'type',
  'destination',
  'subject',
  'plain',
  'html',
  'message',
  'app_data',
  '__proto__',
  'cc',
  '',
];

/** A body: mostly good messages, often with something put in that does not belong. */
function makeBody(random: Random): string {
  const messages = Array.from({ length: 1 + Math.floor(random() * 3) }, () => {
    if (random() < 0.7) return EMAIL;
    const odd: Record<string, unknown> = { ...EMAIL, type: pick(random, [1, 1, 2, 3, 4, 5, '1']) };
    odd[pick(random, FIELDS)] = pick(random, VALUES);
    return odd;
  });
  return JSON.stringify(random() < 0.9 ? messages : pick(random, VALUES)) ?? '';
}

/** A request: more often than not a good one to begin with. */
function makeRequest(random: Random): string {
  const body = makeBody(random);
  const chunked = random() < 0.2;
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${Buffer.byteLength(body)}`;
  const isPlain = random() < 0.5;
  const method = isPlain ? 'POST' : pick(random, METHODS);
  const path = isPlain ? MESSAGES : pick(random, PATHS);
  const headers = ['Host: localhost', 'Content-Type: application/json', framing];
  while (random() < 0.4)
    headers.splice(Math.floor(random() * 4), Math.floor(random() * 2), pick(random, HEADERS));
  const sent = chunked ? `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
  return `${method} ${path} HTTP/1.${random() < 0.9 ? 1 : 0}\r\n${headers.join('\r\n')}\r\n\r\n${sent}`;
}

/** The bytes with a few of them changed, lost, doubled, or cut off. */
function mutilate(random: Random, bytes: Buffer): Buffer {
  let result = Buffer.from(bytes);
  while (random() < 0.6) {
    const at = Math.floor(random() * result.length);
    const length = Math.floor(random() ** 3 * 40);
    const [before, middle, after] = [
      result.subarray(0, at),
      result.subarray(at, at + length),
      result.subarray(at + length),
    ];
    const noise = Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)));
    const insert = Buffer.from(pick(random, ['\r\n', '\n', '\0', ' ', ':', '%', '"', ']', '0', '\r\n\r\n']));
    const choices = [
      [before, noise, after],
      [before, after],
      [before, middle, middle, after],
      [before],
      [before, insert, middle, after],
    ];
    result = Buffer.concat(pick(random, choices));
  }
  return result;
}

interface Heard {
  readonly status: number;
  /** Messages it says were queued by its request. */
  readonly queued: number;
}

/** Every answer in what the server said. One to HEAD has no body, whatever its length says. */
function answersIn(said: string): Heard[] {
  const answers: Heard[] = [];
  for (let rest = said; rest !== ''; ) {
    const head = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest);
    if (head === null) throw new Error(`no answer: ${JSON.stringify(rest.slice(0, 200))}`);
    const [whole, status = '', headers = ''] = head;
    rest = rest.slice(whole.length);
    const isBodiless = rest === '' || rest.startsWith('HTTP/1.1 ');
    const length = isBodiless ? 0 : Number(/^content-length: (\d+)\r?$/im.exec(headers)?.[1] ?? 0);
    const body = rest.slice(0, length);
    rest = rest.slice(length);
    const isNew = status === '202' && body.startsWith('[') && !/^idempotency-replayed:/im.test(headers);
    answers.push({ status: Number(status), queued: isNew ? JSON.parse(body).length : 0 });
  }
  return answers;
}

test(`mutated requests are answered, never with a 500 (${CONNECTIONS} connections)`, async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const statuses = new Map<number, number>();
  for (let from = 0; from < CONNECTIONS; from += ROUND)
    await round(t, seed, { from, to: Math.min(from + ROUND, CONNECTIONS) }, statuses);
  t.comment(
    [...statuses]
      .sort()
      .map(([status, count]) => `${status}: ${count}`)
      .join(', '),
  );
  for (const status of [202, 400, 403, 404, 405, 413, 415, 422])
    t.ok(statuses.has(status), `${status} was reached`);
});

async function round(
  t: Test,
  seed: number,
  { from, to }: { readonly from: number; readonly to: number },
  statuses: Map<number, number>,
): Promise<void> {
  await using api = await startApi({ settings: { maxBodyBytes: 3000, maxBatch: 2 } });
  let queued = 0;
  let next = from;

  const hear = async (client: RawClient, bytes: Buffer) => {
    client.socket.end(bytes);
    await client.ended;
    for (const answer of answersIn(client.rest)) {
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      queued += answer.queued;
      if (answer.status === 500) t.fail(`answered 500: ${JSON.stringify(bytes.toString('latin1'))}`);
    }
  };
  const work = async () => {
    while (next < to) {
      // Each has a seed of its own, so that the bytes do not depend on who comes first.
      const random = seededRandom(Math.imul(seed, 0x9e3779b1) + next++);
      const requests = Array.from({ length: 1 + Math.floor(random() ** 2 * 4) }, () => makeRequest(random));
      const bytes = Buffer.from(requests.join(''), 'utf8');
      await using client = await api.connect();
      await hear(client, random() < 0.3 ? bytes : mutilate(random, bytes));
    }
  };
  // Node tells nobody of a broken chunk behind an Upgrade: only the pause ends such a request.
  const pauses = setInterval(() => void api.clock.advance(SECOND_MS), 50);
  await Promise.all(Array.from({ length: AT_ONCE }, work)).finally(() => clearInterval(pauses));
  t.equal(api.size, queued, 'the store has what was answered with 202, no more and no less');
  t.same(api.errors, [], 'no fault of ours was logged');
  t.equal((await api.post([EMAIL])).status, 202, 'and it still works');
}
