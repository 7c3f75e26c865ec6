/** Ready-made mails over HTTP: `message/rfc822`, with the envelope in the query. */
import { type Test, test } from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import type { Message } from '../../src/mail/message/message.js';
import { isProblem, MESSAGES, startApi, type TestApi } from '../support/api.js';

const MAIL =
  'From: me@x.org\r\nTo: john@example.com\r\nBcc: ann@example.com\r\nSubject: Hi\r\n\r\nIt works.\r\n';
const TYPE = { 'Content-Type': 'message/rfc822' };

const postMail = (
  api: TestApi,
  query: string,
  body: string | Buffer = MAIL,
  headers: Record<string, string> = {},
) => api.call('POST', `${MESSAGES}${query}`, { headers: { ...TYPE, ...headers }, body });

/** Nothing is queued or left. */
async function isClean(t: Test, api: TestApi): Promise<void> {
  t.equal(api.size, 0);
  t.same(await api.files(), []);
  t.equal(api.uploads, 0);
  t.equal(api.store.room().used.messages, 0);
  t.same(api.errors, []);
}

test('one entry for each recipient, and one file for all', async (t) => {
  await using api = await startApi();
  const answer = await postMail(
    api,
    '?to=john+a@example.com&to=Ann <ann@example.com>&to=JOHN+a@EXAMPLE.com'.replaceAll(' ', '%20'),
  );
  t.equal(answer.status, 202);
  t.match(answer.json, [
    { type: 1, destination: 'john+a@example.com', status: 'queued' },
    { type: 1, destination: 'ann@example.com' },
    { type: 1, destination: 'JOHN+a@EXAMPLE.com' },
  ]);
  const [name = '', ...rest] = await api.files();
  t.same(rest, []);
  t.equal((await api.file(name))?.toString(), MAIL.replace(/Bcc.*\r\n/, ''));
  const view = (await api.call('GET', `${MESSAGES}/${answer.json[0].id}`)).json;
  t.match(view, {
    subject: 'Hi',
    size: MAIL.length - 'Bcc: ann@example.com\r\n'.length,
    attachments: [],
    from: 'device@example.com',
  });
});

test('the recipients in the headers, the blind ones included', async (t) => {
  await using api = await startApi();
  const { status, json } = await postMail(api, '?to=headers');
  t.equal(status, 202);
  t.match(json, [{ destination: 'john@example.com' }, { destination: 'ann@example.com' }]);
});

test('the recipients of the query and of the headers, each once', async (t) => {
  await using api = await startApi();
  const { json } = await postMail(api, '?to=b@x.org&to=headers&to=john@EXAMPLE.com');
  const to = json.map(({ destination }: { destination: string }) => destination);
  t.same(to, ['b@x.org', 'john@example.com', 'ann@example.com']);
});

test('a collapse key in the headers', async (t) => {
  await using api = await startApi();
  const post = async (lines: string) => {
    const { status, json } = await postMail(api, '?to=a@x.org', `${lines}${MAIL}`);
    t.equal(status, 202);
    return api.store.get(json[0].id) as Message;
  };
  const first = await post('X-Fieldpost-Collapse: pump-3\r\n');
  t.equal(first.extras?.collapse, 'pump-3');
  const [name = ''] = await api.files();
  t.notMatch((await api.file(name))?.toString(), /collapse/i, 'it is taken out');
  const second = await post('x-fieldpost-COLLAPSE:\r\n pump-3 \r\n');
  t.match(api.store.get(first.id), { status: 'replaced', replacedBy: second.id });
  t.equal((await api.files()).length, 1, 'the file of the older one goes');
  const bad = ['a b', '', 'x'.repeat(65), 'é', 'a\r\nX-Fieldpost-Collapse: b'];
  for (const value of bad) {
    const { id, extras } = await post(`X-Fieldpost-Collapse: ${value}\r\n`);
    t.equal(extras?.collapse, undefined, `ignored: ${value}`);
    t.match(api.lines.join('\n'), new RegExp(`collapse key ignored id=${id}`));
  }
  for (const name of await api.files()) t.notMatch((await api.file(name))?.toString(), /collapse/i);
  t.equal((await post('')).extras?.collapse, undefined);
  t.equal(api.lines.filter((line) => line.includes('collapse key ignored')).length, bad.length);
});

