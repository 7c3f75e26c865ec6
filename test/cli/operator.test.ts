/** The operator's commands of the reference cloud, against a real one. */
import t from 'tap';
import { runCommand } from '../../src/cli/cli.js';
import { CLOUD_PROGRAM } from '../../src/cli/cloud.js';
import type { OperatorContext } from '../../src/cli/command.js';
import { CLOUD_SETTINGS } from '../../src/cloud/settings.js';
import type { SendShort } from '../../src/mail/message/message.js';
import { FakeClock } from '../support/clock.js';
import { DESTINATIONS, EWA, JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';
import { socketPath } from '../support/short-directory.js';
import { failure, preparedDaemon } from './terminal.js';

const KEYS = '* boss\npump-3 three\n';
const SECOND_MS = 1000;

interface World extends Partial<OperatorContext> {
  /** The keys file of the command's settings; null: they name none. */
  readonly keys?: string | null;
}

/** Runs `fieldpost-cloud <argv>` for the cloud at this URL. */
async function operator(url: string, argv: readonly string[], { keys = KEYS, ...more }: World = {}) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand<OperatorContext>(CLOUD_PROGRAM, argv, {
    env: {
      FIELDPOST_CLOUD_SERVER_LISTEN: url.replace('http://', ''),
      ...(keys !== null && { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/etc/keys' }),
    },
    settings: CLOUD_SETTINGS,
    stdout: { write: (text) => void out.push(text), isTTY: false },
    stderr: { write: (text) => void err.push(text), isTTY: false },
    read(path) {
      if (path === '/etc/keys' && keys !== null) return keys;
      throw failure('ENOENT', path);
    },
    list: () => [],
    fileSystemBytes: async () => Number.POSITIVE_INFINITY,
    hostname: 'cloud.example',
    version: '1.2.3',
    service: 'fieldpost-cloud',
    isUnit: false,
    tryRelay: async () => null,
    serve: async () => 0,
    clock: new FakeClock(),
    ...more,
  });
  return { code, out: out.join(''), err: err.join('') };
}

const beat = (cloud: TestCloud, id: string, key: string, more: object = {}) =>
  cloud.call('PUT', `/devices/${id}/heartbeat`, { key, body: { state: 'running', ...more } });

const store = (cloud: TestCloud, document: object) =>
  cloud.call('PUT', DESTINATIONS, { key: 'boss', body: document, headers: { 'If-None-Match': '*' } });

async function pass(cloud: TestCloud, seconds: number): Promise<void> {
  for (let n = 0; n < seconds; n += 10) await cloud.clock.advance(10 * SECOND_MS);
}

t.test('devices: a table, who is offline, parts of it, and JSON', async (t) => {
  const keys = `${KEYS}pump-4 four\npump-5 five\n`;
  await using cloud = await startCloud({ keys });
  await beat(cloud, 'pump-3', 'three', { version: '1.2.3' });
  await store(cloud, { name: 'Sluis \u001b[2J', site: 'North', tags: ['pump'], destinations: [] });
  await pass(cloud, 100);
  await beat(cloud, 'pump-4', 'four', { relay: 'failing' });
  const run = (...argv: string[]) => operator(cloud.url, ['devices', ...argv], { keys });
  const { code, out } = await run();
  t.equal(code, 0);
  const since = (ms: number) =>
    new Date(cloud.clock.wallMs() - ms).toISOString().replace('T', ' ').slice(0, 19);
  t.strictSame(out.split('\n'), [
    'ID      STATE    SINCE (UTC)          VERSION  TROUBLE        NAME       SITE',
    `pump-3  offline  ${since(100_000)}  1.2.3                   Sluis [2J  North`,
    `pump-4  online   ${since(0)}           relay failing`,
    'pump-5  unheard',
    '',
    'In all: 1 of 3 devices is offline; 1 needs attention.',
    '',
  ]);
  t.match((await run('--offline')).out, /^ID .*\npump-3 [^\n]+\n\nIn all: /);
  t.match((await run('--attention')).out, /^ID .*\npump-4 [^\n]+\n\nIn all: /);
  t.match((await run('--state', 'unheard')).out, /^ID .*\npump-5 [^\n]+\n\nIn all: /);
  t.match((await run('SLU')).out, /^ID .*\npump-3 /);
  t.match((await run('--site', 'north')).out, /^ID .*\npump-3 [^\n]+\n\nIn all: /);
  t.match((await run('--tag', 'pump')).out, /^ID .*\npump-3 [^\n]+\n\nIn all: /);
  t.match((await run('--tag', 'fan')).out, /^No such device/);
  t.match((await run('--limit', '2')).out, /\n\n2 of 3 shown\. In all: /);
  t.match((await run('nobody')).out, /^No such device is found\. In all: /);
  const listed = JSON.parse((await run('--json', '--offline')).out);
  t.match(listed, [{ id: 'pump-3', state: 'offline', version: '1.2.3', destinations: 0 }]);
  t.equal(listed.length, 1);
  for (const wrong of [
    ['--state', 'gone'],
    ['--offline', '--state', 'moved'],
    ['a', 'b'],
    ['--limit', '0'],
  ])
    t.equal((await run(...wrong)).code, 64, wrong.join(' '));
});

t.test('devices: all pages of a long list, and no more than asked for', async (t) => {
  const ids = Array.from({ length: 2001 }, (_, n) => `pump-${n}`);
  const keys = `* boss\n${ids.map((id) => `${id} key`).join('\n')}\n`;
  await using cloud = await startCloud({ keys });
  const listed = async (...argv: string[]) => {
    const run = operator(cloud.url, ['devices', '--json', ...argv], { keys });
    // The list pauses.
    let isOver = false;
    void run.finally(() => (isOver = true));
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      await cloud.clock.advance(0);
    }
    return JSON.parse((await run).out).map(({ id }: { id: string }) => id);
  };
  t.strictSame(await listed(), ids);
  t.strictSame(await listed('--limit', '1001'), ids.slice(0, 1001));
});

t.test('device: its state, whom the cloud would tell, and its outages', async (t) => {
  const send = async () => ({ kind: 'taken', reply: '200' }) as const;
  await using cloud = await startCloud({ keys: `${KEYS}pump-9 nine\n`, send });
  const phone = { ...JAN, type: 2, destination: '+31612345678' };
  await store(cloud, {
    name: 'Sluis',
    site: 'Leiden',
    destinations: [phone, { ...EWA, after_min: 60, hours: 'Mo-Fr 07:00-18:00' }, { type: 99 }, null],
  });
  await beat(cloud, 'pump-3', 'three', { queue: { queued: 1, deferred: 0, failed: 2 } });
  await pass(cloud, 200);
  const { code, out } = await operator(cloud.url, ['device', 'pump-3']);
  t.equal(code, 0);
  t.match(out, /^id +pump-3\nname +Sluis\nsite +Leiden\nstate +offline since .* UTC\n/);
  t.match(out, /^messages +1 queued, 0 deferred, 2 failed$/m);
  t.match(
    out,
    /^tells +Jan: \+31612345678 \(sms, nl\)\n +Jan: ewa@example\.com \(email, pl\); told after 60 minutes of being offline, Monday to Friday 07:00-18:00 \(the cloud's time zone\)\n +an entry that/m,
  );
  t.match(
    out,
    /^outages +1 outage in the last year\n +silent from .* not over.*; told: \+31612345678 of offline at .*, sent$/m,
  );
  const json = JSON.parse((await operator(cloud.url, ['device', 'pump-3', '--json'])).out);
  t.match(json, { id: 'pump-3', document: { site: 'Leiden' }, outages: [{ kind: 'silent' }] });
  const none = await operator(cloud.url, ['device', 'pump-9']);
  t.match(none.out, /^tells +nobody: it has sent no address book\noutages +none in the last year$/m);
  t.match(await operator(cloud.url, ['device', 'pump-8']), {
    code: 65,
    err: 'fieldpost-cloud: There is no device pump-8\n',
  });
});

/** Runs a command whose call the cloud answers once it has kept something: that takes time of its clock. */
async function waited(cloud: TestCloud, argv: readonly string[]) {
  const run = operator(cloud.url, argv);
  let isOver = false;
  void run.finally(() => (isOver = true));
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    await cloud.clock.advance(20);
  }
  return await run;
}

t.test('quiet: a device is quiet for a while, which each list shows, and no longer', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  await beat(cloud, 'pump-3', 'three', { late: ['plc-reader'] });
  t.match(await operator(cloud.url, ['quiet', 'pump-3']), { code: 0, out: /^pump-3 is not quiet/ });
  const { code, out } = await waited(cloud, ['quiet', 'pump-3', '2h', '--why', 'battery swap']);
  t.equal(code, 0);
  t.match(out, /^pump-3 is quiet until 2026-11-20 11:00:\d\d UTC: battery swap\n$/);
  t.equal((await operator(cloud.url, ['quiet', 'pump-3'])).out, out);
  const listed = (await operator(cloud.url, ['devices'])).out;
  t.match(listed, /pump-3 .*quiet until 2026-11-20 11:00:\d\d \(battery swap\), plc-reader late/);
  t.match(listed, /1 device, online; 1 needs attention; 1 is quiet\.\n$/);
  const shown = (await operator(cloud.url, ['device', 'pump-3'])).out;
  t.match(shown, /^quiet +until 2026-11-20 11:00:\d\d UTC: battery swap$/m);
  t.match(shown, /^late +plc-reader$/m);
  const json = JSON.parse((await operator(cloud.url, ['quiet', 'pump-3', '--json'])).out);
  t.match(json, { until: /^2026-11-20T11:00/, why: 'battery swap' });
  t.match(await waited(cloud, ['quiet', 'pump-3', 'off']), { code: 0, out: /^pump-3 is not quiet/ });
  t.strictSame(JSON.parse((await operator(cloud.url, ['quiet', 'pump-3', '--json'])).out), {
    ...{ until: null, why: null },
  });
  for (const wrong of [['2'], ['8d'], ['on'], ['2h', 'x'], ['off', '--why', 'x'], ['--why', 'x']])
    t.equal((await operator(cloud.url, ['quiet', 'pump-3', ...wrong])).code, 64, wrong.join(' '));
  const none = { code: 65, err: 'fieldpost-cloud: There is no device pump-9\n' };
  for (const argv of [
    ['quiet', 'pump-9', '2h'],
    ['quiet', 'pump-9', 'off'],
    ['quiet', 'pump-9'],
    ['drill', 'pump-9'],
  ])
    t.match(await operator(cloud.url, argv), none, argv.join(' '));
});

