/**
 * The package fieldpost-mta under a real systemd: programs that send by sendmail, and a real Postfix that gets what they
 * send, also while the daemon restarts.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { type Test, test } from 'tap';
import { sharedDirectory } from '../peers/peers.js';
import { POSTFIX_PROGRAMS, startPostfix } from '../peers/postfix.js';
import { Container, skipWithoutContainer } from './container.js';

const OUT = new URL('../../build/out/', import.meta.url).pathname;
const ENV_FILE = '/etc/fieldpost/fieldpost.env';
/** Where the container finds the way to Postfix. */
const DOOR = '/var/door';
const RELAY_PORT = 2525;
/** Nobody of this container; its mail, and that of root, goes to the one person who reads it. */
const PERSON = 'keeper@post.example';
const SOMEBODY = 'john@post.example';
const AS_NOBODY = 'setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/tmp';

/** Programs that send a mail with this word in it. */
const CALLERS: Readonly<Record<string, { readonly to: string; call(word: string): string }>> = {
  mail: { to: PERSON, call: (word) => `echo ${word} | ${AS_NOBODY} mail -s hello root` },
  'mail, for root': { to: PERSON, call: (word) => `echo hi | mail -s ${word} root` },
  // cron runs such jobs once, unless it believes that the system has booted anew.
  cron: {
    to: PERSON,
    call: (word) =>
      `echo '@reboot nobody echo ${word}; exit 1' > /etc/cron.d/failing; rm -f /run/crond.reboot; systemctl restart cron`,
  },
  smartd: {
    to: PERSON,
    call: (word) =>
      `echo '/var/${word} -d nvme -a -m root -M test' > /var/smartd.conf; touch /var/${word}; LD_PRELOAD=/var/nvme.so smartd -q onecheck -c /var/smartd.conf`,
  },
  PHP: {
    to: PERSON,
    call: (word) =>
      `${AS_NOBODY} php -r 'exit(mail("root@localhost", "${word}", "hi", "X-From: php") ? 0 : 1);'`,
  },
  'git send-email': {
    to: SOMEBODY,
    call: (
      word,
    ) => `rm -rf /var/git; git init -q /var/git; cd /var/git; git config user.name Joe; git config user.email joe@post.example;
      echo ${word} > file; git add file; git commit -qm ${word}; git send-email --quiet --confirm=never --suppress-cc=all --to=${SOMEBODY} -1`,
  },
  mutt: { to: SOMEBODY, call: (word) => `echo hi | ${AS_NOBODY} mutt -s ${word} ${SOMEBODY}` },
  Python: {
    to: SOMEBODY,
    call: (word) => `python3 - <<'END'
import subprocess
mail = 'From: "Joe" <joe@post.example>\\nTo: ${SOMEBODY}\\nBcc: root\\nSubject: ${word}\\n\\nhi\\n.\\nmore\\n'
subprocess.run(['/usr/sbin/sendmail', '-t', '-oi'], input=mail.encode(), check=True)
END`,
  },
  'Mail::Mailer': {
    to: SOMEBODY,
    call: (word) => `${AS_NOBODY} perl -MMail::Mailer -e '
      $mail = Mail::Mailer->new("sendmail"); $mail->open({To => q(${SOMEBODY}), Subject => q(${word})});
      print $mail "hi\\n"; $mail->close or die "not sent"'`,
  },
};

const missing = POSTFIX_PROGRAMS.filter((path) => !existsSync(path));
const skip =
  skipWithoutContainer('callers') ||
  (missing.length > 0 && `there is no ${missing.join(', ')}: scripts/peers`);

test('programs send by sendmail', { skip }, async (t) => {
  const postfix = await startPostfix(t);
  const door = sharedDirectory(t);
  const port = Number(/:(\d+)/.exec(postfix.settings('plain').FIELDPOST_RELAY ?? '')?.[1]);
  await openDoor(t, join(door, 'relay'), port);
  const it = await Container.boot(t, 'callers', `--bind=${door}:${DOOR}`);
  t.teardown(async () => {
    if (!t.passing()) t.comment((await it.run('journalctl -b -q --no-pager | tail -n 60')).out);
  });
  await install(t, it);
  const arrived = (word: string) => postfix.mails.filter((mail) => mail.includes(word));
  await sendAll(t, it, arrived, 'idle');
  await it.must(
    `systemd-run --quiet --unit=restarts sh -c 'while :; do systemctl restart fieldpost.service; sleep 0.7; done'`,
  );
  await sendAll(t, it, arrived, 'restarting');
  await it.must('systemctl stop restarts; systemctl start fieldpost.service');
  await mailq(t, it);
  await refusals(t, it);
  await removal(t, it);
});

/** Serves a socket behind which is Postfix. */
async function openDoor(t: Test, path: string, port: number): Promise<void> {
  const server = createServer((inside) => {
    const outside = connect(port, '127.0.0.1');
    for (const socket of [inside, outside]) socket.on('error', () => undefined);
    inside.pipe(outside).pipe(inside);
  });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(path, resolve));
}

