/** Mails are cancelled from the head of the queue while a relay takes them: each is sent, or cancelled, and never both. */
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import t from 'tap';
import { isBuilt, startDaemon } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const MAILS = 600;
const agent = new Agent({ keepAlive: true });

async function call(port: number, method: string, path: string, body?: unknown) {
  const sent = request({
    port,
    method,
    path,
    agent,
    headers: { 'Content-Type': 'application/json' },
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [answer] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return { status: answer.statusCode as number, body: text === '' ? null : JSON.parse(text) };
}

t.test('cancelled during a drain', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  await using relay = await fakeRelay({}, { extensions: ['PIPELINING'] });
  const daemon = await startDaemon({
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
  });
  t.teardown(() => daemon.child.kill('SIGKILL'));
  const { port } = daemon;
  t.equal((await call(port, 'POST', '/api/internal/queue/hold')).status, 202);
  const ids: string[] = [];
  while (ids.length < MAILS) {
    const batch = Array.from({ length: 100 }, (_, i) => ({
      type: 1,
      destination: 'john@example.com',
      subject: `mail ${ids.length + i}`,
      plain: 'test',
    }));
    const { body } = await call(port, 'POST', '/api/internal/messages', batch);
    ids.push(...body.map(({ id }: { id: string }) => id));
  }
  t.equal((await call(port, 'POST', '/api/internal/queue/release')).status, 202);
  const cancelled: number[] = [];
  for (const [n, id] of ids.entries()) {
    const { status } = await call(port, 'DELETE', `/api/internal/messages/${id}`);
    if (status === 204) cancelled.push(n);
    else if (status !== 409) t.fail(`DELETE says ${status}`);
  }
  await relay.arrived(MAILS - cancelled.length);
  const arrived = relay.mails.map(({ content }) =>
    Number(/^Subject: mail (\d+)/m.exec(String(content))?.[1]),
  );
  t.same(
    [...arrived, ...cancelled].sort((a, b) => a - b),
    ids.map((_, n) => n),
  );
  t.equal(await daemon.end('SIGTERM'), 0);
  agent.destroy();
});
