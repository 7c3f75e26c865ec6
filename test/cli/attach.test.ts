/** `fieldpost send --attach` against the local API. */
import t from 'tap';
import { startApi, type TestApi } from '../support/api.js';
import { systemError } from '../support/system-error.js';
import { envOf, failure, fieldpost, type World } from './terminal.js';

const SEND = ['send', '--to', 'john@example.com', '--subject', 'Grüße'];

function send(api: TestApi, more: readonly string[], world: World = {}) {
  return fieldpost([...SEND, ...more], { env: envOf(api), ...world });
}

t.test('files arrive as they are', async (t) => {
  await using api = await startApi();
  const files = {
    '/tmp/Prüf "1".PDF': 'a'.repeat(700_000),
    'x/empty.weird': '',
    'y.csv': 'a;b\r\n--fieldpost-\r\n',
  };
  const argv = Object.keys(files).flatMap((path) => ['--attach', path]);
  const { code, out, err } = await send(api, [...argv, '-', '--html', '<b>'], { files, stdin: 'text' });
  t.equal(code, 0, err);
  const [, id = ''] = /^(\w+) is queued for john@example\.com\n$/.exec(out) ?? [];
  t.equal(err, '', 'no progress without a terminal');
  const message = api.store.get(id);
  if (message === undefined) throw new Error('nothing was queued');
  t.same(await api.store.content(message), { subject: 'Grüße', plain: 'text', html: '<b>' });
  t.same(
    await Promise.all(
      message.attachments.map(async ({ id, name, type }) => [name, type, (await api.file(id))?.toString()]),
    ),
    [
      ['Prüf "1".PDF', 'application/pdf', files['/tmp/Prüf "1".PDF']],
      ['empty.weird', 'application/octet-stream', ''],
      ['y.csv', 'text/csv', files['y.csv']],
    ],
  );
  const again = await send(api, ['--attach', 'y.csv', '--idempotency-key', 'k'], { files });
  t.match(again.out, / is queued for /);
  t.match(
    (await send(api, ['--attach', 'y.csv', '--idempotency-key', 'k'], { files })).out,
    /was queued before/,
  );
  t.match((await send(api, ['--attach', 'y.csv', '--json'], { files })).out, /"status": "queued"/);
});

t.test('files that cannot be read, or that the daemon refuses', async (t) => {
  await using api = await startApi({ settings: { maxMessageBytes: 1000 } });
  const files = { big: 'x'.repeat(2 ** 20), dir: failure('EISDIR', 'dir'), short: 'abc' };
  const gone = await send(api, ['--attach', 'short', '--attach', 'gone'], { files });
  t.same([gone.code, gone.err], [66, "fieldpost: cannot read gone: ENOENT: open 'gone'\n"]);
  t.equal((await send(api, ['--attach', 'dir'], { files })).code, 66);
  const tooLarge = await send(api, ['--attach', 'big'], { files });
  t.equal(tooLarge.code, 65);
  t.match(tooLarge.err, /larger than 1000 bytes \(FIELDPOST_MAX_MESSAGE\)/);
  await api.fillDisk();
  t.equal((await send(api, ['--attach', 'short'], { files })).code, 75);
  await api.emptyDisk();
  t.equal((await send(api, ['--attach', 'short', '--to', 'b'], { files })).code, 65);
  const shrunk = { size: async () => 10, read: async () => Buffer.alloc(0), close: async () => undefined };
  const cut = await send(api, ['--attach', 'a'], { open: async () => shrunk });
  t.same([cut.code, cut.err], [66, 'fieldpost: a became shorter while it was read\n']);
  const sizeless = (read: () => Promise<Buffer>) => ({ ...shrunk, size: async () => 0, read });
  const pipe = sizeless(() => Promise.reject(systemError('ESPIPE', 'invalid seek')));
  const madeUp = sizeless(async () => Buffer.from('M'));
  for (const file of [pipe, madeUp]) {
    const { code, err } = await send(api, ['--attach', 'a'], { open: async () => file });
    t.equal(code, 66, 'it would be sent without its content');
    t.match(err, 'fieldpost: the size of a is not known');
  }
  while (api.uploads > 0) await api.clock.advance(0);
  t.equal(api.size, 0);
});

t.test('a daemon whose disk fails says so while the file is still being sent', async (t) => {
  await using api = await startApi();
  let written = 0;
  api.disk.onOperation = (_, { kind, path }) =>
    kind === 'write' && path.includes('/spool/') && ++written > 1 ? 'error:EIO' : 'ok';
  const { code, err } = await send(api, ['--attach', 'a'], { files: { a: 'x'.repeat(8_000_000) } });
  t.equal(code, 75);
  t.match(err, /^fieldpost: .*EIO/);
});
