/** `fieldpost sendmail`: its options, its input, and its exit statuses, against servers that answer as told. */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { INPUT_BYTES_MAX } from '../../src/cli/client.js';
import { wordsOfCall } from '../../src/cli/device.js';
import { INPUT_MEMORY_BYTES, SENDMAIL_TRY_MS } from '../../src/cli/sendmail.js';
import { startApi } from '../support/api.js';
import { FakeClock } from '../support/clock.js';
import { shortDirectory, socketPath } from '../support/short-directory.js';
import { envOf, failure, fieldpost, type World } from './terminal.js';

const MAIL = 'Subject: x\n\nhello\n';
const QUEUED = { status: 202, body: [{ id: '01A', type: 1, destination: 'a@b', status: 'queued' }] };

interface Got {
  readonly method: string;
  readonly path: string;
  readonly target: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly mail: string;
}

type Reply = { readonly status: number; readonly body?: unknown } | 'reset';

/** A server that keeps the requests and answers the `n`th as `reply` says; `where` is a port of 0, or a socket's path. */
async function maildrop(reply: (n: number, got: Got) => Reply = () => QUEUED, where: number | string = 0) {
  const got: Got[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
    const { method = '', headers } = request;
    const mail = Buffer.concat(chunks).toString('latin1');
    const one = { method, target: request.url ?? '', path: pathname, query: searchParams, headers, mail };
    const answer = reply(got.push(one), one);
    if (answer === 'reset') return void request.socket.destroy();
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(answer.body === undefined ? '' : JSON.stringify(answer.body));
  });
  await listening(server, where);
  const env = {
    FIELDPOST_LISTEN:
      typeof where === 'string' ? `unix:${where}` : `127.0.0.1:${(server.address() as AddressInfo).port}`,
  };
  return {
    got,
    env,
    run: (argv: readonly string[], world: World = {}) =>
      fieldpost(['sendmail', ...argv], { env, stdin: MAIL, ...world }),
    [Symbol.asyncDispose]: () => closed(server),
  };
}

const listening = (server: Server, where: number | string) =>
  new Promise<void>((resolve) => {
    if (typeof where === 'string') server.listen(where, resolve);
    else server.listen(where, '127.0.0.1', resolve);
  });

const closed = (server: Server) =>
  new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });

t.test('what callers pass: recipients and sender', async (t) => {
  await using drop = await maildrop();
  const rows: [argv: string, to: string[], from: string | null][] = [
    ['root', ['root'], null],
    ['-i -FCronDaemon -B8BITMIME -oem root', ['root'], null],
    ['-FCronDaemon -odi -oem -oi -t', ['headers'], null],
    ['-t -i', ['headers'], null],
    ['-ti', ['headers'], null],
    ['-oi -oem -odb -bm a@x.example b@x.example', ['a@x.example', 'b@x.example'], null],
    ['-f me@x.example -- a@x.example', ['a@x.example'], 'me@x.example'],
    ['-fme@x.example a@x.example', ['a@x.example'], 'me@x.example'],
    ['-r me@x.example a@x.example', ['a@x.example'], 'me@x.example'],
    ['-f <me@x.example> a@x.example', ['a@x.example'], 'me@x.example'],
    ['-f <> a@x.example', ['a@x.example'], ''],
    ['-f www-data a@x.example', ['a@x.example'], null],
    ['-F Somebody -N never -R hdrs -V id -h 3 -L tag -X log -O Timeout.x=1 -C cf -p x a@x', ['a@x'], null],
    ['-v -U -G -n -s -m -c -x -Am -d0-99.1 -em a@x', ['a@x'], null],
    ['-- -f', ['-f'], null],
    ['a@x -t', ['a@x', '-t'], null],
  ];
  for (const [argv, to, from] of rows) {
    const { code, out, err } = await drop.run(argv.split(' '));
    t.same([code, out, err], [0, '', ''], argv);
    const { method, path, query } = drop.got.pop() as Got;
    t.same(
      [method, path, query.getAll('to'), query.get('from')],
      ['POST', '/api/internal/messages', to, from],
      argv,
    );
  }
  const list = '"Doe, John" <john+x@x.example>, root (the, admin)';
  await drop.run([list, '<a@x>']);
  t.same(drop.got.at(-1)?.query.getAll('to'), [list, '<a@x>'], 'the daemon reads lists');
  t.notMatch(drop.got.at(-1)?.target, '+', 'a blank is no plus');
  await drop.run(['-f', 'Joe <joe@x.example>', 'root']);
  t.equal(drop.got.at(-1)?.query.get('from'), 'joe@x.example');
});

