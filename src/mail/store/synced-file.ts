/**
 * The file `synced` says how far the newest segment is known to be on the device. A record says this only of the
 * records before it. Without this file a bad block in the last records looks like a torn write. It is one line,
 * overwritten in place and never synced, because an old line stays true.
 *
 *     crc {"segment":7,"synced":12345}
 */
import { Buffer } from 'node:buffer';
import { crc32, hex8 } from '../../base/crc.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';
import { Turns } from '../../base/turns.js';
import type { Position } from './event.js';
import { OUTCOME_SYNC_MS } from './journal.js';

const LINE = /^([0-9a-f]{8}) (\{"segment":(\d+),"synced":(\d+)\}) *\n$/;
/** Within one sector, which is wholly old or wholly new. */
const LINE_BYTES = 64;

/** If it cannot be written or read, recovery only knows less. */
export class SyncedFile {
  readonly #disk: Disk;
  readonly #path: string;
  #latest: Position | null = null;
  readonly #alarm: Alarm;
  readonly #writes = new Turns();

  constructor(disk: Disk, clock: Clock, path: string) {
    this.#disk = disk;
    this.#path = path;
    this.#alarm = new Alarm(clock, () => void this.#write());
  }

  /** The last run's position; null if there is none, or it cannot be read. */
  async read(): Promise<Position | null> {
    const bytes = await this.#disk.readWhole(this.#path).catch(() => null);
    const [, crc, json = '', segment, synced] = LINE.exec(bytes?.toString('latin1') ?? '') ?? [];
    if (crc === undefined || crc !== hex8(crc32(Buffer.from(json)))) return null;
    return { segment: Number(segment), offset: Number(synced) };
  }

  /** All before `position` is on the device. Written within a second. */
  note(position: Position): void {
    this.#latest = position;
    if (!this.#alarm.isSet) this.#alarm.in(OUTCOME_SYNC_MS);
  }

  /** Writes the last position. */
  close(): Promise<void> {
    return this.#write();
  }

  #write(): Promise<void> {
    this.#alarm.off();
    return this.#writes.do(() => this.#writeNow()).catch(() => undefined);
  }

  async #writeNow(): Promise<void> {
    if (!this.#latest) return;
    const { segment, offset } = this.#latest;
    this.#latest = null;
    const file = await this.#open();
    const json = `{"segment":${segment},"synced":${offset}}`;
    const line = `${hex8(crc32(Buffer.from(json)))} ${json}`;
    try {
      await file.write(Buffer.from(`${line.padEnd(LINE_BYTES - 1)}\n`), 0);
    } finally {
      await file.close();
    }
  }

  /** A damaged file may have another length: then it is made anew. */
  async #open(): Promise<DiskFile> {
    const found = await this.#disk.look(this.#path);
    if (found?.kind === 'file' && found.bytes === LINE_BYTES)
      return await this.#disk.open(this.#path, 'update');
    if (found) await this.#disk.remove(this.#path);
    return await this.#disk.open(this.#path, 'create');
  }
}
