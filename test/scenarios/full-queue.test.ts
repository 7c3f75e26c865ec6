/** The built program with a full queue: it says so wherever somebody may look, and says when it is over. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { EMAIL, MESSAGES } from '../support/api.js';
import { type DaemonProcess, isBuilt, MAIN, startDaemon } from '../support/daemon.js';

const options = { skip: isBuilt ? false : 'the program is not built' };

/** The lines so far that tell of the queue's room, without their time. */
function roomLines({ lines }: DaemonProcess): string[] {
  return lines.filter((line) => /queue (?:no longer )?full/.test(line)).map((line) => line.slice(25));
}

t.test('a full queue is seen from outside', options, async (t) => {
  const env = { FIELDPOST_STATE_DIR: join(t.testdir(), 'state'), FIELDPOST_MAX_QUEUE: '3' };
  const daemon = await startDaemon(env);
  t.teardown(() => daemon.child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${daemon.port}`;
  const get = async (path: string) => {
    const answer = await fetch(`${url}${path}`);
    return { status: answer.status, body: await answer.text() };
  };
  const post = (count: number) =>
    fetch(`${url}${MESSAGES}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(Array.from({ length: count }, () => EMAIL)),
    });
  const status = () =>
    spawnSync(MAIN, ['status'], {
      env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}` },
      encoding: 'utf8',
      timeout: 60_000,
    });

  const accepted = await post(2);
  t.equal(accepted.status, 202);
  const [first] = (await accepted.json()) as [{ id: string }];
  t.equal((await get('/healthz')).status, 200);
  t.match(status(), { status: 0, stdout: /room: 2 of 3 messages, / });
  t.equal((await post(1)).status, 202);

  for (let tries = 0; tries < 3; tries++) t.equal((await post(1)).status, 429);
  t.match(await get('/healthz'), { status: 503, body: /takes at most 3/ });
  t.match(status(), { status: 75, stdout: /^ +full, messages are refused: .*takes at most 3$/m });
  const state = JSON.parse((await get('/api/internal/state')).body);
  t.match(state.queue, { used: { messages: 3 }, limits: { messages: 3 }, full: true, reason: /at most 3/ });
  const full = (await get('/metrics')).body;
  for (const sample of [
    'queue_full 1',
    'queue_used_messages 3',
    'queue_limit_messages 3',
    'refused_total{code="queue-full"} 3',
    'refused_total{code="storage-full"} 0',
  ]) {
    t.ok(full.includes(`\nfieldpost_${sample}\n`), sample);
  }
  t.equal(roomLines(daemon).length, 1, 'one line for three refusals');
  t.match(roomLines(daemon)[0], /queue full reason=.*takes at most 3/);

  t.equal((await fetch(`${url}${MESSAGES}/${first.id}`, { method: 'DELETE' })).status, 204);
  t.equal((await get('/healthz')).status, 200);
  t.match(status(), { status: 0, stdout: /room: 2 of 3 messages, / });
  t.match((await get('/metrics')).body, /^fieldpost_queue_full 0$/m);
  t.equal((await post(1)).status, 202);
  // All lines have been read once the process has ended.
  t.equal(await daemon.end('SIGTERM'), 0);
  t.equal(roomLines(daemon).length, 2);
  t.match(roomLines(daemon)[1], /queue no longer full$/);
});
