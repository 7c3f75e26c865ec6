/** A running daemon seen from outside: the CPU, memory, system calls and disk of its process, and orders to its queue. */
import { readdir, readFile } from 'node:fs/promises';

/**
 * CPU time of all threads of a process that still run, in ms. /proc/PID/stat has hundredths of a second, too coarse for a
 * start; what the scheduler counts is exact to a tick.
 * @param {number} pid
 */
export async function cpuMs(pid) {
  const threads = await readdir(`/proc/${pid}/task`);
  const times = threads.map(async (thread) => {
    const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'latin1');
    return Number(text.split(' ')[0]) / 1e6;
  });
  return (await Promise.all(times)).reduce((sum, ms) => sum + ms, 0);
}

/**
 * Resident memory of a process now.
 * @param {number} pid
 */
export function residentMiB(pid) {
  return statusMiB(pid, 'VmRSS');
}

/**
 * The peak of a process's resident memory so far.
 * @param {number} pid
 */
export function peakMiB(pid) {
  return statusMiB(pid, 'VmHWM');
}

/** @type {(pid: number, name: string) => Promise<number>} */
async function statusMiB(pid, name) {
  return numberIn(await readFile(`/proc/${pid}/status`, 'latin1'), name) / 1024;
}

/**
 * What a process has asked of the kernel: calls that read or write, the bytes that it handed over in them, and those of
 * them that go to a disk.
 * @param {number} pid
 */
export async function ioOf(pid) {
  const io = await readFile(`/proc/${pid}/io`, 'latin1');
  return {
    calls: numberIn(io, 'syscr') + numberIn(io, 'syscw'),
    handedBytes: numberIn(io, 'wchar'),
    diskBytes: numberIn(io, 'write_bytes'),
  };
}

/** The number in the line of this name. @type {(text: string, name: string) => number} */
function numberIn(text, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1]);
}

/**
 * Orders a daemon to hold its queue, or to release it.
 * @param {number} port
 * @param {'hold' | 'release'} order
 */
export async function orderQueue(port, order) {
  const url = `http://127.0.0.1:${port}/api/internal/queue/${order}`;
  const response = await fetch(url, { method: 'POST' });
  if (!response.ok) throw new Error(`${order} was answered ${response.status}`);
}
