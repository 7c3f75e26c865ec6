/**
 * The Debian package under a real systemd, from the installation to the purge: the actions of an operator, and
 * faults. It runs on Debian 13 with Debian's Node.js, and on Debian 12 with this machine's.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type Test, test } from 'tap';
import { joiningSteps } from '../../src/base/fleet-lines.js';
import {
  assertSandboxed,
  Container,
  INSIDE,
  OUT,
  packageOf,
  propertiesOf,
  RELAYED,
  skipWithoutContainer,
  startRelay,
} from './container.js';

const API = 'http://127.0.0.1:43770/api/internal';
const ENV_FILE = '/etc/fieldpost/fieldpost.env';
const STATE = '/var/lib/private/fieldpost';
const RELAY = 'FIELDPOST_RELAY=smtp://device@127.0.0.1:2525?tls=never\n';

/** An empty package `nodejs`, for a container that has this machine's Node.js mounted. */
function emptyNodePackage(t: Test): Buffer {
  const root = t.testdir({ nodejs: { DEBIAN: {} } });
  const { version, arch } = process;
  const control = `Package: nodejs\nVersion: ${version.slice(1)}\nArchitecture: all\nMaintainer: x\nDescription: ${arch}\n`;
  writeFileSync(`${root}/nodejs/DEBIAN/control`, control);
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', `${root}/nodejs`, `${root}/nodejs.deb`]);
  return readFileSync(`${root}/nodejs.deb`);
}

/** A container with the package's file in it, not yet installed. */
async function device(t: Test, suite: string): Promise<Container> {
  const isNodeMounted = suite !== 'trixie';
  const container = await Container.boot(
    t,
    suite,
    isNodeMounted ? `--bind-ro=${process.execPath}:/usr/bin/node` : '',
  );
  if (isNodeMounted) {
    await container.write('/var/nodejs.deb', emptyNodePackage(t));
    await container.must('dpkg -i /var/nodejs.deb');
  }
  await container.write('/var/fieldpost.deb', packageOf('fieldpost'));
  return container;
}

async function post(device: Container, count = 1): Promise<string[]> {
  const mails = Array(count).fill({ type: 1, destination: 'john@example.com', subject: 'x' });
  const answer = await device.must(
    `curl -sS --fail-with-body ${API}/messages -H 'Content-Type: application/json' --data-binary @-`,
    JSON.stringify(mails),
  );
  return (JSON.parse(answer) as { id: string }[]).map(({ id }) => id);
}

const properties = (...names: string[]) => propertiesOf('fieldpost.service', ...names);

/** A script that prints what the service logged since the boot. */
const LOG = 'journalctl -b -q --no-pager -o cat -u fieldpost.service';

const setTo = (device: Container, settings: string) => device.write(ENV_FILE, settings);

/** The ids of the mails that the relay has. */
const relayed = async (device: Container) => (await device.must(`ls ${RELAYED}`)).split('\n').filter(Boolean);

/** Waits until the queue is empty; gives those of `ids` that the relay does not have. */
async function lostOf(device: Container, ids: readonly string[]): Promise<string[]> {
  await device.until(properties('StatusText'), /=0 queued, relay ok/);
  const arrived = await relayed(device);
  return ids.filter((id) => !arrived.includes(id));
}

/** The older systemd has its smoke; the long variant tries all on both. */
const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';

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
    if (suite === 'bookworm' && !IS_LONG) {
      await restartUnderLoad(t, it);
      await dropIns(t, it);
      await remove(t, it);
      return;
    }
    await encryptedPassword(t, it);
    await joins(t, it);
    await assertSandboxed(t, it, 'fieldpost', 'fieldpost.socket', 'fieldpost-smtp.socket');
    await hostName(t, it);
    await restartUnderLoad(t, it);
    await reload(t, it);
    await dropIns(t, it);
    await watchdog(t, it);
    await powerCut(t, it);
    await badSetting(t, it);
    await remove(t, it);
  });
}

