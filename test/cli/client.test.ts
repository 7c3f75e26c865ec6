import { createServer } from 'node:net';
import t from 'tap';
import { FakeClock } from '../support/clock.js';
import { socketPath } from '../support/short-directory.js';
import { failure, fieldpost, listing, message, preparedDaemon, type World } from './terminal.js';

const STATE = {
  link: {
    state: 'online',
    since: '2026-11-20T08:00:00.000Z',
    lastHeartbeat: '2026-11-20T08:59:40.000Z',
    reason: null,
    history: [],
  },
  relay: { state: 'ok', since: '2026-11-20T08:00:00.000Z', reason: null },
  queue: { queued: 0, sending: 0, deferred: 0, failed: 0, oldestAgeMs: 0, bytes: 0, held: false },
  destinations: { count: 4, synced: true, lastSync: '2026-11-20T08:00:00.000Z' },
  storage: { state: 'ok', reason: null, freeBytes: 123_456_789, damaged: 0 },
  clock: { trusted: true },
  version: '0.1.0',
  uptimeMs: 12_345_000,
};
const GET_STATE = 'GET /api/internal/state';

/** A daemon that accepts mails. */
const mailDaemon = (headers: Record<string, string> = {}) =>
  preparedDaemon({
    'POST /api/internal/messages': { status: 202, body: [{ id: '01A', destination: 'a@b' }], headers },
  });

/** `fieldpost status` of a daemon in this state. */
async function statusOf(state: unknown, argv: string[] = [], world: World = {}) {
  await using daemon = await preparedDaemon({ [GET_STATE]: { status: 200, body: state } });
  return await daemon.run(['status', ...argv], world);
}

t.test('status: all is well', async (t) => {
  const { code, out, err } = await statusOf(STATE);
  t.same([code, err], [0, '']);
  t.match(out, /^Fieldpost 0\.1\.0, up 3 h 25 min: all is well/);
  t.match(
    out,
    /^relay +ok since .*\nqueue +empty.*\ncloud +online .*\naddress book +4 .*\nstorage +ok, 117 MiB/m,
  );
  t.strictSame(JSON.parse((await statusOf(STATE, ['--json'])).out), STATE);
});

