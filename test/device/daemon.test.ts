/** The composition root on a real disk and real sockets: it starts whole or not at all, and stops in order. */
// A process of its own: it takes long.
import { randomBytes } from 'node:crypto';
import { open, readdir, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { uptime } from 'node:os';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { systemClock } from '../../src/base/system/clock.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { systemLock } from '../../src/base/system/lock.js';
import { createDaemon, type Daemon } from '../../src/device/daemon.js';
import type { System } from '../../src/mail/engine.js';
import { apiAt, ask } from '../support/ask.js';
import { FakeClock } from '../support/clock.js';
import { DEVICE, fakeCloud, KEY, problem } from '../support/cloud.js';
import { until } from '../support/delivery.js';
import { octets } from '../support/drafts.js';
import { fakeRelay } from '../support/relay.js';
import { configOf, testSystem } from '../support/system.js';

function world(): { system: System; lines: string[] } {
  // A device that has just booted waits a while before its first heartbeat; this one has been up for an hour.
  const clock = systemClock({ uptimeS: () => uptime() + HOUR_MS / SECOND_MS });
  return testSystem({ disk: systemDisk(), takeLock: systemLock, clock, randomBytes });
}

const apiOf = ({ addresses }: Daemon) => apiAt(addresses.map(addressOf).join());
const post = (daemon: Daemon, subject: string) =>
  apiOf(daemon)('messages', [{ type: 1, destination: 'john@example.com', subject }]);
const cloudAt = (url: string) => ({
  FIELDPOST_CLOUD: url,
  FIELDPOST_DEVICE_ID: DEVICE,
  FIELDPOST_CLOUD_KEY: KEY,
});
const relayAt = (port: number) => `smtp://127.0.0.1:${port}?tls=never`;

t.test('from the post to the relay, and the same after a restart', async (t) => {
  await using relay = await fakeRelay();
  const FIELDPOST_STATE_DIR = t.testdir();

  const { system } = world();
  const offline = await createDaemon(configOf({ FIELDPOST_STATE_DIR }), system);
  const kept = await post(offline, 'kept');
  t.equal(kept.status, 202, 'without a relay it is kept');
  const [{ id }] = kept.json;
  await offline.stop();

  const FIELDPOST_RELAY = relayAt(relay.port);
  const online = await createDaemon(configOf({ FIELDPOST_STATE_DIR, FIELDPOST_RELAY }), world().system);
  await relay.arrived(1);
  await online.stop();
  t.equal(relay.mails.length, 1);
  const text = String(relay.mails[0]?.content);
  t.match(text, /^Subject: kept\r$/m);
  t.match(text, new RegExp(`^Message-ID: <${id}\\.[0-9a-f]{16}@device\\.example>\r$`, 'm'));
});

t.test('the history knows what a run has sent and what waits, and the next run knows it too', async (t) => {
  await using relay = await fakeRelay();
  const settings = { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_RELAY: relayAt(relay.port) };
  const first = await createDaemon(configOf(settings), world().system);
  const [{ id }] = (await post(first, 'sent')).json;
  await apiOf(first)(`messages/${id}?wait=30`);
  const sumOf = async (daemon: Daemon) => {
    const { rows } = (await apiOf(daemon)('history?step=1h')).json;
    const sum = (name: string) =>
      rows.reduce((all: number, row: Record<string, number>) => all + (row[name] ?? 0), 0);
    return { ...rows.at(-1), accepted: sum('accepted'), sent: sum('sent') };
  };
  t.match(await sumOf(first), { accepted: 1, sent: 1, relayUp: 1, linkUp: null });
  await first.stop();
  const { FIELDPOST_STATE_DIR } = settings;
  const second = await createDaemon(configOf({ FIELDPOST_STATE_DIR }), world().system);
  await post(second, 'waits');
  t.match(await sumOf(second), { accepted: 2, sent: 1, waitingMax: 1 });
  await second.stop();
});

t.test('attachments arrive unchanged; a mail with a damaged one is not taken', async (t) => {
  await using relay = await fakeRelay();
  const FIELDPOST_STATE_DIR = t.testdir();
  const settings = configOf({ FIELDPOST_STATE_DIR });
  const offline = await createDaemon(settings, world().system);
  const address = addressOf(offline.addresses[0] as never);
  const files = [octets(300_001), octets(0), Buffer.from('\r\n.\r\n')];
  const postFiles = async (subject: string): Promise<string> => {
    const form = new FormData();
    form.set('destination', 'john@example.com');
    form.set('subject', subject);
    for (const [i, bytes] of files.entries())
      form.append('file', new Blob([new Uint8Array(bytes)], { type: 'image/png' }), `żółw ${i}.png`);
    const response = await fetch(`http://${address}/api/internal/messages`, { method: 'POST', body: form });
    t.equal(response.status, 202);
    return ((await response.json()) as [{ id: string }])[0].id;
  };
  const spool = join(FIELDPOST_STATE_DIR, 'spool');
  const spoil = async (subject: string, how: (path: string) => Promise<void>): Promise<string> => {
    const before = new Set(await readdir(spool));
    const id = await postFiles(subject);
    for (const name of await readdir(spool)) {
      const path = join(spool, name);
      if (!before.has(name) && (await stat(path)).size > 300_000) await how(path);
    }
    return id;
  };
  const ids = {
    changed: await spoil('changed', async (path) => {
      const file = await open(path, 'r+');
      await file.write(Buffer.from('?'), 0, 1, 300_000);
      await file.close();
    }),
    gone: await spoil('gone', rm),
    whole: await postFiles('whole'),
  };
  await offline.stop();

  const FIELDPOST_RELAY = relayAt(relay.port);
  const { system, lines } = world();
  const online = await createDaemon(configOf({ FIELDPOST_STATE_DIR, FIELDPOST_RELAY }), system);
  await until(() => lines.filter((line) => />(failed|sent) id=/.test(line)).length === 3);
  const tell = async (id: string) => (await apiOf(online)(`messages/${id}`)).json;
  for (const id of [ids.changed, ids.gone])
    t.match(await tell(id), { status: 'failed', lastReply: 'storage damaged' });
  const told = files.map(({ length }, i) => ({ name: `żółw ${i}.png`, type: 'image/png', size: length }));
  t.match(await tell(ids.whole), { status: 'sent', attachments: told });
  await online.stop();

  t.equal(relay.mails.length, 1, 'the relay took none of the others');
  const { subject, attachments } = await PostalMime.parse(relay.mails[0]?.content ?? '');
  t.equal(subject, 'whole');
  for (const [i, { filename, mimeType, content }] of attachments.entries()) {
    t.match({ filename, mimeType }, { filename: told[i]?.name, mimeType: 'image/png' });
    t.ok(Buffer.from(content as ArrayBuffer).equals(files[i] as Buffer));
  }
  t.equal(attachments.length, 3);
  t.equal(
    (await readdir(spool)).length,
    5,
    'the files of sent mails are gone, those of failed ones are kept',
  );
});

t.test('a picture that the HTML shows arrives as such, from a form and from JSON', async (t) => {
  await using relay = await fakeRelay();
  const FIELDPOST_STATE_DIR = t.testdir();
  const offline = await createDaemon(configOf({ FIELDPOST_STATE_DIR }), world().system);
  const url = `http://${addressOf(offline.addresses[0] as never)}/api/internal/messages`;
  const picture = octets(1000);
  const texts = { destination: 'john@example.com', plain: 'See.', html: '<img src="cid:picture">' };
  const part = (header: string, content: string) =>
    `--b\r\nContent-Disposition: form-data; ${header}\r\n\r\n${content}\r\n`;
  const form = Buffer.concat([
    Buffer.from(
      Object.entries(texts)
        .map(([name, text]) => part(`name="${name}"`, text))
        .join(''),
    ),
    Buffer.from(
      part('name="picture"; filename="a.png"\r\nContent-Type: image/png\r\nContent-ID: <picture>', '').slice(
        0,
        -2,
      ),
    ),
    picture,
    Buffer.from('\r\n--b--\r\n'),
  ]);
  const file = {
    name: 'a.png',
    type: 'image/png',
    content_id: 'picture',
    content: picture.toString('base64'),
  };
  for (const [type, body] of [
    ['multipart/form-data; boundary=b', form],
    ['application/json', JSON.stringify({ type: 1, ...texts, attachments: [file] })],
  ] as const) {
    const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': type }, body });
    t.equal(response.status, 202, await response.text());
  }
  // It is told to the relay by a daemon that has read it from the disk.
  await offline.stop();
  const online = await createDaemon(
    configOf({ FIELDPOST_STATE_DIR, FIELDPOST_RELAY: relayAt(relay.port) }),
    world().system,
  );
  await relay.arrived(2);
  await online.stop();
  for (const { content } of relay.mails) {
    const { text, html, attachments } = await PostalMime.parse(content);
    t.match({ text, html }, { text: /See/, html: /cid:picture/ });
    t.match(attachments, [
      {
        filename: 'a.png',
        mimeType: 'image/png',
        contentId: '<picture>',
        disposition: 'inline',
        related: true,
      },
    ]);
    t.ok(Buffer.from(attachments[0]?.content as ArrayBuffer).equals(picture));
  }
});

t.test('a daemon with a cloud: online, and a goodbye', async (t) => {
  await using cloud = await fakeCloud();
  let reach = () => {};
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  cloud.answer = async () => {
    await reached;
    return undefined;
  };
  const { system, lines } = world();
  const daemon = await createDaemon(
    configOf({
      FIELDPOST_STATE_DIR: t.testdir(),
      ...cloudAt(cloud.url),
      FIELDPOST_HEARTBEAT: '5s',
    }),
    system,
  );
  const call = apiOf(daemon);
  const stateOf = async () => (await call('state')).json.link;
  const phone = { type: 3, destination: '+31612345678', message: 'Water!' };
  await call('messages', [phone]);
  t.match(await stateOf(), { state: 'connecting' });
  t.equal(cloud.calls.length, 1, 'only the heartbeat is sent');
  reach();
  await until(() => lines.some((line) => line.includes('link online')));
  await until(() => lines.some((line) => line.includes('sent ')));
  t.match(await stateOf(), { state: 'online', reason: null, history: [{ state: 'connecting' }] });
  t.match(cloud.calls[0]?.body, {
    bootId: system.clock.boot,
    sequence: 1,
    state: 'running',
    queue: { queued: 0, deferred: 0, failed: 0 },
    version: '1.2.3',
  });
  const sms = { type: 2, destination: '+31612345678', message: 'Water!' };
  const push = { type: 4, destination: 'OWNER', message: 'Water!', app_data: { pump: 3 } };
  const taken = await call('messages', [sms, push]);
  const ids = taken.json.map(({ id }: { id: string }) => id);
  await until(() => lines.filter((line) => line.includes('sent ')).length === 3);
  const order = [3, 2, 4];
  t.match(
    // SMS and push messages are on their way at the same time.
    cloud.calls
      .filter(({ path }) => path === 'messages')
      .sort((a, b) => order.indexOf(a.body?.type as number) - order.indexOf(b.body?.type as number)),
    [
      { body: phone },
      { headers: { 'idempotency-key': ids[0] }, body: { ...sms, id: ids[0] } },
      { headers: { 'idempotency-key': ids[1] }, body: { ...push, id: ids[1] } },
    ],
  );
  const { text: metrics } = await ask(`http://${daemon.addresses.map(addressOf).join()}/metrics`);
  t.match(metrics, 'fieldpost_outcomes_total{outcome="sent"} 3');
  const noCredit = problem(402, 'no credit left', { 'Retry-After': '60' });
  cloud.answer = ({ path }) => (path === 'messages' ? noCredit : undefined);
  await call('messages', [sms]);
  // Without Retry-After the next offer follows within 1 s, and while it is under way no message waits.
  await until(() => lines.some((line) => line.includes('put behind')));
  t.match(await stateOf(), { state: 'online', reason: /^messages wait: .*402: no credit left/ });
  await daemon.stop();
  // The cloud may still read a request of the sync after the daemon has given it up.
  const goodbye = cloud.calls.findLast(({ path }) => path === 'heartbeat');
  t.match(goodbye?.body, { state: 'stopping', queue: { queued: 1 } });
});

t.test('a new host name holds at once, in EHLO and in the sender; a setting overrides it', async (t) => {
  let hostname = 'vm';
  const system = { ...world().system, hostname: () => hostname };
  await using relay = await fakeRelay({ dot: { raw: '250 ok\r\n', after: 'fin' } });
  const FIELDPOST_RELAY = relayAt(relay.port);
  const env = { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_RELAY };
  const daemon = await createDaemon(configOf(env), system);
  const send = async () => {
    await post(daemon, 'x');
    await relay.arrived(relay.mails.length + 1);
    const hello = relay.commands.findLast((line) => line.startsWith('EHLO'));
    return [hello, relay.mails.at(-1)?.from];
  };
  t.same(await send(), ['EHLO vm', 'fieldpost@vm']);
  hostname = 'pump-3.example.com';
  t.same(await send(), ['EHLO pump-3.example.com', 'fieldpost@pump-3.example.com']);
  hostname = 'no_name';
  t.same(await send(), ['EHLO [127.0.0.1]', 'fieldpost@localhost']);
  const taken = await daemon.reload(
    configOf({ ...env, FIELDPOST_HELO_NAME: '[IPv6:2001:db8::7]', FIELDPOST_FROM: 'a@b.example' }),
  );
  t.same(taken, { taken: ['FIELDPOST_FROM', 'FIELDPOST_HELO_NAME'], waiting: [] });
  t.same(await send(), ['EHLO [IPv6:2001:db8::7]', 'a@b.example']);
  await daemon.stop();
});

t.test('a reload changes neither sender nor Message-ID of a mail that was accepted before', async (t) => {
  const { system } = world();
  await using relay = await fakeRelay();
  const env = { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_RELAY: 'smtp://127.0.0.1:1?tls=never' };
  const daemon = await createDaemon(configOf({ ...env, FIELDPOST_FROM: 'before@one.example' }), system);
  await post(daemon, 'mine');
  const FIELDPOST_RELAY = relayAt(relay.port);
  await daemon.reload(configOf({ ...env, FIELDPOST_RELAY, FIELDPOST_FROM: 'after@two.example' }));
  await post(daemon, 'other');
  await relay.arrived(2);
  for (const [subject, sender] of [
    ['mine', 'before@one.example'],
    ['other', 'after@two.example'],
  ] as const) {
    const mail = relay.mails.find(({ content }) => content.includes(`Subject: ${subject}`));
    t.equal(mail?.from, sender);
    t.ok(mail?.content.includes(`From: <${sender}>\r\n`));
    const [, domain] = sender.split('@');
    t.match(String(mail?.content), new RegExp(`^Message-ID: <\\S+@${domain}>\r$`, 'm'));
  }
  await daemon.stop();
});

t.test('a reload ends the connections to relays only if one of their settings changes', async (t) => {
  await using relay = await fakeRelay();
  const FIELDPOST_RELAY = relayAt(relay.port);
  const env = { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_RELAY };
  const daemon = await createDaemon(configOf(env), world().system);
  const sessionsAfterOneMore = async () => {
    const count = relay.mails.length + 1;
    await post(daemon, 'x');
    await relay.arrived(count);
    return relay.commands.filter((line) => line.startsWith('EHLO')).length;
  };
  t.equal(await sessionsAfterOneMore(), 1);
  const live = {
    FIELDPOST_BACKOFF_MAX: '4m',
    FIELDPOST_RETRY_MIN: '2m',
    FIELDPOST_MAX_AGE_EMAIL: '4d',
  };
  t.same((await daemon.reload(configOf({ ...env, ...live }))).taken, Object.keys(live));
  t.equal(await sessionsAfterOneMore(), 1);
  await daemon.reload(configOf({ ...env, ...live, FIELDPOST_SMTP_TIMEOUT: '9s' }));
  t.equal(await sessionsAfterOneMore(), 2);
  await daemon.stop();
});

t.test('a reload follows another relay, and names the keys that wait for a restart', async (t) => {
  await using relay = await fakeRelay();
  const FIELDPOST_STATE_DIR = t.testdir();
  const daemon = await createDaemon(configOf({ FIELDPOST_STATE_DIR }), world().system);
  await post(daemon, 'kept');
  t.equal(daemon.status(), '1 queued, no relay, cloud disabled');
  const FIELDPOST_RELAY = relayAt(relay.port);
  const next = { FIELDPOST_STATE_DIR, FIELDPOST_RELAY, FIELDPOST_MAX_QUEUE: '1', FIELDPOST_HISTORY: '9' };
  t.same(await daemon.reload(configOf(next)), {
    taken: ['FIELDPOST_RELAY', 'FIELDPOST_MAX_QUEUE'],
    waiting: ['FIELDPOST_HISTORY'],
  });
  await relay.arrived(1);
  t.match(String(relay.mails[0]?.content), /^Subject: kept\r$/m);
  const none = { ...next, FIELDPOST_RELAY: '' };
  t.same((await daemon.reload(configOf(none))).taken, ['FIELDPOST_RELAY']);
  t.equal((await post(daemon, 'one')).status, 202);
  t.equal((await post(daemon, 'two')).status, 429, 'the new limit of the queue');
  t.equal(
    daemon.status(),
    '1 queued, queue full (the queue holds 1 message and takes at most 1), no relay, cloud disabled',
  );
  await daemon.stop();
});

t.test('each limit of requests and of the queue follows a reload', async (t) => {
  const env = { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_MAX_MESSAGE: '1MiB' };
  const daemon = await createDaemon(configOf(env), world().system);
  const mail = { type: 1, destination: 'john@example.com', plain: 'x'.repeat(1000) };
  const mails = () => apiOf(daemon)('messages', [mail, mail]);
  const form = () => {
    const body = new FormData();
    body.set('destination', 'john@example.com');
    body.set('subject', 'x');
    body.set('file', new Blob([new Uint8Array(octets(1_048_000))]), 'a.bin');
    return fetch(`http://${addressOf(daemon.addresses[0] as never)}/api/internal/messages`, {
      method: 'POST',
      body,
    });
  };
  const cases: [key: string, value: string, ask: () => Promise<{ status: number }>, status: number][] = [
    ['FIELDPOST_MAX_BODY', '1KiB', mails, 413],
    ['FIELDPOST_MAX_BATCH', '1', mails, 413],
    ['FIELDPOST_MAX_ATTACHMENTS', '0', form, 413],
    ['FIELDPOST_MAX_MESSAGE', '1KiB', form, 413],
    ['FIELDPOST_MAX_QUEUE', '1', mails, 429],
    ['FIELDPOST_MAX_SPOOL', '4MiB', form, 429],
    ['FIELDPOST_MIN_FREE', '1024GiB', mails, 507],
  ];
  for (const [key, value, ask, status] of cases) {
    t.equal((await ask()).status, 202, `before ${key}`);
    const { taken } = await daemon.reload(configOf({ ...env, [key]: value }));
    t.same([taken, (await ask()).status], [[key], status]);
    await daemon.reload(configOf(env));
  }
  await daemon.stop();
});

t.test('the next pause of a message follows a reload', async (t) => {
  await using relay = await fakeRelay({ rcpt: '451 4.7.1 later' });
  const env = { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_RELAY: relayAt(relay.port) };
  const { system, lines } = world();
  const daemon = await createDaemon(configOf(env), system);
  await daemon.reload(configOf({ ...env, FIELDPOST_RETRY_MIN: '1d', FIELDPOST_RETRY_MAX: '7d' }));
  const [{ id }] = (await post(daemon, 'x')).json;
  await until(() => lines.some((line) => line.includes(`deferred id=${id}`)));
  const { nextAttemptAt } = (await apiOf(daemon)(`messages/${id}`)).json;
  t.ok(Date.parse(nextAttemptAt) > Date.now() + 2 * HOUR_MS, 'later than any pause of before');
  await daemon.stop();
});

t.test(
  'a reload that lowers the age at which an SMS expires holds at once, also without a link',
  async (t) => {
    const clock = new FakeClock();
    const { system, lines } = testSystem({ clock });
    const env = {
      FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
      ...cloudAt('http://127.0.0.1:1'),
    };
    const daemon = await createDaemon(configOf(env), system);
    const sms = [{ type: 2, destination: '+31612345678', message: 'test' }];
    t.equal((await apiOf(daemon)('messages', sms)).status, 202);
    await clock.advance(2 * HOUR_MS);
    t.match(daemon.status(), /^1 queued/);
    await daemon.reload(configOf({ ...env, FIELDPOST_MAX_AGE_SMS: '1h' }));
    // How many turns the disk takes is drawn; the clock stands still.
    await until(() => lines.some((line) => /expired .*too old/.test(line)));
    t.match(daemon.status(), /^0 queued/);
    await daemon.stop();
  },
);

t.test('the address book, alone and then with a cloud', async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  const call = async (daemon: Daemon, path: string, method?: string, value?: object) =>
    (await apiOf(daemon)(path, value, method)).json;
  const PATH = 'offline_notification_destinations';
  const john = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
  const jane = { type: 1, destination: 'jane@example.com', lang: 'nl', name: 'Jane' };
  const uid = '00000000-0000-4000-9000-000000000001';

  const alone = await createDaemon(configOf({ FIELDPOST_STATE_DIR }), world().system);
  t.same(await call(alone, PATH, 'POST', john), { id: 1, plan: 'told at once', ...john });
  const { destinations } = await call(alone, 'state');
  t.match(destinations, { count: 1, synced: false, lastSync: null, reason: /No cloud is configured/ });
  await alone.stop();

  await using cloud = await fakeCloud();
  await cloud.screen.edit(() => [{ uid, ...jane, room: 'B2' }]);
  const { system, lines } = world();
  const env = {
    FIELDPOST_STATE_DIR,
    ...cloudAt(cloud.url),
  };
  const daemon = await createDaemon(configOf(env), system);
  const synced = () => lines.filter((line) => line.includes('destinations synced')).length;
  await until(() => synced() === 1);
  t.match(cloud.screen.entries, [{ uid, room: 'B2' }, john]);
  t.same(await call(daemon, PATH), [
    { id: 1, plan: 'told at once', ...john },
    { id: 2, plan: 'told at once', ...jane },
  ]);
  const put = new Promise<void>((resolve) => {
    cloud.answer = ({ method, path }) => {
      if (method === 'PUT' && path === 'destinations') resolve();
      return undefined;
    };
  });
  await call(daemon, `${PATH}/2`, 'PUT', { ...jane, lang: 'pl' });
  await put;
  await until(() => synced() === 2);
  t.match(cloud.screen.entries, [{ uid, lang: 'pl', room: 'B2' }, john]);
  t.match((await call(daemon, 'state')).destinations, { count: 2, hidden: 0, synced: true, reason: null });
  await cloud.screen.edit(() => [{ uid, ...jane, name: 'Janet' }]);
  await call(daemon, 'queue/flush', 'POST');
  await until(() => synced() === 3);
  t.match(await call(daemon, PATH), [{ id: 2, name: 'Janet' }], 'a flush syncs at once');
  await daemon.stop();
  t.equal(cloud.calls.at(-1)?.body.state, 'stopping', 'the goodbye is the last that the cloud hears');
});

