import { readdirSync, readFileSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { t } from 'tap';
import { systemDisk } from '../../src/base/system/disk.js';
import { openMailbox } from '../../src/dev/inbox.js';
import { systemError } from '../support/system-error.js';

t.test('mails are numbered in the order of arrival', async (t) => {
  const directory = join(t.testdir(), 'state', 'mail');
  const mailbox = await openMailbox(systemDisk(), directory);
  const kept = await Promise.all(['one', 'two', ''].map((text) => mailbox.keep(Buffer.from(text))));
  t.same(
    kept.map(({ path }) => path.slice(directory.length)),
    ['/000001.eml', '/000002.eml', '/000003.eml'],
  );
  t.same(
    kept.map(({ path }) => readFileSync(path, 'latin1')),
    ['one', 'two', ''],
  );
  const again = await openMailbox(systemDisk(), directory);
  t.match((await again.keep(Buffer.from('four'))).path, /000004\.eml$/, 'a restart replaces no mail');
});

t.test('a half-written mail is removed at the start, and its number is not used again', async (t) => {
  const directory = t.testdir({
    '000007.eml.new': 'half a',
    '000003.eml': '',
    'notes.eml': '',
    '000009.txt': '',
  });
  const mailbox = await openMailbox(systemDisk(), directory);
  t.equal((await mailbox.keep(Buffer.from('x'))).path, join(directory, '000008.eml'));
  t.same(readdirSync(directory).sort(), ['000003.eml', '000008.eml', '000009.txt', 'notes.eml']);
});

t.test('the oldest mails are removed for new ones, even at the start', async (t) => {
  const directory = t.testdir({ '000001.eml': 'a', '000002.eml': 'bb', '000003.eml': 'ccc', 'mine.txt': '' });
  const names = () => readdirSync(directory).sort();
  const mailbox = await openMailbox(systemDisk(), directory, { count: 3, bytes: 5 });
  t.same(names(), ['000002.eml', '000003.eml', 'mine.txt'], 'at most 5 octets');
  await mailbox.keep(Buffer.from(''));
  await mailbox.keep(Buffer.from(''));
  t.same(names(), ['000003.eml', '000004.eml', '000005.eml', 'mine.txt'], 'at most 3 mails');
  await mailbox.keep(Buffer.from('more than that'));
  t.same(names(), ['000006.eml', 'mine.txt'], 'the last one stays, even if it is too large');
  t.equal(readFileSync(join(directory, '000006.eml'), 'latin1'), 'more than that');
});

t.test('a full disk leaves nothing of a mail', async (t) => {
  const directory = t.testdir();
  const disk = systemDisk();
  const full = systemError('ENOSPC', 'no space left');
  const mailbox = await openMailbox(
    {
      ...disk,
      async open(path, how) {
        return Object.assign(await disk.open(path, how), { write: () => Promise.reject(full) });
      },
    },
    directory,
  );
  await t.rejects(mailbox.keep(Buffer.from('x')), { code: 'ENOSPC' });
  t.same(readdirSync(directory), []);
});

t.test('a mail is kept even if an old one cannot be removed', async (t) => {
  const directory = t.testdir({ '000001.eml': {}, '000002.eml': 'b' });
  const mailbox = await openMailbox(systemDisk(), directory, { count: 1, bytes: 100 });
  t.equal((await mailbox.keep(Buffer.from('x'))).path, join(directory, '000003.eml'));
  t.same(readdirSync(directory).sort(), ['000001.eml', '000003.eml']);
});

t.test(
  'a mail is read whole or from its beginning, and removed; one that somebody removes is gone',
  async (t) => {
    const directory = t.testdir({ '000001.eml': 'one', '000002.eml': 'second', '000003.eml': {} });
    const mailbox = await openMailbox(systemDisk(), directory);
    t.same(
      [...mailbox.sizes],
      [
        [1, 3],
        [2, 6],
      ],
    );
    t.equal(String(await mailbox.read(2)), 'second');
    t.equal(String(await mailbox.read(2, 3)), 'sec');
    await mailbox.remove(2);
    t.equal(await mailbox.read(2), null);
    unlinkSync(join(directory, '000001.eml'));
    t.equal(await mailbox.read(1), null);
    for (const number of [0, 2, 3, -1, Number.NaN, 1e30]) {
      t.equal(await mailbox.read(number), null);
      await mailbox.remove(number);
    }
    t.same([...mailbox.sizes.keys()], []);
    t.equal((await mailbox.keep(Buffer.from('x'))).number, 4, 'no number is used again');
    t.same(readdirSync(directory), ['000003.eml', '000004.eml']);
  },
);
