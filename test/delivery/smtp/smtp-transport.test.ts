import t from 'tap';
import { FieldpostError } from '../../../src/base/errors.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../src/base/limits.js';
import { SmtpTransport } from '../../../src/mail/delivery/smtp/smtp-transport.js';
import type { Address } from '../../../src/mail/message/address.js';
import type { RelayConfig } from '../../../src/mail/settings.js';
import { FakeClock } from '../../support/clock.js';
import {
  bench,
  CONFIG,
  damageContent,
  FakeRelays,
  openWatched,
  post,
  reply,
  TAKEN,
  trouble,
} from '../../support/delivery.js';
import { keptLog } from '../../support/system.js';
import { systemError } from '../../support/system-error.js';

const LATER = reply('rcpt', '450 4.2.0 greylisted');
const DAYS_OFFLINE_MS = 7 * DAY_MS;
const MIDDLE = () => 0.5;

t.test('tries of a deferred message are spaced by its age, and it ends with its last reply', async (t) => {
  const { clock, store, relays, delivery, post, events } = await bench({ random: MIDDLE });
  relays.onSend = () => LATER;
  const [id = ''] = await post();
  const start = clock.bootMs();
  const triedAt: number[] = [];
  relays.onSend = () => {
    triedAt.push(clock.bootMs() - start);
    return LATER;
  };
  delivery.start();
  await clock.advance(HOUR_MS);
  t.same(
    triedAt.map((ms) => ms / MINUTE_MS),
    [0, 1, 2, 4, 8, 16, 32],
  );
  t.match(store.get(id), { status: 'deferred', attempts: 7, lastReply: '450 4.2.0 greylisted' });
  await clock.advance(5 * DAY_MS - 2 * HOUR_MS);
  t.equal(store.get(id)?.status, 'deferred');
  await clock.advance(3 * HOUR_MS);
  t.match(store.get(id), { status: 'expired', lastReply: '450 4.2.0 greylisted' });
  t.equal(clock.pending, 0);
  t.same(new Set(events()), new Set(['relay ok', 'deferred', 'expired']));
});

t.test('a week offline expires nothing, and neither does a wall clock that leaps', async (t) => {
  const { clock, store, relays, delivery, post } = await bench();
  relays.onSend = () => LATER;
  const [id = ''] = await post();
  delivery.start();
  await clock.advance(DAY_MS);
  relays.onOpen = () => trouble('resolve', 'dns');
  await clock.advance(DAYS_OFFLINE_MS);
  clock.leap(20 * 365 * DAY_MS);
  await clock.advance(DAY_MS);
  clock.leap(-50 * 365 * DAY_MS);
  relays.onOpen = () => null;
  await clock.advance(3 * DAY_MS);
  t.equal(store.get(id)?.status, 'deferred', 'four days of five');
  await clock.advance(2 * DAY_MS);
  t.equal(store.get(id)?.status, 'expired');
});

t.test('a message is offered once before it expires', async (t) => {
  const maxAgeMs = { 1: 0, 2: 0, 3: 0, 4: 0 };
  for (const [answer, becomes] of [
    [TAKEN, 'sent'],
    [LATER, 'expired'],
  ] as const) {
    const { clock, store, relays, delivery, post } = await bench({ settings: { maxAgeMs } });
    relays.onOpen = () => trouble('connect', 'refused');
    relays.onSend = () => answer;
    const [id = ''] = await post();
    delivery.start();
    await clock.advance(DAYS_OFFLINE_MS);
    t.equal(store.get(id)?.status, 'queued');
    relays.onOpen = () => null;
    await clock.advance(5 * MINUTE_MS);
    t.equal(store.get(id)?.status, becomes);
  }
});

t.test('a message of an earlier boot is as old as this one at least', async (t) => {
  const before = await bench();
  const [id = ''] = await before.post();
  // A device that cannot tell how long it was off.
  const clock = before.clock.reboot({ wallMs: 0 });
  const { store, relays, delivery } = await bench({ random: MIDDLE, clock, disk: before.disk.afterKill() });
  relays.onSend = () => LATER;
  await clock.advance(10 * MINUTE_MS);
  delivery.start();
  await clock.advance(0);
  t.match(store.get(id), { status: 'deferred', due: { bootMs: 2 * clock.bootMs() } });
});

