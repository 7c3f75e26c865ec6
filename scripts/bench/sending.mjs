/**
 * One sender, in a separate process: sends messages over one connection, each after the reply to the one before. It reads
 * its orders as JSON from its argument, and prints its cost as JSON. senders.mjs starts it.
 */
import { Buffer } from 'node:buffer';
import { createReadStream, readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/**
 * `sender`: the module that connects. `streamedBytes`: of each message, made in lines. `path`: of a file that goes with it.
 * Else 1 KiB of text. `limitMs`: no further message after this time.
 */
/** @type {{sender: string, port: number, lots: number[], streamedBytes?: number, path?: string, limitMs?: number}} */
const {
  sender,
  port,
  lots,
  streamedBytes,
  path,
  limitMs = Number.POSITIVE_INFINITY,
} = JSON.parse(process.argv[2] ?? '{}');
const from = 'bench@example.com';
const to = 'john@example.com';
const lines = Buffer.from(`${'x'.repeat(78)}\r\n`.repeat(800));

/** A message in pieces as large as those of a file's stream; always the same bytes. */
async function* content() {
  for (let left = streamedBytes ?? 0; left > 0; left -= lines.length) yield lines.subarray(0, left);
}

/** The file as the store knows it; read in pieces, so that it costs no memory that is counted. */
async function describe(path) {
  let [size, crc] = [0, 0];
  for await (const chunk of createReadStream(path)) {
    size += chunk.length;
    crc = crc32(chunk, crc);
  }
  return { path, size, crc };
}

const { connect } = await import(sender);
const { sendText, sendStream, sendFile, close } = await connect(port);
const file = path && (await describe(path));
const residentBytes = process.memoryUsage.rss();
const told = [];
for (const [lot, count] of lots.entries()) {
  const cpu = process.cpuUsage();
  const began = performance.now();
  for (let i = 0; i < count && performance.now() - began < limitMs; i++) {
    const n = `${lot}.${i}`;
    if (file) await sendFile({ from, to, subject: 'File', file, n });
    else if (!streamedBytes) await sendText({ from, to, subject: 'Load', plain: 'x'.repeat(1024), n });
    else await sendStream({ from, to, size: streamedBytes, content: content() });
  }
  const { user, system } = process.cpuUsage(cpu);
  told.push({ sentMs: performance.now() - began, cpuMs: (user + system) / 1000 });
}
// Not maxRSS: it starts at the memory of the parent process.
const peakBytes = Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]) * 1024;
console.log(JSON.stringify(told.map((lot) => ({ ...lot, grownBytes: peakBytes - residentBytes }))));
await close();