t.test('with -t the recipients of the command line are added', async (t) => {
  await using drop = await maildrop();
  await drop.run(['-t', 'root', 'joe@x.example']);
  t.same(drop.got[0]?.query.getAll('to'), ['headers', 'root', 'joe@x.example']);
  t.equal(drop.got[0]?.mail, MAIL);
  for (const argv of [['-t', 'root\nSubject: y'], ['root\r']])
    t.match(await drop.run(argv), { code: 65, err: /^sendmail: "root\\[nr].*" is not an email address\n$/ });
  t.equal(drop.got.length, 1);
  await drop.run(['headers']);
  t.same(drop.got[1]?.query.getAll('to'), ['<headers>'], 'a user of this name, and not the header');
});

t.test('wrong usage is told in one line, and nothing is sent', async (t) => {
  await using drop = await maildrop();
  const rows: [argv: string[], words: RegExp][] = [
    [[], /-t/],
    [['-i'], /recipients/],
    [[''], /recipients/],
    [['-bs'], /-bs is not supported.*FIELDPOST_SMTP_LISTEN/],
    [['-bd'], /-bd is not supported/],
    [['-bz'], /no mode -bz/],
    [['-Z', 'a@x'], /no option -Z/],
    [['-iZ', 'a@x'], /no option -Z/],
    [['-f'], /-f needs a value/],
  ];
  for (const [argv, words] of rows) {
    const { code, err } = await drop.run(argv);
    t.equal(code, 64, argv.join(' '));
    t.match(err, words);
    t.match(err, /^sendmail: [^\n]*\n$/);
  }
  t.equal(drop.got.length, 0);
});

t.test('the input becomes a mail, however it is cut', async (t) => {
  await using drop = await maildrop();
  const long = 'y'.repeat(3000);
  const rows: [options: string, input: string, mail: string][] = [
    ['', MAIL, MAIL],
    ['', 'Subject: x\r\n\r\na\r\n.\r\nb\r\n', 'Subject: x\r\n\r\na\r\n'],
    ['', 'Subject: x\n\na\n.\nb\n.\n', 'Subject: x\n\na\n'],
    ['', 'Subject: x\n\na\n.', 'Subject: x\n\na\n'],
    ['', 'Subject: x\n\na\n.\r', 'Subject: x\n\na\n'],
    ['', 'Subject: x\n\n..\n.x\n.\rx\na.\n', 'Subject: x\n\n..\n.x\n.\rx\na.\n'],
    ['', 'Subject: x\n\na\r\r\n.\r\r\nb\n', 'Subject: x\n\na\r\r\n.\r\r\nb\n'],
    ['', 'Subject: x\n.\nb\n', 'Subject: x\n'],
    ['', '.\nb\n', ''],
    ['', `${long}\n.\n`, `${long}\n`],
    ['-i', 'Subject: x\n\na\n.\nb\n', 'Subject: x\n\na\n.\nb\n'],
    ['-oi', 'Subject: x\n\na\n.\r\nb', 'Subject: x\n\na\n.\r\nb'],
    ['', 'hi', 'hi'],
    ['', '', ''],
    ['', '\n', '\n'],
    ['', 'Subject: \xfc\n\n\xff\0\n', 'Subject: \xfc\n\n\xff\0\n'],
  ];
  for (const [option, input, mail] of rows) {
    const bytes = Buffer.from(input, 'latin1');
    for (const size of [1, 2, 7, bytes.length + 1]) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
        bytes.subarray(n * size, (n + 1) * size),
      );
      const { code } = await drop.run([...option.split(' ').filter(Boolean), 'root'], { stdin: chunks });
      t.equal(code, 0);
      const got = drop.got.pop() as Got;
      t.equal(got.mail, mail, JSON.stringify([option, input.slice(0, 40), size]));
      t.equal(got.headers['content-length'], String(mail.length));
      t.equal(got.headers['content-type'], 'message/rfc822');
    }
  }
});

