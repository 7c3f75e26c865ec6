/**
 * `fieldpost send` against the real API: what its options make of a message, and the wait for the outcome; and against
 * daemons that go away, restart, or are old.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import type { EmailContent } from '../../src/mail/message/message.js';
import { startApi, type TestApi } from '../support/api.js';
import { FakeClock, settled } from '../support/clock.js';
import { fieldpost, preparedDaemon, type World } from './terminal.js';

async function send(api: TestApi, argv: readonly string[], world: World = {}) {
  const [address] = api.listeners.addresses;
  const port = address?.kind === 'tcp' ? address.port : 0;
  return await fieldpost(['send', ...argv], { env: { FIELDPOST_LISTEN: `127.0.0.1:${port}` }, ...world });
}

const all = (api: TestApi) => api.store.list({ status: null, limit: 100, after: null }).messages.reverse();
const MAIL = ['--subject', 'S', '--body', 'B'];

t.test('every option becomes its field', async (t) => {
  await using api = await startApi({ mayBeFrom: (address: Address) => address === 'pump@x.org' });
  const options = [
    '--to',
    'a@x.org',
    '--to',
    'b@x.org',
    '--cc',
    'Ann <c@x.org>',
    '--bcc',
    'd@x.org',
    '--from',
    'Pump 3 <pump@x.org>',
  ];
  const more = ['--reply-to', 'r@x.org', '--priority', 'high', '--expires-in', '10m'];
  const { code, out } = await send(api, [...options, ...more, ...MAIL]);
  t.equal(code, 0);
  const messages = all(api);
  t.same(
    messages.map(({ destination }) => destination),
    ['a@x.org', 'b@x.org', 'c@x.org', 'd@x.org'],
  );
  t.same(out.trim().split('\n').length, 4);
  const [first] = messages;
  t.match(first, { from: 'pump@x.org', extras: { urgent: true, lifeMs: 600_000 } });
  const { head, plain } = (await api.store.content(first as never)) as EmailContent;
  t.equal(plain, 'B');
  t.match(head, {
    fromName: 'Pump 3',
    to: [{ address: 'a@x.org' }, { address: 'b@x.org' }],
    cc: [{ name: 'Ann', address: 'c@x.org' }],
    replyTo: [{ address: 'r@x.org' }],
  });
});

const BOTH = ['--to', 'a@x.org', '--to', 'Bo <b@x.org>', ...MAIL];

t.test('several --to get the same mail; with --each a mail each', async (t) => {
  const files = { 'a.txt': 'abc' };
  const rows: [more: string[], isEach: boolean][] = [
    [[], false],
    [['--attach', 'a.txt', '--priority', 'high'], false],
    [['--each'], true],
    [['--each', '--attach', 'a.txt', '--priority', 'high'], true],
  ];
  for (const [more, isEach] of rows) {
    await using api = await startApi();
    const { code, out } = await send(api, [...BOTH, ...more], { files });
    t.equal(code, 0);
    const [first, second] = all(api);
    t.equal(out, `${first?.id} is queued for a@x.org\n${second?.id} is queued for b@x.org\n`);
    t.equal(second?.extras?.mail, isEach ? undefined : first?.id, more.join(' '));
    const mails = await Promise.all([first, second].map((one) => api.store.content(one as never)));
    const [a, b] = [{ address: 'a@x.org' }, { name: 'Bo', address: 'b@x.org' }];
    t.match(
      mails.map((mail) => (mail as EmailContent).head?.to ?? [a]),
      isEach ? [[a], [b]] : [[a, b]],
      more.join(' '),
    );
    for (const { attachments, extras } of all(api)) {
      t.equal(attachments.length, more.includes('--attach') ? 1 : 0);
      t.equal(extras?.urgent, more.includes('high') ? true : undefined);
    }
  }
  await using api = await startApi();
  for (const other of ['--cc', '--bcc']) {
    const { code, err } = await send(api, [...BOTH, '--each', other, 'c@x.org']);
    t.equal(code, 64);
    t.match(err, /--each takes no --cc and no --bcc/);
  }
  t.equal(api.size, 0);
});

t.test('--each with files: a repeat sends none twice, and a fault tells what is queued', async (t) => {
  const files = { 'a.txt': 'abc' };
  const argv = [...BOTH, '--each', '--attach', 'a.txt', '--idempotency-key', 'k'];
  await using api = await startApi({ budget: { maxQueue: 1 } });
  const { code, out, err } = await send(api, argv, { files });
  t.equal(code, 75);
  t.equal(out, '');
  t.match(
    err,
    /^fieldpost: the mail to Bo <b@x\.org>: the queue holds 1 message .*\n0\w+ is queued for a@x\.org\n$/,
  );
  await using free = await startApi();
  const [, second] = [await send(free, argv, { files }), await send(free, argv, { files })];
  t.match(second.out, /^0\w+ was queued before for a@x\.org\n0\w+ was queued before for b@x\.org\n$/);
  t.equal(free.size, 2);
  const long = await send(free, [...argv.slice(0, -1), 'k'.repeat(254)], { files });
  t.match(long, { code: 64, err: /up to 255 visible ASCII characters/ }, 'before any is posted');
  t.equal(free.size, 2);
  const json = await send(free, [...argv, '--json'], { files });
  t.match(JSON.parse(json.out), [{ destination: 'a@x.org' }, { destination: 'b@x.org' }]);
});

t.test('an SMS and a push message', async (t) => {
  await using api = await startApi({ settings: { cloud: {} as never } });
  t.equal((await send(api, ['--type', 'sms', '--to', '+31612345678', '--body', 'hi'])).code, 0);
  t.equal((await send(api, ['--type', '4', '--to', 'OWNER', '--body', 'hi', '--title', 'T'])).code, 0);
  const two = ['--type', 'phone', '--to', '+31612345678', '--to', '+31612345679', '--body', 'hi'];
  t.equal((await send(api, two)).code, 0);
  const contents = await Promise.all(all(api).map((message) => api.store.content(message)));
  t.same(contents, [{ message: 'hi' }, { message: 'hi', title: 'T' }, { message: 'hi' }, { message: 'hi' }]);
  for (const [argv, words] of [
    [['--type', 'fax', '--to', 'a@x.org', ...MAIL], /there is no type fax/],
    [['--expires-in', '5', '--to', 'a@x.org', ...MAIL], /--expires-in 5: the unit is missing/],
    [['--wait', 'long', '--to', 'a@x.org', ...MAIL], /--wait long: /],
  ] as const) {
    const { code, err } = await send(api, argv);
    t.equal(code, 64);
    t.match(err, words);
  }
});

t.test('--wait tells the outcome, and its exit status does too', async (t) => {
  await using api = await startApi();
  const cases = [
    [{ kind: 'sent', reply: '250 ok' }, 0, /sent: a@x\.org: 250 ok/],
    [{ kind: 'failed', reply: '550 no such user' }, 65, /failed: a@x\.org: 550 no such user/],
  ] as const;
  for (const [verdict, status, words] of cases) {
    const running = send(api, ['--to', 'a@x.org', '--wait', '30s', ...MAIL], { clock: api.clock });
    let id: string | undefined;
    while (id === undefined) {
      await settled();
      id = [...api.store.queued()][0]?.id;
    }
    api.store.claim(id);
    await api.store.settle(id, verdict);
    const { code, out } = await running;
    t.equal(code, status);
    t.match(out, words);
  }
});

t.test('--wait ends when its time is up', async (t) => {
  await using api = await startApi();
  let isOver = false;
  const running = send(api, ['--to', 'a@x.org', '--wait', '1s', ...MAIL], { clock: api.clock }).finally(
    () => {
      isOver = true;
    },
  );
  while (api.size === 0) await settled();
  while (!isOver) await api.clock.advance(100);
  const { code, out } = await running;
  t.equal(code, 75);
  t.match(out, /\w+ is still queued for a@x\.org: fieldpost status tells/);
});

t.test('a recipient with a name, alone or among others', async (t) => {
  const rows: [argv: string[], to: object[][]][] = [
    [['--to', 'Ann <a@x.org>'], [[{ name: 'Ann', address: 'a@x.org' }]]],
    [['--to', '<a@x.org>'], [[{ name: '', address: 'a@x.org' }]]],
    [
      ['--to', 'b@x.org', '--to', 'Ann <a@x.org>', '--cc', 'c@x.org'],
      [[{ address: 'b@x.org' }, { name: 'Ann', address: 'a@x.org' }]],
    ],
    [['--to', 'Ann <a@x.org>', '--attach', 'f'], [[{ name: 'Ann', address: 'a@x.org' }]]],
  ];
  for (const [argv, to] of rows) {
    await using api = await startApi();
    const { code, err } = await send(api, [...argv, ...MAIL], { files: { f: 'x' } });
    t.same([code, err], [0, ''], argv.join(' '));
    const [message] = all(api);
    const { head } = (await api.store.content(message as never)) as EmailContent;
    t.match(head?.to, to[0] as object, argv.join(' '));
  }
  await using api = await startApi();
  const { code, err } = await send(api, ['--to', 'Ann <a@x.org', ...MAIL]);
  t.equal(code, 65);
  t.match(err, /destination: must be exactly one email address/);
});

const ENTRY = { id: '01A', type: 1, destination: 'a@x.org', status: 'queued' };
const FINAL = { ...ENTRY, status: 'sent', final: true, lastReply: '250 ok' };

/** A daemon that accepts a mail as `entry`; `answer` gives the answer to the `n`th question; null: it is gone. */
async function storingDaemon(answer: (n: number) => object | null | 'cut', entry: object = ENTRY) {
  let asked = 0;
  const end = (response: ServerResponse, status: number, body: object) => {
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify(body));
  };
  const server = createServer((request, response) => {
    if (request.method === 'POST') {
      request.resume().on('end', () => {
        end(response, 202, [entry]);
        if (answer(1) === null) server.close();
      });
      return;
    }
    const body = answer(++asked);
    if (body === null || body === 'cut') response.destroy();
    else end(response, 'title' in body ? 503 : 200, body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const env = { FIELDPOST_LISTEN: `127.0.0.1:${(server.address() as AddressInfo).port}` };
  const clock = new FakeClock();
  return {
    clock,
    get asked() {
      return asked;
    },
    run: (...argv: string[]) => fieldpost(['send', '--to', 'a@x.org', ...MAIL, ...argv], { env, clock }),
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

t.test('--wait: the id is printed even if the daemon goes away', async (t) => {
  await using gone = await storingDaemon(() => null);
  const { code, out, err } = await gone.run('--wait', '5s');
  t.equal(code, 75);
  t.equal(out, '01A is queued for a@x.org\n');
  const [away, unknown, ...more] = err.trimEnd().split('\n');
  t.match(away, /^fieldpost: no daemon answers on .*; waiting for it$/);
  t.match(unknown, /^fieldpost: the daemon has stored the message, but the outcome is not known: no daemon/);
  t.same(more, [], 'once');
  await using other = await storingDaemon(() => null);
  t.same(JSON.parse((await other.run('--wait', '5s', '--json')).out), [ENTRY]);
  // The message is no longer known there: asking again is of no use.
  await using unaware = await preparedDaemon({
    'POST /api/internal/messages': { status: 202, body: [ENTRY] },
  });
  const lost = await unaware.run(['send', '--to', 'a@x.org', ...MAIL, '--wait', '1h']);
  t.match(lost, { code: 75, out: '01A is queued for a@x.org\n', err: /outcome is not known: no GET/ });
  t.equal(unaware.asked.length, 2);
});

t.test('--wait goes on after a restart of the daemon', async (t) => {
  await using daemon = await storingDaemon((n) =>
    n === 1 ? 'cut' : n === 2 ? { title: 'stopping' } : FINAL,
  );
  const { code, out, err } = await daemon.run('--wait', '1m');
  t.same([code, out], [0, '01A is queued for a@x.org\n01A sent: a@x.org: 250 ok\n']);
  t.match(err, /^fieldpost: [^\n]*; waiting for it\n$/);
});

t.test('--wait asks a daemon that does not know `wait` once a second', async (t) => {
  const waiting = { ...ENTRY, final: false, lastReply: null };
  await using daemon = await storingDaemon(() => waiting);
  const startMs = daemon.clock.bootMs();
  const { code, out } = await daemon.run('--wait', '10s');
  t.equal(code, 75);
  t.match(out, /01A is still queued for a@x\.org: fieldpost status tells what it waits for\n$/);
  t.equal(daemon.clock.bootMs() - startMs, 10_000);
  t.equal(daemon.asked, 11);
});

t.test('fields that the daemon ignores are told', async (t) => {
  const entry = { ...ENTRY, ignored: ['priority', 'bcc'] };
  await using daemon = await storingDaemon(() => FINAL, entry);
  const words = '01A is queued for a@x.org, without priority, bcc\n';
  t.equal((await daemon.run()).out, words);
  t.equal((await daemon.run('--wait', '1s')).out, `${words}01A sent: a@x.org: 250 ok\n`);
  t.match(JSON.parse((await daemon.run('--wait', '1s', '--json')).out), [
    { ...FINAL, ignored: entry.ignored },
  ]);
});
