/**
 * Bytes that reach the block device for each 1 KiB message. A message is posted when the one before was delivered. The
 * sectors of a loop-mounted ext4 image are counted, so that the journal of the file system, the fill and the checkpoints
 * count. Without root only the writes of the process are counted.
 */
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { writtenBytes } from './process.mjs';
import { startRelay } from './relay.mjs';
import { againstBefore, aThird, before, compare, interleave } from './rounds.mjs';
import { startServer } from './server.mjs';

const MESSAGES = 5000;
const SECTOR_BYTES = 512;
const IMAGE_BYTES = 512 * 2 ** 20;
const BODY = JSON.stringify([
  { type: 1, destination: 'john@example.com', subject: 'Bytes', plain: 'x'.repeat(1024) },
]);

/** Resolves with the rows; each sample is 5,000 messages and spreads little, so a third of the rounds will do. */
export async function bytes(plan) {
  const measure = process.getuid() === 0 ? onImage : byProcess;
  const perMessage = (kind, delivers) => async (directory) =>
    (await measure(directory, (stateDir) => backToBack(kind, stateDir, delivers))) / MESSAGES / 1000;
  const found = await interleave(aThird(plan), {
    fieldpost: perMessage('fieldpost', true),
    ...before((kind) => perMessage(kind, true)),
    sqlite: perMessage('sqlite', true),
    bare: perMessage('bare', false),
  });
  const unit = measure === onImage ? 'KB' : 'KB (process only)';
  const row = (name, numbers, target) =>
    compare('written per message', unit, found.fieldpost, { name, numbers }, target);
  return [
    row('express+SQLite+nodemailer', found.sqlite, { ownAtMost: 6 }),
    row('bare, accepts alone', found.bare, undefined),
    ...againstBefore('written per message', unit, found.fieldpost, found.before),
  ];
}

/** Posts all messages, each when the one before was delivered; a clean stop ends it. Resolves with `counted` before the stop. */
async function backToBack(kind, stateDir, delivers, counted = async () => {}) {
  let delivered = () => {};
  const relay = await startRelay(() => delivered());
  const server = await startServer(kind, stateDir, delivers ? relay.port : undefined);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let n = 0; n < MESSAGES; n++) {
    const delivery = new Promise((resolve) => {
      delivered = resolve;
    });
    await post(server.port, agent);
    if (delivers) await delivery;
  }
  agent.destroy();
  const count = await counted(server.pid);
  await server.end();
  relay.close();
  return count;
}

function post(port, agent) {
  return new Promise((resolve, reject) => {
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

async function onImage(directory, work) {
  const image = `${directory}/image`;
  const mount = `${directory}/mount`;
  await writeFile(image, '');
  await truncate(image, IMAGE_BYTES);
  await mkdir(mount);
  // Nothing is left for the kernel to initialise while we count.
  execFileSync('mkfs.ext4', ['-q', '-E', 'lazy_itable_init=0,lazy_journal_init=0', image]);
  execFileSync('mount', ['-o', 'loop', image, mount]);
  try {
    const device = execFileSync('findmnt', ['-no', 'SOURCE', mount], { encoding: 'latin1' }).trim();
    const written = async () => {
      execFileSync('sync', ['-f', mount]);
      const fields = (await readFile(`/sys/block/${device.slice('/dev/'.length)}/stat`, 'latin1')).trim();
      return Number(fields.split(/\s+/)[6]) * SECTOR_BYTES;
    };
    const before = await written();
    await work(`${mount}/state`);
    return (await written()) - before;
  } finally {
    execFileSync('umount', [mount]);
  }
}

function byProcess(directory, work) {
  return work(`${directory}/state`, writtenBytes);
}