t.test('after the dot the input is not read', async (t) => {
  await using drop = await maildrop();
  async function* typed() {
    yield Buffer.from(`${MAIL}.\n`);
    throw new Error('it was read');
  }
  t.equal((await drop.run(['root'], { stdin: typed() })).code, 0);
  t.equal(drop.got[0]?.mail, MAIL);
});

t.test('a large mail is kept in a file, and can be sent again', async (t) => {
  await using drop = await maildrop((n) => (n === 1 ? 'reset' : QUEUED));
  const line = `${'x'.repeat(998)}\n`;
  const mail = MAIL + line.repeat(Math.ceil((3 * MIB) / line.length));
  async function* input() {
    for (let at = 0; at < mail.length; at += 65_536) yield Buffer.from(mail.slice(at, at + 65_536));
  }
  const scratch = memoryFile();
  const { code, err } = await drop.run(['-i', 'root'], { stdin: input(), scratch: async () => scratch });
  t.same([code, err], [0, '']);
  t.same(
    drop.got.map((one) => one.mail === mail),
    [true, true],
  );
  t.equal(new Set(drop.got.map(({ headers }) => headers['idempotency-key'])).size, 1);
  t.equal(drop.got[0]?.headers.expect, '100-continue', 'it reads the file once the daemon wants it');
  t.ok(scratch.largest < INPUT_MEMORY_BYTES + 2 * 65_536, 'little is kept in memory');
  t.equal(scratch.closed, 1);

  const full = { ...memoryFile(), write: async () => Promise.reject(failure('ENOSPC', '/tmp/x')) };
  const refused = await drop.run(['-i', 'root'], { stdin: input(), scratch: async () => full });
  t.equal(refused.code, 75);
  t.match(refused.err, /^sendmail: the mail could not be kept in a temporary file: the disk is full\n$/);
  const unopened = await drop.run(['-i', 'root'], {
    stdin: input(),
    scratch: () => Promise.reject(failure('EROFS', '/tmp/x')),
  });
  t.equal(unopened.code, 75);
});

t.test('an endless input is refused', async (t) => {
  await using drop = await maildrop();
  let sent = 0;
  async function* endless() {
    for (;;) {
      sent += MIB;
      yield Buffer.alloc(MIB, 'x\n');
    }
  }
  const scratch = { ...memoryFile(), write: async () => undefined };
  const { code, err } = await drop.run(['-i', 'root'], { stdin: endless(), scratch: async () => scratch });
  t.equal(code, 65);
  t.match(err, /larger than 64 MiB/);
  t.ok(sent <= INPUT_BYTES_MAX + MIB, `${sent} octets were read`);
});

t.test('a refusal has the exit status that callers of sendmail know', async (t) => {
  const words = { detail: 'No "root":\nset FIELDPOST_LOCAL_MAIL' };
  const rows: [status: number, body: object, code: number][] = [
    [400, { detail: 'no' }, 65],
    [413, { detail: 'The mail is too large' }, 65],
    [422, { detail: 'no', errors: [{ pointer: 'to', detail: 'bad' }] }, 65],
    [422, words, 67],
    [422, { detail: 'faults', errors: [{ pointer: 'to', detail: words.detail }] }, 67],
    [401, { detail: 'a token' }, 77],
    [403, { detail: 'not local' }, 77],
    [408, { detail: 'slow' }, 75],
    [429, { detail: 'full' }, 75],
    [500, {}, 75],
    [503, { detail: 'stopping' }, 75],
    [507, { detail: 'disk full' }, 75],
  ];
  for (const [status, body, wanted] of rows) {
    await using drop = await maildrop(() => ({ status, body }));
    const { code, out, err } = await drop.run(['root']);
    t.same([code, out], [wanted, ''], String(status));
    t.match(err, /^sendmail: [^\n]+\n$/, 'one line');
    t.equal(drop.got.length > 1, status === 503, 'only a daemon that stops is asked again');
  }
  await using page = await maildrop(() => ({ status: 404 }));
  const foreign = await page.run(['root']);
  t.equal(foreign.code, 75);
  t.match(foreign.err, /is not Fieldpost/);
});

