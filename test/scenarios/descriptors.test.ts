/** More clients than file descriptors: each gets an answer, a form finds room for its file, and no mail is lost. */
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
const CLIENTS = 4 * DESCRIPTORS;

const openOf = ({ child }: DaemonProcess) => readdirSync(`/proc/${child.pid}/fd`).length;

/** Connects all at once, and sends nothing. Resolves when as many are answered as can have no descriptor. */
async function flood(port: number) {
  const answers: string[] = [];
  let unanswered = 0;
  const sockets: Socket[] = [];
  for (let n = 0; n < CLIENTS; n++) {
    const socket = connect(port, '127.0.0.1');
    let said = '';
    socket.on('data', (chunk) => (said += chunk));
    socket.on('error', () => undefined);
    socket.on('end', () => answers.push(said));
    socket.on('close', () => said === '' && unanswered++);
    sockets.push(socket);
  }
  while (answers.length < CLIENTS - DESCRIPTORS && unanswered === 0) await settled();
  const before = unanswered;
  return { answers, unanswered: before, sockets };
}

t.test(
  'of more clients than descriptors each gets an answer, and no mail is lost',
  needsProgram,
  async (t) => {
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

    /** Asks again after a 503: the daemon may not have noticed yet that those before have gone. */
    const patiently = async () => {
      for (;;) {
        await using client = await RawClient.to(address);
        const { status } = await postForm(client);
        if (status !== 503) return status;
      }
    };

    await using first = await RawClient.to(address);
    t.equal((await post(first, 'application/json', Buffer.from(JSON.stringify([EMAIL])))).status, 202);
    await relay.arrived(1);
    while (relay.open > 0) await settled();
    const before = openOf(daemon);

    const { answers, unanswered, sockets } = await flood(port);
    t.equal(unanswered, 0, 'none is closed without an answer');
    for (const answer of answers) t.match(answer, /^HTTP\/1\.1 (503|408) /);
    t.ok(openOf(daemon) < DESCRIPTORS, 'the daemon keeps descriptors for itself');
    // A place is free once a silent client has given way.
    await using second = await RawClient.to(address);
    const { status } = await postForm(second);
    t.ok(status === 202 || status === 503, `a further client is answered, too: ${status}`);

    for (const socket of sockets) socket.destroy();
    while (openOf(daemon) > before + 5) await settled();
    t.equal(await patiently(), 202);
    await relay.arrived(status === 202 ? 3 : 2);
    t.equal(await daemon.end('SIGTERM'), 0);
    t.same(
      daemon.lines.filter((line) => / error /.test(line)),
      [],
    );
  },
);
