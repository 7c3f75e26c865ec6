/** `fieldpost destinations` against the real API. */
import t from 'tap';
import { startApi } from '../support/api.js';
import { envOf, fieldpost } from './terminal.js';

const JOHN = ['--type', 'email', '--to', 'john@example.com', '--lang', 'en', '--name', 'John Doe'];

t.test('the address book from the command line', async (t) => {
  await using api = await startApi();
  const run = (...argv: string[]) => fieldpost(['destinations', ...argv], { env: envOf(api) });

  t.equal((await run()).out, 'The address book is empty: nobody is told.\n');
  t.same(await run('add', ...JOHN), { code: 0, out: '1 is added: John Doe, john@example.com\n', err: '' });
  const phone = { type: 2, destination: '+4915112345678', lang: 'de', name: 'a\u202eb' };
  const options = [`--to=${phone.destination}`, '--lang=de', `--name=${phone.name}`];
  const asJson = await run('add', '--type=2', ...options, '--json');
  t.same(JSON.parse(asJson.out), { id: 2, ...phone });
  t.notMatch(asJson.out, '\u202e', 'nothing controls the terminal');
  t.match(
    (await run('list')).out,
    /^2 +sms +de +\S+ +a\\u202eb\n1 +email +en +john@example\.com +John Doe$/m,
  );
  t.equal((await run('update', '1', '--lang', 'nl')).out, '1 is changed: John Doe, john@example.com\n');
  t.match(JSON.parse((await run('--json')).out), [{ id: 2 }, { id: 1, lang: 'nl', name: 'John Doe' }]);
  for (const [args, ids] of [
    [['--type', 'sms'], [2]],
    [['--to', 'JOHN@example.com'], [1]],
    [['--to', 'john@example.com', '--type', 'phone'], []],
    [['--limit', '1'], [2]],
  ] as const) {
    const listed = JSON.parse((await run('list', ...args, '--json')).out);
    t.strictSame(
      listed.map(({ id }: { id: number }) => id),
      ids,
      args.join(' '),
    );
  }
  t.equal((await run('--to', 'nobody@example.com')).out, 'No such destination is found.\n');
  t.equal(JSON.parse((await run('update', '2', '--type', 'phone', '--json')).out).type, 3);

  const twice = await run('add', ...JOHN);
  t.equal(twice.code, 65);
  t.match(twice.err, /Destination 1 has/);
  const faulty = await run('add', '--type=push', '--to=x', '--lang=xx', '--name=');
  t.equal(faulty.code, 65);
  t.match(faulty.err, /\n {2}\/destination: .*\n {2}\/lang: .*\n {2}\/name: /, 'every fault at once');
  t.equal((await run('update', '9', '--name', 'x')).code, 65);
  t.equal((await run('update', 'a/b', '--name', 'x')).code, 65);

  const removed = await run('remove', '7', '1');
  t.same([removed.code, removed.out], [65, '1 is removed\n'], 'one refusal does not stop the rest');
  t.match(removed.err, /no destination "7"/);
  api.breakDisk();
  t.equal((await run('remove', '2')).code, 75);

  for (const argv of [
    ['add', '--type=email'],
    ['add', 'x', ...JOHN],
    ['add', ...JOHN, '--type=letter'],
    ['add', ...JOHN, '--type='],
    ['update', '2'],
    ['update', '--name=x'],
    ['update', '2', '3', '--name=x'],
    ['remove'],
    ['list', 'x'],
    ['list', '--name=x'],
    ['list', '--type=letter'],
    ['list', '--limit=0'],
    ['list', '--hidden', '--type=sms'],
    ['remove', '1', '--to=john@example.com'],
    ['update', '1', '--name=x', '--limit=2'],
  ]) {
    const { code, out } = await run(...argv);
    t.same([code, out], [64, ''], argv.join(' '));
  }
  t.match((await run('add', '--type=email')).err, /missing: --to, --lang, --name/);
});

t.test('hidden entries are listed and removed', async (t) => {
  await using api = await startApi();
  const run = (...argv: string[]) => fieldpost(['destinations', ...argv], { env: envOf(api) });
  t.equal((await run('list', '--hidden')).out, 'Nothing is hidden.\n');
  await api.book.pull({ etag: '"1"', document: ['x\u001b', { uid: 'u' }] });
  const [first, second] = JSON.parse((await run('--hidden', '--json')).out);
  t.match([first, second], [{ id: /^hidden-/, entry: 'x\u001b' }, { entry: { uid: 'u' } }]);
  const shown = (await run('list', '--hidden')).out.split('\n');
  t.match(shown[0], /^ID +REASON +ENTRY$/);
  t.match(shown[1], new RegExp(`^${first.id}  is not an object +"x`));
  t.same(shown.slice(3), ['', '2 hidden.', '']);
  t.notMatch(shown.join(), '\u001b', 'nothing controls the terminal');
  t.same(await run('remove', first.id), { code: 0, out: `${first.id} is removed\n`, err: '' });
  t.match(JSON.parse((await run('list', '--hidden', '--json')).out), [{ id: second.id }]);
  t.equal((await run('remove', first.id)).code, 65);
  t.equal((await run('remove', '--hidden', second.id)).code, 64);
});