async function install(t: Test, it: Container): Promise<void> {
  await it.must('dpkg -i /var/fieldpost.deb');
  t.equal(
    await it.must(properties('ActiveState', 'SubState', 'NRestarts', 'StatusText', 'UnitFileState')),
    'ActiveState=active NRestarts=0 StatusText=0 queued, no relay, cloud disabled SubState=running UnitFileState=enabled',
    'it runs, and its status says how',
  );
  t.notMatch(
    await it.must('journalctl -b -q --no-pager -o cat'),
    /credential(?!s-fieldpost\.service\.mount)|env(ironment )?file/i,
    'systemd misses no credential, and no env file',
  );
  t.match(
    await it.must(properties('WatchdogUSec', 'Restart', 'RestartUSec')),
    'Restart=always RestartUSec=5s WatchdogUSec=1min',
  );
  t.match(
    await it.must(LOG),
    /started version=.* listen=(?=\S*127\.0\.0\.1:43770)(?=\S*\/run\/fieldpost\/api\.sock)(?=\S*\/run\/fieldpost\/send\.sock)/,
  );
  t.equal(
    await it.must('cat /proc/sys/net/ipv4/ip_local_reserved_ports'),
    '43770,43780,43790',
    'the kernel draws none of the ports for an outgoing connection',
  );
  t.equal(await it.must("stat -c '%A %U %G' /run/fieldpost/api.sock"), 'srw-rw---- root fieldpost-api');
  t.equal(await it.must("stat -c '%A %U %G' /run/fieldpost/send.sock"), 'srw-rw---- root fieldpost-send');
  const sendOnly = 'curl -sS -o /dev/null -w %{http_code} --unix-socket /run/fieldpost/send.sock';
  t.equal(
    await it.must(`${sendOnly} http://x/api/internal/state`),
    '403',
    'the socket for sending refuses everything else',
  );
  t.equal(await it.must(`${sendOnly} http://x/api/internal/messages/none`), '404');
  t.equal(await it.must(`stat -c %A ${STATE}`), 'drwx------');
  t.match(await it.must('curl -sS --unix-socket /run/fieldpost/api.sock http://x/healthz'), 'ok');
  t.match(
    await it.must('fieldpost status'),
    /relay .*none is configured/,
    'the command line reaches the daemon',
  );
}

async function deliver(t: Test, it: Container): Promise<void> {
  const ids = await post(it, 2);
  await startRelay(it);
  await it.write('/etc/credstore/fieldpost.relay-password', 'sesame\n', '600');
  await setTo(it, RELAY);
  await it.must('systemctl restart fieldpost.service');
  await it.until(`ls ${RELAYED}`, new RegExp(ids.join('\\n')));
  t.same(await relayed(it), ids, 'it logs in with the password of the credential');
  await it.until(properties('StatusText'), /=0 queued, relay ok, cloud disabled/);
  const file = '/run/credentials/fieldpost.service/relay-password';
  const user = await it.must(`ps -o user= -p $(systemctl show fieldpost.service -p MainPID --value)`);
  t.match(await it.must(`stat -c %a ${file}`), /^4[04]0$/);
  const nobody = 'setpriv --reuid=65534 --regid=65534 --clear-groups --';
  for (const secret of [file, '/etc/credstore/fieldpost.relay-password', STATE])
    t.not(
      (await it.run(`${nobody} ls ${secret}/. || ${nobody} cat ${secret}`)).status,
      0,
      `${secret} is closed to others`,
    );
  t.not(user, 'root');
  const environ = await it.must('cat /proc/$(systemctl show fieldpost.service -p MainPID --value)/environ');
  t.notMatch(environ, 'sesame', 'the password is not in the environment');
}

/** The way of the README: without a TPM, the key of this device encrypts the password. */
async function encryptedPassword(t: Test, it: Container): Promise<void> {
  const plain = '/etc/credstore/fieldpost.relay-password';
  const encrypted = '/etc/credstore.encrypted/fieldpost.relay-password';
  const dropIn = '/etc/systemd/system/fieldpost.service.d/encrypted.conf';
  await it.must(
    `mkdir -p -m 700 /etc/credstore.encrypted; systemd-creds encrypt --with-key=host --name=relay-password ${plain} ${encrypted}`,
  );
  t.notMatch(await it.must(`cat ${encrypted}`), 'sesame');
  await it.must(`mv ${plain} /var/password`);
  await it.write(dropIn, '[Service]\nLoadCredentialEncrypted=relay-password:fieldpost.relay-password\n');
  await it.must('systemctl daemon-reload; systemctl restart fieldpost.service');
  const [id = ''] = await post(it);
  await it.until(`ls ${RELAYED}`, new RegExp(id));
  t.match(
    await it.must('fieldpost check'),
    /^FIELDPOST_RELAY_PASSWORD=\(hidden\) +\/run\/credentials\/fieldpost\.service\/relay-password, credential$/m,
  );
  await it.must(`rm ${dropIn} ${encrypted}; mv /var/password ${plain}; systemctl daemon-reload`);
  await it.must('systemctl restart fieldpost.service');
}