test('who the sender is', async (t) => {
  await using api = await startApi({ mayBeFrom: (address: Address) => address.endsWith('@ours.org') });
  const fromOf = async (query: string) => {
    const { json } = await postMail(api, `?to=a@x.org${query}`);
    const { from, place } = api.store.get(json[0].id) as Message;
    return [
      from,
      place !== null && 'hasOwnFrom' in (await api.store.content(api.store.get(json[0].id) as Message)),
    ];
  };
  t.same(await fromOf(''), ['device@example.com', false]);
  t.same(await fromOf('&from=pump@ours.org'), ['pump@ours.org', true]);
  t.same(await fromOf('&from=root@gateway'), ['device@example.com', false], 'no other is');
  t.same(await fromOf('&from=%3C%3E'), ['', true], 'the null sender');
});

test('mail to the users of the device', async (t) => {
  await using api = await startApi({
    homesOf: (address) =>
      address === 'people@localhost'
        ? (['a@x.org', 'b@x.org'] as Address[])
        : [/localhost/.test(address) ? ('ops@x.org' as Address) : address],
  });
  const { json } = await postMail(api, '?to=root&to=root@localhost&to=a@x.org');
  t.match(json, [{ destination: 'ops@x.org' }, { destination: 'a@x.org' }]);
  t.equal(json.length, 2);
  const headers = await postMail(api, '?to=headers', 'To: root\n\nhi');
  t.match(headers.json, [{ destination: 'ops@x.org' }]);
  const people = await postMail(api, '?to=people&to=a@x.org&to=root');
  t.same(
    people.json.map(({ destination }: { destination: string }) => destination),
    ['a@x.org', 'b@x.org', 'ops@x.org'],
    'several readers, and each person once',
  );
  const headed = await postMail(api, '?to=headers', 'To: People@localhost, people\n\nhi');
  t.match(headed.json, [
    { destination: 'ops@x.org' },
    { destination: 'a@x.org' },
    { destination: 'b@x.org' },
  ]);
  await using other = await startApi();
  for (const [query, body] of [
    ['?to=root'],
    ['?to=a@x.org&to=root@localhost'],
    ['?to=headers', 'To: root\n\nhi'],
    ['?to=headers', 'To: root@localhost.localdomain\n\nhi'],
  ] as const) {
    const refused = await postMail(other, query, body);
    isProblem(t, refused, 422, 'invalid');
    t.match(refused.json.errors, [{ pointer: 'to', detail: /root.*FIELDPOST_LOCAL_MAIL/ }]);
  }
  await isClean(t, other);
});

test('a header makes a mail of sendmail or SMTP urgent where the settings say so', async (t) => {
  for (const urgentHeaders of ['yes', 'no'] as const) {
    await using api = await startApi({ settings: { urgentHeaders } });
    for (const [query, header, isUrgent] of [
      ['&repair=yes', 'X-Priority: 1 (Highest)', true],
      ['&repair=yes', 'importance: High', true],
      ['&repair=yes', 'X-Priority: 10', false],
      ['&repair=yes', 'Importance: higher', false],
      ['&repair=yes', 'Subject: x', false],
      ['', 'X-Priority: 1', false],
    ] as const) {
      const { json } = await postMail(api, `?to=a@x.org${query}`, `${header}\n\nhi`);
      const { extras } = api.store.get(json[0].id) as Message;
      t.equal(extras?.urgent === true, isUrgent && urgentHeaders === 'yes', `${urgentHeaders}: ${header}`);
    }
  }
});

test('a queue that is full but for urgent mails takes one whose header says so', async (t) => {
  const budget = { maxQueue: 20 };
  await using api = await startApi({ settings: { urgentHeaders: 'yes' }, budget });
  const post = (header: string) => postMail(api, '?to=a@x.org&repair=yes', `${header}\n\nhi`);
  let taken = 0;
  while ((await post('Subject: x')).status === 202) taken++;
  t.ok(taken < 20, 'some places are kept');
  isProblem(t, await post('Subject: x'), 429, 'queue-full');
  t.equal((await post('Importance: high')).status, 202);
});

