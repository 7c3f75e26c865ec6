/** `fieldpost destinations` against the real API. */
import t from 'tap';
import { RULES as RULE_NAMES } from '../../src/mail/book/rules.js';
import { startApi } from '../support/api.js';
import { FakeClock } from '../support/clock.js';
import { envOf, fieldpost } from './terminal.js';

const JOHN = ['--type', 'email', '--to', 'john@example.com', '--lang', 'en', '--name', 'John Doe'];

t.test('the address book from the command line', async (t) => {
  await using api = await startApi();
  const run = (...argv: string[]) => fieldpost(['destinations', ...argv], { env: envOf(api) });

  t.equal((await run()).out, 'The address book is empty: nobody is told.\n');
  t.same(await run('add', ...JOHN), {
    code: 0,
    out: '1 is added: John Doe, john@example.com; told at once\n',
    err: '',
  });
  const phone = { type: 2, destination: '+4915112345678', lang: 'de', name: 'a\u202eb' };
  const options = [`--to=${phone.destination}`, '--lang=de', `--name=${phone.name}`];
  const asJson = await run('add', '--type=2', ...options, '--json');
  t.same(JSON.parse(asJson.out), { id: 2, ...phone, plan: 'told at once' });
  t.notMatch(asJson.out, '\u202e', 'nothing controls the terminal');
  t.match(
    (await run('list')).out,
    /^2 +sms +de +\S+ +a\\u202eb\n1 +email +en +john@example\.com +John Doe$/m,
  );
  t.equal(
    (await run('update', '1', '--lang', 'nl')).out,
    '1 is changed: John Doe, john@example.com; told at once\n',
  );
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
    ['update', '1', '--after=60'],
    ['update', '1', '--after=90s'],
    ['update', '1', '--after=8d'],
    ['update', '1', '--night=never'],
    ['update', '1', '--weekly', '--no-weekly'],
    ['update', '1', '--name=x', '--at=22:00'],
    ['list', '--hours=Mo'],
    ['remove', '1', '--weekly'],
    ['plan', 'x'],
    ['plan', '--to=john@example.com'],
    ...['22', '22:60', '24:00', 'Xx 22:00', '', '22:00-23:00'].map((at) => ['plan', `--at=${at}`]),
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

const RULES = ['--after', '60m', '--hours', 'Mo-Fr 07:00-18:00', '--zone', 'Europe/Amsterdam'];

t.test('when a person is told', async (t) => {
  await using api = await startApi();
  const run = (...argv: string[]) => fieldpost(['destinations', ...argv], { env: envOf(api) });
  const words = 'told after 60 minutes of being offline, Monday to Friday 07:00-18:00 (Europe/Amsterdam)';
  const added = await run('add', ...JOHN, ...RULES, '--night', 'drop', '--weekly');
  const more = '; not told of what is over before these hours begin; a report each Monday at 07:00';
  t.equal(added.out, `1 is added: John Doe, john@example.com; ${words}${more}\n`);
  /** The rules of the first one. */
  const listed = async () => {
    const shown: [string, unknown][] = Object.entries(JSON.parse((await run('--json')).out).at(-1));
    return Object.fromEntries(shown.filter(([name]) => (RULE_NAMES as readonly string[]).includes(name)));
  };
  const rules = { after_min: 60, hours: 'Mo-Fr 07:00-18:00', zone: 'Europe/Amsterdam' };
  t.same(await listed(), { ...rules, night: 'drop', weekly: true });
  await run('update', '1', '--lang=nl');
  t.same(await listed(), { ...rules, night: 'drop', weekly: true }, 'another change keeps them');
  t.equal(
    (await run('update', '1', '--night=line', '--no-weekly')).out,
    `1 is changed: John Doe, john@example.com; ${words}\n`,
  );
  t.same(await listed(), rules);

  await run('add', '--type=sms', '--to=+4915112345678', '--lang=de', '--name=Jane');
  const wide = (await run('list')).out.split('\n');
  t.match(wide[1], /Jane$/, 'nothing is said of one without rules');
  t.equal(wide[3], `    ${words}`);
  const narrow = await fieldpost(['destinations'], { env: envOf(api), isTTY: true, columns: 60 });
  t.match(
    narrow.out,
    '\n    told after 60 minutes of being offline, Monday to Friday\n    07:00-18:00 (Europe/Amsterdam)\n',
  );

  await run('update', '1', '--after=0m', '--hours=always', '--zone=cloud');
  t.same(await listed(), {}, 'the default is not kept');
  const faulty = await run('update', '1', '--hours', 'noon', '--zone', 'Mars');
  t.equal(faulty.code, 65);
  t.match(faulty.err, /\/hours: .*"Mo-Fr 07:00-18:00.*\n.*\/zone: .*"Europe\/Amsterdam"/);
});

t.test('a confirmed drill is shown', async (t) => {
  await using api = await startApi();
  const uid = '00000000-0000-4000-9000-000000000001';
  const person = { uid, type: 1, destination: 'a@example.com', lang: 'en', name: 'Ann', hours: 'noon' };
  await api.book.pull({ etag: '"1"', document: [{ ...person, confirmedAt: '2026-11-20T09:41:00Z' }] });
  const { out } = await fieldpost(['destinations'], { env: envOf(api) });
  t.match(
    out,
    '\n    told at once; not understood and ignored: hours; a drill was confirmed 2026-11-20 09:41:00 UTC\n',
  );
});

/** A Friday, 21:00 in Amsterdam. */
const FRIDAY_MS = Date.UTC(2026, 10, 27, 20);

t.test('who would hear what, when and how', async (t) => {
  let cloudZone: string | null = null;
  const online = { state: 'online', sinceMs: 0, lastHeartbeatMs: 0, reason: null, history: [] } as const;
  await using api = await startApi({
    linkState: () => ({ ...online, ...(cloudZone !== null && { zone: cloudZone }) }),
  });
  const clock = new FakeClock({ wallMs: FRIDAY_MS });
  const on = (columns: number) => ({ env: envOf(api), isTTY: true, columns, clock });
  const run = (...argv: string[]) => fieldpost(['destinations', ...argv], on(80));
  t.equal((await run('plan')).out, 'The address book is empty: nobody is told.\n');
  const people: [name: string, ...rules: string[]][] = [
    ['Carol', '--hours=Mo-Fr 07:00-18:00', '--weekly'],
    ['Dave', ...RULES, '--night=drop'],
    ['Erin', '--after=90m', '--hours=07:00-18:00', '--zone=Asia/Kolkata'],
    ['Bob', '--after=1h'],
    ['Ann'],
  ];
  for (const [name, ...rules] of people) {
    const to = `--to=${name.toLowerCase()}@example.com`;
    t.equal((await run('add', '--type=email', to, '--lang=en', `--name=${name}`, ...rules)).code, 0);
  }
  const table = (await run('plan', '--at', '22:00')).out;
  t.equal(
    table,
    `If this device fell silent at Fr 2026-11-27 22:00 (UTC):

TOLD                 NAME   HOW    DESTINATION        IF BACK BEFORE
at once              Ann    email  ann@example.com    -
Fr 2026-11-27 23:00  Bob    email  bob@example.com    nothing
Sa 2026-11-28 01:30  Erin   email  erin@example.com   one line if 90 min+
Mo 2026-11-30 06:00  Dave   email  dave@example.com   nothing
Mo 2026-11-30 07:00  Carol  email  carol@example.com  one line

All of it comes after the cloud's delay, which is not known here. Nobody is told
while the device is quiet.
Each Monday at 07:00 a report goes to Carol.
Times are in UTC: the cloud has named no other time zone.
`,
  );
  t.ok(table.split('\n').every((line) => line.length <= 80));

  cloudZone = 'Europe/Amsterdam';
  const named = (await run('plan', '--at=Sa 22:00')).out;
  t.match(named, /^If this device fell silent at Sa 2026-11-28 22:00 \(Europe\/Amsterdam\):\n/);
  t.match(named, /^Mo 2026-11-30 07:00 {2}Carol /m, "hours without a zone are in the cloud's");
  t.notMatch(named, 'UTC');
  t.match((await run('plan')).out, /^If this device fell silent at Fr 2026-11-27 21:00 /, 'now');
  const { at, zone, people: shown } = JSON.parse((await run('plan', '--at=22:00', '--json')).out);
  t.same([at, zone], ['2026-11-27T21:00:00.000Z', 'Europe/Amsterdam']);
  t.match(shown, [
    { name: 'Ann', at, ifBack: null, plan: 'told at once' },
    { name: 'Bob', at: '2026-11-27T22:00:00.000Z', ifBack: 'nothing' },
    { name: 'Erin' },
    { name: 'Carol', at: '2026-11-30T06:00:00.000Z', ifBack: 'one line' },
    { name: 'Dave' },
  ]);
  cloudZone = 'Europe/Atlantis';
  t.match(
    (await run('plan')).out,
    /\(UTC\):[\s\S]*Times are in UTC: the cloud's time zone is not known here/,
    'a zone that this version does not know',
  );
});