t.test('a daemon that restarts gets the mail once', async (t) => {
  await using drop = await maildrop((n) =>
    n === 1 ? { status: 503, body: {} } : n === 2 ? 'reset' : n === 3 ? { status: 409, body: {} } : QUEUED,
  );
  const clock = new FakeClock();
  const startMs = clock.bootMs();
  t.equal((await drop.run(['root'], { clock })).code, 0);
  t.equal(clock.bootMs() - startMs, 750);
  t.same(
    drop.got.map(({ mail }) => mail),
    [MAIL, MAIL, MAIL, MAIL],
  );
  const keys = drop.got.map(({ headers }) => headers['idempotency-key']);
  t.equal(new Set(keys).size, 1, 'one key for all tries');
  await drop.run(['root'], { clock });
  t.not(drop.got[4]?.headers['idempotency-key'], keys[0], 'another call has another key');
});

t.test('no daemon: it waits for ten seconds, then 75', async (t) => {
  const path = socketPath(t);
  const env = { FIELDPOST_LISTEN: `unix:${path}` };
  const clock = new FakeClock();
  const startMs = clock.bootMs();
  const { code, err } = await fieldpost(['sendmail', 'root'], { env, clock, stdin: MAIL });
  t.equal(code, 75);
  t.match(err, new RegExp(`^sendmail: no daemon answers on unix:${path}\n$`));
  t.equal(clock.bootMs() - startMs, SENDMAIL_TRY_MS);

  let tries = 0;
  const late: { drop?: Awaited<ReturnType<typeof maildrop>> } = {};
  const pause = async () => {
    if (++tries === 20) late.drop = await maildrop(() => QUEUED, path);
  };
  t.equal((await fieldpost(['sendmail', 'root'], { env, clock, pause, stdin: MAIL })).code, 0);
  t.equal(late.drop?.got.length, 1);
  await late.drop?.[Symbol.asyncDispose]();
});

t.test('a daemon behind an open socket that does not answer: ten minutes, then 75', async (t) => {
  const clock = new FakeClock();
  const startMs = clock.bootMs();
  const server = createServer(() => void clock.advance(600_000));
  await listening(server, 0);
  await using other = await maildrop();
  const hanging = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = { FIELDPOST_LISTEN: `${hanging},${other.env.FIELDPOST_LISTEN}` };
  const { code, err } = await fieldpost(['sendmail', 'root'], { env, clock, stdin: MAIL });
  await closed(server);
  t.equal(other.got.length, 0);
  t.equal(code, 75);
  t.match(err, /does not answer/);
  t.equal(clock.bootMs() - startMs, 600_000, 'the mail may be stored: it is not offered again');
});

t.test('sockets go before TCP; the one for sending is last for operators', async (t) => {
  const directory = shortDirectory(t);
  const path = (name: string) => join(directory, name);
  const refusal = { status: 403, body: { detail: 'for sending only' } };
  const isSend = ({ path }: Got) => path === '/api/internal/messages';
  await using sending = await maildrop(
    (_n, got) => (got.method === 'POST' && isSend(got) ? QUEUED : refusal),
    path('send'),
  );
  await using tcp = await maildrop(() => ({ status: 401, body: { detail: 'a token' } }));
  const listen = `${tcp.env.FIELDPOST_LISTEN},unix:${path('api')},unix-send:${path('send')}`;
  const world = { env: { FIELDPOST_LISTEN: listen }, stdin: MAIL };
  t.equal((await fieldpost(['sendmail', 'root'], world)).code, 0);
  t.same([sending.got.length, tcp.got.length], [1, 0]);

  const alone = { env: { FIELDPOST_LISTEN: `${tcp.env.FIELDPOST_LISTEN},unix-send:${path('send')}` } };
  for (const argv of [['mailq'], ['sendmail', '-bp'], ['sendmail', '-q']]) {
    const { code, err } = await fieldpost(argv, alone);
    t.equal(code, 77);
    t.equal(
      err,
      `${argv[0]}: for sending only; root and members of the group fieldpost-api may use the queue\n`,
    );
  }
  t.equal(tcp.got.length, 3, 'TCP is asked before the socket for sending');

  await using api = await maildrop(() => ({ status: 202, body: {} }), path('api'));
  t.equal((await fieldpost(['sendmail', '-q'], world)).code, 0);
  t.match(api.got, [{ method: 'POST', path: '/api/internal/queue/flush' }]);
});

