/**
 * The package of the reference cloud under a real systemd, on a Debian that has nothing of Fieldpost: the page's installation
 * word for word, a device of the other package that falls silent, a mail in Polish, faults in the settings, a hang, an upgrade, the purge.
 */
import { type Test, test } from 'tap';
import { sectionOf } from '../support/pages.js';
import {
  assertSandboxed,
  Container,
  packageOf,
  propertiesOf,
  RELAYED,
  skipWithoutContainer,
  startRelay,
} from './container.js';

const PACKAGE = 'fieldpost-cloud_0_all.deb';
const CLOUD = 'http://127.0.0.1:43780';
const ENV_FILE = '/etc/fieldpost-cloud/fieldpost-cloud.env';
const KEYS = '/etc/fieldpost-cloud/keys';
const STATE = '/var/lib/fieldpost-cloud';
const LOG = 'journalctl -b -q --no-pager -o cat -u fieldpost-cloud.service';

/** What the operator fills in. Devices are offline soon. */
const FILLED = {
  FIELDPOST_RELAY: 'smtp://device@127.0.0.1:2525?tls=never',
  FIELDPOST_FROM: 'Fieldpost <cloud@example.com>',
  FIELDPOST_CLOUD_SERVER_DELAY: '2s',
};
/** An editor that fills these lines in, where the file has them as comments. */
const EDITOR = `#!/bin/sh
set -e
for line in ${Object.entries(FILLED)
  .map(([key, value]) => `'${key}=${value}'`)
  .join(' ')}; do
  grep -q "^#\${line%%=*}=" "$1"
  sed -i "s|^#\${line%%=*}=.*|$line|" "$1"
done
`;

const properties = (...names: string[]) => propertiesOf('fieldpost-cloud.service', ...names);

test('the package of the cloud', { skip: skipWithoutContainer('trixie') }, async (t) => {
  const it = await Container.boot(t, 'trixie');
  t.teardown(async () => {
    if (!t.passing()) t.comment((await it.run('journalctl -b -q --no-pager | tail -n 40')).out);
  });
  await install(t, it);
  await watch(t, it);
  await sandboxed(t, it);
  await reload(t, it);
  await badSetting(t, it);
  await hang(t, it);
  await upgrade(t, it);
  await remove(t, it);
});