for (const hasCloud of [true, false]) {
  t.test(`a network change wakes relay${hasCloud ? ' and cloud' : ''} at once`, async (t) => {
    await using cloud = await fakeCloud();
    cloud.answer = () => problem(503, 'not yet');
    const { system, lines } = world();
    // Long after the boot: in its first minutes a new network wakes the link within 25 s.
    const clock = new FakeClock({ bootMs: HOUR_MS });
    let changed = () => {};
    let isWatching = true;
    const watchNetwork = (onChange: () => void) => {
      changed = onChange;
      return {
        close() {
          isWatching = false;
        },
      };
    };
    let isOpen = false;
    await using relay = await fakeRelay({ greeting: () => (isOpen ? undefined : '421 4.3.2 not yet') });
    const env = {
      FIELDPOST_STATE_DIR: t.testdir(),
      FIELDPOST_RELAY: relayAt(relay.port),
      ...(hasCloud && cloudAt(cloud.url)),
      FIELDPOST_BACKOFF_MIN: '1h',
      FIELDPOST_BACKOFF_MAX: '1d',
    };
    const daemon = await createDaemon(configOf(env), { ...system, clock, watchNetwork });
    const said = (words: string) => lines.some((line) => line.includes(words));
    await post(daemon, 'waits');
    await until(() => said('relay failing'));
    while (hasCloud && !said('link offline')) await clock.advance(1000);

    isOpen = true;
    cloud.answer = () => undefined;
    changed();
    await relay.arrived(1);
    await until(() => !hasCloud || said('link online'));
    // A stop waits for timers.
    const stopped = daemon.stop();
    await clock.advance(60_000);
    await stopped;
    t.notOk(isWatching);
  });
}

