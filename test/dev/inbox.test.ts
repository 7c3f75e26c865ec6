/** What the inbox keeps: mails of this run and of earlier ones, and short messages. */
import { unlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { systemDisk } from '../../src/base/system/disk.js';
import { Inbox, openMailbox } from '../../src/dev/inbox.js';

const NOW_MS = Date.UTC(2026, 10, 20, 9);
const NOW = '2026-11-20T09:00:00.000Z';

async function inboxIn(directory: string, max?: { count: number; bytes: number }) {
  const mailbox = await openMailbox(systemDisk(), directory, max);
  return Inbox.open(mailbox, () => NOW_MS);
}

const mail = (...lines: readonly string[]) => ({
  from: 'pump@example.com',
  to: ['jan@example.com', 'ewa@example.com'],
  raw: Buffer.from(lines.join('\r\n')),
});

t.test('newest first: mails of earlier runs, mails and short messages of this one', async (t) => {
  const early = [
    'Date: Thu, 19 Nov 2026 10:00:00 +0100\r\nSubject: =?utf-8?Q?=C5=BB=C3=B3=C5=82w?=\r\nFrom: a@x\r\nTo: b@x\r\n\r\n',
    'no header',
  ] as const;
  const directory = t.testdir({ '000001.eml': early[0], '000002.eml': early[1] });
  const inbox = await inboxIn(directory);
  t.equal(
    await inbox.keep(mail('Subject: Leak', 'From: Pump <pump@example.com>', 'To: All', '', 'x')),
    join(directory, '000003.eml'),
  );
  inbox.keepShort({ type: 2, destination: '+31612345678', message: 'low\nbattery' });
  inbox.keepShort({ type: 4, destination: 'OWNER', message: 'x', title: 'Pump 3' });
  await inbox.keep({ ...mail('', 'x'), from: '', to: [] });
  const line = { type: 1, from: '', to: '', subject: '', at: NOW, hasFiles: false };
  t.same(inbox.list(), [
    { ...line, id: '4', bytes: 3 },
    { ...line, id: 's2', type: 4, to: 'OWNER', subject: 'Pump 3', bytes: 1 },
    { ...line, id: 's1', type: 2, to: '+31612345678', subject: 'low battery', bytes: 11 },
    {
      ...line,
      id: '3',
      from: 'Pump <pump@example.com>',
      to: 'jan@example.com, ewa@example.com',
      subject: 'Leak',
      bytes: 58,
    },
    { ...line, id: '2', at: null, bytes: 9 },
    {
      ...line,
      id: '1',
      from: 'a@x',
      to: 'b@x',
      subject: 'Żółw',
      at: '2026-11-19T09:00:00.000Z',
      bytes: Buffer.byteLength(early[0]),
    },
  ]);
  t.match(await inbox.get('3'), { kind: 'mail', envelope: { from: 'pump@example.com' }, raw: Buffer });
  t.match(await inbox.get('1'), { kind: 'mail', envelope: null });
  t.match(await inbox.get('s1'), { kind: 'short', short: { message: 'low\nbattery' } });
  for (const id of ['', '5', '01', '1.0', 's3', '../1', 'NaN', '__proto__'])
    t.equal(await inbox.get(id), null, id);
});

t.test('a line tells whether a file is in the mail, also one of an earlier run', async (t) => {
  const head = ['Content-Type: multipart/mixed; boundary=m', '', '--m', '', 'text', '--m'];
  const file = [...head, 'Content-Type: image/png; name=a.png', '', 'png', '--m--'];
  const plain = [...head, 'Content-Type: text/html', '', '<p>x', '--m--'];
  const directory = t.testdir({ '000001.eml': file.join('\r\n'), '000002.eml': plain.join('\r\n') });
  const inbox = await inboxIn(directory);
  await inbox.keep(mail(...file));
  await inbox.keep(mail(...plain));
  t.same(
    inbox.list().map(({ id, hasFiles }) => [id, hasFiles]),
    [
      ['4', false],
      ['3', true],
      ['2', false],
      ['1', true],
    ],
  );
});

t.test('a subject of any length and content is one short line', async (t) => {
  const inbox = await inboxIn(t.testdir());
  await inbox.keep(mail(`Subject: ${'x'.repeat(100_000)}`, '', ''));
  await inbox.keep(mail('Subject: =?utf-8?Q?a=0D=0Ab=E2=80=AEc?=', '', ''));
  const [odd, long] = inbox.list();
  t.equal(odd?.subject, 'a b c');
  t.equal(long?.subject.length, 200);
});

t.test('removed by a person, by the limit, or by hand: gone from the list', async (t) => {
  const directory = t.testdir();
  const inbox = await inboxIn(directory, { count: 3, bytes: 1000 });
  for (const name of ['1', '2', '3', '4']) await inbox.keep(mail(`Subject: ${name}`, '', ''));
  const ids = () => inbox.list().map(({ id }) => id);
  t.same(ids(), ['4', '3', '2'], 'the limit');
  t.equal(await inbox.remove('3'), true);
  t.equal(await inbox.remove('3'), false);
  t.same(ids(), ['4', '2'], 'a person');
  unlinkSync(join(directory, '000002.eml'));
  t.equal(await inbox.get('2'), null);
  t.same(ids(), ['4'], 'by hand');
  inbox.keepShort({ type: 3, destination: '+31612345678', message: 'x' });
  t.equal(await inbox.remove('s1'), true);
  inbox.keepShort({ type: 3, destination: '+31612345678', message: 'x' });
  await inbox.clear();
  t.same(ids(), []);
  t.same(await inboxIn(directory).then((next) => next.list()), [], 'also after a restart');
});

t.test('short messages have a limit of their own', async (t) => {
  const inbox = await inboxIn(t.testdir());
  for (let n = 0; n < 1001; n++) inbox.keepShort({ type: 2, destination: '+31612345678', message: `${n}` });
  const list = inbox.list();
  t.equal(list.length, 1000);
  t.equal(list.at(-1)?.subject, '1');
});
