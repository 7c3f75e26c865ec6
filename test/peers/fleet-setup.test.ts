/**
 * fieldpost-fleet(7), followed word for word: each block of commands runs on the machines that the comment above it names. The
 * addresses are those of the test's network, as the page asks. Of what it takes for granted, these stand in: apt-get, which
 * finds Debian's packages installed and unpacks that of the cloud; systemctl, which runs the commands of the real units as
 * their users; ssh, which enters the other machine.
 */
// A process of its own: it needs network namespaces.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { openBridge } from './bridge.js';
import { type Machine, openMachine, patiently } from './machines.js';
import { sharedDirectory, skipWithout } from './peers.js';

const NAMES = ['cloud-a', 'cloud-b', 'cloud-c', 'front'];
const PUBLIC = 'cloud.example.com';
const BLOCK = /<!-- on: ([\w -]+?)(, until it succeeds)? -->\n```sh\n(.*?)\n```/gs;
const COPY = '/var/backups/fieldpost.db';
const skip = skipWithout(
  ...['/usr/bin/etcd', '/usr/bin/etcdctl', '/usr/sbin/haproxy', '/usr/bin/openssl', '/usr/bin/lowdown'],
  ...['/usr/bin/systemd-sysusers', '/usr/bin/setpriv'],
);

const APT_GET = `#!/bin/bash
for word; do case $word in ./*) dpkg --force-depends -i "$word" ;; esac; done
`;

const SSH = `#!/bin/bash
pid=$(cat "/machines/\${1#root@}")
exec nsenter --target "$pid" --mount --uts --net /bin/bash --norc -c "\${*:2}"
`;

/** The stop waits for all processes of the unit. */
const SYSTEMCTL = `#!/bin/bash
units=()
for word; do case $word in -* | daemon-reload | restart | start | stop) ;; *) units+=("\${word%.service}") ;; esac; done
field() { sed -n "s/^$2=//p" "/usr/lib/systemd/system/$1.service"; }
stop() {
  local session
  session=$(cat "/run/$1.session" 2>/dev/null) || return 0
  kill -- "-$session"
  while ps -o stat= -s "$session" | grep -qv Z; do sleep 0.02; done
  rm "/run/$1.session"
}
start() {
  set -a
  while read -r line; do eval "export \${line//%H/$(hostname)}"; done < <(field "$1" Environment)
  for file in $(field "$1" EnvironmentFile); do
    file=\${file#-}
    for file in \${file//%p/$1}; do if [[ -e $file ]]; then . "$file"; fi; done
  done
  user=$(field "$1" User) state=$(field "$1" StateDirectory)
  if [[ $state ]]; then
    mkdir -p -m 700 "/var/lib/$state"
    chown "$user:" "/var/lib/$state"
    STATE_DIRECTORY=/var/lib/$state
  fi
  as=()
  if [[ $user ]]; then as=(setpriv "--reuid=$user" "--regid=$user" --init-groups); fi
  command=$(eval echo $(field "$1" ExecStart))
  setsid bash -c 'echo $$ > "$1"; shift; while :; do "$@"; sleep 0.2; done' - "/run/$1.session" "\${as[@]}" $command \\
    < /dev/null >> "/var/log/$1.log" 2>&1 &
  until [[ -s /run/$1.session ]]; do sleep 0.01; done
}
for unit in "\${units[@]}"; do
  case " $* " in *' stop '* | *' restart '*) stop "$unit" ;; esac
  case " $* " in *' start '* | *' restart '*) (start "$unit") ;; esac
done
`;

/** The four machines as the page finds them, and the authority of the certificate of `front`. */
async function openMachines(
  t: Test,
): Promise<{ machines: ReadonlyMap<string, Machine>; addressed: Addressed }> {
  const packages = sharedDirectory(t);
  execFileSync('/bin/bash', ['scripts/package', '--to', packages, 'deb'], { stdio: 'pipe' });
  const name = readdirSync(packages).find((file) => file.startsWith('fieldpost-cloud_')) ?? '';
  const bridge = openBridge(t);
  const ca = makeCertificate({ name: 'Field CA' });
  const { cert, key } = makeCertificate({ name: PUBLIC, hosts: [PUBLIC], issuer: ca });
  const opened = NAMES.map((machine, n) => openMachine(t, bridge.space(n + 1 + 8), machine));
  const machines = new Map((await Promise.all(opened)).map((machine) => [machine.name, machine]));
  for (const machine of machines.values()) {
    machine.write('/etc/hosts', '127.0.0.1 localhost\n');
    machine.write('/usr/local/bin/apt-get', APT_GET, 0o755);
    machine.write('/usr/local/bin/systemctl', SYSTEMCTL, 0o755);
    machine.write('/usr/local/bin/ssh', SSH.replaceAll('/machines', '/run/machines'), 0o755);
    for (const { name, pid } of machines.values()) machine.write(`/run/machines/${name}`, pid);
    machine.write(`/root/${name}`, readFileSync(join(packages, name)));
    machine.write('/usr/local/share/ca.pem', ca.cert);
  }
  machines.get('front')?.write(`/etc/haproxy/${PUBLIC}.pem`, `${cert}${key}`, 0o600);
  const hosts = NAMES.map((name) => machines.get(name)?.host ?? '');
  const addressed = (text: string) =>
    hosts.reduce((before, host, n) => before.replaceAll(`10.0.0.${n + 1} `, `${host} `), text);
  return { machines, addressed };
}

