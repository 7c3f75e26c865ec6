/** Every answer a relay may give, in every phase: it ends as it must, and nothing is left behind. */
// A process of its own: it counts descriptors, sockets and timers.

import { readdirSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Test, test } from 'tap';
import { KIB } from '../../../src/base/limits.js';
import { createConnect } from '../../../src/base/system/connect.js';
import { REPLY_BYTES_MAX } from '../../../src/mail/delivery/smtp/conversation.js';
import { type Ending, type Phase, SessionError } from '../../../src/mail/delivery/smtp/protocol.js';
import { FINAL_DOT_TIMEOUT_MS, openSession, type Session } from '../../../src/mail/delivery/smtp/session.js';
import { type Address, parseAddress } from '../../../src/mail/message/address.js';
import { FakeClock, settled } from '../../support/clock.js';
import { type Answer, type FakeRelay, fakeRelay, type Script } from '../../support/relay.js';

const TIMEOUT_MS = 60_000;
const PHASES = ['greeting', 'ehlo', 'mail', 'rcpt', 'data', 'dot'] as const;
type AskedPhase = (typeof PHASES)[number];
const OPENING: readonly Phase[] = ['greeting', 'ehlo'];
const BEFORE: Partial<Record<Phase, readonly Phase[]>> = {
  greeting: ['connect'],
  rcpt: ['mail'],
  data: ['mail', 'rcpt'],
};
const GOOD: Record<AskedPhase, number> = {
  greeting: 220,
  ehlo: 250,
  mail: 250,
  rcpt: 250,
  data: 354,
  dot: 250,
};
const CONTENT = Buffer.from('Subject: x\r\n\r\n.dot\r\n');
const ENVELOPE = {
  from: address('a@b.test'),
  to: address('c@d.test'),
  size: CONTENT.length,
  smtpUtf8: false,
};

function address(text: string): Address {
  const parsed = parseAddress(text);
  if (parsed === null) throw new Error(text);
  return parsed;
}

function open(relay: FakeRelay, clock: FakeClock): Promise<Session> {
  const where = { host: '127.0.0.1', port: relay.port, tls: 'never', user: null } as const;
  return openSession({
    relay: where,
    password: null,
    ca: null,
    helo: 'device.test',
    timeoutMs: TIMEOUT_MS,
    clock,
    connect: createConnect({ clock }),
  });
}

type Expected =
  | { sent: true }
  | { code: number; stays?: boolean }
  | { trouble: 'garbage' | 'deadline' | 'lost'; isTaken?: boolean };

interface Case {
  readonly name: string;
  readonly act: (phase: AskedPhase) => Answer;
  readonly expected: (phase: AskedPhase) => Expected;
}

const good = (phase: AskedPhase) => GOOD[phase];
const sent = (): Expected => ({ sent: true });
const refused = (code: number) => (): Expected => ({ code });
const trouble = (kind: 'garbage' | 'deadline' | 'lost') => (): Expected => ({ trouble: kind });
/** The same, but a mail is taken: the reply to it has begun with 250. */
const begun =
  (kind: 'garbage' | 'deadline' | 'lost') =>
  (phase: AskedPhase): Expected => ({ trouble: kind, isTaken: phase === 'dot' });
const raw = (text: string) => ({ raw: text });

