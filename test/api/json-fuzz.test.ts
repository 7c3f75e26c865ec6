/**
 * Any JSON value in any field of a message, a destination or an own header is answered 2xx or 4xx, never 5xx, and
 * what is accepted is as the API's description says.
 * FIELDPOST_TEST_SEED repeats a run.
 */
import { test } from 'tap';
import { EMAIL, MESSAGES, startApi } from '../support/api.js';
import { anyValue, DEEP, textOf } from '../support/json-values.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const TRIES = 600;
const DESTINATIONS = '/api/internal/offline_notification_destinations';
const DESTINATION = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const FIELDS = [
  ...['type', 'destination', 'to', 'cc', 'bcc', 'from', 'reply_to', 'subject', 'plain', 'html', 'headers'],
  ...[
    'attachments',
    'attachments',
    'message',
    'title',
    'auto_open',
    'app_data',
    'priority',
    'lang',
    'name',
    'after_min',
    'hours',
    'zone',
    'night',
    'weekly',
    '__proto__',
  ],
];
const MEMBERS = ['name', 'type', 'content', 'content_id', 'x', '__proto__'];
test('a header or a field that has no text is a fault with a pointer', async (t) => {
  await using api = await startApi();
  for (const value of [{ toString: 1, valueOf: 1 }, DEEP, null, 1]) {
    const { status, json } = await api.call('POST', MESSAGES, {
      headers: { 'Content-Type': 'application/json' },
      body: textOf([{ ...EMAIL, headers: { 'X-A': value } }]),
    });
    t.equal(status, 422);
    t.same(json.errors, [{ pointer: '/0/headers/X-A', detail: 'must be a string' }]);
  }
  t.same(api.errors, []);
});

test('any value in any field', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  await using api = await startApi();
  const headers = { 'Content-Type': 'application/json' };
  for (let n = 0; n < TRIES; n++) {
    const isMessage = random() < 0.6;
    const base = isMessage ? { ...EMAIL, type: pick(random, [1, 1, 2, 4]) } : DESTINATION;
    const field = pick(random, FIELDS);
    const isFile = field === 'attachments' && random() < 0.7;
    const file = { name: 'a', content: '', [pick(random, MEMBERS)]: anyValue(random) };
    const body = textOf({ ...base, [field]: isFile ? [file] : anyValue(random) });
    const [method, path, text] = isMessage
      ? (['POST', MESSAGES, `[${body}]`] as const)
      : pick(random, [['POST', DESTINATIONS, body] as const, ['PUT', `${DESTINATIONS}/1`, body] as const]);
    const { status } = await api.call(method, path, { headers, body: text });
    if (status < 200 || status >= 500) t.fail(`${status} for ${method} ${path} ${text.slice(0, 300)}`);
  }
  t.same(api.errors, [], 'no internal error was logged');
});
