/** The built daemon in an outage: 300 equal alarms under one key become one mail, which tells how many they were. */
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { decodeWords } from '../../src/mail/message/encoded-words.js';
import { MAIN, needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const ALARM = {
  ...{ type: 1, destination: 'ann@example.com', subject: 'Pump 3 leaks' },
  ...{ collapse_key: 'pump-3', collapse_count: true },
};
const READY_MADE = 'From: pump\nSubject: Disk full\nX-Fieldpost-Collapse: disk\n\nfull\n';

t.test('a storm of alarms in an outage', needsProgram, async (t) => {
  let isDown = true;
  await using relay = await fakeRelay({ greeting: () => (isDown ? '421 4.3.2 down' : undefined) });
  const daemon = await startIn(t, {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_MAX_QUEUE: '10',
    FIELDPOST_BACKOFF_MAX: '1s',
  });
  const post = async (body: object) => {
    const { status, json } = await daemon.api('messages', body);
    t.equal(status, 202);
    return json[0].id as string;
  };
  const sendmail = () =>
    spawnSync(MAIN, ['sendmail', ALARM.destination], {
      ...{ input: READY_MADE, timeout: 30_000 },
      env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}` },
    });
  const first = await post(ALARM);
  for (let i = 0; i < 28; i++) t.equal((await daemon.api('messages', Array(10).fill(ALARM))).status, 202);
  await Promise.all(Array.from({ length: 18 }, () => post(ALARM)));
  const sent = daemon.run(
    ...['send', '--to', ALARM.destination, '--subject', ALARM.subject, '--body', 'the last'],
    ...['--collapse', 'pump-3', '--collapse-count', '--json'],
  );
  t.equal(sent.status, 0);
  const [{ id: last }] = JSON.parse(sent.stdout);
  for (let i = 0; i < 3; i++) t.equal(sendmail().status, 0);
  await post({ type: 1, destination: 'ann@example.com', subject: 'end' });
  t.match((await daemon.api('state')).json.queue, { queued: 3, failed: 0 });
  t.match(daemon.run('queue', 'show', first).stdout, /^status +replaced$[\s\S]*^replacedBy +\w{15}$/m);
  t.match(daemon.run('queue', '--status', 'replaced').stdout, /301 replaced messages\./);
  isDown = false;
  await relay.arrived(3);
  const mails = relay.mails.map(({ content }) => content.toString());
  const [storm, disk, end] = ['the last', 'Disk full', 'Subject: end'].map((words) =>
    mails.filter((mail) => mail.includes(words)),
  );
  t.equal(storm?.length, 1);
  t.match(storm?.[0], /^X-Fieldpost-Replaced: 299\r$/m);
  const subject = /^Subject: (.*)$/m.exec(storm?.[0] ?? '')?.[1] ?? '';
  t.equal(decodeWords(subject.trim()), 'Pump 3 leaks (299 ×)');
  t.match(disk, [/^X-Fieldpost-Replaced: 2\r\n[\s\S]*Subject: Disk full\r\n/]);
  t.equal(disk?.length, 1);
  t.notMatch(disk?.[0], /Collapse/);
  t.equal(end?.length, 1);
  t.match((await daemon.api(`messages/${last}?wait=20`)).json, { status: 'sent', replacedBy: null });
  t.equal(await daemon.end('SIGTERM'), 0);
});