const CASES: readonly Case[] = [
  { name: 'one line', act: (phase) => `${good(phase)} fine`, expected: sent },
  { name: 'a bare code', act: (phase) => `${good(phase)}`, expected: sent },
  {
    name: 'several lines',
    act: (phase) => `${good(phase)}-one\r\n${good(phase)}-\r\n${good(phase)} three`,
    expected: sent,
  },
  {
    name: 'byte by byte',
    act: (phase) => ({ raw: `${good(phase)}-one\r\n${good(phase)} two\r\n`, bytewise: true }),
    expected: sent,
  },
  {
    name: 'line feeds alone',
    act: (phase) => raw(`${good(phase)}-one\n${good(phase)} two\n`),
    expected: sent,
  },
  { name: '4xx', act: () => '450 4.3.0 later', expected: refused(450) },
  { name: '5xx', act: () => '550 5.1.1 never', expected: refused(550) },
  { name: 'a bare refusal', act: () => '550', expected: refused(550) },
  { name: 'a refusal in lines', act: () => '550-5.1.1 no\r\n550 5.1.1 way', expected: refused(550) },
  {
    name: 'a refusal byte by byte',
    act: () => ({ raw: '452-4.2.2 full\r\n452 4.2.2 up\r\n', bytewise: true }),
    expected: refused(452),
  },
  { name: '421', act: () => '421 4.3.2 going down', expected: refused(421) },
  { name: '421 and gone', act: () => ({ raw: '421 bye\r\n', after: 'fin' }), expected: refused(421) },
  {
    name: 'a refusal and gone',
    act: () => ({ raw: '554 5.7.1 go away\r\n', after: 'fin' }),
    expected: refused(554),
  },
  { name: 'words', act: () => 'foo bar', expected: trouble('garbage') },
  { name: 'nearly a code', act: () => '2xx hello', expected: trouble('garbage') },
  { name: 'HTTP', act: () => 'HTTP/1.1 400 Bad Request', expected: trouble('garbage') },
  {
    name: 'lines that disagree',
    act: (phase) => `${good(phase)}-yes\r\n550 no`,
    expected: trouble('garbage'),
  },
  {
    name: 'a line without a code behind one with a code',
    act: (phase) => `${good(phase)}-yes\r\nthanks`,
    expected: begun('garbage'),
  },
  {
    name: 'success of another kind',
    act: (phase) => (phase === 'data' ? '250 ok' : '334 what'),
    expected: trouble('garbage'),
  },
  {
    name: 'a flood without lines',
    act: () => raw('2'.repeat(REPLY_BYTES_MAX * 3)),
    expected: trouble('garbage'),
  },
  {
    name: 'a flood of lines',
    act: (phase) => raw(`${good(phase)}-x\r\n`.repeat(REPLY_BYTES_MAX / 2)),
    expected: begun('garbage'),
  },
  {
    name: 'a flood of nothing',
    act: () => raw('\r\n'.repeat(REPLY_BYTES_MAX * 2)),
    expected: trouble('garbage'),
  },
  { name: 'silence', act: () => ({ after: 'deaf' }), expected: trouble('deadline') },
  {
    name: 'half a line and silence',
    act: (phase) => ({ raw: `${good(phase)}`, after: 'deaf' }),
    expected: begun('deadline'),
  },
  {
    name: 'half a reply and silence',
    act: (phase) => ({ raw: `${good(phase)}-more\r\n`, after: 'deaf' }),
    expected: begun('deadline'),
  },
  { name: 'FIN', act: () => ({ after: 'fin' }), expected: trouble('lost') },
  {
    name: 'half a line and FIN',
    act: (phase) => ({ raw: `${good(phase)} o`, after: 'fin' }),
    expected: begun('lost'),
  },
  {
    name: 'half a refusal and FIN',
    act: () => ({ raw: '450-4.3.0 lat', after: 'fin' }),
    expected: trouble('lost'),
  },
  {
    name: 'a line without an end',
    act: (phase) => raw(`${good(phase)} ${'x'.repeat(REPLY_BYTES_MAX * 2)}`),
    expected: begun('garbage'),
  },
  { name: 'RST', act: () => ({ after: 'rst' }), expected: trouble('lost') },
];

/** Lets time pass from `started` on until `work` is done. */
async function inTime<T>(work: Promise<T>, started: Promise<void>, clock: FakeClock): Promise<T> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  await Promise.race([started, done.catch(() => undefined)]);
  while (!isDone) await clock.advance(TIMEOUT_MS);
  return done;
}

/** `isAhead`: the message is announced with the end of another, which the relay takes. */
async function converse(
  relay: FakeRelay,
  clock: FakeClock,
  isAhead: boolean,
): Promise<{ ending: Ending; session: Session | null }> {
  try {
    const session = await open(relay, clock);
    if (isAhead) await session.send({ ...ENVELOPE }, CONTENT, ENVELOPE);
    return { session, ending: await session.send(ENVELOPE, CONTENT) };
  } catch (error) {
    if (error instanceof SessionError) return { session: null, ending: error.ending };
    throw error;
  }
}