t.test('the settings of the service, as far as this user can read them', async (t) => {
  await using drop = await maildrop();
  const { FIELDPOST_LISTEN } = drop.env;
  const file = `FIELDPOST_LISTEN=${FIELDPOST_LISTEN}\nFIELDPOST_API_TOKEN_FILE=/token\nFIELDPOST_SEND_TOKEN_FILE=/send\n`;
  const ENV_FILE = '/etc/fieldpost/fieldpost.env';
  const rows: [files: NonNullable<World['files']>, authorization: string | undefined][] = [
    [{ [ENV_FILE]: file, '/token': 'abc\n', '/send': 'def\n' }, 'Bearer abc'],
    [{ [ENV_FILE]: file, '/token': failure('EACCES', '/token'), '/send': 'def\n' }, 'Bearer def'],
    [{ [ENV_FILE]: file, '/token': failure('EACCES', '/token') }, undefined],
    [{ [ENV_FILE]: file, '/token': failure('EACCES', '/token'), '/send': 'd\u00e9f' }, undefined],
    [{ [ENV_FILE]: `${file}FIELDPOST_TEAPOT=1\nFIELDPOST_RETRY_MIN=no\n`, '/token': 'abc' }, 'Bearer abc'],
  ];
  for (const [files, authorization] of rows) {
    const { code, err } = await fieldpost(['sendmail', 'root'], { files, stdin: MAIL });
    t.same([code, err], [0, '']);
    t.equal(drop.got.pop()?.headers.authorization, authorization);
  }
});

t.test('mailq prints the queue as Postfix does', async (t) => {
  const message = {
    id: '000000N6BHF4VE6',
    type: 1,
    destination: 'john@example.com',
    status: 'deferred',
    acceptedAt: new Date(2026, 10, 4, 8, 5, 6).toISOString(),
    attempts: 1,
    lastReply: '451 4.7.1 Greylisted',
    nextAttemptAt: null,
    from: 'device@example.com',
    size: 3174,
  };
  const later = {
    ...message,
    id: '000000N6BHF4VE7',
    status: 'sending',
    lastReply: null,
    from: '',
    size: 123_456,
  };
  const { from: _from, size: _size, ...bare } = later;
  const queue = { held: false };
  const relay = { state: 'ok', reason: 'h:25: earlier' };
  const lists: Record<string, object[]> = {};
  const reply = (_n: number, { path, query }: Got): Reply =>
    path.endsWith('/state')
      ? { status: 200, body: { queue, relay } }
      : { status: 200, body: { messages: lists[query.get('status') ?? ''] ?? [], next: null } };
  await using drop = await maildrop(reply);
  const mailq = async () => (await fieldpost(['mailq'], { env: drop.env })).out;
  t.equal(await mailq(), 'Mail queue is empty\n');
  lists.deferred = [message];
  lists.sending = [later];
  t.equal(
    await mailq(),
    `----Queue ID----- --Size-- ---Arrival Time---- --Sender/Recipient------
000000N6BHF4VE6       3174 Wed Nov  4 08:05:06 device@example.com
${'(451 4.7.1 Greylisted)'.padStart(78)}
                                               john@example.com

000000N6BHF4VE7*    123456 Wed Nov  4 08:05:06 MAILER-DAEMON
                                               john@example.com

-- 123 Kbytes in 2 Requests.
`,
  );
  lists.sending = [];
  lists.deferred = [{ ...bare, status: 'queued', lastReply: 'x\u001b[2J' }];
  queue.held = true;
  t.same((await mailq()).split('\n').slice(1), [
    '000000N6BHF4VE7!         0 Wed Nov  4 08:05:06 -',
    '(x\\u001b[2J)'.padStart(78 + 5),
    '                                               john@example.com',
    '',
    '-- 0 Kbytes in 1 Request.',
    '',
  ]);
  relay.state = 'failing';
  lists.deferred = [later, { ...later, id: '000000N6BHF4VE8', type: 2, destination: '+49151' }];
  t.equal((await mailq()).match(/ \(h:25: earlier\)\n/g)?.length, 1, 'the relay holds up mails, and no SMS');
});

