/**
 * The Debian package under a real systemd: what an operator does to it, and what happens to it, from the installation
 * to the purge. On Debian 13 with the Node.js that Debian ships, and with Debian 12's systemd.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type Test, test } from 'tap';
import { Container, INSIDE, skipWithoutContainer } from './container.js';

const OUT = new URL('../../build/out/', import.meta.url).pathname;
const API = 'http://127.0.0.1:43770/api/internal';
const ENV_FILE = '/etc/fieldpost/fieldpost.env';
const STATE = '/var/lib/private/fieldpost';
const RELAYED = '/var/relayed';
const RELAY = 'FIELDPOST_RELAY=smtp://device@127.0.0.1:2525?tls=never\n';

/** An empty package that says that Node.js is there: this machine's is bound into the container. */
function standIn(t: Test): Buffer {
  const root = t.testdir({ nodejs: { DEBIAN: {} } });
  const { version, arch } = process;
  const control = `Package: nodejs\nVersion: ${version.slice(1)}\nArchitecture: all\nMaintainer: x\nDescription: ${arch}\n`;
  writeFileSync(`${root}/nodejs/DEBIAN/control`, control);
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', `${root}/nodejs`, `${root}/nodejs.deb`]);
  return readFileSync(`${root}/nodejs.deb`);
}

/** A container with the package's file in it, and a relay that is not started. */
async function device(t: Test, suite: string): Promise<Container> {
  const isOwn = suite !== 'trixie';
  const container = await Container.boot(
    t,
    suite,
    isOwn ? `--bind-ro=${process.execPath}:/usr/bin/node` : '',
  );
  if (isOwn) {
    await container.write('/var/nodejs.deb', standIn(t));
    await container.must('dpkg -i /var/nodejs.deb');
  }
  const name = readdirSync(OUT).find((file) => file.endsWith('.deb')) ?? '';
  await container.write('/var/fieldpost.deb', readFileSync(`${OUT}${name}`));
  return container;
}

const startRelay = (device: Container) =>
  device.must(
    `mkdir -p ${RELAYED}; systemd-run --quiet --unit=relay node ${INSIDE}/test/systemd/relay.mjs ${RELAYED}`,
  );

async function post(device: Container, count = 1): Promise<string[]> {
  const mails = Array(count).fill({ type: 1, destination: 'john@example.com', subject: 'x' });
  const answer = await device.must(
    `curl -sS --fail-with-body ${API}/messages -H 'Content-Type: application/json' --data-binary @-`,
    JSON.stringify(mails),
  );
  return (JSON.parse(answer) as { id: string }[]).map(({ id }) => id);
}

async function show(device: Container, ...properties: string[]): Promise<string> {
  const found = await device.must(`systemctl show fieldpost.service -p ${properties.join(',')}`);
  return found.split('\n').sort().join(' ');
}

const log = (device: Container) => device.must('journalctl -b -q --no-pager -o cat -u fieldpost.service');

async function setTo(device: Container, settings: string): Promise<void> {
  await device.write(ENV_FILE, settings);
}

const relayed = async (device: Container) => (await device.must(`ls ${RELAYED}`)).split('\n').filter(Boolean);

for (const suite of ['trixie', 'bookworm']) {
  test(`on ${suite}`, { skip: skipWithoutContainer(suite) }, async (t) => {
    mkdirSync(OUT, { recursive: true });
    const it = await device(t, suite);
    t.teardown(async () => {
      if (!t.passing())
        t.comment((await it.run('journalctl -b -q --no-pager | grep -v " sent id=" | tail -n 40')).out);
    });
    t.comment(await it.must('systemctl --version | head -n 1; node --version'));
    await install(t, it);
    await deliver(t, it);
    await sandboxed(t, it);
    await hostName(t, it);
    await restartUnderLoad(t, it);
    await reload(t, it);
    await watchdog(t, it);
    await powerCut(t, it);
    await badSetting(t, it);
    await remove(t, it);
  });
}

