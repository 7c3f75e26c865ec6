/**
 * `node block-recorder.mjs FILE IMAGE LOG FLUSH_MS`: a disk that records the order of its writes. It mounts a file system
 * of one file (FUSE) over FILE, with the content of IMAGE, for a loop device above it. Each write and each flush is in LOG
 * before it is answered, as write-log.ts reads it: a type (1 write, 2 flush) and a length (32 bits each), the offset
 * (64 bits), the bytes written. A write also changes IMAGE.
 *
 * It handles one request at a time, so that at a flush all earlier writes are on the disk. A flush takes FLUSH_MS, as on a
 * memory card. It ends when no process has FILE open. Run it as root, in a mount namespace of its own.
 */
import { spawnSync } from 'node:child_process';
import { fstatSync, openSync, readSync, writeSync, writevSync } from 'node:fs';

const OPCODES = {
  3: 'getattr',
  14: 'open',
  15: 'read',
  16: 'write',
  18: 'release',
  20: 'fsync',
  25: 'flush',
  26: 'init',
};
/** Requests without an answer: forget, interrupt, forget many. */
const SILENT = [2, 36, 42];
const ENOSYS = 38;
const IN_HEADER_BYTES = 40;
const WRITE_IN_BYTES = 40;
const WRITE_MAX_BYTES = 2 ** 20;
/** The kernel keeps nothing of the file in memory. */
const OPEN_DIRECT_IO = 1;
const INIT_FLAGS = (1 << 5) | (1 << 22); // large writes, and of as many pages as they need
const YEAR_S = 31_536_000n;
const [WRITE, FLUSH] = [1, 2];

const [file, imagePath, logPath, flushMs] = process.argv.slice(2);
const image = openSync(imagePath, 'r+');
const log = openSync(logPath, 'a');
const fuse = openSync('/dev/fuse', 'r+');
const mounted = spawnSync(
  'mount',
  ['-i', '-t', 'fuse', '-o', 'fd=3,rootmode=100600,user_id=0,group_id=0', 'recorder', file],
  { stdio: ['ignore', 'inherit', 'inherit', fuse] },
);
if (mounted.status !== 0) process.exit(1);
process.stdout.write('ready\n');

const sleeper = new Int32Array(new SharedArrayBuffer(4));
let opened = 0;
const request = Buffer.alloc(WRITE_MAX_BYTES + 4096);
const head = Buffer.alloc(16);

function record(type, length, offset, bytes) {
  const entry = Buffer.alloc(16);
  entry.writeUInt32LE(type, 0);
  entry.writeUInt32LE(length, 4);
  entry.writeBigUInt64LE(BigInt(offset), 8);
  const parts = bytes === null ? [entry] : [entry, bytes];
  writevSync(log, parts);
}

const answers = {
  init() {
    const out = Buffer.alloc(64);
    out.writeUInt32LE(7, 0);
    out.writeUInt32LE(31, 4);
    out.writeUInt32LE(INIT_FLAGS, 12);
    out.writeUInt16LE(64, 16);
    out.writeUInt16LE(64, 18);
    out.writeUInt32LE(WRITE_MAX_BYTES, 20);
    out.writeUInt32LE(1, 24);
    out.writeUInt16LE(WRITE_MAX_BYTES / 4096, 28);
    return out;
  },
  getattr() {
    const out = Buffer.alloc(104);
    const { size } = fstatSync(image);
    out.writeBigUInt64LE(YEAR_S, 0);
    out.writeBigUInt64LE(1n, 16);
    out.writeBigUInt64LE(BigInt(size), 24);
    out.writeBigUInt64LE(BigInt(size) / 512n, 32);
    out.writeUInt32LE(0o100600, 76);
    out.writeUInt32LE(1, 80);
    out.writeUInt32LE(4096, 96);
    return out;
  },
  open() {
    opened++;
    const out = Buffer.alloc(16);
    out.writeUInt32LE(OPEN_DIRECT_IO, 8);
    return out;
  },
  read(at) {
    const out = Buffer.alloc(request.readUInt32LE(at + 16));
    return out.subarray(0, readSync(image, out, 0, out.length, Number(request.readBigUInt64LE(at + 8))));
  },
  write(at) {
    const [offset, length] = [Number(request.readBigUInt64LE(at + 8)), request.readUInt32LE(at + 16)];
    const bytes = request.subarray(at + WRITE_IN_BYTES, at + WRITE_IN_BYTES + length);
    record(WRITE, length, offset, bytes);
    writeSync(image, bytes, 0, length, offset);
    const out = Buffer.alloc(8);
    out.writeUInt32LE(length, 0);
    return out;
  },
  fsync() {
    Atomics.wait(sleeper, 0, 0, Number(flushMs));
    record(FLUSH, 0, 0, null);
    return Buffer.alloc(0);
  },
  flush: () => Buffer.alloc(0),
  release() {
    opened--;
    return Buffer.alloc(0);
  },
};

for (let wasOpen = false; !wasOpen || opened > 0; wasOpen ||= opened > 0) {
  readSync(fuse, request, 0, request.length, null);
  const opcode = request.readUInt32LE(4);
  if (SILENT.includes(opcode)) continue;
  const answer = answers[OPCODES[opcode]];
  const out = answer === undefined ? Buffer.alloc(0) : answer(IN_HEADER_BYTES);
  head.writeUInt32LE(head.length + out.length, 0);
  head.writeInt32LE(answer === undefined ? -ENOSYS : 0, 4);
  request.copy(head, 8, 8, 16);
  writevSync(fuse, [head, out]);
}