/** The commands of the page, word for word. */
async function install(t: Test, it: Container): Promise<void> {
  await it.write(`/var/${PACKAGE}`, packageOf('fieldpost-cloud'));
  await it.write('/var/password-file', 'sesame\n', '600');
  await it.write('/usr/local/bin/editor', EDITOR, '755');
  await startRelay(it);
  const [, block = ''] =
    /```sh\n([^`]*)```/.exec(sectionOf('build/man/fieldpost-cloud.8.md', '## Install')) ?? [];
  const commands = block.trim().split('\n');
  t.equal(commands.length, 5);
  for (const command of commands) {
    const { status, out } = await it.run(`export PATH=/usr/local/bin:$PATH; cd /var; ${command}`);
    t.equal(status, 0, `${command}: ${out}`);
    if (command.startsWith('apt'))
      t.equal(
        await it.must(properties('ActiveState', 'NRestarts', 'StatusText', 'UnitFileState')),
        'ActiveState=active NRestarts=0 StatusText=0 devices online, 0 offline UnitFileState=enabled',
        'it runs before anything is filled in',
      );
    if (command.includes('check')) t.match(out, /good: the relay has taken a test mail to /);
  }
  t.equal(await it.must(`stat -c '%A %U %G' ${KEYS}`), '-rw-r----- root fieldpost-cloud');
  t.match(await it.must(`cat ${KEYS}`), /^\* [\w-]{43}$/);
  t.equal(await it.must(`stat -c '%A %U' ${STATE}`), 'drwx------ fieldpost-cloud');
  t.notMatch(
    await it.must('journalctl -b -q --no-pager -o cat'),
    /credential(?!s-fieldpost-cloud\.service\.mount)|env(ironment )?file/i,
    'systemd misses no credential, and no env file',
  );
  const warnings = (await it.must(LOG)).split('\n').filter((line) => / warning=/.test(line));
  t.match(warnings, [/no relay/, /FIELDPOST_FROM/], 'what must be filled in, and nothing else');
  t.equal(warnings.length, 2);
  t.match(
    await it.must('cat /proc/sys/net/ipv4/ip_local_reserved_ports'),
    /\b43780\b/,
    'the kernel draws the port for no outgoing connection',
  );
  t.equal(
    (await it.run('ls /usr/bin/fieldpost /etc/fieldpost /usr/lib/fieldpost')).out.split('No such').length,
    4,
  );
}

/** A script that calls the cloud as the operator. */
const call = (method: string, path: string, more = '') =>
  `curl -sS --fail-with-body -X ${method} ${CLOUD}${path} -H "Authorization: Bearer $(sed -n 's/^[*] //p' ${KEYS})" ` +
  `-H 'Content-Type: application/json' ${more}`;

/** The package of a device, on the same Debian: it comes online with its key, has a person to tell, and falls silent. */
async function watch(t: Test, it: Container): Promise<void> {
  const open = `curl -sS -o /dev/null -w %{http_code} ${CLOUD}/devices -H 'Authorization: Bearer any'`;
  t.equal(await it.must(open), '401');
  const { key } = JSON.parse(await it.must(call('POST', '/devices/pompa-3/key'))) as { key: string };
  await it.write('/var/fieldpost.deb', packageOf('fieldpost'));
  await it.must('dpkg -i /var/fieldpost.deb');
  await it.write('/etc/credstore/fieldpost.cloud-key', key, '600');
  await it.write(
    '/etc/fieldpost/fieldpost.env',
    `FIELDPOST_CLOUD=${CLOUD}\nFIELDPOST_DEVICE_ID=pompa-3\nFIELDPOST_HEARTBEAT=5s\n`,
  );
  await it.must('systemctl restart fieldpost');
  await it.until(properties('StatusText'), /=1 device online, 0 offline/);
  await it.must('fieldpost destinations add --type email --to ewa@example.com --lang pl --name Ewa');
  await it.until(call('GET', '/devices/pompa-3'), /"destinations":1,/);
  // SIGSTOP stands for a device that has lost its network.
  await it.must('systemctl kill --kill-whom=main -s STOP fieldpost');
  await it.until(properties('StatusText'), /=0 devices online, 1 offline/);
  await it.until(`cat ${RELAYED}/*`, /^Subject: pompa-3 jest offline\r?$/m);
  await it.must('systemctl kill --kill-whom=main -s KILL fieldpost; dpkg --purge fieldpost');
  t.equal(
    await it.must('systemctl is-active fieldpost-cloud'),
    'active',
    'the purge of the device is its own',
  );
}

async function sandboxed(t: Test, it: Container): Promise<void> {
  await assertSandboxed(t, it, 'fieldpost-cloud');
  t.equal(
    await it.must('ps -o user= -p $(systemctl show fieldpost-cloud.service -p MainPID --value)'),
    'fieldpost-cloud',
  );
}

async function reload(t: Test, it: Container): Promise<void> {
  const before = await it.must(properties('MainPID', 'NRestarts'));
  await it.must(`echo 'pump-8 eight-0123456789abcdef' >> ${KEYS}; systemctl reload fieldpost-cloud`);
  await it.until(LOG, /reloaded taken=FIELDPOST_CLOUD_SERVER_KEYS_FILE/);
  await it.must(`echo FIELDPOST_LOG=loud > /etc/fieldpost-cloud/conf.d/x.env`);
  const { status, out } = await it.run('systemctl reload fieldpost-cloud');
  t.not(status, 0, `a reload with a wrong setting fails: ${out}`);
  await it.until('journalctl -b -q -o cat -t reload', /^FIELDPOST_LOG=loud: /m);
  await it.until(
    properties('StatusText'),
    /=settings refused \(FIELDPOST_LOG=loud: .*\), 0 devices online, 1 offline/,
  );
  t.equal(await it.must(properties('MainPID', 'NRestarts')), before, 'the same process still runs');
}

/** The drop-in still has its fault. */
async function badSetting(t: Test, it: Container): Promise<void> {
  await it.must('systemctl restart fieldpost-cloud');
  t.match(
    await it.must(properties('ActiveState', 'StatusText')),
    /=active StatusText=settings refused \(FIELDPOST_LOG=loud: .*\), 0 devices online, 1 offline/,
  );
  t.match(await it.must(LOG), /settings refused reason=.*last good settings/);
  t.match(await it.must(call('GET', '/metrics')), /^fieldpost_cloud_settings_refused 1$/m);
  t.equal((await it.run('fieldpost-cloud check')).status, 78);
  // Without the last good settings a wrong one ends the start.
  await it.must(`mv ${STATE}/settings.json /var`);
  t.not((await it.run('systemctl restart fieldpost-cloud')).status, 0);
  t.equal(
    await it.must(properties('ActiveState', 'ExecMainStatus', 'NRestarts')),
    'ActiveState=failed ExecMainStatus=78 NRestarts=0',
    'systemd does not start it again',
  );
  await it.must('rm /etc/fieldpost-cloud/conf.d/x.env; systemctl restart fieldpost-cloud');
  t.match(
    await it.must('fieldpost-cloud check'),
    /^FIELDPOST_RELAY_PASSWORD=\(hidden\) +\/run\/credentials\/fieldpost-cloud\.service\/relay-password, credential$/m,
  );
}