t.test('drill: its people get a test, and the device shows who has confirmed it', async (t) => {
  const env = { FIELDPOST_CLOUD_SERVER_PUBLIC_URL: 'https://cloud.example/' };
  const sent: string[] = [];
  const send: SendShort = async ({ message }) => {
    sent.push(message);
    return { kind: 'taken', reply: '200' };
  };
  await using cloud = await startCloud({ keys: KEYS, env, send });
  t.match(await operator(cloud.url, ['drill', 'pump-3']), { code: 65, err: /has never called/ });
  await beat(cloud, 'pump-3', 'three');
  t.match(await operator(cloud.url, ['drill', 'pump-3']), {
    code: 65,
    err: /nobody would be told of pump-3/,
  });
  await store(cloud, { destinations: [{ ...JAN, type: 2, destination: '+31612345678' }] });
  const done = { code: 0, out: 'A test message is on its way to 1 person.\n' };
  t.match(await waited(cloud, ['drill', 'pump-3']), done);
  t.ok(await cloud.passUntil(() => sent.length === 1));
  t.notMatch((await operator(cloud.url, ['device', 'pump-3'])).out, /confirmed/);
  const [, path = ''] = /https:\/\/cloud\.example(\/\S+)/.exec(sent[0] ?? '') ?? [];
  t.equal((await cloud.call('POST', path, { key: null })).status, 200);
  const { out } = await operator(cloud.url, ['device', 'pump-3']);
  t.match(out, /^tells +Jan: \+31612345678 \(sms, nl\); confirmed a drill 2026-11-20 .* UTC$/m);
  t.match(JSON.parse((await waited(cloud, ['drill', 'pump-3', '--json'])).out), { people: 1 });
});

