/** Clients use up every file descriptor: a request that needs one gets `busy`, and no mail is lost. */
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { EMAIL, MESSAGES, RawClient, requestText } from '../support/api.js';
import { settled } from '../support/clock.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { BOUNDARY, bodyOf, NEEDED } from '../support/form.js';
import { fakeRelay } from '../support/relay.js';

const DESCRIPTORS = 48;

const openOf = ({ child }: DaemonProcess) => readdirSync(`/proc/${child.pid}/fd`).length;

/** Connects until no descriptor is left: then the server closes the newest at once. It answers all others. */
async function takeAll(port: number): Promise<Socket[]> {
  const taken: Socket[] = [];
  for (let isRefused = false; !isRefused; ) {
    const socket = connect(port, '127.0.0.1');
    taken.push(socket);
    isRefused = await new Promise<boolean>((resolve) => {
      socket.once('data', () => resolve(false));
      socket.once('close', () => resolve(true));
      socket.on('error', () => undefined);
      socket.write(requestText('GET', '/healthz'));
    });
  }
  return taken;
}

t.test('without a free descriptor no mail is lost, and a form gets a 503', needsProgram, async (t) => {
  // It hangs up after each mail: a session that is kept would free its descriptor at any moment.
  await using relay = await fakeRelay({ dot: { raw: '250 2.0.0 ok\r\n', after: 'fin' } });
  const env = {
    FIELDPOST_STATE_DIR: join(t.testdir(), 'state'),
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_BACKOFF_MAX: '1s',
  };
  const limited = ['/bin/sh', '-c', `ulimit -n ${DESCRIPTORS}; exec "$@"`, 'sh'];
  const daemon = await startIn(t, env, ['run'], limited);
  const { port } = daemon;
  const address = { kind: 'tcp', host: '127.0.0.1', port } as const;
  const form = bodyOf([...NEEDED, { name: 'f', filename: 'a', content: 'b' }]);
  const post = async (client: RawClient, type: string, body: Buffer) => {
    client.write(requestText('POST', MESSAGES, { 'Content-Type': type }, body.length));
    client.write(body);
    return await client.answer();
  };
  const postForm = (client: RawClient) => post(client, `multipart/form-data; boundary=${BOUNDARY}`, form);
  const postJson = (client: RawClient) =>
    post(client, 'application/json', Buffer.from(JSON.stringify([EMAIL])));

  await using first = await RawClient.to(address);
  await using second = await RawClient.to(address);
  // An answer proves that the connection is accepted. The first mail opens the journal.
  for (const client of [first, second]) t.equal((await postJson(client)).status, 202);
  await relay.arrived(2);
  while (relay.open > 0) await settled();
  const before = openOf(daemon);
  const taken = await takeAll(port);

  const refused = await postForm(first);
  if (!t.match(refused, { status: 503, json: { type: 'urn:fieldpost:problem:busy' } })) return;
  t.match(refused.headers['retry-after'], /^\d+$/);
  t.equal((await postJson(second)).status, 202, 'JSON needs no descriptor');
  for (const path of ['/healthz', '/metrics', '/openapi.json', '/api/internal/state', MESSAGES]) {
    second.write(requestText('GET', path));
    t.equal((await second.answer()).status, 200, path);
  }

  for (const socket of taken) socket.destroy();
  while (openOf(daemon) > before + 5) await settled();
  await relay.arrived(3);
  await using third = await RawClient.to(address);
  t.equal((await postForm(third)).status, 202, 'with a free descriptor it accepts a form');
  await relay.arrived(4);
  t.equal(await daemon.end('SIGTERM'), 0);
  t.same(
    daemon.lines.filter((line) => / error /.test(line)),
    [],
  );
});
