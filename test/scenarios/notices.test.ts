/** The built program tells a person of a failure, also if it is killed before it has. */
// A process of its own: it takes a minute.
import PostalMime from 'postal-mime';
import t from 'tap';
import { needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

t.test(
  'a failure is told after a kill and a start, and can be sent again as it says',
  needsProgram,
  async (t) => {
    let isKnown = false;
    await using relay = await fakeRelay({
      rcpt: ({ command }) => (command.includes('john@') && !isKnown ? '550 5.1.1 no such user' : undefined),
    });
    const env = {
      FIELDPOST_STATE_DIR: t.testdir(),
      FIELDPOST_RELAY: relay.url,
      FIELDPOST_FROM: 'gw-17@example.com',
      FIELDPOST_FAILURES_TO: 'ops@example.com',
    };
    const first = await startIn(t, env);
    const { json } = await first.api('messages', [
      { type: 1, destination: 'john@example.com', subject: 'Pump 3' },
    ]);
    const [{ id }] = json;
    await first.api(`messages/${id}?wait=30`);
    await first.end('SIGKILL');
    const second = await startIn(t, env);
    await relay.arrived(1);
    const { subject = '', text = '', to } = await PostalMime.parse(relay.mails[0]?.content as Buffer);
    t.match(subject, /: 1 mail failed$/);
    t.same(to?.[0]?.address, 'ops@example.com');
    const [, command = ''] = /on the device: fieldpost (queue retry \w+) \(until /.exec(text) ?? [];
    t.equal(command, `queue retry ${id}`);
    isKnown = true;
    t.equal(second.run(...command.split(' ')).status, 0);
    await relay.arrived(2);
    t.same(relay.mails[1]?.to, ['john@example.com']);
    t.equal(await second.end('SIGTERM'), 0);
  },
);
