/** The built program with a full queue: it shows, and restarts take no room. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { EMAIL } from '../support/api.js';
import { ask } from '../support/ask.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';

/** The log lines about the queue's room, without their time. */
function roomLines({ lines }: DaemonProcess): string[] {
  return lines.filter((line) => /queue (?:no longer )?full/.test(line)).map((line) => line.slice(25));
}

t.test('a full queue shows in state, status, health, metrics and log', needsProgram, async (t) => {
  const env = { FIELDPOST_STATE_DIR: join(t.testdir(), 'state'), FIELDPOST_MAX_QUEUE: '3' };
  const daemon = await startIn(t, env);
  const get = (path: string) => ask(`http://127.0.0.1:${daemon.port}${path}`);
  const post = (count: number) => daemon.api('messages', Array(count).fill(EMAIL));
  const status = () => daemon.run('status');

  const accepted = await post(2);
  t.equal(accepted.status, 202);
  const [first] = accepted.json;
  t.equal((await get('/healthz')).status, 200);
  t.match(status(), { status: 0, stdout: /room: 2 of 3 messages, / });
  t.equal((await post(1)).status, 202);

  for (let tries = 0; tries < 3; tries++) t.equal((await post(1)).status, 429);
  t.match(await get('/healthz'), { status: 503, text: /takes at most 3/ });
  t.match(status(), { status: 75, stdout: /^ +full, messages are refused: .*takes at most 3$/m });
  const { json: state } = await daemon.api('state');
  t.match(state.queue, { used: { messages: 3 }, limits: { messages: 3 }, full: true, reason: /at most 3/ });
  const full = (await get('/metrics')).text;
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

  t.equal((await daemon.api(`messages/${first.id}`, undefined, 'DELETE')).status, 204);
  t.equal((await get('/healthz')).status, 200);
  t.match(status(), { status: 0, stdout: /room: 2 of 3 messages, / });
  t.match((await get('/metrics')).text, /^fieldpost_queue_full 0$/m);
  t.equal((await post(1)).status, 202);
  // After its end all its lines have been read.
  t.equal(await daemon.end('SIGTERM'), 0);
  t.equal(roomLines(daemon).length, 2);
  t.match(roomLines(daemon)[1], /queue no longer full$/);
});

const RESTARTS = process.env.FIELDPOST_TEST_LONG === '1' ? 100 : 6;

/** What the files below a directory take on the disk. */
function bytesIn(directory: string): number {
  return (
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => statSync(join(parentPath, name), { throwIfNoEntry: false }))
      // The daemon may have removed one meanwhile.
      .reduce((sum, found) => sum + 512 * (found?.blocks ?? 0), 0)
  );
}

t.test('restarts of a full queue take no room, and it takes urgent messages', needsProgram, async (t) => {
  const directory = join(t.testdir(), 'state');
  const limitBytes = 8 * 2 ** 20;
  const env = {
    FIELDPOST_STATE_DIR: directory,
    FIELDPOST_MAX_SPOOL: String(limitBytes),
    FIELDPOST_MAX_MESSAGE: '1MiB',
    FIELDPOST_MAX_BODY: '1MiB',
  };
  // Nobody answers there.
  const dead = { ...env, FIELDPOST_RELAY: 'smtp://127.0.0.1:9' };
  const mail = (bytes: number, more = {}) => [{ ...EMAIL, plain: 'x'.repeat(bytes), ...more }];
  let daemon = await startIn(t, dead);
  let accepted = 0;
  for (; (await daemon.api('messages', mail(60_000))).status === 202; accepted++);
  let mostBytes = bytesIn(directory);
  for (let n = 0; n < RESTARTS; n++) {
    await daemon.end(n % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
    daemon = await startIn(t, dead);
    const { queue } = (await daemon.api('state')).json;
    t.equal(queue.queued + queue.sending + queue.deferred, accepted);
    mostBytes = Math.max(mostBytes, bytesIn(directory));
  }
  t.equal((await daemon.api('messages', mail(60_000))).status, 429, 'it is still full');
  for (let n = 0; n < 4; n++)
    t.equal((await daemon.api('messages', mail(60_000, { priority: 'high' }))).status, 202);
  mostBytes = Math.max(mostBytes, bytesIn(directory));
  t.ok(mostBytes > 0.8 * limitBytes && mostBytes <= limitBytes, `${mostBytes} bytes`);
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test(
  'callers who may only send get half of the queue, at each door, and keys of their own',
  needsProgram,
  async (t) => {
    const env = {
      FIELDPOST_STATE_DIR: join(t.testdir(), 'state'),
      FIELDPOST_MAX_QUEUE: '20',
      FIELDPOST_FROM: 'd@example.com',
      FIELDPOST_API_TOKEN: 'the-token-of-the-owner',
      FIELDPOST_SEND_TOKEN: 'the-token-for-sending',
    };
    let daemon = await startIn(t, env);
    const post = async (
      token: string,
      body: string | FormData,
      headers: Record<string, string> = {},
      query = '',
    ) => {
      const type = typeof body === 'string' && { 'Content-Type': 'application/json' };
      const answer = await fetch(`http://127.0.0.1:${daemon.port}/api/internal/messages${query}`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${token}`, ...type, ...headers },
        body,
      });
      return { status: answer.status, json: JSON.parse(await answer.text()) };
    };
    const [owner, sender] = [env.FIELDPOST_API_TOKEN, env.FIELDPOST_SEND_TOKEN];
    const one = JSON.stringify([EMAIL]);
    const urgent = JSON.stringify([{ ...EMAIL, priority: 'high' }]);
    const form = () => {
      const data = new FormData();
      for (const [name, value] of Object.entries({ ...EMAIL, type: '1' })) data.append(name, value);
      data.append('file', new Blob(['x']), 'x.txt');
      return data;
    };
    const mail = [
      sender,
      'Subject: x\r\n\r\nx',
      { 'Content-Type': 'message/rfc822' },
      '?to=a@example.com',
    ] as const;

    const key = { 'Idempotency-Key': 'alarm' };
    const taken = await post(sender, urgent, key);
    const own = await post(owner, one, key);
    t.same([taken.status, own.status], [202, 202], 'a key taken ahead is free for the owner');
    t.not(own.json[0].id, taken.json[0].id);
    t.equal((await post(sender, form())).status, 202);
    t.equal((await post(...mail)).status, 202);
    for (let i = 3; i < 10; i++) t.equal((await post(sender, one)).status, 202);

    const isRefused = async () => {
      for (const { status, json } of [
        await post(sender, one),
        await post(sender, urgent),
        await post(sender, form()),
        await post(...mail),
      ]) {
        t.match([status, json.type], [429, /queue-full$/]);
        t.match(json.detail, /callers who may only send have 10 messages in the queue .* half of it, 10/);
      }
    };
    await isRefused();
    t.equal(await daemon.end('SIGKILL'), null);
    daemon = await startIn(t, env);
    await isRefused();
    t.same((await post(owner, one, key)).json[0].id, own.json[0].id);
    t.same((await post(sender, urgent, key)).json[0].id, taken.json[0].id);
    for (let i = 0; i < 8; i++) t.equal((await post(owner, one)).status, 202, 'the rest is for the others');
    t.equal((await post(owner, urgent)).status, 202, 'and what is kept for urgent ones');
    t.equal((await post(owner, urgent)).status, 429);
  },
);