test('every way in which one can be wrong leaves nothing behind', async (t) => {
  await using api = await startApi({ settings: { maxMessageBytes: 2000 } });
  const many = Array.from({ length: 101 }, (_, i) => `to=r${i}@x.org`).join('&');
  const cases: [query: string, body: string, pointer: string, detail: RegExp][] = [
    ['', MAIL, 'to', /is required/],
    ['?to=', MAIL, 'to', /no recipient/],
    ['?to=a@', MAIL, 'to', /not an email address/],
    ['?to=headers&to=a@', MAIL, 'to', /"a@" is not an email address/],
    [`?to=headers&${many.slice(0, many.lastIndexOf('&'))}`, MAIL, 'to', /102 recipients/],
    ['?to=a@x.org', '', 'body', /is empty/],
    ['?to=headers&to=a@x.org', '', 'body', /is empty/],
    ['?to=headers', 'Subject: x\n\nhi', 'to', /no recipient/],
    ['?to=headers', 'To: a@\n\nhi', 'to', /To: .*not an email address/],
    [`?${many}`, MAIL, 'to', /101 recipients/],
    ['?to=a@x.org&from=x', MAIL, 'from', /^"x" is not one email address/],
    ['?to=a@x.org&priority=urgent', MAIL, 'priority', /high or normal/],
    ['?to=a@x.org', 'Subject: x\n\na\0b\n', 'body', /line 3/],
    ['?to=a@x.org', `Subject: x\n\n\n${'x'.repeat(999)}\n`, 'body', /line 4.*998/],
    ['?to=a@x.org', `${'Received: x\n'.repeat(30)}\nhi`, 'received', /loop/],
  ];
  for (const [query, body, pointer, detail] of cases) {
    const answer = await postMail(api, query, body);
    isProblem(t, answer, 422, 'invalid', query);
    t.match(answer.json.errors, [{ pointer, detail }], query + body.slice(0, 40));
  }
  isProblem(t, await postMail(api, '?to=a@x.org', 'x\n'.repeat(2000)), 413, 'too-large');
  isProblem(t, await postMail(api, '?to=a%ff@x.org'), 400, 'malformed-request');
  isProblem(
    t,
    await postMail(api, '?to=a@x.org', MAIL, { 'Content-Encoding': 'gzip' }),
    415,
    'unsupported-media-type',
  );
  await isClean(t, api);
});

test('a client that goes away in the middle leaves nothing behind', async (t) => {
  await using api = await startApi();
  const client = await api.connect();
  client.write(
    `POST ${MESSAGES}?to=a@x.org HTTP/1.1\r\nContent-Type: message/rfc822\r\nContent-Length: 5000\r\n\r\n${MAIL}`,
  );
  await api.heard(client);
  client.socket.destroy();
  while (api.uploads > 0 || (await api.files()).length > 0)
    await new Promise((resolve) => setImmediate(resolve));
  await isClean(t, api);
});

test('a repeated mail with its key gets the first answer, another content a refusal', async (t) => {
  await using api = await startApi();
  const key = { 'Idempotency-Key': 'k1' };
  const first = await postMail(api, '?to=a@x.org&to=b@x.org', MAIL, key);
  const again = await postMail(api, '?to=a@x.org&to=b@x.org', MAIL, key);
  t.same(again.json, first.json);
  t.equal(again.headers['idempotency-replayed'], 'true');
  for (const [query, body] of [
    ['?to=a@x.org&to=b@x.org', `${MAIL}x`],
    ['?to=a@x.org', MAIL],
    ['?to=a@x.org&to=b@x.org&priority=high', MAIL],
    ['?to=a@x.org&to=b@x.org&from=device@example.com', MAIL],
  ] as const) {
    isProblem(t, await postMail(api, query, body, key), 422, 'invalid', query);
  }
  t.equal(api.size, 2);
  t.equal((await api.files()).length, 1);
});

test('a full queue takes an urgent mail', async (t) => {
  await using api = await startApi({ budget: { maxQueue: 20 } });
  for (let i = 0; i < 19; i++) t.equal((await postMail(api, '?to=a@x.org')).status, 202);
  isProblem(t, await postMail(api, '?to=a@x.org'), 429, 'queue-full');
  t.equal((await postMail(api, '?to=a@x.org&priority=high')).status, 202);
  t.equal([...api.store.urgent()].length, 1);
});