t.test('newaliases, and help', async (t) => {
  const world = { env: { FIELDPOST_LISTEN: 'unix:/nonexistent/s' } };
  for (const argv of [['newaliases'], ['sendmail', '-bi'], ['sendmail', '-I']])
    t.same(await fieldpost(argv, world), { code: 0, out: '', err: '' });
  t.match((await fieldpost(['sendmail', '--help'], world)).out, /^fieldpost sendmail \[-t\]/);
  t.match((await fieldpost(['--help'], world)).out, /^ {2}sendmail +send a ready-made mail/m);
});

t.test('a link to the program has the name of its command', async (t) => {
  t.same(wordsOfCall(['node', '/usr/lib/x/main.cjs', 'send', '--to']), ['send', '--to']);
  t.same(wordsOfCall(['node', '/usr/sbin/sendmail', '-t']), ['sendmail', '-t']);
  t.same(wordsOfCall(['node', '/usr/bin/mailq']), ['mailq']);
  t.same(wordsOfCall(['node', '/usr/bin/newaliases']), ['newaliases']);
  t.same(wordsOfCall(['node', '/usr/bin/toString', 'x']), ['x']);
  t.same(wordsOfCall([]), []);
});

t.test('against the real API: recipients of every kind, and a user whose mail nobody reads', async (t) => {
  await using api = await startApi();
  const run = (...argv: string[]) => fieldpost(['sendmail', ...argv], { env: envOf(api), stdin: MAIL });
  t.same(await run('"Doe, John" <john@x.example>, b@x.example'), { code: 0, out: '', err: '' });
  t.equal((await run('-t', 'c@x.example')).code, 0);
  const words = { code: 65, out: '', err: 'sendmail: "john@" is not an email address\n' };
  t.same(await run('john@'), words, 'the address, and nothing else');
  t.same(await run('-t', 'd@x.example', 'john@'), words);
  t.equal((await run('-t')).code, 65, 'no recipient');
  const nobody = await run('root');
  t.match(nobody, { code: 67, err: /^sendmail: root is.*FIELDPOST_LOCAL_MAIL[^\n]*\n$/ });
  t.equal(nobody.err.split('FIELDPOST_LOCAL_MAIL').length, 2, 'said once');
  const { json } = await api.call('GET', '/api/internal/messages');
  const to = json.messages.map(({ destination }: { destination: string }) => destination);
  t.same(to.sort(), ['b@x.example', 'c@x.example', 'john@x.example']);
});

t.test('-t with words loses nobody, however the mail begins', async (t) => {
  const beginnings = [
    '',
    'From root@gw Tue Nov 24 10:00:00 2026\n',
    'Resent-To: r@x.example\n',
    '\n',
    'no header\n',
  ];
  for (const beginning of beginnings) {
    await using api = await startApi();
    const stdin = `${beginning}To: a@x.example\nSubject: x\n\nhello\n`;
    const { code, err } = await fieldpost(
      ['sendmail', '-t', 'b@x.example', '"C" <c@x.example>, d@x.example'],
      {
        env: envOf(api),
        stdin,
      },
    );
    t.same([code, err], [0, ''], beginning);
    const { json } = await api.call('GET', '/api/internal/messages');
    const to: string[] = json.messages.map(({ destination }: { destination: string }) => destination);
    const ofHeader = beginning.startsWith('Resent')
      ? ['r@x.example']
      : /^(?:\n|no)/.test(beginning)
        ? []
        : ['a@x.example'];
    t.same(to.sort(), [...ofHeader, 'b@x.example', 'c@x.example', 'd@x.example'].sort(), beginning);
  }
});

/** A temporary file in memory. */
function memoryFile() {
  let bytes = Buffer.alloc(0);
  const file = {
    largest: 0,
    closed: 0,
    read: async (offset: number, length: number) => bytes.subarray(offset, offset + length),
    async write(more: Buffer, offset: number) {
      file.largest = Math.max(file.largest, more.length);
      bytes = Buffer.concat([bytes.subarray(0, offset), more]);
    },
    async close() {
      file.closed++;
    },
  };
  return file;
}
