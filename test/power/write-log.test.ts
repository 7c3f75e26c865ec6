/** After a power cut a device holds all flushed writes, whatever the seed, and any part of the others. */
import t from 'tap';
import { Chance } from '../simulation/chance.js';
import { cutLog, FLUSH, HEAD_BYTES, WRITE } from './write-log.js';

const BLOCK_BYTES = 4096;
const BLOCKS = 8;
const SEEDS = Array.from({ length: 400 }, (_, seed) => seed);

function entry(type: number, offset: number, bytes: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(type, 0);
  head.writeUInt32LE(bytes.length, 4);
  head.writeBigUInt64LE(BigInt(offset), 8);
  return Buffer.concat([head, bytes]);
}

/** Fills the block with this number. */
const write = (block: number, content: number) =>
  entry(WRITE, block * BLOCK_BYTES, Buffer.alloc(BLOCK_BYTES, content));
const flush = () => entry(FLUSH, 0, Buffer.alloc(0));

/** The device after each of many cuts. */
function devicesAfter(log: Buffer, reliedBytes: number): Buffer[] {
  return SEEDS.map((seed) => {
    const device = Buffer.alloc(BLOCKS * BLOCK_BYTES);
    const { writes } = cutLog(log, reliedBytes, [512, BLOCK_BYTES], new Chance(seed));
    for (const { offset, bytes } of writes) bytes.copy(device, offset);
    return device;
  });
}

/** What a block may hold: numbers, or `torn`. */
function contentsOf(devices: readonly Buffer[], block: number): Set<number | 'torn'> {
  const blocks = devices.map((device) => device.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES));
  return new Set(
    blocks.map((bytes) => (bytes.every((byte) => byte === bytes[0]) ? (bytes[0] ?? 0) : 'torn')),
  );
}

t.test('flushed writes are kept; later writes are kept, torn or lost', async (t) => {
  const log = Buffer.concat([write(1, 1), write(2, 1), flush(), write(2, 2), write(3, 2)]);
  const devices = devicesAfter(log, log.length);
  t.same(contentsOf(devices, 1), new Set([1]));
  t.same(contentsOf(devices, 2), new Set([1, 2, 'torn']));
  t.same(contentsOf(devices, 3), new Set([0, 2, 'torn']));
  t.ok(
    devices.some((device) => device[2 * BLOCK_BYTES] === 1 && device[3 * BLOCK_BYTES] === 2),
    'in any order',
  );
});

t.test('the power is cut anywhere after the bytes that are relied upon', async (t) => {
  const relied = Buffer.concat([write(1, 1), flush()]);
  const log = Buffer.concat([relied, write(2, 1), flush(), write(3, 1), flush(), write(4, 1)]);
  const devices = devicesAfter(log, relied.length);
  t.same(contentsOf(devices, 1), new Set([1]));
  for (const block of [2, 3, 4]) t.same(contentsOf(devices, block), new Set([0, 1, 'torn']));
  for (const device of devices) if (device[4 * BLOCK_BYTES] === 1) t.equal(device[3 * BLOCK_BYTES], 1);
});

t.test('the block of the superblock is never torn, and a log may end within a write', async (t) => {
  const log = Buffer.concat([write(0, 1), write(1, 1).subarray(0, HEAD_BYTES + 512)]);
  t.same(contentsOf(devicesAfter(log, log.length - 512), 0), new Set([0, 1]));
  t.same(devicesAfter(Buffer.concat([log, Buffer.alloc(3)]), log.length).length, SEEDS.length);
});