async function install(t: Test, it: Container): Promise<void> {
  await it.must('dpkg -i /var/fieldpost.deb');
  t.equal(
    await show(it, 'ActiveState', 'SubState', 'NRestarts', 'StatusText', 'UnitFileState'),
    'ActiveState=active NRestarts=0 StatusText=0 queued, no relay, cloud disabled SubState=running UnitFileState=enabled',
    'it runs, and tells how it does',
  );
  t.notMatch(await it.must('journalctl -b -q --no-pager -o cat'), /credential/i, 'nothing is missed');
  t.match(
    await show(it, 'WatchdogUSec', 'Restart', 'RestartUSec'),
    'Restart=always RestartUSec=5s WatchdogUSec=1min',
  );
  t.match(
    await log(it),
    /started version=.* listen=(?=\S*127\.0\.0\.1:43770)(?=\S*\/run\/fieldpost\/api\.sock)(?=\S*\/run\/fieldpost\/send\.sock)/,
  );
  t.equal(await it.must("stat -c '%A %U %G' /run/fieldpost/api.sock"), 'srw-rw---- root fieldpost-api');
  t.equal(await it.must("stat -c '%A %U %G' /run/fieldpost/send.sock"), 'srw-rw---- root fieldpost-send');
  const sendOnly = 'curl -sS -o /dev/null -w %{http_code} --unix-socket /run/fieldpost/send.sock';
  t.equal(await it.must(`${sendOnly} http://x/api/internal/state`), '403', 'for sending only');
  t.equal(await it.must(`${sendOnly} http://x/api/internal/messages/none`), '404');
  t.equal(await it.must(`stat -c %A ${STATE}`), 'drwx------');
  t.match(await it.must('curl -sS --unix-socket /run/fieldpost/api.sock http://x/healthz'), 'ok');
  t.match(await it.must('fieldpost status'), /relay .*none is configured/, 'the command line finds it');
}

async function deliver(t: Test, it: Container): Promise<void> {
  const ids = await post(it, 2);
  await startRelay(it);
  await it.write('/etc/credstore/fieldpost.relay-password', 'sesame\n', '600');
  await setTo(it, RELAY);
  await it.must('systemctl restart fieldpost.service');
  await it.until(`ls ${RELAYED}`, new RegExp(ids.join('\\n')));
  t.same(await relayed(it), ids, 'delivered, with the password of the credential');
  await it.until('systemctl show fieldpost.service -p StatusText', /=0 queued, relay ok, cloud disabled/);
  const file = '/run/credentials/fieldpost.service/relay-password';
  const user = await it.must(`ps -o user= -p $(systemctl show fieldpost.service -p MainPID --value)`);
  t.match(await it.must(`stat -c %a ${file}`), /^4[04]0$/);
  const nobody = 'setpriv --reuid=65534 --regid=65534 --clear-groups --';
  for (const secret of [file, '/etc/credstore/fieldpost.relay-password', STATE])
    t.not(
      (await it.run(`${nobody} ls ${secret}/. || ${nobody} cat ${secret}`)).status,
      0,
      `${secret} is closed`,
    );
  t.not(user, 'root');
  const environ = await it.must('cat /proc/$(systemctl show fieldpost.service -p MainPID --value)/environ');
  t.notMatch(environ, 'sesame', 'nor is it in the environment');
}

async function sandboxed(t: Test, it: Container): Promise<void> {
  const report = await it.must('systemd-analyze security --no-pager fieldpost.service');
  const exposure = Number(/exposure level for fieldpost.service: ([\d.]+)/.exec(report)?.[1]);
  t.ok(exposure <= 1.3, `exposure ${exposure}`);
  t.equal(
    await it.must(
      'systemd-analyze verify fieldpost.service fieldpost.socket 2>&1 | grep -v "man fieldpost" || :',
    ),
    '',
  );
}