t.test('a key that only reads shows the devices, and changes nothing', async (t) => {
  const keys = `${KEYS}*:read eye\n`;
  await using cloud = await startCloud({ keys });
  await beat(cloud, 'pump-3', 'three');
  const reader = (...argv: string[]) => operator(cloud.url, argv, { keys: '*:read eye\n' });
  t.match(await reader('devices'), { code: 0, out: /pump-3/ });
  t.match(await reader('status'), { code: 0 });
  t.match(await reader('remove', 'pump-3'), { err: /This key only reads/ });
  t.match(await reader('devices'), { out: /pump-3/ });
});

t.test('a missing id, an empty one, and more than one', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const missing = 'fieldpost-cloud: the id is missing: fieldpost-cloud devices shows the ids\n';
  for (const name of ['device', 'key', 'remove', 'quiet', 'drill'])
    for (const words of [[], ['']])
      t.match(await operator(cloud.url, [name, ...words]), { code: 64, out: '', err: missing }, name);
  t.match(await operator(cloud.url, ['remove', 'pump-3', '']), { code: 64, out: '', err: missing });
  for (const name of ['device', 'key', 'drill'])
    t.match(await operator(cloud.url, [name, 'a', 'b']), { code: 64, err: /unexpected word .*: b\n/ });
});