async function runCase(
  t: Test,
  { name, act, expected }: Case,
  phase: AskedPhase,
  extensions: string[],
  isAhead = false,
) {
  const words = `${phase}: ${name}${extensions.length > 0 ? ', pipelined' : ''}${isAhead ? ', announced' : ''}`;
  const clock = new FakeClock();
  let silent = () => {};
  const started = new Promise<void>((done) => {
    silent = done;
  });
  const before = isAhead ? 1 : 0;
  let turn = 0;
  // A bare EHLO of the case offers no pipelining; everything else has its turn once.
  const misbehave = () => {
    if (turn++ !== before) return undefined;
    if ('trouble' in expected(phase) && (expected(phase) as { trouble: string }).trouble === 'deadline')
      silent();
    return act(phase);
  };
  const relay = await fakeRelay({ [phase]: misbehave } as Script, { extensions });
  const { ending, session } = await inTime(converse(relay, clock, isAhead), started, clock);
  const wanted = expected(phase);

  if ('sent' in wanted) {
    t.match(ending, { phase: 'dot', reply: { code: 250 } }, words);
    t.equal(relay.mails.length, before + 1, `${words}: one mail`);
  } else {
    if ('code' in wanted) t.match(ending, { reply: { code: wanted.code } }, words);
    else if (wanted.isTaken) t.match(ending, { reply: { code: 250 } }, words);
    else t.match(ending, { trouble: { kind: wanted.trouble } }, words);
    if (phase !== 'dot') t.equal(relay.mails.length, before, `${words}: no mail`);
    // RST overtakes: it may be seen in place of what was sent before it.
    if (name !== 'RST') t.equal(ending.phase, phase, words);
    else t.ok(ending.phase === phase || BEFORE[phase]?.includes(ending.phase), words);
  }
  if (session !== null && !words.includes('gone')) {
    const stays = 'sent' in wanted || ('code' in wanted && wanted.code !== 421);
    t.equal(session.usable, stays, `${words}: usable`);
    const again = await session.send(ENVELOPE, CONTENT);
    if (stays) t.match(again, { phase: 'dot', reply: { code: 250 } }, `${words}: and the next`);
    else t.equal(again.phase, 'mail', `${words}: nothing was said of the next`);
    if (stays) t.equal(relay.mails.length, before + ('sent' in wanted ? 2 : 1), `${words}: mails`);
    for (const mail of relay.mails) t.equal(mail.content.toString(), CONTENT.toString(), `${words}: intact`);
  }
  if (session === null) t.ok(OPENING.includes(phase), `${words}: not opened`);
  await session?.close();
  await relay.close();
  t.equal(clock.pending, 0, `${words}: no timer is left`);
}

async function openThings(): Promise<{ descriptors: number; resources: string[] }> {
  await settled();
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    resources: process.getActiveResourcesInfo().filter((name) => /TCP|TLS|Timeout|Connect/.test(name)),
  };
}

test('every answer in every phase ends as it must and leaves nothing behind', async (t) => {
  const rejections: unknown[] = [];
  const warnings: string[] = [];
  process.on('unhandledRejection', (reason) => rejections.push(reason));
  process.on('warning', (warning) => warnings.push(`${warning.name}: ${warning.message}`));
  await runCase(t, CASES[0] as Case, 'dot', []);
  const before = await openThings();
  for (const phase of PHASES)
    for (const extensions of [[], ['PIPELINING']])
      for (const one of CASES) await runCase(t, one, phase, extensions);
  for (const phase of PHASES.filter((phase) => !OPENING.includes(phase)))
    for (const one of CASES) await runCase(t, one, phase, ['PIPELINING'], true);
  t.same(await openThings(), before);
  t.same(rejections, []);
  t.same(warnings, []);
});

/** Content that ends only when it is let go, and tells so. */
function endless(): { content: AsyncIterable<Buffer>; released: Promise<void>; taken: () => number } {
  let taken = 0;
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  async function* lines() {
    try {
      while (true) {
        taken += 1;
        yield Buffer.alloc(16 * KIB, 'The quick brown fox jumps\r\n');
      }
    } finally {
      release();
    }
  }
  return { content: lines(), released, taken: () => taken };
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await nextTurn();
}

test('a relay that speaks, hangs up or stops listening while content is sent is heard at once', async (t) => {
  const cases: { name: string; act: Answer; expected: object }[] = [
    { name: '552', act: '552 5.3.4 too much', expected: { phase: 'content', reply: { code: 552 } } },
    { name: '421', act: '421 4.7.0 out', expected: { phase: 'content', reply: { code: 421 } } },
    { name: '250', act: '250 2.0.0 thanks', expected: { phase: 'content', trouble: { kind: 'garbage' } } },
    { name: 'words', act: 'stop', expected: { phase: 'content', trouble: { kind: 'garbage' } } },
    { name: 'FIN', act: { after: 'fin' }, expected: { phase: 'content', trouble: { kind: 'lost' } } },
    { name: 'RST', act: { after: 'rst' }, expected: { phase: 'content', trouble: { kind: 'lost' } } },
    { name: 'deaf', act: { after: 'deaf' }, expected: { phase: 'content', trouble: { kind: 'deadline' } } },
  ];
  for (const { name, act, expected } of cases) {
    const clock = new FakeClock();
    let stuck = () => {};
    const started = new Promise<void>((done) => {
      stuck = done;
    });
    const content = () => {
      if (name === 'deaf') stuck();
      return act;
    };
    await using relay = await fakeRelay({ content });
    const session = await open(relay, clock);
    const source = endless();
    const ending = await inTime(session.send({ ...ENVELOPE, size: 1 }, source.content), started, clock);
    t.match(ending, expected, name);
    await source.released;
    t.notOk(session.usable, name);
    t.equal(relay.mails.length, 0, name);
    await session.close();
    t.equal(clock.pending, 0, name);
    t.ok(source.taken() < 2000, `${name}: ${source.taken()} pieces taken`);
  }
});

