/**
 * One sender at work, a process of its own: sends so many messages over one connection, each when the one before
 * was taken, and tells what that cost as JSON on standard output. Takes its orders as JSON in its argument.
 * deliver.mjs starts it.
 */
import { Buffer } from 'node:buffer';

/** `sender`: the module that connects. `streamedBytes`: of each message, made in lines; null: 1 KiB of text. */
/** @type {{sender: string, port: number, count: number, streamedBytes: number | null}} */
const { sender, port, count, streamedBytes } = JSON.parse(process.argv[2] ?? '{}');
const from = 'bench@example.com';
const to = 'john@example.com';
const lines = Buffer.from(`${'x'.repeat(78)}\r\n`.repeat(800));

/** A message of which no more is in memory than a file's stream would hold; always the same bytes. */
async function* content() {
  for (let left = streamedBytes; left > 0; left -= lines.length) yield lines.subarray(0, left);
}

const { connect } = await import(sender);
const { sendText, sendStream, close } = await connect(port);
const residentBytes = process.memoryUsage.rss();
const cpu = process.cpuUsage();
const began = performance.now();
for (let n = 0; n < count; n++) {
  if (streamedBytes === null) await sendText({ from, to, subject: 'Load', plain: 'x'.repeat(1024), n });
  else await sendStream({ from, to, size: streamedBytes, content: content() });
}
const ms = performance.now() - began;
const { user, system } = process.cpuUsage(cpu);
const peakBytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ ms, cpuMs: (user + system) / 1000, grownBytes: peakBytes - residentBytes }));
await close();