t.test('device: the address book of a device whose key is gone is not shown', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  await store(cloud, { destinations: [JAN] });
  const keys = '* boss\n';
  await cloud.reload({ keys });
  const { code, out } = await operator(cloud.url, ['device', 'pump-3'], { keys });
  t.equal(code, 0);
  t.match(out, /^tells +1 destination, not shown: it has no key$/m);
});

t.test('key: a new key opens its device; what to do with it is said', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const { code, out } = await operator(cloud.url, ['key', 'pump-4']);
  t.equal(code, 0);
  const [, key = ''] = /^The key of pump-4, which is shown only now:\n\n {2}([\w-]{43})\n/.exec(out) ?? [];
  t.equal((await beat(cloud, 'pump-4', key)).status, 200);
  t.match(out, '  cat | install -D -m 600 /dev/stdin /etc/credstore/fieldpost.cloud-key\n');
  t.match(out, '  FIELDPOST_CLOUD=https://CLOUD\n  FIELDPOST_DEVICE_ID=pump-4\n');
  const made = JSON.parse((await operator(cloud.url, ['key', 'pump-4', '--json'])).out);
  t.equal((await beat(cloud, 'pump-4', made.key)).status, 200);
  t.equal((await beat(cloud, 'pump-4', key)).status, 401, 'it is the new one');
  t.match(await operator(cloud.url, ['key', 'a b']), { code: 65, err: /\n {2}id: must be/ });
  await using open = await startCloud();
  t.match(await operator(open.url, ['key', 'pump-4'], { keys: null }), {
    code: 65,
    err: /a key means nothing/,
  });
});

t.test('remove: each that is there, also after one that is not', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  for (const id of ['pump-4', 'pump-5', 'pump-6']) await operator(cloud.url, ['key', id]);
  const { code, out, err } = await operator(cloud.url, ['remove', 'pump-4', 'none', 'pump-5']);
  t.same(
    [code, out, err],
    [65, 'pump-4 is removed\npump-5 is removed\n', 'fieldpost-cloud: There is no device none\n'],
  );
  const left = JSON.parse((await operator(cloud.url, ['devices', '--json'])).out);
  t.strictSame(
    left.map(({ id }: { id: string }) => id),
    ['pump-3', 'pump-6'],
  );
  const done = await operator(cloud.url, ['remove', 'pump-6', '--json']);
  t.strictSame(JSON.parse(done.out), [{ id: 'pump-6', done: 'is removed' }]);
});