t.test('status: faults are reported in words, and a network that is down is no failure', async (t) => {
  const { code, out } = await statusOf({
    ...STATE,
    link: { ...STATE.link, state: 'offline', reason: 'no route to host' },
    relay: { state: 'failing', since: '2026-11-20T08:00:00Z', reason: 'bad \u001b[2J certificate' },
    queue: { queued: 2, sending: 1, deferred: 1, failed: 1, oldestAgeMs: 240_000, bytes: 12_400, held: true },
    destinations: { count: 1, hidden: 2, synced: false, lastSync: null, reason: 'it says no' },
    clock: { trusted: false },
    settings: { state: 'refused', since: null, reason: 'X=loud' },
  });
  t.equal(code, 0);
  t.match(out, /^relay +failing since 2026-11-20 08:00:00 UTC: bad \\u001b\[2J certificate$/m);
  t.match(
    out,
    /^queue +4 messages waiting \(1 being sent, 1 deferred, the oldest for 4 min\), 12 KiB on disk$/m,
  );
  t.match(out, /^ +delivery is on hold: fieldpost queue release/m);
  t.match(out, /^ +1 message failed: fieldpost queue list --status failed/m);
  t.match(out, /^cloud +offline .*: no route to host$/m);
  t.match(out, /^address book +1 destination, not yet in step with the cloud: it says no$/m);
  t.match(out, /^ +2 more in the cloud, which/m);
  t.match(out, /^clock +the time of day is not confirmed/m);
  t.match(out, /^settings +refused: X=loud \(the last good ones are used\)$/m);
});

t.test('status: storage that cannot store is exit status 75', async (t) => {
  const storage = { state: 'failed', reason: 'the disk refuses to sync', freeBytes: 1024, damaged: 2 };
  const { code, out } = await statusOf({ ...STATE, storage });
  t.equal(code, 75);
  t.match(out, /^storage +failed: the disk refuses to sync, 1 KiB free\n +2 pieces .* damaged/m);
  const newer = ['00000007.log.newer', 'store.json.newer'];
  const aside = await statusOf({ ...STATE, storage: { ...storage, newer, unusable: ['store.json'] } });
  t.match(aside.out, /^ +a newer version wrote 00000007\.log\.newer, store\.json\.newer: put aside/m);
  t.match(aside.out, /^ +store\.json can be neither read nor renamed: check the file system/m);
  t.notMatch(aside.out, /pieces/, 'files of a newer version are not damage');
  t.equal((await statusOf({ ...STATE, storage: { ...storage, state: 'full' } }, ['--json'])).code, 75);
});

t.test('status: how full the queue is; a full one is exit status 75', async (t) => {
  const room = {
    used: { messages: 9, bytes: 2048, memoryBytes: 1024 },
    limits: { messages: 10, bytes: 4096, memoryBytes: 3072 },
  };
  const queue = { ...STATE.queue, queued: 9, ...room, full: false, reason: null };
  const { code, out } = await statusOf({ ...STATE, queue });
  t.equal(code, 0);
  t.match(out, /^ +room: 9 of 10 messages, 2 KiB of 4 KiB on disk, 1 KiB of 3 KiB of memory used$/m);
  const full = await statusOf({ ...STATE, queue: { ...queue, full: true, reason: 'no \u001b[2J room' } });
  t.equal(full.code, 75);
  t.match(full.out, /^ +full, messages are refused, but urgent ones are still taken: no \\u001b\[2J room$/m);
  const used = { ...room.used, messages: 10 };
  const quite = await statusOf({ ...STATE, queue: { ...queue, used, full: true, reason: 'no room' } });
  t.match(quite.out, /^ +full, messages are refused: no room$/m);
  const unlimited = { ...queue, limits: { ...room.limits, memoryBytes: null } };
  t.match((await statusOf({ ...STATE, queue: unlimited })).out, /, 2 KiB of 4 KiB on disk used$/m);
});

t.test('status: parts that are not configured, or that a daemon leaves out', async (t) => {
  const bare = {
    ...STATE,
    link: { state: 'disabled', since: null, lastHeartbeat: null, reason: null },
    relay: { state: 'none', since: null, reason: null },
  };
  const { out } = await statusOf(bare);
  t.match(out, /^relay +none is configured \(FIELDPOST_RELAY\): messages are held$/m);
  t.match(out, /^cloud +none is configured$/m);
  t.match(out, /^address book +4 destinations, but without a cloud nobody is told$/m);
  const none = { ...STATE.destinations, count: 0 };
  t.match((await statusOf({ ...bare, destinations: none })).out, /^address book +0 destinations$/m);
  const unseen = { ...STATE, storage: { ...STATE.storage, freeBytes: null } };
  t.match((await statusOf(unseen)).out, /^storage +ok$/m);
  t.match((await statusOf({ ...STATE, relay: { state: 'unknown' } })).out, /^relay +not tried yet$/m);
  const refused = { ...STATE, relay: { state: 'unknown', reason: 'h:25: no' } };
  t.match((await statusOf(refused)).out, /^relay +has taken nothing yet: h:25: no$/m);
  t.equal((await statusOf({ version: '9' })).out, 'Fieldpost 9, up 0 s\n');
});

t.test('no daemon: a sentence, what to do, and exit status 69', async (t) => {
  const daemon = await preparedDaemon({});
  await daemon[Symbol.asyncDispose]();
  const { code, out, err } = await daemon.run(['status']);
  t.equal(code, 69);
  t.equal(out, '');
  t.match(
    err,
    `fieldpost: no daemon answers on ${daemon.env.FIELDPOST_LISTEN}\nIs the service running? systemctl status fieldpost\n`,
  );
  const socket = await fieldpost(['status'], { env: { FIELDPOST_LISTEN: 'unix:/nonexistent/api.sock' } });
  t.equal(socket.code, 69);
  t.match(socket.err, /no daemon answers on unix:\/nonexistent/);
});

t.test('a daemon that hangs, hangs up, or is another program', async (t) => {
  const clock = new FakeClock();
  const silent = createServer(() => void clock.advance(30_000));
  const rude = createServer((socket) => socket.destroy());
  for (const server of [silent, rude])
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const env = (server: typeof silent) => ({
    FIELDPOST_LISTEN: `127.0.0.1:${(server.address() as { port: number }).port}`,
  });
  const hanging = await fieldpost(['status'], { env: env(silent), clock });
  t.equal(hanging.code, 69);
  t.match(hanging.err, /does not answer/);
  t.equal((await fieldpost(['status'], { env: env(rude) })).code, 69);
  silent.close();
  rude.close();
  await using page = await preparedDaemon({
    [GET_STATE]: { status: 200, body: '<html>', type: 'text/html' },
  });
  const foreign = await page.run(['status']);
  t.equal(foreign.code, 69);
  t.match(foreign.err, /is not Fieldpost/);
});

t.test('over a unix socket, which gets no token', async (t) => {
  await using daemon = await preparedDaemon({ [GET_STATE]: { status: 200, body: STATE } }, socketPath(t));
  const files = { '/token': 'abc\n' };
  const env = {
    ...daemon.env,
    FIELDPOST_API_TOKEN_FILE: '/token',
    FIELDPOST_RETRY_MIN: 'nonsense',
    FIELDPOST_TEAPOT: 'x',
  };
  const clock = new FakeClock();
  const { code } = await fieldpost(['status'], { env, files, clock });
  t.equal(clock.pending, 0, 'no deadline outlives its call');
  t.equal(code, 0, 'faults in other settings do not matter');
  t.match(daemon.asked, [{ headers: { host: 'localhost', authorization: undefined } }]);
  const unreadable = await fieldpost(['status'], { env, files: { '/token': failure('EACCES', '/token') } });
  t.equal(unreadable.code, 78);
  t.match(unreadable.err, /FIELDPOST_API_TOKEN_FILE.*EACCES/);
});

t.test('a refusal shows the sentence of the daemon; its status decides the exit status', async (t) => {
  const problem = {
    title: 'No',
    detail: 'because \u001b]0;x',
    errors: [{ pointer: '/0/destination', detail: 'is\u009b empty' }],
  };
  for (const [status, wanted] of Object.entries({ 408: 75, 403: 77, 422: 65, 429: 75, 500: 75 })) {
    await using daemon = await preparedDaemon({ [GET_STATE]: { status: Number(status), body: problem } });
    const { code, err } = await daemon.run(['status']);
    t.equal(code, wanted, status);
    t.match(err, /^fieldpost: because \\u001b\]0;x\n {2}\/0\/destination: is\\u009b empty\n/);
  }
});

t.test('a missing token and a wrong one are told apart', async (t) => {
  await using daemon = await preparedDaemon({ [GET_STATE]: { status: 401, body: { detail: 'no' } } });
  const { FIELDPOST_LISTEN } = daemon.env;
  const missing = await daemon.run(['status']);
  t.equal(missing.code, 77);
  t.match(
    missing.err,
    `fieldpost: the daemon on ${FIELDPOST_LISTEN} asks for a token, and none is given\nThe token is in`,
  );
  const wrong = await daemon.run(['status'], { env: { ...daemon.env, FIELDPOST_API_TOKEN: 'x' } });
  t.equal(wrong.code, 77);
  t.match(wrong.err, `fieldpost: the daemon on ${FIELDPOST_LISTEN} refuses the token: it is another one\n`);
});

t.test('unix sockets are tried before TCP, and without a token', async (t) => {
  const path = socketPath(t);
  const ok = { [GET_STATE]: { status: 200, body: STATE } };
  await using tcp = await preparedDaemon(ok);
  const gone = 'unix:/nonexistent/s';
  const env = {
    FIELDPOST_LISTEN: `${tcp.env.FIELDPOST_LISTEN},${gone},unix-send:${path}-send,unix:${path}`,
    FIELDPOST_API_TOKEN: 'abc',
  };
  t.equal((await fieldpost(['status'], { env })).code, 0);
  t.match(tcp.asked, [{ headers: { authorization: 'Bearer abc' } }], 'no socket is there');
  await using socket = await preparedDaemon(ok, path);
  await using _sending = await preparedDaemon({}, `${path}-send`);
  t.equal((await fieldpost(['status'], { env })).code, 0);
  t.match(socket.asked, [{ headers: { authorization: undefined } }]);
  t.equal(tcp.asked.length, 1);
});

t.test('what tells most of why no way works is told', async (t) => {
  await using tcp = await preparedDaemon({ [GET_STATE]: { status: 401, body: {} } });
  const { FIELDPOST_LISTEN } = tcp.env;
  const listen = (...others: string[]) => ({ FIELDPOST_LISTEN: [...others, FIELDPOST_LISTEN].join() });
  t.match(await fieldpost(['status'], { env: listen('unix:/nonexistent/s') }), {
    code: 77,
    err: /none is given/,
  });
  const wrong = { ...listen('unix:/nonexistent/s'), FIELDPOST_API_TOKEN: 'x' };
  t.match(await fieldpost(['status'], { env: wrong }), { code: 77, err: /refuses the token/ });
  await using page = await preparedDaemon({ [GET_STATE]: { status: 200, body: '<p>', type: 'text/html' } });
  const foreign = {
    FIELDPOST_LISTEN: `unix:/nonexistent/s,${page.env.FIELDPOST_LISTEN},unix-send:/nonexistent/t`,
  };
  t.match(await fieldpost(['status'], { env: foreign }), { code: 69, err: /is not Fieldpost/ });
});

t.test('with the settings of the service its sockets are tried, too', async (t) => {
  const path = socketPath(t);
  const ok = { [GET_STATE]: { status: 200, body: STATE } };
  await using tcp = await preparedDaemon(ok);
  await using socket = await preparedDaemon(ok, path);
  const sockets = [
    { kind: 'unix', path: `${path}-send`, sendOnly: true },
    { kind: 'unix', path },
  ] as const;
  const text = `FIELDPOST_LISTEN=${tcp.env.FIELDPOST_LISTEN}\n`;
  const files = { '/etc/fieldpost/fieldpost.env': text };
  t.equal((await fieldpost(['status'], { files, sockets })).code, 0);
  t.same([socket.asked.length, tcp.asked.length], [1, 0]);
  t.equal((await fieldpost(['status'], { env: tcp.env, sockets })).code, 0);
  t.same([socket.asked.length, tcp.asked.length], [1, 1], 'own settings may be those of another daemon');
  const gone = sockets.map((one) => ({ ...one, path: '/nonexistent/s' }));
  t.equal((await fieldpost(['status'], { files, sockets: gone })).code, 0);
  t.same([socket.asked.length, tcp.asked.length], [1, 2]);
});

t.test('a token over TCP is only for a program of root, of the service or of this user', async (t) => {
  await using daemon = await preparedDaemon({ [GET_STATE]: { status: 200, body: STATE } });
  const { FIELDPOST_LISTEN = '' } = daemon.env;
  const port = Number(FIELDPOST_LISTEN.split(':')[1]);
  const uids: Record<string, number> = { '/proc/self': 1000, '/var/lib/fieldpost': 990, '/srv/state': 991 };
  const told: unknown[] = [];
  const statusFor = (listening: readonly number[], more: Record<string, string> = {}, uidOf = uids) =>
    fieldpost(['status'], {
      env: { ...daemon.env, FIELDPOST_API_TOKEN: 'abc', ...more },
      statOf: (path) => (uidOf[path] === undefined ? null : { uid: uidOf[path], mode: 0 }),
      async listenerUids(...where) {
        told.push(where);
        return listening;
      },
    });
  for (const uid of [0, 990, 1000]) t.equal((await statusFor([uid])).code, 0, `user ${uid}`);
  t.equal((await statusFor([])).code, 0, 'the kernel does not tell');
  t.equal((await statusFor([65_534], {}, {})).code, 0, 'without /proc');
  t.same(told, Array(4).fill(['127.0.0.1', port]));
  t.equal((await statusFor([991], { FIELDPOST_STATE_DIR: '/srv/state' })).code, 0);
  const before = daemon.asked.length;
  t.match(await statusFor([991]), {
    code: 77,
    err: `fieldpost: a program of user 991 listens on ${FIELDPOST_LISTEN}: it does not get the token\n`,
  });
  t.equal((await statusFor([0, 65_534])).code, 77, 'one of several');
  // A relative directory, such as the default, is anybody's.
  const relative = await statusFor([992], {}, { ...uids, './.fieldpost': 992 });
  t.equal(relative.code, 77);
  t.equal((await statusFor([61_184])).code, 77, 'the owner is known');
  const shut = { '/proc/self': 1000 };
  for (const uid of [1001, 61_183, 65_520, 65_534]) {
    t.equal((await statusFor([uid], {}, shut)).code, 77, `user ${uid}, and no state directory can be seen`);
  }
  t.equal((await statusFor([61_184, 1001], {}, shut)).code, 77);
  t.equal(daemon.asked.length, before, 'nothing is sent');
  for (const uid of [61_184, 65_519]) t.equal((await statusFor([uid], {}, shut)).code, 0, 'DynamicUser=');
});

t.test('send: one request, also for a mail to each', async (t) => {
  const ids = [
    { id: '01A', type: 1, destination: 'a@x.example', status: 'queued' },
    { id: '01B', type: 1, destination: 'b@x.example', status: 'queued' },
  ];
  await using daemon = await preparedDaemon({ 'POST /api/internal/messages': { status: 202, body: ids } });
  const to = ['--to', 'a@x.example', '--to=b@x.example'];
  const argv = ['send', ...to, '--subject', 'S', '--body', 'B', '--html', '<p>', '--idempotency-key', 'k-1'];
  const { code, out } = await daemon.run(argv);
  t.equal(code, 0);
  t.equal(out, '01A is queued for a@x.example\n01B is queued for b@x.example\n');
  await daemon.run([...argv, '--each']);
  const [asked, each] = daemon.asked;
  const mail = { subject: 'S', plain: 'B', html: '<p>' };
  t.strictSame(asked?.body, [{ type: 1, destination: 'a@x.example', to: ['b@x.example'], ...mail }]);
  t.strictSame(each?.body, [
    { type: 1, destination: 'a@x.example', ...mail },
    { type: 1, destination: 'b@x.example', ...mail },
  ]);
  t.match(asked?.headers, {
    host: 'localhost',
    'idempotency-key': 'k-1',
    'content-type': 'application/json',
  });
  t.strictSame(JSON.parse((await daemon.run([...argv, '--json'])).out), ids);
});

t.test('send: text from standard input, in UTF-8; a repeated key says so', async (t) => {
  await using daemon = await mailDaemon({ 'idempotency-replayed': 'true' });
  const send = (word: string, stdin: NonNullable<World['stdin']>) =>
    daemon.run(['send', '--to', 'a@b', word], { stdin });
  const euro = Buffer.from('€');
  const utf8 = await send('-', [euro.subarray(0, 1), euro.subarray(1)]);
  const latin1 = await send('--body=-', [Buffer.from('caf\u00e9\n', 'latin1')]);
  t.equal(latin1.code, 65);
  t.match(latin1.err, /not UTF-8\niconv/);
  await send('-', 'said \uFFFD');
  await send('--body=-x', 'unread');
  t.strictSame(
    daemon.asked.map(({ body }) => (body as { plain: string }[])[0]?.plain),
    ['€', 'said \uFFFD', '-x'],
  );
  t.equal(utf8.out, '01A was queued before for a@b\n');
});

t.test('send: piped input is the text if no other is given', async (t) => {
  await using daemon = await mailDaemon();
  const send = (argv: readonly string[], world: World) => daemon.run(['send', '--to', 'a@b', ...argv], world);
  const subject = ['--subject', 'x'];
  const piped: World = { stdinKind: () => 'piped' };
  await send([], { ...piped, stdin: 'the text\n' });
  await send(subject, { ...piped, stdin: 'the text\n' });
  await send(subject, { stdinKind: () => 'socket', stdin: 'the text\n' });
  t.equal((await send(subject, { ...piped, stdin: '' })).code, 0, 'cron gives an empty pipe');
  await send(subject, { stdinKind: () => 'none', stdin: 'of a terminal' });
  await send([...subject, '--body', 'given'], { ...piped, stdin: 'unread' });
  await send([...subject, '--html', '<b>'], { ...piped, stdin: 'unread' });
  t.equal((await send([], { ...piped, stdin: '' })).code, 64, 'no text at all');
  t.equal((await send([], { ...piped, stdin: [Buffer.from([0xff])] })).code, 65, 'not UTF-8');
  t.strictSame(
    daemon.asked.map(({ body }) => (body as { plain?: string }[])[0]?.plain),
    ['the text\n', 'the text\n', 'the text\n', undefined, undefined, 'given', undefined],
  );
});

t.test('send: a silent socket delays a mail by 2 s at most', async (t) => {
  await using daemon = await mailDaemon();
  const clock = new FakeClock();
  const silent = (async function* () {
    void clock.advance(2000);
    await new Promise(() => undefined);
    yield Buffer.alloc(0);
  })();
  const world: World = { clock, stdinKind: () => 'socket', stdin: silent };
  t.equal((await daemon.run(['send', '--to', 'a@b', '--subject', 'x'], world)).code, 0);
});

t.test('send: standard input is read up to 64 MiB', async (t) => {
  const mebibyte = Buffer.alloc(1024 * 1024, 'y');
  const world = { env: { FIELDPOST_LISTEN: 'unix:/nonexistent' }, stdin: Array(65).fill(mebibyte) };
  const { code, err } = await fieldpost(['send', '--to', 'a@b', '-'], world);
  t.equal(code, 65);
  t.match(err, /longer than 64 MiB/);
});

t.test('send: wrong use', async (t) => {
  const cases: [string[], RegExp][] = [
    [['send'], /address is missing/],
    [['send', '--to', 'a@b'], /nothing to send/],
    [['send', '--to', 'a@b', '--body', 'x', '--body', 'y'], /--body is given more than once/],
    [['send', '--to', 'a@b', 'hello'], /unknown word hello/],
    [['send', '--to', 'a@b', '--body', 'x', '-'], /not both/],
    [['send', '--to', 'a@b', '--body', 'x', '--idempotency-key', 'a\r\nb: c'], /visible ASCII/],
  ];
  for (const [argv, words] of cases) {
    const { code, err } = await fieldpost(argv, { env: { FIELDPOST_LISTEN: 'unix:/nonexistent' } });
    t.equal(code, 64, argv.join(' '));
    t.match(err, words);
  }
});

t.test('queue: waiting messages, newest first, with the reply of the relay', async (t) => {
  const deferred = message('01B', {
    type: 2,
    status: 'deferred',
    attempts: 3,
    lastReply: '451 later\u001b[2J',
    nextAttemptAt: '2026-11-20T09:04:30.000Z',
    destination: '+31\u202e6',
  });
  const urgent = message('01A', { priority: 'high', subject: `Pump\u202e ${'x'.repeat(60)}` });
  await using daemon = await preparedDaemon({
    ...listing('sending', [message('01D', { status: 'sending' })]),
    ...listing('queued', [message('01D'), message('01C')], '01C'),
    ...listing('queued', [urgent], null, '&after=01C'),
    ...listing('deferred', [deferred]),
  });
  const { code, out } = await daemon.run(['queue']);
  t.equal(code, 0);
  t.match(out, /^01A +email .* queued ! +01A@x\.example +Pump\\u202e x/m, 'urgent');
  t.match(
    out,
    /^01B +sms .* deferred +\+31\\u202e6\n +\(451 later\\u001b\[2J; 3 attempts; next in 4 min\)$/m,
  );
  const asJson = (await daemon.run(['queue', 'list', '--json'])).out;
  t.strictSame(
    JSON.parse(asJson).map((one: { id: string }) => one.id),
    ['01D', '01C', '01B', '01A'],
  );
  t.notOk(asJson.includes('\u001b') || asJson.includes('\u202e'));
  t.equal(JSON.parse(asJson)[2].destination, '+31\u202e6');
});

t.test('queue: empty, or by status', async (t) => {
  await using daemon = await preparedDaemon({
    ...listing('sending', []),
    ...listing('queued', []),
    ...listing('deferred', []),
    ...listing('failed', [message('01F', { status: 'failed', lastReply: '550 no' })]),
    ...listing('sent', []),
  });
  t.equal((await daemon.run(['queue'])).out, 'The queue is empty.\n');
  t.match(
    (await daemon.run(['queue', 'list', '--status', 'failed'])).out,
    /01F.*\n {4}\(550 no\)\n\n1 failed message\.\n/,
  );
  t.equal((await daemon.run(['queue', '--status=sent'])).out, 'No message is sent.\n');
  t.equal((await daemon.run(['queue', '--status=lost'])).code, 64);
  t.equal((await daemon.run(['queue', 'flush', '--status=sent'])).code, 64);
  t.match(await daemon.run(['queue', 'retry', '--status=sent']), {
    code: 64,
    err: 'fieldpost: queue retry accepts ids, or --status failed\n',
  });
});

t.test('purge', async (t) => {
  await using daemon = await preparedDaemon({
    'POST /api/internal/queue/purge': { status: 200, body: {} },
    'POST /api/internal/queue/purge?damaged=true': { status: 507, body: { detail: 'no room' } },
  });
  const purge = (...argv: string[]) => daemon.run(['purge', ...argv]);
  t.strictSame(await purge(), {
    code: 0,
    out: 'The content of finished messages is overwritten.\n',
    err: '',
  });
  t.match(await purge('--damaged'), { code: 75, err: /no room/ });
  t.equal((await purge('all')).code, 64);
  t.same(JSON.parse((await purge('--json')).out), { done: 'purge' });
});

t.test('queue: show, retry, cancel, flush, hold, release', async (t) => {
  const conflict = { status: 409, body: { detail: 'it is\u001b[2J final' } };
  await using daemon = await preparedDaemon({
    'GET /api/internal/messages/01A': {
      status: 200,
      body: message('01A', {
        lastReply: 'no\u001b[2J',
        attachments: [
          { name: 'a\u202e.txt', type: 'text/plain', size: 2048 },
          { name: 'b', type: 'image/png', size: 1 },
        ],
      }),
    },
    'POST /api/internal/messages/01A/retry': { status: 202 },
    'POST /api/internal/messages/01B/retry': conflict,
    'DELETE /api/internal/messages/01A': { status: 204 },
    'DELETE /api/internal/messages/a%2Fb': { status: 204 },
    'POST /api/internal/queue/flush': { status: 202 },
    'POST /api/internal/queue/hold': { status: 202, body: {} },
    'POST /api/internal/queue/release': { status: 202 },
  });
  const queue = (...argv: string[]) => daemon.run(['queue', ...argv]);
  const shown = await queue('show', '01A');
  t.match(shown.out, /^destination +01A@x\.example$/m);
  t.match(shown.out, /^lastReply +no\\u001b\[2J$/m);
  t.match(shown.out, /^type +email$/m);
  t.match(shown.out, /^attachments +a\\u202e\.txt \(text\/plain, 2 KiB\), b \(image\/png, 1 byte\)$/m);
  t.notMatch(shown.out, /nextAttemptAt/);
  t.equal(JSON.parse((await queue('show', '01A', '--json')).out).id, '01A');
  t.equal(JSON.parse((await queue('show', '01A', '01A', '--json')).out).length, 2);
  const retried = await queue('retry', '01B', '01A', '01B');
  t.strictSame(
    retried,
    { code: 65, out: '01A is due now\n', err: 'fieldpost: it is\\u001b[2J final\n'.repeat(2) },
    'one refusal does not stop the rest, and none controls the terminal',
  );
  const cancelled = await queue('cancel', '01A', 'a/b');
  t.match(cancelled, { code: 0, out: /^01A will not be sent\n/ });
  t.equal((await queue('cancel', '01Z')).code, 65);
  const asJson = await queue('retry', '01A', '01B', '--json');
  t.match(asJson, { code: 65, err: /final/ });
  t.same(JSON.parse(asJson.out), [{ id: '01A', done: 'is due now' }]);
  t.match(JSON.parse((await queue('cancel', 'a/b', '--json')).out), [{ id: 'a/b' }]);
  t.same(JSON.parse((await queue('hold', '--json')).out), { done: 'hold' });
  t.equal((await queue('flush')).out, 'Everything is due now.\n');
  t.equal((await queue('hold')).code, 0);
  t.equal((await queue('release')).code, 0);
  for (const argv of [['retry'], ['show'], ['flush', 'x'], ['list', 'x']])
    t.equal((await queue(...argv)).code, 64, argv.join(' '));
});