/** A name that comes with a lease, after the start. */
async function hostName(t: Test, it: Container): Promise<void> {
  await it.must('hostname pump-3.example.com');
  const [id = ''] = await post(it);
  await it.until(`ls ${RELAYED}`, new RegExp(id));
  t.match(
    await it.must(`cat ${RELAYED}/${id}`),
    /^From: <?fieldpost@pump-3\.example\.com/m,
    'no restart is needed',
  );
  await it.must('hostname gateway');
}

async function restartUnderLoad(t: Test, it: Container): Promise<void> {
  await it.must(`systemd-run --quiet --unit=hammer node ${INSIDE}/test/systemd/hammer.mjs /var/hammered`);
  for (let i = 0; i < 3; i++) await it.must('systemctl restart fieldpost.service');
  await it.must('dpkg -i /var/fieldpost.deb');
  await it.must('systemctl kill hammer.service');
  await it.until('cat /var/hammered', /ids/);
  const { ids, trouble } = JSON.parse(await it.must('cat /var/hammered')) as {
    ids: string[];
    trouble: Record<string, number>;
  };
  t.comment(`${ids.length} accepted, ${JSON.stringify(trouble)}`);
  t.ok(ids.length > 100, `${ids.length} accepted`);
  t.same(trouble, {}, 'none was refused');
  await it.until('systemctl show fieldpost.service -p StatusText', /=0 queued, relay ok/);
  const arrived = new Set(await relayed(it));
  t.same(
    ids.filter((id) => !arrived.has(id)),
    [],
    'all that was accepted has arrived',
  );
}

