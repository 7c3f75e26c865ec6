/** A running daemon seen from outside: the CPU, memory and disk of its process, and orders to its queue. */
import { readFile } from 'node:fs/promises';

// Linux counts for user space in hundredths of a second, on every architecture (USER_HZ).
const TICK_MS = 10;

/** CPU time of all threads of a process, in ms; resolution 10 ms. */
export async function cpuMs(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
  // The second field is the program's name, which may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system] = fields.slice(11, 13).map(Number);
  return (user + system) * TICK_MS;
}

/** Resident memory of a process now. */
export function residentMiB(pid) {
  return statusMiB(pid, 'VmRSS');
}

/** The peak of a process's resident memory so far. */
export function peakMiB(pid) {
  return statusMiB(pid, 'VmHWM');
}

async function statusMiB(pid, name) {
  const status = await readFile(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]) / 1024;
}

/** Bytes that a process has caused to be written to a disk. */
export async function writtenBytes(pid) {
  const io = await readFile(`/proc/${pid}/io`, 'latin1');
  return Number(/^write_bytes: (\d+)/m.exec(io)?.[1]);
}

/** `hold` or `release`. */
export async function orderQueue(port, order) {
  const url = `http://127.0.0.1:${port}/api/internal/queue/${order}`;
  const response = await fetch(url, { method: 'POST' });
  if (!response.ok) throw new Error(`${order} was answered ${response.status}`);
}
