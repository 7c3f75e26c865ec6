/** `fieldpost send` against the real API: what its options make of a message, and the wait for the outcome. */
import t from 'tap';
import type { Address } from '../../src/message/address.js';
import type { EmailContent } from '../../src/message/message.js';
import { startApi, type TestApi } from '../support/api.js';
import { settled } from '../support/clock.js';
import { fieldpost, type World } from './terminal.js';

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

t.test('several --to get a mail each; with files they get the same', async (t) => {
  await using api = await startApi();
  await send(api, ['--to', 'a@x.org', '--to', 'b@x.org', ...MAIL]);
  t.same(
    all(api).map(({ extras }) => extras?.mail),
    [undefined, undefined],
  );
  const files = { 'a.txt': 'abc' };
  const argv = ['--to', 'a@x.org', '--to', 'b@x.org', '--priority', 'high', '--attach', 'a.txt', ...MAIL];
  t.equal((await send(api, argv, { files })).code, 0);
  const [, , third, fourth] = all(api);
  t.equal(fourth?.extras?.mail, third?.id);
  t.equal(fourth?.extras?.urgent, true);
  t.same(fourth?.attachments, third?.attachments);
});

t.test('an SMS and a push message', async (t) => {
  await using api = await startApi({ settings: { cloud: {} as never } });
  t.equal((await send(api, ['--type', 'sms', '--to', '+31612345678', '--body', 'hi'])).code, 0);
  t.equal((await send(api, ['--type', '4', '--to', 'OWNER', '--body', 'hi', '--title', 'T'])).code, 0);
  const contents = await Promise.all(all(api).map((message) => api.store.content(message)));
  t.same(contents, [{ message: 'hi' }, { message: 'hi', title: 'T' }]);
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
  t.match(out, /queued, and tried again: a@x\.org/);
});
