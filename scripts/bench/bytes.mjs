/**
 * Bytes that reach the block device for each 1 KiB message. A message is posted when the one before was delivered. The
 * sectors of a loop-mounted ext4 image are counted, so that the journal of the file system, the fill and the checkpoints
 * count. Without root only the writes of the process are counted.
 */
import { Agent, request } from 'node:http';
import { writtenOnImage } from './image.mjs';
import { openMailer } from './mailer.mjs';
import { startNullmailer, unpackNullmailer } from './nullmailer.mjs';
import { postfixMissing, startPostfix } from './postfix.mjs';
import { ioOf } from './process.mjs';
import { startRelay } from './relay.mjs';
import { againstBefore, aThird, before, compare, interleave, unmeasured } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { startServer } from './server.mjs';

const MESSAGES = scaled(5000);
// Postfix and nullmailer are slow, and their bytes a message stay the same.
const MAILS = scaled(500);
const BODY = JSON.stringify([
  { type: 1, destination: 'john@example.com', subject: 'Bytes', plain: 'x'.repeat(1024) },
]);

/** Resolves with the rows; each sample spreads little, so a third of the rounds will do. */
export async function bytes(plan) {
  const onImage = process.getuid?.() === 0;
  const measure = onImage ? imageBytes : processBytes;
  const perMessage = (start, count, delivers) => async (directory) =>
    (await measure(directory, (...given) => backToBack(start, count, delivers, ...given))) / count / 1000;
  const server = (kind, delivers = true) => perMessage(overHttp(kind, delivers), MESSAGES, delivers);
  const { programs, why } = onImage ? await unpackNullmailer(plan.base) : { why: 'it needs root' };
  const missing = { postfix: postfixMissing(), nullmailer: why };
  const found = await interleave(aThird(plan), {
    fieldpost: server('fieldpost'),
    ...before((kind) => server(kind)),
    sqlite: server('sqlite'),
    bare: server('bare', false),
    ...(!missing.postfix && { postfix: perMessage(overSmtp, MAILS, true) }),
    ...(!missing.nullmailer && { nullmailer: perMessage(byInject(programs), MAILS, true) }),
  });
  const figure = 'written per message';
  const unit = onImage ? 'KB' : 'KB (process only)';
  const row = (name, words, target) =>
    found[name]
      ? compare(figure, unit, found.fieldpost, { name: words, numbers: found[name] }, target)
      : unmeasured(figure, unit, found.fieldpost, words, missing[name]);
  return [
    row('sqlite', 'Express+SQLite+nodemailer', { ownAtMost: 6 }),
    row('postfix', 'Postfix'),
    row('nullmailer', 'nullmailer'),
    row('bare', 'bare, accepts alone'),
    ...againstBefore(figure, unit, found.fieldpost, found.before),
  ];
}

/** Posts `count` messages, each when the one before was delivered. Resolves with `counted`, asked before the clean stop. */
async function backToBack(start, count, delivers, directory, counted = async (/** @type {number} */ _) => 0) {
  let delivered = (/** @type {any} */ _) => {};
  const relay = await startRelay(() => delivered(null));
  const server = await start(directory, relay.port);
  for (let n = 0; n < count; n++) {
    const delivery = new Promise((resolve) => {
      delivered = resolve;
    });
    await server.post();
    if (delivers) await delivery;
  }
  const found = await counted(server.pid);
  await server.end();
  relay.close();
  return found;
}

/** The starters: each resolves with {pid, post, end}. */
function overHttp(kind, delivers) {
  return async (directory, relayPort) => {
    const server = await startServer(kind, `${directory}/state`, delivers ? relayPort : undefined);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const end = () => {
      agent.destroy();
      return server.end();
    };
    return { pid: server.pid, post: () => post(server.port, agent), end };
  };
}

async function overSmtp(directory, relayPort) {
  const postfix = await startPostfix(`${directory}/state`, relayPort);
  const mailer = await openMailer(postfix.port);
  const end = () => {
    mailer.close();
    return postfix.end();
  };
  return { post: mailer.send, end };
}

function byInject(programs) {
  return (directory, relayPort) => startNullmailer(programs, `${directory}/state`, relayPort);
}

function post(port, agent) {
  return new Promise((/** @type {(done: void) => void} */ resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': BODY.length };
    const path = '/api/internal/messages';
    const posted = request({ port, host: '127.0.0.1', method: 'POST', path, headers, agent }, (response) => {
      response.resume();
      response.on('end', () =>
        response.statusCode === 202 ? resolve() : reject(new Error(`answered ${response.statusCode}`)),
      );
    });
    posted.on('error', reject);
    posted.end(BODY);
  });
}

const imageBytes = (directory, work) => writtenOnImage(directory, (mount) => work(mount));
const processBytes = (directory, work) => work(directory, async (pid) => (await ioOf(pid)).diskBytes);
