/**
 * What one puts together from busboy's own example: a form's files piped to the disk, synced, then answered. It
 * keeps no limits, no queue and no promise about a form that is not quite right. PORT, STATE_DIR and WRITE_BYTES
 * (the write stream's buffer) in the environment.
 */
import { createWriteStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream/promises';
import busboy from 'busboy';

const { PORT, STATE_DIR = '', WRITE_BYTES } = process.env;
await mkdir(STATE_DIR, { recursive: true });
let number = 0;

async function store(content) {
  const path = `${STATE_DIR}/${++number}`;
  await pipeline(content, createWriteStream(path, { highWaterMark: Number(WRITE_BYTES), flush: true }));
  const directory = await open(STATE_DIR);
  await directory.sync();
  await directory.close();
}

createServer((request, response) => {
  if (request.method === 'GET') {
    response.end('ok');
    return;
  }
  const works = [];
  const parser = busboy({ headers: request.headers })
    .on('file', (_name, content) => works.push(store(content)))
    .on('close', async () => {
      await Promise.all(works);
      response.writeHead(202, { 'Content-Length': 2 }).end('[]');
    });
  request.pipe(parser);
}).listen(Number(PORT), '127.0.0.1');