/** The steps that the cloud gives with a new key, word for word; then they are undone. */
async function joins(t: Test, it: Container): Promise<void> {
  const steps = joiningSteps('http://127.0.0.1:43780', 'pump-3').map(([, text]) => text);
  const [save = '', settings, restart = ''] = steps;
  await it.must(save, 'key-of-pump-3\n');
  await setTo(it, `${RELAY}${settings}\n`);
  await it.must(restart);
  t.match(
    await it.must('fieldpost check'),
    /^FIELDPOST_CLOUD_KEY=\(hidden\) +\/run\/credentials\/fieldpost\.service\/cloud-key, credential$/m,
  );
  t.match(await it.must(properties('StatusText')), /, cloud (?!disabled)/, 'it calls the cloud');
  await it.must('rm /etc/credstore/fieldpost.cloud-key');
  await setTo(it, RELAY);
  await it.must(restart);
}

/** A DHCP lease brings a host name after the start. */
async function hostName(t: Test, it: Container): Promise<void> {
  await it.must('hostname pump-3.example.com');
  const [id = ''] = await post(it);
  await it.until(`ls ${RELAYED}`, new RegExp(id));
  t.match(
    await it.must(`cat ${RELAYED}/${id}`),
    /^From: <?fieldpost@pump-3\.example\.com/m,
    'the sender has the new host name without a restart',
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
  t.same(trouble, {}, 'no mail was refused');
  t.same(await lostOf(it, ids), [], 'each accepted mail arrives');
}

async function reload(t: Test, it: Container): Promise<void> {
  const before = await it.must(properties('MainPID', 'NRestarts'));
  await setTo(it, `${RELAY}FIELDPOST_LOG=debug\nFIELDPOST_HISTORY=7\n`);
  await it.must('systemctl reload fieldpost.service');
  await it.until(LOG, /reloaded taken=FIELDPOST_LOG needsRestart=FIELDPOST_HISTORY/);
  await setTo(it, `${RELAY}FIELDPOST_LOG=loud\n`);
  t.not(
    (await it.run('systemctl reload fieldpost.service')).status,
    0,
    'a reload with a wrong setting fails',
  );
  await it.until(LOG, /reload refused reason=.*FIELDPOST_LOG=loud/);
  await it.until('journalctl -b -q -o cat -t reload', /^FIELDPOST_LOG=loud: /m);
  await it.until(
    properties('ActiveState', 'StatusText'),
    /ActiveState=active StatusText=settings refused \(FIELDPOST_LOG=loud/,
  );
  await setTo(it, RELAY);
  await it.must('systemctl reload fieldpost.service');
  await it.until(LOG, /reloaded taken=FIELDPOST_LOG$/m);
  await it.until(properties('ActiveState'), /=active/);
  t.equal(await it.must(properties('MainPID', 'NRestarts')), before, 'the same process still runs');
}

/** systemd, the commands and a reload read the files of conf.d in the same order. */
async function dropIns(t: Test, it: Container): Promise<void> {
  const file = (name: string) => `/etc/fieldpost/conf.d/${name}`;
  t.equal(await it.must("stat -c '%A %U' /etc/fieldpost/conf.d"), 'drwxr-xr-x root');
  await it.write(file('a.env'), 'FIELDPOST_HISTORY=9\n');
  await it.write(file('Z.env'), 'FIELDPOST_HISTORY=8\nFIELDPOST_KEEP_FAILED=6d\n');
  for (const leftover of ['.b.env', 'a.env~', 'a.env.dpkg-old'])
    await it.write(file(leftover), 'FIELDPOST_HISTORY=1\n');
  await it.must('systemctl restart fieldpost.service');
  const environ = await it.must(
    "tr '\\0' '\\n' < /proc/$(systemctl show fieldpost.service -p MainPID --value)/environ",
  );
  const shown = await it.must('fieldpost check');
  for (const [setting, place] of [
    ['FIELDPOST_HISTORY=9', 'a.env:1'],
    ['FIELDPOST_KEEP_FAILED=6d', 'Z.env:2'],
  ]) {
    t.match(environ, new RegExp(`^${setting}$`, 'm'), 'systemd');
    t.match(shown, new RegExp(`^${setting} +/etc/fieldpost/conf.d/${place}$`, 'm'), 'fieldpost check');
  }
  await it.write(file('b.env'), 'FIELDPOST_LOG=debug\nFIELDPOST_HISTORY=9\n');
  await it.must(`rm ${file('a.env')}`);
  await it.must('systemctl reload fieldpost.service');
  await it.until(LOG, /reloaded taken=FIELDPOST_LOG$/m);
  await it.write(file('b.env'), 'FIELDPOST_LOG=debug\nloud\n');
  t.not((await it.run('systemctl reload fieldpost.service')).status, 0, 'a reload with a fault fails');
  await it.until(LOG, /reload refused reason=.*conf\.d\/b\.env:2: /);
  await it.must(`rm ${file('b.env')} ${file('.b.env')}; systemctl reload fieldpost.service`);
  await it.until(LOG, /reloaded taken=FIELDPOST_LOG needsRestart=FIELDPOST_HISTORY$/m);
  await it.must('systemctl restart fieldpost.service');
}

async function watchdog(t: Test, it: Container): Promise<void> {
  const dropIn = '/run/systemd/system/fieldpost.service.d/test.conf';
  await it.write(dropIn, '[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\nRestartSec=100ms\n');
  await it.must('systemctl daemon-reload; systemctl restart fieldpost.service');
  await it.must('sleep 5');
  t.match(await it.must(properties('NRestarts')), 'NRestarts=0', 'a live daemon is not restarted');
  const [id = ''] = await post(it);
  // SIGSTOP stands for an event loop that hangs.
  await it.must('systemctl kill --kill-whom=main -s STOP fieldpost.service');
  await it.until(properties('NRestarts', 'SubState'), /NRestarts=1 SubState=running/);
  t.match(await it.must(LOG), /Watchdog timeout/);
  await it.until(`ls ${RELAYED}`, new RegExp(id));
  t.match(await post(it), [/./], 'the restarted daemon accepts mail');
  await it.must(`rm ${dropIn}; systemctl daemon-reload; systemctl restart fieldpost.service`);
}

async function powerCut(t: Test, it: Container): Promise<void> {
  await it.must('fieldpost queue hold');
  const ids = await post(it, 100);
  await it.cutPower();
  await it.switchOn();
  await it.until(properties('ActiveState'), /=active/);
  t.match(await it.must(LOG), /started .* queued=100 /, 'no message is lost');
  await startRelay(it);
  await it.must('fieldpost queue release');
  t.same(await lostOf(it, ids), [], 'each accepted mail arrives');
}

async function badSetting(t: Test, it: Container): Promise<void> {
  await setTo(it, `${RELAY}FIELDPOST_MAX_QUEUE=many\n`);
  await it.must('systemctl restart fieldpost.service');
  await it.until(properties('StatusText'), /settings refused \(FIELDPOST_MAX_QUEUE=many/);
  await post(it);
  await it.until(properties('StatusText'), / 0 queued, relay ok/);
  // Without the last good settings a wrong one ends the start.
  await it.must(`rm ${STATE}/settings.json`);
  t.not((await it.run('systemctl restart fieldpost.service')).status, 0);
  t.match(
    await it.must(properties('ActiveState', 'SubState', 'ExecMainStatus', 'NRestarts')),
    'ActiveState=failed ExecMainStatus=78 NRestarts=0 SubState=failed',
    'systemd does not start it again',
  );
  // A call that waits at the socket starts it again, until systemd reaches its limit.
  await it.must(`systemd-run --quiet curl -sS -m 60 ${API}/state`);
  await it.until('systemctl show fieldpost.socket -p Result', /=trigger-limit-hit/);
  const starts = (await it.must(LOG))
    .split('\n')
    .filter((line) => /FIELDPOST_MAX_QUEUE=many/.test(line)).length;
  t.ok(starts <= 7, `started ${starts} times`);
  await setTo(it, RELAY);
  await it.must('systemctl restart fieldpost.service');
  await it.must('curl -sS --fail --unix-socket /run/fieldpost/api.sock http://x/healthz');
  t.pass('with the setting corrected it serves all its sockets');
}

async function remove(t: Test, it: Container): Promise<void> {
  await it.must('systemctl stop relay; systemctl restart fieldpost.service');
  const [id = ''] = await post(it);
  await it.must('dpkg --remove fieldpost');
  t.match(await it.run('ls /usr/lib/fieldpost /usr/bin/fieldpost'), {
    out: /No such file[\s\S]*No such file/,
  });
  t.match(await it.must(`ls ${STATE} ${ENV_FILE} /etc/fieldpost/conf.d/Z.env`), /journal/);
  t.not((await it.run(`curl -sS ${API}/state`)).status, 0, 'nothing listens');
  await it.must('dpkg -i /var/fieldpost.deb');
  t.match(
    await it.must(`curl -sS ${API}/messages/${id}`),
    /"(queued|deferred)"/,
    'a queued message survives the removal',
  );
  await it.write('/etc/credstore.encrypted/fieldpost.cloud-key', 'x');
  await it.must('dpkg --purge fieldpost');
  const left =
    'ls -d /var/lib/fieldpost /var/lib/private/fieldpost /etc/fieldpost /etc/credstore*/fieldpost.* 2>/dev/null || :';
  t.equal(await it.must(left), '', 'purge leaves no file');
  t.equal(await it.must('systemctl list-unit-files --no-legend "fieldpost*" || :'), '');
}