test('the deadline of content starts anew with every piece the relay takes', async (t) => {
  const clock = new FakeClock();
  await using relay = await fakeRelay();
  const session = await open(relay, clock);
  async function* slowly() {
    for (let piece = 0; piece < 10; piece++) {
      await clock.advance(TIMEOUT_MS * 0.9);
      yield Buffer.from(`piece ${piece}\r\n`);
    }
  }
  t.match(await session.send(ENVELOPE, slowly()), { phase: 'dot', reply: { code: 250 } });
  t.match(relay.mails[0]?.content.toString(), /^piece 0\r\n.*piece 9\r\n$/s);
  await session.close();
});

test('each answer to a group has the whole deadline, and a tarpit is then spoken to one by one', async (t) => {
  const clock = new FakeClock();
  const answers: (() => void)[] = [];
  const held = [0, 1, 2].map(() => new Promise<void>((answer) => answers.push(answer)));
  let asked = () => {};
  const isAsked = new Promise<void>((done) => {
    asked = done;
  });
  const slowly = (raw: string, wait: Promise<void> | undefined) => () => {
    if (relay.mails.length > 0 || wait === undefined) return undefined;
    if (raw.startsWith('354')) asked();
    return { raw: `${raw}\r\n`, held: wait };
  };
  await using relay: FakeRelay = await fakeRelay(
    { mail: slowly('250 ok', held[0]), rcpt: slowly('250 ok', held[1]), data: slowly('354 go', held[2]) },
    { extensions: ['PIPELINING'] },
  );
  const session = await open(relay, clock);
  const sending = session.send(ENVELOPE, CONTENT);
  await isAsked;
  t.ok(session.takesAhead);
  for (const answer of answers) {
    await clock.advance(TIMEOUT_MS * 0.9);
    answer();
    await settled();
  }
  t.match(await sending, { phase: 'dot', reply: { code: 250 } });
  t.notOk(session.takesAhead, 'the next is not announced');
  const before = relay.packets.length;
  t.match(await session.send(ENVELOPE, CONTENT), { phase: 'dot', reply: { code: 250 } });
  t.equal(relay.packets.length, before + 3, 'MAIL, RCPT and DATA on their own');
  await session.close();
  t.equal(clock.pending, 0);
});

test('the answer to a message may take ten minutes, to a whole one and to a stream', async (t) => {
  for (const content of [
    CONTENT,
    (async function* () {
      yield CONTENT;
    })(),
  ]) {
    const clock = new FakeClock();
    let asked = () => {};
    const dot = new Promise<void>((done) => {
      asked = done;
    });
    const script: Script = {
      dot: () => {
        asked();
        return {};
      },
    };
    await using relay = await fakeRelay(script);
    const session = await open(relay, clock);
    const sending = session.send(ENVELOPE, content);
    await dot;
    await clock.advance(FINAL_DOT_TIMEOUT_MS - 1);
    t.ok(session.usable);
    await clock.advance(1);
    t.match(await sending, { phase: 'dot', trouble: { kind: 'deadline', words: /within 600 s/ } });
    await session.close();
  }
});

test('content that cannot be read to its end is never sent as a whole', async (t) => {
  await using relay = await fakeRelay();
  const session = await open(relay, new FakeClock());
  async function* broken() {
    yield Buffer.from('Subject: half\r\n\r\nthe first half\r\n');
    throw new Error('EIO: i/o error, read');
  }
  const ending = await session.send(ENVELOPE, broken());
  t.match(ending, { phase: 'content', trouble: { kind: 'source', words: /EIO/ } });
  t.notOk(session.usable);
  await session.close();
  await until(() => relay.open === 0);
  t.equal(relay.mails.length, 0);
});