/** Puts the addresses of the machines in place of those of the page. */
type Addressed = (text: string) => string;

const ENV = { CURL_CA_BUNDLE: '/usr/local/share/ca.pem' };

t.test(
  'the page leads from nothing to a fleet, and back to a copy of it',
  { skip, timeout: 400_000 },
  async (t) => {
    const { machines, addressed } = await openMachines(t);
    t.teardown(() => {
      if (t.passing()) return;
      for (const { name, read } of machines.values())
        for (const unit of ['etcd', 'fieldpost-cloud', 'haproxy'])
          try {
            t.comment(`${name}, ${unit}: ${read(`/var/log/${unit}.log`).slice(-1500)}`);
          } catch {
            // It did not run there.
          }
    });
    const on = (name: string) => machines.get(name) as Machine;
    const follow = async ([, names = '', until, script = '']: RegExpMatchArray) => {
      const commands = addressed(script);
      const act = async (name: string) => on(name).run(commands, ENV);
      const printed = await Promise.all(
        names.split(' ').map((name) => (until === undefined ? act(name) : patiently(() => act(name)))),
      );
      return printed.join('');
    };
    const page = readFileSync('build/man/fieldpost-fleet.7.md', 'utf8');
    const [setUp = '', copy = ''] = page.split('\n## A copy of etcd\n');
    t.equal(page.match(/```sh/g)?.length, [...page.matchAll(BLOCK)].length, 'each block says where it runs');

    let printed = '';
    for (const block of setUp.matchAll(BLOCK)) printed = await follow(block);
    const { key } = JSON.parse(printed) as { key: string };
    /** What the call to the balancer, or to this instance, answers. */
    const calls = (
      method: string,
      at: string,
      path: string,
      bearer: string,
      { body = '', header = 'X: y' } = {},
    ) => {
      const headers = [`Authorization: Bearer ${bearer}`, 'Content-Type: application/json', header];
      const words = headers.map((one) => `-H '${one}'`).join(' ');
      return on('cloud-b').run(
        `curl -sf -X ${method} ${at}/devices/${path} ${words} ${body && `-d '${body}'`}`,
        ENV,
      );
    };
    const operator = /^\* (.*)$/m.exec(on('cloud-a').read('/etc/fieldpost-cloud/keys'))?.[1] ?? '';
    const beat = () =>
      calls('PUT', `https://${PUBLIC}`, 'pump-3/heartbeat', key, { body: '{"state":"running"}' });
    const nameAt = async (n: string) =>
      JSON.parse(await calls('GET', `http://${n}:43780`, 'pump-3', operator)).name;
    const eachSays = async (name: string) => {
      for (const n of NAMES.slice(0, 3))
        await patiently(async () => {
          const found = await nameAt(n);
          if (found !== name) throw new Error(`${n} says ${found}`);
        });
    };
    await patiently(beat);
    const put = (name: string, condition: string) =>
      calls('PUT', `https://${PUBLIC}`, 'pump-3/destinations', operator, {
        body: `{"name":"${name}","destinations":[]}`,
        header: condition,
      });
    await put('Early', 'If-None-Match: *');
    await eachSays('Early');
    t.pass('all three instances have the document of the device');

    const [save, restore, start] = copy.matchAll(BLOCK);
    t.match(await follow(save as RegExpMatchArray), /Snapshot saved/);
    await put('Late', `If-Match: ${JSON.parse(await beat()).destinations}`);
    await eachSays('Late');

    // A whole machine is lost.
    await on('cloud-c').run('systemctl stop fieldpost-cloud etcd');
    await patiently(beat);
    t.pass('the others serve the device without one machine');

    const file = on('cloud-a').readBytes(COPY);
    for (const name of ['cloud-b', 'cloud-c']) on(name).write(COPY, file, 0o600);
    await follow(restore as RegExpMatchArray);
    await follow(start as RegExpMatchArray);
    await eachSays('Early');
    await patiently(beat);
    t.pass('the copy is back, and the key of the device valid');
  },
);