async function hang(t: Test, it: Container): Promise<void> {
  const dropIn = '/run/systemd/system/fieldpost-cloud.service.d/test.conf';
  await it.write(dropIn, '[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\nRestartSec=100ms\n');
  await it.must('systemctl daemon-reload; systemctl restart fieldpost-cloud');
  // SIGSTOP stands for an event loop that hangs.
  await it.must('systemctl kill --kill-whom=main -s STOP fieldpost-cloud.service');
  await it.until(properties('NRestarts', 'SubState'), /NRestarts=1 SubState=running/);
  t.match(await it.must(LOG), /Watchdog timeout/);
  t.match(await it.must(call('GET', '/devices/pompa-3')), /"offline"/, 'what it knew is there');
  await it.must(`rm ${dropIn}; systemctl daemon-reload; systemctl restart fieldpost-cloud`);
}

async function upgrade(t: Test, it: Container): Promise<void> {
  const kept = `cat ${KEYS} ${ENV_FILE}`;
  const before = await it.must(kept);
  const pid = await it.must(properties('MainPID'));
  await it.must(`dpkg -i /var/${PACKAGE} < /dev/null`);
  t.equal(await it.must(kept), before, 'the keys and the settings stay');
  t.not(await it.must(properties('MainPID')), pid, 'the new program runs');
  t.match(await it.must(call('GET', '/devices/pompa-3')), /"destinations":1,/);
}

async function remove(t: Test, it: Container): Promise<void> {
  t.notMatch(await it.must(LOG), /systemd not told/);
  await it.must('dpkg --remove fieldpost-cloud');
  t.not((await it.run(`curl -sS ${CLOUD}/healthz`)).status, 0, 'nothing listens');
  t.match(await it.must(`ls ${STATE} ${ENV_FILE} ${KEYS}`), /settings\.json/);
  await it.must(`dpkg -i /var/${PACKAGE}`);
  t.match(
    await it.must(call('GET', '/devices/pompa-3')),
    /"destinations":1,/,
    'the state survives the removal',
  );
  await it.must('dpkg --purge fieldpost-cloud');
  const left = `ls -d ${STATE} /etc/fieldpost-cloud /etc/credstore*/fieldpost-cloud.* 2>/dev/null || :`;
  t.equal(await it.must(left), '', 'purge leaves no file');
  t.equal(await it.must('systemctl list-unit-files --no-legend "fieldpost*" || :'), '');
}