t.test('only the good hours of an unsteady link count', async (t) => {
  const { clock, store, relays, delivery, post } = await bench();
  const isUp = () => Math.floor(clock.bootMs() / HOUR_MS) % 2 === 0;
  relays.onOpen = () => (isUp() ? null : trouble('connect', 'unreachable'));
  relays.onSend = () => LATER;
  const [id = ''] = await post();
  delivery.start();
  await clock.advance(8 * DAY_MS);
  t.equal(store.get(id)?.status, 'deferred');
  t.ok((store.get(id)?.attempts ?? 0) > 24);
});

t.test('each answer of a relay shows that it is reachable, on however old a connection', async (t) => {
  const maxAgeMs = { 1: 10 * MINUTE_MS, 2: 0, 3: 0, 4: 0 };
  const { clock, store, relays, delivery, post } = await bench({ random: MIDDLE, settings: { maxAgeMs } });
  const [late = ''] = await post();
  relays.onSend = (id) => (id === late ? LATER : TAKEN);
  delivery.start();
  while (clock.bootMs() < 20 * MINUTE_MS) {
    await post();
    delivery.nudge();
    await clock.advance(4 * SECOND_MS);
  }
  t.equal(relays.opened.length, 1);
  t.match(store.get(late), { status: 'expired', attempts: 5 }, 'the one at which it expired is not charged');
});

t.test(
  'a message over which every connection is lost grows old all the same: the relay was there',
  async (t) => {
    const { clock, store, relays, delivery, post } = await bench({ random: MIDDLE });
    relays.onSend = () => trouble('dot', 'lost');
    const [id = ''] = await post();
    delivery.start();
    await clock.advance(5 * DAY_MS - HOUR_MS);
    t.equal(store.get(id)?.status, 'deferred');
    await clock.advance(3 * HOUR_MS);
    t.equal(store.get(id)?.status, 'expired');
  },
);

t.test('a fault of the relay charges nothing to a message, however often', async (t) => {
  for (const [state, answer] of [
    ['failing', reply('mail', '451 4.3.0 busy')],
    ['refusing', reply('mail', '550 5.7.1 sender refused')],
    ['refusing', reply('rcpt', '530 5.7.0 authenticate first')],
    ['refusing', reply('dot', '550 5.4.5 Daily user sending limit exceeded')],
    ['failing', reply('dot', '452 4.3.1 disk full')],
    ['failing', reply('dot', '421 4.3.2 shutting down')],
  ] as const) {
    const { clock, store, relays, delivery, post } = await bench();
    relays.onSend = () => answer;
    const [id = ''] = await post();
    delivery.start();
    await clock.advance(DAY_MS);
    t.match(store.get(id), { status: 'queued', attempts: 0, lastReply: null });
    t.ok(relays.offered.length > (state === 'failing' ? 200 : 20), 'it was tried, though');
    t.equal(delivery.relayView().state, state);
  }
});

t.test('the second connection lost in a row is charged, and each one after it', async (t) => {
  const { clock, store, relays, delivery, post } = await bench({ random: MIDDLE });
  const LOST = trouble('dot', 'lost');
  const answers = [LOST, LOST, LOST, LATER, LOST, LOST];
  relays.onSend = () => answers.shift() ?? TAKEN;
  const [id = ''] = await post();
  delivery.start();
  const attempts: (number | undefined)[] = [];
  for (let turn = 1; turn <= 6; turn++) {
    while (relays.offered.length < turn) await clock.advance(SECOND_MS / 10);
    await clock.advance(0);
    attempts.push(store.get(id)?.attempts);
  }
  t.same(attempts, [0, 1, 2, 3, 3, 4]);
  t.match(store.get(id)?.lastReply, /may arrive twice/);
});

t.test('a used connection that the relay closed is no fault', async (t) => {
  for (const ending of [reply('mail', '421 4.7.0 enough for one connection'), trouble('mail', 'lost')]) {
    const { clock, store, relays, delivery, post, events } = await bench();
    let sent = 0;
    // Two messages a connection, no more.
    relays.onOpen = () => {
      sent = 0;
      return null;
    };
    relays.onSend = () => (sent++ < 2 ? TAKEN : ending);
    const ids = await post(6);
    delivery.start();
    await clock.advance(0);
    t.same(new Set(ids.map((id) => store.get(id)?.status)), new Set(['sent']));
    t.equal(relays.opened.length, 3);
    t.same(new Set(events()), new Set(['relay ok', 'sent']));
    t.same([...new Set(relays.offered)], ids, 'in order all the same');
    // On a fresh connection it is the relay's trouble.
    relays.onOpen = () => {
      sent = 2;
      return null;
    };
    await post();
    await clock.advance(HOUR_MS);
    delivery.nudge();
    await clock.advance(0);
    t.equal(delivery.relayView().state, 'failing');
  }
});

