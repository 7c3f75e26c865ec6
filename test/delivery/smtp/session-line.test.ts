import t from 'tap';
import { SESSION_IDLE_MS } from '../../../src/base/limits.js';
import { SessionLine } from '../../../src/mail/delivery/smtp/session-line.js';
import type { Address } from '../../../src/mail/message/address.js';
import { FakeClock } from '../../support/clock.js';
import { FakeRelays, RELAY, reply, SPARE, TAKEN, trouble } from '../../support/delivery.js';

const ENVELOPE = {
  from: 'a@example.com' as Address,
  to: 'b@example.com' as Address,
  size: 1,
  smtpUtf8: false,
};

function setUp() {
  const clock = new FakeClock();
  const relays = new FakeRelays();
  const line = new SessionLine((relay) => relays.session(relay), clock);
  return { clock, relays, line, send: () => line.send(ENVELOPE, Buffer.from('x')) };
}

t.test('a session serves many messages, rests for a while, and is used again', async (t) => {
  const { clock, relays, line, send } = setUp();
  t.ok(await line.connect(RELAY));
  t.equal(await send(), TAKEN);
  line.rest();
  await clock.advance(SESSION_IDLE_MS - 1);
  t.notOk(await line.connect(RELAY), 'it is there still');
  t.equal(await send(), TAKEN);
  await clock.advance(SESSION_IDLE_MS);
  t.ok(line.isOpenTo(RELAY), 'only rest counts');
  line.rest();
  await clock.advance(SESSION_IDLE_MS);
  t.notOk(line.isOpenTo(RELAY));
  t.same([relays.opened.length, relays.open, clock.pending], [1, 0, 0]);
});

t.test('a line is connected to one relay at a time', async (t) => {
  const { relays, line } = setUp();
  await line.connect(RELAY);
  t.ok(await line.connect(SPARE));
  t.same([line.isOpenTo(RELAY), line.isOpenTo(SPARE), relays.open], [false, true, 1]);
});

t.test('an unusable session is closed at once', async (t) => {
  const { clock, relays, line, send } = setUp();
  relays.onSend = () => trouble('dot', 'lost');
  await line.connect(RELAY);
  t.match(await send(), { phase: 'dot' });
  line.rest();
  t.same([relays.open, clock.pending], [0, 0]);
});

t.test('a relay that does not understand an announcement gets no other', async (t) => {
  const { relays, line } = setUp();
  const next = { ...ENVELOPE };
  await line.connect(RELAY);
  t.ok(line.takesAhead);
  t.equal(await line.send(ENVELOPE, Buffer.from('x'), next), TAKEN);
  relays.onSend = () => trouble('mail', 'deadline');
  t.equal(await line.send(next, Buffer.from('x')), null, 'no fault of the message, nor of its relay');
  await line.connect(RELAY);
  t.notOk(line.takesAhead);
  t.match(await line.send(ENVELOPE, Buffer.from('x')), { phase: 'mail' }, 'now it is');
  await line.connect(SPARE);
  t.ok(line.takesAhead);
});

t.test(
  'a relay that twice leaves pipelined commands unanswered gets one at a time, over each line',
  async (t) => {
    const clock = new FakeClock();
    const unanswered = new Map();
    const relays = new FakeRelays();
    let oneByOne = 0;
    const open = async (relay: typeof RELAY) => ({
      ...(await relays.session(relay)),
      usable: true,
      oneByOne: () => void oneByOne++,
    });
    const offer = async (ending: ReturnType<typeof trouble>) => {
      relays.onSend = () => ending;
      const line = new SessionLine(open, clock, unanswered);
      await line.connect(RELAY);
      await line.send(ENVELOPE, Buffer.from('x'));
      return oneByOne;
    };
    t.equal(await offer(trouble('rcpt', 'deadline')), 0);
    t.equal(await offer(TAKEN), 0, 'an answer in between');
    t.equal(await offer(trouble('data', 'deadline')), 0);
    t.equal(await offer(trouble('rcpt', 'lost')), 0, 'no silence');
    t.equal(await offer(trouble('mail', 'deadline')), 0);
    t.equal(await offer(TAKEN), 1);
    t.equal(await offer(TAKEN), 1, 'it is tried again after an answer');
    relays.takesAhead = false;
    for (let n = 0; n < 3; n++) t.equal(await offer(trouble('rcpt', 'deadline')), 1, 'nothing is pipelined');
  },
);

t.test('only a used connection may end unused', async (t) => {
  const bye = reply('mail', '421 4.4.2 idle');
  for (const [endings, becomes] of [
    [[bye], [bye]],
    [
      [TAKEN, bye],
      [TAKEN, null],
    ],
    [
      [TAKEN, trouble('mail', 'lost')],
      [TAKEN, null],
    ],
  ] as const) {
    const { relays, line, send } = setUp();
    const left = [...endings];
    relays.onSend = () => left.shift() ?? TAKEN;
    await line.connect(RELAY);
    const found = [];
    while (left.length > 0) found.push(await send());
    t.same(found, becomes);
  }
  for (const ending of [
    trouble('mail', 'deadline'),
    trouble('rcpt', 'lost'),
    reply('rcpt', '421 4.4.2 no'),
    reply('mail', '451 4.3.0 no'),
  ]) {
    const { relays, line, send } = setUp();
    await line.connect(RELAY);
    await send();
    relays.onSend = () => ending;
    t.equal(await send(), ending);
  }
});

t.test('a relay that has taken enough mails over one connection gets another', async (t) => {
  const enough = [
    // The life of the access token is over.
    reply('mail', '530 5.7.0 Authentication required'),
    reply('mail', '535 5.7.8 token expired'),
    reply('mail', '452 4.5.3 Too many recipients: Too many messages sent'),
    reply('mail', '450 4.7.0 too many mails in this session'),
  ];
  for (const ending of enough) {
    const { relays, line, send } = setUp();
    const left = [TAKEN, ending];
    relays.onSend = () => left.shift() ?? TAKEN;
    await line.connect(RELAY);
    t.equal(await send(), TAKEN);
    t.equal(await send(), null, 'nothing has happened to the message');
    // Where nothing went well before, it is the relay's trouble.
    for (const first of [reply('rcpt', '550 5.1.1 unknown'), ending]) {
      left.push(first, ending);
      await line.close();
      await line.connect(RELAY);
      t.equal(await send(), first);
      t.equal(await send(), ending);
    }
  }
});
