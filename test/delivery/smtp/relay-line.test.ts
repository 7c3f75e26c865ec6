import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../../src/base/limits.js';
import { Peer } from '../../../src/mail/delivery/peer.js';
import { outcomeOf } from '../../../src/mail/delivery/smtp/failure-classification.js';
import type { Ending, Envelope } from '../../../src/mail/delivery/smtp/protocol.js';
import { RelayLine, SESSION_IDLE_MS } from '../../../src/mail/delivery/smtp/smtp-transport.js';
import type { Address } from '../../../src/mail/message/address.js';
import type { Message } from '../../../src/mail/message/message.js';
import { FakeClock } from '../../support/clock.js';
import { FakeRelays, RELAY, reply, SPARE, TAKEN, trouble } from '../../support/delivery.js';

const ENVELOPE = {
  from: 'a@example.com' as Address,
  to: 'b@example.com' as Address,
  size: 1,
  smtpUtf8: false,
};

const mailOf = (envelope: Envelope) => ({
  message: {} as Message,
  envelope,
  content: Buffer.from('x'),
  fromHeader: null,
});
const MAIL = mailOf(ENVELOPE);
const outcome = (ending: Ending) => outcomeOf(ending, false);

function setUp(open?: (relays: FakeRelays) => ReturnType<FakeRelays['session']>) {
  const clock = new FakeClock();
  const relays = new FakeRelays();
  const config = { backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };
  const [relay, spare] = ['relay', 'spare'].map(
    (name) => new Peer(name, { config, clock, random: () => 0 }),
  ) as [Peer, Peer];
  const unanswered = new Map<Peer, number>();
  const create = () =>
    new RelayLine({
      open: (peer) => open?.(relays) ?? relays.session(peer === relay ? RELAY : SPARE),
      clock,
      unanswered,
      heard: () => undefined,
      refused: () => undefined,
    });
  const line = create();
  return { clock, relays, relay, spare, create, line, send: () => line.offer(MAIL, null) };
}

t.test('a session serves many messages, rests for a while, and is used again', async (t) => {
  const { clock, relays, relay, line, send } = setUp();
  t.equal(await line.open(relay), null);
  t.same(await send(), outcome(TAKEN));
  line.rest();
  await clock.advance(SESSION_IDLE_MS - 1);
  t.equal(await line.open(relay), null);
  t.equal(relays.opened.length, 1, 'it is there still');
  t.same(await send(), outcome(TAKEN));
  await clock.advance(SESSION_IDLE_MS);
  t.ok(line.isOpenTo(relay), 'only rest counts');
  line.rest();
  await clock.advance(SESSION_IDLE_MS);
  t.notOk(line.isOpenTo(relay));
  t.same([relays.opened.length, relays.open, clock.pending], [1, 0, 0]);
});

t.test('a line is connected to one relay at a time', async (t) => {
  const { relays, relay, spare, line } = setUp();
  await line.open(relay);
  await line.open(spare);
  t.same(relays.opened, [RELAY.host, SPARE.host]);
  t.same([line.isOpenTo(relay), line.isOpenTo(spare), relays.open], [false, true, 1]);
});

t.test('an unusable session is closed at once', async (t) => {
  const { clock, relays, relay, line, send } = setUp();
  relays.onSend = () => trouble('dot', 'lost');
  await line.open(relay);
  t.same(await send(), outcome(trouble('dot', 'lost')));
  line.rest();
  t.same([relays.open, clock.pending], [0, 0]);
});

t.test('a send that a stop ends before its first answer was not tried, or is lost', async (t) => {
  const next = mailOf({ ...ENVELOPE });
  for (const [before, announced, found] of [
    [0, null, outcome(trouble('mail', 'lost'))],
    [1, null, null],
    [1, next, null],
  ] as const) {
    let end: (ending: Ending) => void = () => undefined;
    const { relay, line } = setUp(async (relays) => {
      const session = await relays.session(RELAY);
      let left = before;
      return {
        ...session,
        usable: false,
        send(...mail) {
          if (left-- > 0) return session.send(...mail);
          return new Promise((resolve) => {
            end = resolve;
          });
        },
        async close() {
          end(trouble('mail', 'lost'));
        },
      };
    });
    await line.open(relay);
    if (before > 0) t.same(await line.offer(MAIL, announced), outcome(TAKEN));
    const offer = line.offer(announced ?? MAIL, null);
    await line.close();
    t.same(await offer, found);
  }
});

t.test('a relay that does not understand an announcement gets no other', async (t) => {
  const { relays, relay, spare, line, send } = setUp();
  const next = mailOf({ ...ENVELOPE });
  await line.open(relay);
  t.ok(line.takesAhead(MAIL));
  t.same(await line.offer(MAIL, next), outcome(TAKEN));
  relays.onSend = () => trouble('mail', 'deadline');
  t.equal(await line.offer(next, null), null, 'no fault of the message, nor of its relay');
  await line.open(relay);
  t.notOk(line.takesAhead(MAIL));
  t.same(await send(), outcome(trouble('mail', 'deadline')), 'now it is');
  await line.open(spare);
  t.ok(line.takesAhead(MAIL));
});

t.test(
  'a relay that twice leaves pipelined commands unanswered gets one at a time, over each line',
  async (t) => {
    let oneByOne = 0;
    const { relays, relay, create } = setUp(async (relays) => ({
      ...(await relays.session(RELAY)),
      usable: true,
      oneByOne: () => void oneByOne++,
    }));
    const offer = async (ending: Ending) => {
      relays.onSend = () => ending;
      const line = create();
      await line.open(relay);
      await line.offer(MAIL, null);
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
    const { relays, relay, line, send } = setUp();
    const left = [...endings];
    relays.onSend = () => left.shift() ?? TAKEN;
    await line.open(relay);
    const found = [];
    while (left.length > 0) found.push(await send());
    t.same(
      found,
      becomes.map((ending) => ending && outcome(ending)),
    );
  }
  for (const ending of [
    trouble('mail', 'deadline'),
    trouble('rcpt', 'lost'),
    reply('rcpt', '421 4.4.2 no'),
    reply('mail', '451 4.3.0 no'),
  ]) {
    const { relays, relay, line, send } = setUp();
    await line.open(relay);
    await send();
    relays.onSend = () => ending;
    t.same(await send(), outcome(ending));
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
    const { relays, relay, line, send } = setUp();
    const left = [TAKEN, ending];
    relays.onSend = () => left.shift() ?? TAKEN;
    await line.open(relay);
    t.same(await send(), outcome(TAKEN));
    t.equal(await send(), null, 'nothing has happened to the message');
    // Where nothing went well before, it is the relay's trouble.
    for (const first of [reply('rcpt', '550 5.1.1 unknown'), ending]) {
      left.push(first, ending);
      await line.close();
      await line.open(relay);
      t.same(await send(), outcome(first));
      t.same(await send(), outcome(ending));
    }
  }
});