async function install(t: Test, it: Container): Promise<void> {
  for (const name of readdirSync(OUT).filter((file) => file.endsWith('.deb')))
    await it.write(`/var/debs/${name}`, readFileSync(`${OUT}${name}`));
  const library = join(t.testdir(), 'nvme.so');
  execFileSync('tcc', ['-shared', '-nostdlib', '-o', library, new URL('nvme.c', import.meta.url).pathname]);
  await it.write('/var/nvme.so', readFileSync(library));
  // apt takes the other mail transport agent away, as it does with any two of them.
  await it.must('apt-get install -y --no-install-recommends /var/debs/*.deb');
  const status = await it.must(`dpkg-query -W -f '\${db:Status-Abbrev} ' msmtp-mta fieldpost-mta`);
  t.match(status, /^ii +rc/, 'it replaces the other mail transport agent');
  t.equal(await it.must("stat -c '%A %G' /run/fieldpost/send.sock"), 'srw-rw-rw- fieldpost-send');
  t.equal(await it.must('newaliases'), '');
  const proxy = `const { connect, createServer } = require('net');
    createServer((near) => {
      const far = connect('${DOOR}/relay');
      for (const socket of [near, far]) socket.on('error', () => undefined);
      near.pipe(far).pipe(near);
    }).listen(${RELAY_PORT}, '127.0.0.1');`;
  await it.write('/var/proxy.js', proxy);
  await it.must('systemd-run --quiet --unit=relay node /var/proxy.js');
  const settings = [
    `FIELDPOST_RELAY=smtp://127.0.0.1:${RELAY_PORT}?tls=never`,
    'FIELDPOST_FROM=gateway@post.example',
    `FIELDPOST_LOCAL_MAIL=${PERSON}`,
    '',
  ];
  await it.write(ENV_FILE, settings.join('\n'));
  await it.must('systemctl reload fieldpost.service');
}

/** Every program sends a mail, which arrives once. */
async function sendAll(
  t: Test,
  it: Container,
  arrived: (word: string) => readonly string[],
  when: string,
): Promise<void> {
  const words = new Map<string, string>();
  for (const [name, { call }] of Object.entries(CALLERS)) {
    const word = `word${when}${words.size}`;
    words.set(name, word);
    const { status, out } = await it.run(call(word));
    t.equal(status, 0, `${when}: ${name}: ${out}`);
  }
  const deadline = AbortSignal.timeout(60_000);
  for (const [name, word] of words) {
    // Python sends one to root as well.
    const wanted = name === 'Python' ? [SOMEBODY, PERSON] : [CALLERS[name]?.to];
    while (arrived(word).length < wanted.length && !deadline.aborted) await it.run('sleep 0.1');
    const to = arrived(word).map((mail) => /^X-Original-To: (.*)$/m.exec(mail)?.[1]);
    t.same(to.sort(), wanted, `${when}: ${name} arrives once`);
  }
}

async function mailq(t: Test, it: Container): Promise<void> {
  await it.until('mailq', /^Mail queue is empty$/m);
  await it.must('systemctl stop relay');
  await it.must(`echo hi | sendmail -f somebody@elsewhere.example ${SOMEBODY}`);
  const shown = await it.until('mailq', /refused/);
  t.match(
    shown,
    /^----Queue ID----- --Size-- ---Arrival Time---- --Sender\/Recipient------\n[0-9A-Z]{15} +\d+ \w{3} \w{3} [\d ]\d \d\d:\d\d:\d\d gateway@post\.example\n *\(.*refused.*\)\n {47}john@post\.example\n\n-- 0 Kbytes in 1 Request\.\n/,
  );
  const nobody = await it.run(`${AS_NOBODY} mailq`);
  t.equal(nobody.status, 0, 'the port of loopback is open to everybody');
  // systemd forgets a unit that has stopped a moment later, so this one has another name.
  await it.must('systemd-run --quiet --unit=relay-again node /var/proxy.js');
  // A flush before the relay listens is used up.
  await it.until("bash -c '</dev/tcp/127.0.0.1/2525' && echo listens", /^listens$/m);
  await it.must('sendmail -q');
  await it.until('mailq', /^Mail queue is empty$/m);
}

async function refusals(t: Test, it: Container): Promise<void> {
  await it.must(`sed -i /LOCAL_MAIL/d ${ENV_FILE}; systemctl reload fieldpost.service`);
  const refused = await it.run(`echo hi | ${AS_NOBODY} sendmail root`);
  t.match(refused, { status: 67, out: /^sendmail: .*FIELDPOST_LOCAL_MAIL[^\n]*\n$/ });
  await it.write('/etc/credstore/fieldpost.api-token', 'sesame\n', '600');
  await it.must('systemctl restart fieldpost.service');
  t.equal((await it.run(`echo hi | ${AS_NOBODY} sendmail ${SOMEBODY}`)).status, 0, 'a token is for TCP');
  const mailq = await it.run(`${AS_NOBODY} mailq`);
  t.match(mailq, { status: 77, out: /^mailq: .*members of the group fieldpost-api may use the queue\n$/ });
  t.equal((await it.run('mailq')).status, 0);
}

async function removal(t: Test, it: Container): Promise<void> {
  await it.must('dpkg -r --force-depends fieldpost-mta');
  t.equal(await it.must('stat -c %A /run/fieldpost/send.sock'), 'srw-rw----');
  t.equal(await it.run('ls /usr/sbin/sendmail /usr/bin/mailq').then(({ status }) => status), 2);
  t.match(await it.must('fieldpost status'), /Fieldpost/);
}