test('a reply between two messages ends the session at once, and its words are kept', async (t) => {
  const cases: [Answer, object][] = [
    ['421 4.4.2 idle too long', { reply: { code: 421, text: '421 4.4.2 idle too long' } }],
    [{ raw: '421 bye\r\n', after: 'fin' }, { reply: { code: 421 } }],
    ['554 5.7.1 changed my mind', { reply: { code: 554 } }],
    ['250 2.0.0 and another thing', { trouble: { kind: 'garbage', words: /another thing/ } }],
    ['nonsense', { trouble: { kind: 'garbage', words: /nonsense/ } }],
    [{ after: 'fin' }, { trouble: { kind: 'lost' } }],
    [{ after: 'rst' }, { trouble: { kind: 'lost', words: /ECONNRESET/ } }],
  ];
  for (const [answer, expected] of cases) {
    await using relay = await fakeRelay();
    const session = await open(relay, new FakeClock());
    t.match(await session.send(ENVELOPE, CONTENT), { phase: 'dot', reply: { code: 250 } });
    relay.say(answer);
    await until(() => !session.usable);
    t.match(await session.send(ENVELOPE, CONTENT), { phase: 'mail', ...expected });
    await session.close();
    t.equal(relay.mails.length, 1);
  }
});

test('an answer after its deadline answers nothing', async (t) => {
  const clock = new FakeClock();
  let asked = () => {};
  const waiting = new Promise<void>((done) => {
    asked = done;
  });
  const script: Script = {
    mail: () => {
      asked();
      return { after: 'deaf' };
    },
  };
  await using relay = await fakeRelay(script);
  const session = await open(relay, clock);
  const sending = session.send(ENVELOPE, CONTENT);
  await waiting;
  await clock.advance(TIMEOUT_MS);
  const ending = await sending;
  t.match(ending, { phase: 'mail', trouble: { kind: 'deadline', words: /MAIL FROM within 60 s/ } });
  relay.say('250 2.1.0 at last');
  await until(() => relay.open === 0);
  t.match(await session.send(ENVELOPE, CONTENT), ending);
  await session.close();
});

test('close has a deadline, and a message in progress ends as lost', async (t) => {
  const clock = new FakeClock();
  let asked = () => {};
  const moment = () =>
    new Promise<void>((done) => {
      asked = done;
    });
  const silent = () => {
    asked();
    return {};
  };
  await using relay = await fakeRelay({
    quit: silent,
    dot: ({ connection }) => (connection === 2 ? silent() : undefined),
  });
  const mute = await open(relay, clock);
  const quitting = moment();
  const closing = mute.close();
  await quitting;
  t.ok((clock.nextInMs ?? 0) <= 2000, 'QUIT is given two seconds');
  await clock.advance(2000);
  await closing;
  t.notOk(mute.usable);

  const session = await open(relay, clock);
  const dotted = moment();
  const sending = session.send(ENVELOPE, CONTENT);
  await dotted;
  await session.close();
  t.match(await sending, { phase: 'dot', trouble: { kind: 'lost', words: /closed/ } });
  t.match(await session.send(ENVELOPE, CONTENT), { phase: 'mail', trouble: { kind: 'lost' } });
  t.equal(clock.pending, 0);
});

test('a connection that neither comes nor fails is given up', async (t) => {
  const before = await openThings();
  const clock = new FakeClock();
  // TEST-NET-1 (RFC 5737): nobody answers; a machine without any route, or behind a strict firewall, says so at once.
  const relay = { host: '192.0.2.1', port: 25, tls: 'never', user: null } as const;
  const opening = openSession({
    relay,
    password: null,
    ca: null,
    helo: 'x',
    timeoutMs: TIMEOUT_MS,
    clock,
    connect: createConnect({ clock }),
  });
  const failed = await inTime(opening, Promise.resolve(), clock).catch((error: SessionError) => error);
  t.match(failed, {
    ending: {
      phase: 'connect',
      trouble: {
        kind: /^(deadline|unreachable|refused)$/,
        words: /no connection within 60 s|it cannot be reached|was refused/,
      },
    },
  });
  t.equal(clock.pending, 0);
  t.same(await openThings(), before);
});

test('a reset in answer to QUIT is as good as an answer', async (t) => {
  await using relay = await fakeRelay({ quit: { after: 'rst' } });
  const session = await open(relay, new FakeClock());
  await session.close();
  await session.close();
  t.notOk(session.usable);
});

test('two thousand messages over one session leave no listener behind, however short the replies', async (t) => {
  const warnings: string[] = [];
  process.on('warning', (warning) => warnings.push(warning.message));
  await using relay = await fakeRelay({ mail: '250', rcpt: '250', data: '354', dot: '250' });
  const clock = new FakeClock();
  const session = await open(relay, clock);
  for (let count = 0; count < 2000; count++) await session.send(ENVELOPE, CONTENT);
  t.equal(relay.mails.length, 2000);
  t.equal(relay.connections, 1);
  t.equal(clock.pending, 1, 'one timer serves all deadlines');
  await session.close();
  t.equal(clock.pending, 0);
  t.same(warnings, []);
});
