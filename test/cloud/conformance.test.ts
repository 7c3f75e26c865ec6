/** The conformance suite: the reference cloud holds every point, and each planted fault breaks just its own. */
// A process of its own: it takes long.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { Cloud } from '../../scripts/contract/cloud.js';
import { examine, POINTS } from '../../scripts/contract/point.js';
import { SECOND_MS } from '../../src/base/limits.js';
import { type Call, type Fault, faultyCloud, type Spoilt } from '../support/faulty-cloud.js';
import { seededRandom, testSeed } from '../support/random.js';
import { JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';

/** The share of the faults that are tried. */
const SHARE = process.env.FIELDPOST_TEST_LONG === '1' ? 1 : 0.3;

const HTML: Spoilt = { status: 200, headers: { 'content-type': 'text/html' }, body: '<p>Please log in</p>' };
/** A second device, and how often the suite tries here what it tries 20 times elsewhere. */
const OTHER = { device: 'other', key: 'other-key' };
const ROUNDS = 3;
const KNOWN = ['uid', 'type', 'destination', 'lang', 'name'];

/** The text with a change made to the object that it is, if it is one. */
function changed(text: string, change: (value: Record<string, unknown>) => void): string {
  try {
    const value = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return text;
    change(value);
    return JSON.stringify(value);
  } catch {
    return text;
  }
}

/** Changes the JSON of the good answers to one kind of call. */
function spoil(what: string, change: (value: Record<string, unknown>) => void): Fault {
  return {
    answers(answer, call) {
      if (call.what === what && answer.status < 300) answer.body = changed(String(answer.body), change);
    },
  };
}

/** Changes every ETag in the answers to these methods, or with null takes it away. */
function retag(methods: readonly string[], tag: (etag: string) => string | null): Fault {
  return {
    answers({ headers }, { method }) {
      const { etag } = headers;
      if (etag === undefined || !methods.includes(method)) return;
      const other = tag(etag);
      if (other === null) delete headers.etag;
      else headers.etag = other;
    },
  };
}

/** Turns one status into another. */
function turn(from: number, to: number, more: Partial<Spoilt> = {}): Fault {
  return {
    answers(answer) {
      if (answer.status === from) Object.assign(answer, { status: to, ...more });
    },
  };
}

/** Changes one header of the requests that have it. */
function resend(name: string, change: (value: string, method: string) => string | null): Fault {
  return {
    asks({ headers, method }) {
      const value = headers[name];
      if (value === undefined) return;
      const other = change(value, method);
      if (other === null) delete headers[name];
      else headers[name] = other;
    },
  };
}

/** Changes the text of a document on its way in. */
function rewrite(change: (text: string) => string): Fault {
  return {
    asks(call) {
      if (call.what === 'destinations') call.body = change(call.body);
    },
  };
}

/** Gives this answer in place of the good cloud's, where `when` says so. */
function answer(instead: Partial<Spoilt>, when: (call: Call) => boolean): Fault {
  return { instead: (call) => (when(call) ? { ...HTML, ...instead } : undefined) };
}

/** Refuses the calls of one kind whose body has this text. */
function refuse(what: string, text: string, status = 422): Fault {
  const body = '{"title":"no"}';
  return answer({ status, body }, (call) => call.what === what && call.body.includes(text));
}

const HEARTBEATS = [
  'a heartbeat is answered',
  'a heartbeat may say that the device is stopping',
  'a heartbeat may say that the device has moved',
  'heartbeatMs is',
  'zone,',
  'a heartbeat’s destinations',
  'without the device’s key',
  'a device’s key opens no other',
];

/** The points that take messages. */
const TAKEN = [
  'a message that is taken',
  'the same message again',
  'members of a message',
  'phone calls and push',
  'a message of 60,000 bytes',
];

/** Faults, made anew for each use, and how the points begin that they break. */
const FAULTS: readonly (readonly [name: string, make: () => Fault, breaks: readonly string[]])[] = [
  [
    'a heartbeat answered with a login page',
    () => answer({}, ({ what }) => what === 'heartbeat'),
    HEARTBEATS,
  ],
  [
    'a heartbeat answered 204',
    () => answer({ status: 204, body: '' }, ({ what }) => what === 'heartbeat'),
    [
      ...HEARTBEATS,
      'members of a heartbeat',
      'quietMs with',
      'values of these members that the cloud cannot use do',
    ],
  ],
  [
    'a heartbeat with a member too many refused',
    () => refuse('heartbeat', '"conformance":', 400),
    ['members of a heartbeat'],
  ],
  ['a last word refused', () => refuse('heartbeat', '"last":"Field'), ['quietMs with']],
  [
    'a quiet for less than nothing refused',
    () => refuse('heartbeat', '"quietMs":-1'),
    ['values of these members that the cloud cannot use do'],
  ],
  [
    'zone as minutes from UTC',
    () => spoil('heartbeat', (told) => Object.assign(told, { zone: 120 })),
    ['zone,'],
  ],
  [
    'no word for stopping',
    () => refuse('heartbeat', 'stopping'),
    ['a heartbeat may say that the device is stopping'],
  ],
  [
    'heartbeatMs in words',
    () => spoil('heartbeat', (told) => Object.assign(told, { heartbeatMs: '30s' })),
    ['heartbeatMs is'],
  ],
  [
    'serverTime as a number',
    () => spoil('heartbeat', (told) => Object.assign(told, { serverTime: 1795165200 })),
    ['heartbeatMs is'],
  ],
  [
    'an ETag without its quotes in the heartbeat',
    () =>
      spoil('heartbeat', (told) => {
        told.destinations = String(told.destinations).replaceAll('"', '');
      }),
    ['a heartbeat’s destinations'],
  ],
  [
    'an old ETag in the heartbeat',
    () => spoil('heartbeat', (told) => Object.assign(told, { destinations: '"old"' })),
    ['a heartbeat’s destinations'],
  ],
  [
    'no look at keys',
    () => ({
      asks({ device, headers }) {
        headers.authorization = `Bearer ${device === OTHER.device ? OTHER.key : 'right'}`;
      },
    }),
    ['without the device’s key', 'a device’s key opens no other'],
  ],
  [
    'a look at keys that are there, and at no others',
    () => ({
      asks({ headers }) {
        headers.authorization ??= 'Bearer right';
      },
    }),
    ['without the device’s key'],
  ],
  [
    'an empty document where there is none',
    () => ({
      answers(told, { method, what }) {
        if (method !== 'GET' || what !== 'destinations' || told.status !== 404) return;
        Object.assign(told, { status: 200, headers: { etag: '"none"' }, body: '{"destinations":[]}' });
      },
    }),
    ['PUT with If-None-Match'],
  ],
  ['a 404 without a problem', () => turn(404, 404, { body: 'Not Found' }), ['while no document']],
  [
    'If-Match taken where there is nothing',
    () => ({
      asks({ method, headers }) {
        if (method !== 'PUT' || headers['if-match'] !== '"conformance"') return;
        delete headers['if-match'];
        headers['if-none-match'] = '*';
      },
    }),
    ['PUT with If-Match is answered 412'],
  ],
  [
    'weak ETags',
    () => ({
      ...retag(['GET', 'PUT'], (etag) => `W/${etag}`),
      ...resend('if-match', (etag) => etag.replace('W/', '')),
    }),
    ['GET has a strong ETag', 'PUT with the present ETag', 'a heartbeat’s destinations'],
  ],
  ['no ETags', () => retag(['GET', 'PUT'], () => null), ['GET has a strong ETag']],
  ['no ETag with a PUT', () => retag(['PUT'], () => null), ['PUT with the present ETag']],
  ['another ETag with PUT than with GET', () => retag(['PUT'], () => '"x"'), ['PUT with the present ETag']],
  ['If-Match ignored', () => resend('if-match', () => '*'), ['PUT with another ETag', 'of several PUTs']],
  [
    'If-None-Match: * ignored, but for the first',
    () => {
      let isFirst = true;
      return {
        asks({ method, headers }) {
          if (method !== 'PUT' || headers['if-none-match'] === undefined) return;
          if (!isFirst) headers['if-match'] = '*';
          if (!isFirst) delete headers['if-none-match'];
          isFirst = false;
        },
      };
    },
    ['PUT with If-None-Match'],
  ],
  [
    'the first document refused',
    () => answer({ status: 500 }, ({ method, headers }) => method === 'PUT' && 'if-none-match' in headers),
    ['the first PUT'],
  ],
  [
    'a 409 in place of 412',
    () => turn(412, 409),
    ['PUT with If-Match is', 'PUT with If-None-Match', 'PUT with another ETag', 'of several PUTs'],
  ],
  [
    'If-None-Match ignored',
    () => resend('if-none-match', (value, method) => (method === 'GET' ? null : value)),
    ['GET with If-None-Match'],
  ],
  [
    'a 304 whatever the ETag',
    () => resend('if-none-match', (value, method) => (method === 'GET' ? '*' : value)),
    ['GET with If-None-Match'],
  ],
  [
    'unknown members of entries dropped',
    () => ({
      asks(call) {
        if (call.what !== 'destinations') return;
        call.body = changed(call.body, (document) => {
          if (!Array.isArray(document.destinations)) return;
          document.destinations = document.destinations.map((entry) =>
            Object.fromEntries(Object.entries(entry).filter(([name]) => KNOWN.includes(name))),
          );
        });
      },
    }),
    [
      ...['members of an entry', 'after_min', 'values of these members that the cloud cannot use are kept'],
      'null is kept',
    ],
  ],
  [
    'unknown members of the document dropped',
    () => spoil('destinations', (document) => delete document.conformance),
    ['members of the document', 'null is kept'],
  ],
  [
    'one zone for all people',
    () => rewrite((text) => text.replace('Europe/Amsterdam', 'UTC')),
    ['after_min'],
  ],
  [
    'an entry with a wrong zone refused',
    () => refuse('destinations', 'Mars/Olympus'),
    ['values of these members that the cloud cannot use are kept'],
  ],
  [
    'the site dropped',
    () => spoil('destinations', (document) => delete document.site),
    ['delay, site and tags'],
  ],
  [
    'quiet for half as long',
    () => spoil('quiet', (told) => told.until && Object.assign(told, { until: '2026-11-20T10:00:00.000Z' })),
    ['PUT quiet is answered'],
  ],
  [
    'a quiet that does not end',
    () => spoil('quiet', (told) => Object.assign(told, { until: told.until ?? '2026-11-20T10:00:00.000Z' })),
    ['PUT quiet with quietMs 0'],
  ],
  [
    'quiet for longer than a week',
    () => ({
      asks(call) {
        if (call.what !== 'quiet') return;
        call.body = changed(call.body, (asked) => {
          if (Number(asked.quietMs) > 604_800_000) asked.quietMs = 604_800_000;
        });
      },
    }),
    ['PUT quiet for more'],
  ],
  [
    'a drill for nobody in particular',
    () => spoil('drill', (told) => Object.assign(told, { people: 'all' })),
    ['POST drill'],
  ],
  [
    'names folded',
    () => ({
      answers(told) {
        told.body = String(told.body).replace(/Conformance (?=\d)/g, 'CONFORMANCE ');
      },
    }),
    ['GET gives the entries'],
  ],
  [
    'an empty list taken for none',
    () => ({
      answers(told, { method }) {
        if (method === 'GET' && told.body === '{"destinations":[]}') told.status = 404;
      },
    }),
    ['an empty list'],
  ],
  [
    'anything taken for a document',
    () => ({
      asks(call) {
        if (call.what === 'destinations' && call.body === '[]') call.body = '{"destinations":[]}';
      },
    }),
    ['a PUT that is no document'],
  ],
  [
    'another id in the answer to a message',
    () => spoil('messages', (told) => Object.assign(told, { id: 'mine' })),
    [...TAKEN, 'each device has keys'],
  ],
  [
    'a message answered with a login page',
    () => answer({}, ({ what, headers }) => what === 'messages' && headers.authorization === 'Bearer right'),
    [...TAKEN, 'another text under', 'a message that can never', 'a device’s key opens no other'],
  ],
  [
    'a second message under its key refused',
    () => {
      const seen = new Set<string>();
      return {
        answers(told, { device, headers: { 'idempotency-key': key } }) {
          if (key === undefined) return;
          if (seen.has(`${device} ${key}`)) told.status = 409;
          seen.add(`${device} ${key}`);
        },
      };
    },
    ['the same message again', 'the same mail again'],
  ],
  [
    'the Idempotency-Key ignored',
    () => {
      let id = '';
      let drawn = 0;
      return {
        asks(call) {
          if (call.what !== 'messages' || call.headers['idempotency-key'] === undefined) return;
          const other = `0000000${(++drawn).toString(32)}`;
          call.headers['idempotency-key'] = other;
          call.body = changed(call.body, (message) => {
            id = String(message.id);
            message.id = other;
          });
        },
        ...spoil('messages', (told) => Object.assign(told, { id })),
      };
    },
    ['another message under a key', 'another text under'],
  ],
  [
    'a 500 for a bad message',
    () => ({
      answers(told, { what }) {
        if (what === 'messages' && told.status === 422) told.status = 500;
      },
    }),
    ['a message that can never'],
  ],
  [
    'a member too many of a message refused',
    () => refuse('messages', '"conformance":', 400),
    ['members of a message', 'a message of 60,000 bytes'],
  ],
  [
    'no word for moved',
    () => refuse('heartbeat', 'moved'),
    ['a heartbeat may say that the device has moved'],
  ],
  [
    'any known key opens every device',
    () => ({
      asks({ device, headers }) {
        if (device === OTHER.device && headers.authorization === 'Bearer right') {
          headers.authorization = `Bearer ${OTHER.key}`;
        }
      },
    }),
    ['a device’s key opens no other'],
  ],
  [
    'a look and then a write, which others come between now and then',
    () => {
      const puts = new Map<string, number>();
      return {
        asks({ method, headers }) {
          const tag = headers['if-match'];
          if (method !== 'PUT' || tag === undefined) return;
          puts.set(tag, (puts.get(tag) ?? 0) + 1);
          const contested = [...puts].filter(([, count]) => count > 2);
          // Only in the last round do two of them come through.
          if (contested.length === ROUNDS && puts.get(tag) === 4) headers['if-match'] = '*';
        },
      };
    },
    ['of several PUTs'],
  ],
  [
    'answers that are compressed, asked or not',
    () => ({
      answers(told) {
        if (told.body.length === 0) return;
        told.body = gzipSync(told.body);
        told.headers['content-encoding'] = 'gzip';
      },
    }),
    ['ALL'],
  ],
  [
    'ids of messages that must be UUIDs',
    () =>
      answer(
        { status: 422, body: '{"title":"no UUID"}' },
        ({ what, body }) => what === 'messages' && !/"id":"[0-9a-f]{8}-/.test(body) && body.includes('"id"'),
      ),
    ['a message that is taken'],
  ],
  [
    'a limit of 100,000 bytes for a document',
    () => answer({ status: 413 }, ({ what, body }) => what === 'destinations' && body.length > 100_000),
    ['a document of 500 entries'],
  ],
  [
    'a limit of 16,384 bytes for a message',
    () => answer({ status: 413 }, ({ what, body }) => what === 'messages' && body.length > 16_384),
    ['a message of 60,000 bytes'],
  ],
  ['no entries for phone calls', () => refuse('destinations', '"type":3'), ['entries of every type']],
  [
    'entries of unknown types refused',
    () => refuse('destinations', '"type":9'),
    ['an entry that the cloud does not'],
  ],
  ['no Polish', () => refuse('destinations', '"pl"'), ['entries of every type']],
  ['push messages refused', () => refuse('messages', '"type":4'), ['phone calls and push']],
  [
    'keys of messages that are remembered for four messages',
    () => {
      const young: string[] = [];
      const renamed = new Map<string, string>();
      return {
        asks(call) {
          const key = call.headers['idempotency-key'];
          if (call.headers.authorization !== 'Bearer right' || key === undefined) return;
          // One that is forgotten is another message for the good cloud.
          if (!young.includes(key)) renamed.set(key, `${key}-${renamed.size}`);
          if (!young.includes(key)) young.push(key);
          if (young.length > 4) young.shift();
          const other = renamed.get(key) ?? key;
          call.headers['idempotency-key'] = other;
          call.body = changed(call.body, (message) => {
            if (message.id === key) message.id = other;
          });
        },
        answers(told, { what }) {
          if (what === 'messages' || what === 'mails') told.body = String(told.body).replace(/-\d+"/, '"');
        },
      };
    },
    ['a message is remembered'],
  ],
  [
    'keys of messages that all devices share',
    () => {
      const seen = new Map<string, string>();
      return {
        instead({ device, headers }) {
          const key = headers['idempotency-key'];
          if (key === undefined) return undefined;
          const owner = seen.get(key) ?? device;
          seen.set(key, owner);
          return owner === device ? undefined : { ...HTML, status: 409 };
        },
      };
    },
    ['each device has keys'],
  ],
  [
    'two of the same message at once both taken',
    () => {
      const open = new Map<string, number>();
      const twice = new Set<string>();
      return {
        async holds({ headers: { 'idempotency-key': key } }) {
          if (key === undefined) return;
          open.set(key, (open.get(key) ?? 0) + 1);
          if (open.get(key) === 2) twice.add(key);
          // The other one is on its way.
          for (let turn = 0; turn < 50; turn++) await nextTurn();
        },
        answers(told, { headers: { 'idempotency-key': key } }) {
          if (key === undefined) return;
          open.set(key, (open.get(key) ?? 1) - 1);
          if (twice.has(key)) Object.assign(told, { status: 202, body: JSON.stringify({ id: key }) });
        },
      };
    },
    ['of a message that comes twice'],
  ],
  [
    'keys of messages that are forgotten at once',
    () => {
      let drawn = 0;
      let id: string | null = null;
      return {
        asks(call) {
          id = null;
          const key = call.headers['idempotency-key'];
          if (key === undefined || !call.body.includes(`"id":"${key}"`)) return;
          // Under another key it is another message for the good cloud.
          const other = `${key}-${++drawn}`;
          call.headers['idempotency-key'] = other;
          call.body = call.body.replace(`"id":"${key}"`, `"id":"${other}"`);
          id = key;
        },
        ...spoil('messages', (told) => id !== null && Object.assign(told, { id })),
      };
    },
    ['another text under'],
  ],
  [
    'mails answered with another id',
    () => spoil('mails', (told) => Object.assign(told, { id: 'x' })),
    ['a mail that is taken', 'the same mail again'],
  ],
  [
    'a mail that has waited taken for another',
    () => refuse('mails', 'X-Fieldpost-Waited'),
    ['the same mail again'],
  ],
  [
    'an empty mail taken',
    () => answer({ status: 202, body: '{}' }, ({ what, body }) => what === 'mails' && body === ''),
    ['a mail without recipient'],
  ],
  [
    'a mail to no address put off',
    () => ({
      answers(told, { what, body }) {
        if (what === 'mails' && told.status === 422 && body !== '') told.status = 500;
      },
    }),
    ['a mail to what is no address'],
  ],
  [
    'names escaped for HTML',
    () => rewrite((text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;')),
    ['characters of HTML'],
  ],
  ['& alone escaped', () => rewrite((text) => text.replace(/&/g, '&amp;')), ['characters of HTML']],
  ['tags taken out', () => rewrite((text) => text.replace(/<[^>]*>/g, '')), ['characters of HTML']],
  [
    'members that are null dropped',
    () => rewrite((text) => text.replace(/,"\w+":null|"\w+":null,?/g, '')),
    ['null is kept'],
  ],
  [
    'null dropped in the document alone',
    () => rewrite((text) => text.replace('"nested":null', '')),
    ['null is kept'],
  ],
  [
    'one entry for each address',
    () =>
      rewrite((text) =>
        changed(text, (document) => {
          if (!Array.isArray(document.destinations)) return;
          const all = document.destinations.map((one) => [`${one.type} ${one.destination}`, one] as const);
          document.destinations = [...new Map(all).values()];
        }),
      ),
    ['two entries with the same address'],
  ],
  [
    'a PUT without a condition taken',
    () => ({
      asks({ method, what, headers }) {
        if (method !== 'PUT' || what !== 'destinations') return;
        if (headers['if-match'] === undefined && headers['if-none-match'] === undefined)
          headers['if-match'] = '*';
      },
    }),
    ['a PUT without If-Match'],
  ],
  [
    'addresses in lower case',
    () => rewrite((text) => text.replace('Conformance.Mixed@Example.COM', 'conformance.mixed@example.com')),
    ['capitals in an address'],
  ],
  ['texts in NFC', () => rewrite((text) => text.normalize('NFC')), ['letters with combining']],
  [
    'texts without blanks at their ends',
    () => rewrite((text) => text.replace('" Conformance "', '"Conformance"')),
    ['blanks at both ends'],
  ],
  [
    'texts in latin-1',
    () => rewrite((text) => text.replace(/[\u0100-\uffff]/gu, '?')),
    ['letters with combining', 'letters beyond latin-1'],
  ],
  [
    'texts in three bytes of UTF-8 at most',
    () => rewrite((text) => text.replace(/[\u{10000}-\u{10ffff}]/gu, '\ufffd')),
    ['characters beyond the BMP', 'a document of 500'],
  ],
];

/** The cloud stores at most once a second what a device asks for. So its clock goes on until it answers. */
function ticking(fault: Fault, { clock }: Pick<TestCloud, 'clock'>): Fault {
  let open = 0;
  const tick = async () => {
    for (let turn = 0; open > 0; turn = (turn + 1) % 20) {
      await nextTurn();
      if (turn === 0) await clock.advance(SECOND_MS / 10);
    }
  };
  return {
    ...fault,
    asks(call) {
      fault.asks?.(call);
      if (++open === 1) void tick();
    },
    answers(answer, call) {
      open--;
      fault.answers?.(answer, call);
    },
  };
}

/** What the suite finds of a device that was never used, at this cloud with this fault. */
async function examineWith(fault: Fault, target: TestCloud, device: string) {
  await using faulty = await faultyCloud(target.url, ticking(fault, target));
  const wait = async () => undefined;
  const cloud = new Cloud(faulty.url, { device, key: 'right' }, { other: OTHER, rounds: ROUNDS, wait });
  const found = { holds: [] as string[], broken: [] as string[], 'not checked': [] as string[] };
  const words: string[] = [];
  for await (const { point, result, words: seen } of examine(cloud)) {
    found[result].push(point.name);
    if (result !== 'holds') words.push(`${result}: ${point.name}: ${seen}`);
  }
  return { ...found, words };
}

const send = async () => ({ kind: 'taken', reply: 'taken' }) as const;
/** It takes mails, too; nobody delivers them. All faults are tried in one hour. */
const env = {
  FIELDPOST_RELAY: 'smtp://127.0.0.1:1',
  FIELDPOST_CLOUD_SERVER_MAILS: '1000',
  FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT: '1000',
};
const devices = FAULTS.map((_, index) => `device-${index}`);
const keys = `site:1 right\n${OTHER.device} ${OTHER.key}\n${['good', ...devices].map((device) => `${device} right\n`).join('')}`;

t.test('the reference cloud holds every point, and is left as it was', async (t) => {
  await using cloud = await startCloud({ env, keys, send });
  const fresh = await examineWith({}, cloud, 'good');
  t.same(fresh.words, []);
  t.equal(fresh.holds.length, POINTS.length);
  const path = '/devices/good/destinations';
  const left = await cloud.call('GET', path, { key: 'right' });
  t.same(left.json, { destinations: [] });
  const headers = { 'If-Match': left.headers.get('etag') ?? '' };
  const body = { name: 'in use', destinations: [JAN] };
  await cloud.call('PUT', path, { key: 'right', headers, body });
  const used = await examineWith({}, cloud, 'good');
  t.same([used.broken, used['not checked'].length], [[], 3], 'three points need a device without a document');
  t.same((await cloud.call('GET', path, { key: 'right' })).json, body);
});

t.test('a cloud may ask for pauses, and may say that it takes no messages', async (t) => {
  await using busy = await startCloud({ env, keys, send });
  let calls = 0;
  const pauses: Fault = {
    instead: () =>
      ++calls % 3 === 0
        ? { status: 429, headers: { 'retry-after': '1' }, body: '{"title":"Too many requests"}' }
        : undefined,
  };
  const paused = await examineWith(pauses, busy, 'site:1');
  t.same(paused.words, []);
  await using mute = await startCloud({ keys });
  const found = await examineWith({}, mute, 'good');
  t.same(found.broken, []);
  const unchecked = POINTS.map(({ name }) => name).filter((name) => found['not checked'].includes(name));
  t.ok(
    unchecked.length > 5 && unchecked.every((name) => / (message|phone|keys|mail)/.test(name)),
    unchecked.join('\n'),
  );
  t.match(found.words.join('\n'), /says that it takes no messages \(503: This cloud has no way/);
  t.match(found.words.join('\n'), /says that it takes no mails \(501: This cloud takes no mails/);
});

t.test('a cloud that knows nothing of quiet and drills conforms', async (t) => {
  await using cloud = await startCloud({ env, keys, send });
  for (const status of [404, 405, 501]) {
    const body = '{"title":"There is no such call"}';
    const older = answer({ status, body }, ({ what }) => what === 'quiet' || what === 'drill');
    const found = await examineWith(older, cloud, 'good');
    t.same(found.broken, [], String(status));
    t.same(found['not checked'].filter((name) => /^(PUT quiet|POST drill) /.test(name)).length, 4);
  }
});

t.test('each fault is found, and only it', async (t) => {
  await using cloud = await startCloud({ env, keys, send });
  const broken = new Set<string>();
  const random = seededRandom(testSeed());
  let tried = 0;
  for (const [index, [name, make, breaks]] of FAULTS.entries()) {
    // Which points it breaks is said beside it: so no point is without a fault, even where a sample is tried.
    for (const { name: point } of POINTS)
      if (breaks.some((start) => point.startsWith(start))) broken.add(point);
    if (random() >= SHARE) continue;
    tried++;
    const found = await examineWith(make(), cloud, devices[index] as string);
    const isAll = breaks[0] === 'ALL';
    const wanted = POINTS.map((point) => point.name).filter(
      (one) => isAll || breaks.some((start) => one.startsWith(start)),
    );
    if (!isAll) t.equal(wanted.length, breaks.length, `${name}: the points are there`);
    t.same(found.broken, wanted, `${name}\n${found.words.join('\n')}`);
  }
  t.comment(`${tried} of ${FAULTS.length} faults`);
  t.same(
    POINTS.map(({ name }) => name).filter((name) => !broken.has(name)),
    [],
    'there is a fault for each point',
  );
});