t.test('status: what a person on call asks first', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  await store(cloud, { destinations: [JAN, EWA] });
  await beat(cloud, 'pump-3', 'three', { relay: 'failing' });
  const calm = await operator(cloud.url, ['status']);
  t.match([calm.code, calm.err], [0, '']);
  t.match(calm.out, /^Fieldpost cloud \S+, up 0 s: 1 device, online; 1 needs attention\n/);
  t.match(calm.out, /^devices +1: 1 online, 0 offline, 0 moved\n +1 need/m);
  t.match(calm.out, /^people +2 people in address books\nrelay +none is configured/m);
  t.match(calm.out, /^store +files\nlast faults +none since the start$/m);
  await pass(cloud, 100);
  t.match((await operator(cloud.url, ['status'])).out, /: 1 of 1 device is offline; 1 needs attention\n/);
  const { disk } = cloud;
  const { capacityBytes } = disk;
  disk.capacityBytes = 0;
  const full = await operator(cloud.url, ['status']);
  t.equal(full.code, 75);
  t.match(full.out, /^Fieldpost cloud .*free/);
  t.match(full.out, /^last faults +\d{4}-\S+Z (?:warn|error) /m);
  const json = JSON.parse((await operator(cloud.url, ['status', '--json'])).out);
  t.strictSame(json, (await cloud.call('GET', '/status', { key: 'boss' })).json);
  // The stop writes, too.
  disk.capacityBytes = capacityBytes;
});

t.test(
  'a cloud without keys is opened by any; settings without keys do not open one with keys',
  async (t) => {
    await using open = await startCloud();
    t.equal((await operator(open.url, ['status'], { keys: null })).code, 0);
    await using cloud = await startCloud({ keys: KEYS });
    const where = cloud.url.replace('http://', '');
    t.match(await operator(cloud.url, ['status'], { keys: null }), {
      code: 77,
      err: `fieldpost-cloud: the cloud on ${where} refuses the operator's key\nIt has a keys file: `,
    });
    t.match(await operator(cloud.url, ['devices'], { keys: '* other\n' }), {
      code: 77,
      err: /has the file changed since/,
    });
    t.match(await operator(cloud.url, ['devices'], { keys: 'pump-3 three\n' }), {
      code: 78,
      err: /^fieldpost-cloud: FIELDPOST_CLOUD_SERVER_KEYS_FILE has no key of the operator\n/,
    });
    for (const [error, code, words] of [
      ['EACCES', 77, /\nCall it with sudo/],
      ['ENOENT', 78, /cannot be used: ENOENT[^\n]*\n$/],
    ] as const) {
      const read = (path: string) => {
        throw failure(error, path);
      };
      t.match(await operator(cloud.url, ['devices'], { read }), { code, err: words });
    }
  },
);

t.test('no cloud, one that is full, and a stranger on its address', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const where = cloud.url.replace('http://', '');
  const statOf = (path: string) =>
    path === '/proc/self'
      ? { uid: 1000, mode: 0 }
      : path === '/var/lib/fieldpost-cloud'
        ? { uid: 990, mode: 0 }
        : null;
  for (const [uid, code, words] of [
    [990, 0, ''],
    [991, 77, /user 991 listens on .*: it does not get the key\nIf it is the cloud, /],
  ] as const) {
    const run = operator(cloud.url, ['status'], { statOf, listenerUids: async () => [uid] });
    t.match(await run, { code, err: words }, `user ${uid}`);
  }
  await cloud.stop();
  t.match(await operator(cloud.url, ['devices']), {
    code: 69,
    err: `fieldpost-cloud: no cloud answers on ${where}\nIs the service running? systemctl status fieldpost-cloud\n`,
  });
  const body = { title: 'unavailable', detail: 'There are 10000 devices already' };
  await using full = await preparedDaemon({ 'POST /devices/x/key': { status: 503, body } });
  t.match(await operator(full.env.FIELDPOST_LISTEN ?? '', ['key', 'x']), {
    code: 75,
    err: 'fieldpost-cloud: There are 10000 devices already\n',
  });
  // A cloud asks for the key on a unix socket, too.
  await using local = await preparedDaemon({ 'DELETE /devices/x': { status: 204 } }, socketPath(t));
  t.equal((await operator(local.env.FIELDPOST_LISTEN ?? '', ['remove', 'x'])).code, 0);
  t.equal(local.asked[0]?.headers.authorization, 'Bearer boss');
});