t.test('a damaged mail fails, one that cannot be read just now waits; the others go on', async (t) => {
  const damaged = new FieldpostError('storage-damaged', 'its CRC differs');
  const passing = systemError('EMFILE', 'too many open files');
  const { clock, disk, store, relays, delivery, post, lines } = await bench({
    render: ({ id }) => ({ size: id.length, smtpUtf8: false, content: streamOf(id) }),
  });
  const [a = '', b = '', c = '', d = '', e = ''] = await post(5);
  const streamErrors = new Map([
    [a, damaged],
    [b, passing],
  ]);
  async function* streamOf(id: string): AsyncGenerator<Buffer> {
    const error = streamErrors.get(id);
    if (error) throw error;
    yield Buffer.from(id);
  }
  await damageContent(disk, store, c);
  const at = store.get(d)?.place?.offset as number;
  disk.onRead = (_, offset, length) => (offset <= at && at < offset + length ? 'EIO' : null);
  delivery.start();
  await clock.advance(0);
  const found = [a, b, c, d, e].map((id) => store.get(id)).map((m) => `${m?.status}: ${m?.lastReply}`);
  t.same(found, [
    'failed: storage damaged',
    'deferred: too many open files',
    'failed: storage damaged',
    "deferred: the stored content cannot be read: EIO: read '/var/lib/fieldpost/journal/00000001.log'",
    'sent: 250 2.0.0 ok',
  ]);
  t.equal(lines.filter(({ event }) => event === 'message unreadable').length, 4);
  t.equal(delivery.relayView().state, 'ok');
  disk.onRead = () => null;
  streamErrors.clear();
  await clock.advance(2 * MINUTE_MS);
  t.same(
    [b, d].map((id) => store.get(id)?.status),
    ['sent', 'sent'],
  );
  t.equal(relays.open, 0);
});

t.test('every line about a message has its id, and none has content', async (t) => {
  const { clock, relays, delivery, post, lines } = await bench();
  const answers = [
    LATER,
    reply('dot', '550 5.6.0 no'),
    trouble('dot', 'lost'),
    reply('mail', '421 4.3.2 bye'),
  ];
  relays.onSend = () => answers.shift() ?? TAKEN;
  const ids = await post(4);
  delivery.start();
  await clock.advance(HOUR_MS);
  for (const { event, fields } of lines) {
    if (!event.startsWith('relay ')) t.ok(ids.includes(String(fields.id)), event);
    t.notMatch(JSON.stringify(fields), /john|test/);
  }
});

t.test('of the senders that a relay refuses, the oldest are forgotten', async (t) => {
  const clock = new FakeClock();
  const senders = Array.from({ length: 300 }, (_, n) => `pump-${n}@example.com` as Address);
  let stamped = 0;
  const { store } = await openWatched(clock, { sender: () => senders[stamped++] as Address });
  const relays = new FakeRelays();
  relays.onSend = () => reply('mail', '550 5.7.1 sender refused');
  const { log } = keptLog();
  const transport = new SmtpTransport({
    open: (relay) => relays.session(relay as RelayConfig),
    render: ({ id }) => ({ size: id.length, smtpUtf8: false, content: Buffer.from(id) }),
    sender: () => 'present@example.com' as Address,
    ...{ store, config: CONFIG, clock, random: MIDDLE, log },
  });
  const [line] = transport.lines;
  const [peer] = transport.peers;
  if (!line || !peer) throw new Error('there is one line to one relay');
  const messages = (await post(store, senders.length)).map((id) => store.get(id) ?? t.fail(id));
  await line.open(peer);
  for (const message of messages) await line.offer(await transport.load(message as never), null);
  const loaded = await Promise.all(messages.map((message) => transport.load(message as never)));
  const replaced = loaded.map(({ envelope }) => envelope.from === 'present@example.com');
  // 100 are remembered: the youngest.
  t.same(replaced, [...Array(200).fill(false), ...Array(100).fill(true)]);
  await line.close();
});