async function reload(t: Test, it: Container): Promise<void> {
  const before = await show(it, 'MainPID', 'NRestarts');
  await setTo(it, `${RELAY}FIELDPOST_LOG=debug\nFIELDPOST_HISTORY=7\n`);
  await it.must('systemctl reload fieldpost.service');
  await it.until(
    'journalctl -b -q -o cat -u fieldpost.service',
    /reloaded taken=FIELDPOST_LOG needsRestart=FIELDPOST_HISTORY/,
  );
  await setTo(it, `${RELAY}FIELDPOST_LOG=loud\n`);
  t.not((await it.run('systemctl reload fieldpost.service')).status, 0, 'a reload with a fault fails');
  await it.until(
    'journalctl -b -q -o cat -u fieldpost.service',
    /reload refused reason=.*FIELDPOST_LOG=loud/,
  );
  await it.until('journalctl -b -q -o cat -t reload', /^FIELDPOST_LOG=loud: /m);
  await it.until(
    'systemctl show fieldpost.service -p ActiveState,StatusText',
    /ActiveState=active\nStatusText=settings refused \(FIELDPOST_LOG=loud|StatusText=settings refused \(FIELDPOST_LOG=loud[\s\S]*ActiveState=active/,
  );
  await setTo(it, RELAY);
  await it.must('systemctl reload fieldpost.service');
  await it.until('journalctl -b -q -o cat -u fieldpost.service', /reloaded taken=FIELDPOST_LOG$/m);
  await it.until('systemctl show fieldpost.service -p ActiveState', /=active/);
  t.equal(await show(it, 'MainPID', 'NRestarts'), before, 'the same process all the while');
}

async function watchdog(t: Test, it: Container): Promise<void> {
  const dropIn = '/run/systemd/system/fieldpost.service.d/test.conf';
  await it.write(dropIn, '[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\nRestartSec=100ms\n');
  await it.must('systemctl daemon-reload; systemctl restart fieldpost.service');
  await it.must('sleep 5');
  t.match(await show(it, 'NRestarts'), 'NRestarts=0', 'it lives, and is left alone');
  const [id = ''] = await post(it);
  // A process that is stopped is an event loop that does not turn.
  await it.must('systemctl kill --kill-whom=main -s STOP fieldpost.service');
  await it.until(
    'systemctl show fieldpost.service -p NRestarts,SubState',
    /NRestarts=1[\s\S]*SubState=running|SubState=running[\s\S]*NRestarts=1/,
  );
  t.match(await it.must('journalctl -b -q -o cat -u fieldpost.service'), /Watchdog timeout/);
  await it.until(`ls ${RELAYED}`, new RegExp(id));
  t.match(await post(it), [/./], 'and it works again');
  await it.must(`rm ${dropIn}; systemctl daemon-reload; systemctl restart fieldpost.service`);
}

async function powerCut(t: Test, it: Container): Promise<void> {
  await it.must('fieldpost queue hold');
  const ids = await post(it, 100);
  await it.cutPower();
  await it.switchOn();
  await it.until('systemctl show fieldpost.service -p ActiveState', /=active/);
  t.match(await log(it), /started .* queued=100 /, 'nothing is lost');
  await startRelay(it);
  await it.must('fieldpost queue release');
  await it.until('systemctl show fieldpost.service -p StatusText', /=0 queued, relay ok/);
  const arrived = new Set(await relayed(it));
  t.same(
    ids.filter((id) => !arrived.has(id)),
    [],
  );
}

async function badSetting(t: Test, it: Container): Promise<void> {
  await setTo(it, `${RELAY}FIELDPOST_MAX_QUEUE=many\n`);
  await it.must('systemctl restart fieldpost.service');
  await it.until(
    'systemctl show fieldpost.service -p StatusText',
    /settings refused \(FIELDPOST_MAX_QUEUE=many/,
  );
  await post(it);
  await it.until('systemctl show fieldpost.service -p StatusText', / 0 queued, relay ok/);
  // Where no good settings are kept, a fault ends the start.
  await it.must(`rm ${STATE}/settings.json`);
  t.not((await it.run('systemctl restart fieldpost.service')).status, 0);
  t.match(
    await show(it, 'ActiveState', 'SubState', 'ExecMainStatus', 'NRestarts'),
    'ActiveState=failed ExecMainStatus=78 NRestarts=0 SubState=failed',
    'it is not started again by itself',
  );
  // A call that waits at the socket wakes it again and again, until that is enough.
  await it.must(`systemd-run --quiet curl -sS -m 60 ${API}/state`);
  await it.until('systemctl show fieldpost.socket -p Result', /=trigger-limit-hit/);
  const starts = (await log(it)).split('\n').filter((line) => /FIELDPOST_MAX_QUEUE=many/.test(line)).length;
  t.ok(starts <= 7, `started ${starts} times`);
  await setTo(it, RELAY);
  await it.must('systemctl restart fieldpost.service');
  await it.must('curl -sS --fail --unix-socket /run/fieldpost/api.sock http://x/healthz');
  t.pass('mended, it runs on all its sockets');
}

async function remove(t: Test, it: Container): Promise<void> {
  await it.must('systemctl stop relay; systemctl restart fieldpost.service');
  const [id = ''] = await post(it);
  await it.must('dpkg --remove fieldpost');
  t.match(await it.run('ls /usr/lib/fieldpost /usr/bin/fieldpost'), {
    out: /No such file[\s\S]*No such file/,
  });
  t.match(await it.must(`ls ${STATE} ${ENV_FILE}`), /journal/);
  t.not((await it.run(`curl -sS ${API}/state`)).status, 0, 'nobody listens');
  await it.must('dpkg -i /var/fieldpost.deb');
  t.match(
    await it.must(`curl -sS ${API}/messages/${id}`),
    /"(queued|deferred)"/,
    'what was queued is still there',
  );
  await it.must('dpkg --purge fieldpost');
  const left =
    'ls -d /var/lib/fieldpost /var/lib/private/fieldpost /etc/fieldpost /etc/credstore/fieldpost.* 2>/dev/null || :';
  t.equal(await it.must(left), '', 'purge leaves nothing');
  t.equal(await it.must('systemctl list-unit-files --no-legend "fieldpost*" || :'), '');
}