t.test('a daemon that cannot listen leaves nothing running', async (t) => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as { port: number };
  const FIELDPOST_STATE_DIR = t.testdir();
  const taken = configOf({ FIELDPOST_STATE_DIR, FIELDPOST_LISTEN: `127.0.0.1:${port}` });
  await t.rejects(createDaemon(taken, world().system), {
    code: 'unavailable',
    message: new RegExp(`:${port}`),
  });
  other.close();
  const daemon = await createDaemon(taken, world().system);
  await t.rejects(createDaemon(configOf({ FIELDPOST_STATE_DIR }), world().system), {
    code: 'already-running',
  });
  await daemon.stop();
});

t.test('a daemon that cannot be built leaves nothing running', async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  const config = configOf({ FIELDPOST_STATE_DIR, ...cloudAt('https://cloud.example') });
  const openHttps = () => {
    throw new Error('no https');
  };
  await t.rejects(createDaemon(config, { ...world().system, openHttps }), { message: 'no https' });
  const daemon = await createDaemon(configOf({ FIELDPOST_STATE_DIR }), world().system);
  await daemon.stop();
});

t.test('a stop goes on after a step that fails', async (t) => {
  const { system, lines } = world();
  const disk = { ...system.disk };
  const daemon = await createDaemon(configOf({ FIELDPOST_STATE_DIR: t.testdir() }), {
    ...system,
    disk,
    takeLock: async (path) => {
      const lock = await system.takeLock(path);
      return {
        async release() {
          await lock.release();
          throw new Error('the lock is stuck');
        },
      };
    },
  });
  await t.rejects(daemon.stop(), { message: 'the lock is stuck' });
  t.match(lines.join(''), /stop failed reason="the lock is stuck"\n.*stopped/);
});
