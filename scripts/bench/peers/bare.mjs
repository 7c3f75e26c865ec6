/**
 * The floor: the least that takes a message over HTTP and keeps it. `node:http`, one CRC'd line a message in a
 * journal of zeros filled ahead, one fdatasync for all that wait. It queues, validates and delivers nothing.
 * PORT and STATE_DIR in the environment.
 */
import { mkdir, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { crc32 } from 'node:zlib';

const { PORT, STATE_DIR = '' } = process.env;
const SEGMENT_BYTES = 2 ** 20;
await mkdir(STATE_DIR, { recursive: true });

let number = 0;
async function prepare() {
  const file = await open(`${STATE_DIR}/${++number}.log`, 'wx+');
  await file.write(Buffer.alloc(SEGMENT_BYTES), 0, SEGMENT_BYTES, 0);
  await file.sync();
  const directory = await open(STATE_DIR);
  await directory.sync();
  await directory.close();
  return file;
}

let segment = prepare();
let spare = segment.then(prepare);
let offset = 0;
let waiting = [];
let writing = false;

function append(line) {
  return new Promise((resolve, reject) => {
    waiting.push({ line, resolve, reject });
    if (!writing) drain();
  });
}

async function drain() {
  writing = true;
  while (waiting.length > 0) {
    const group = waiting;
    waiting = [];
    try {
      await commit(Buffer.from(group.map(({ line }) => line).join('')));
      for (const { resolve } of group) resolve();
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
  writing = false;
}

async function commit(bytes) {
  if (offset + bytes.length > SEGMENT_BYTES) {
    const full = await segment;
    segment = spare;
    spare = segment.then(prepare);
    offset = 0;
    await full.close();
  }
  const file = await segment;
  await file.write(bytes, 0, bytes.length, offset);
  await file.datasync();
  offset += bytes.length;
}

let last = 0;
async function accept(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const messages = JSON.parse(Buffer.concat(chunks).toString());
  const answer = messages.map(({ type, destination }) => ({
    id: (++last).toString(32).padStart(12, '0'),
    type,
    destination,
    status: 'queued',
  }));
  const payload = JSON.stringify({ answer, messages });
  await append(`${crc32(payload).toString(16).padStart(8, '0')} ${payload}\n`);
  const body = JSON.stringify(answer);
  response.writeHead(202, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

createServer((request, response) => {
  if (request.method === 'POST') accept(request, response).catch(() => response.writeHead(500).end());
  else response.writeHead(200, { 'content-length': 2 }).end('ok');
}).listen(Number(PORT), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
