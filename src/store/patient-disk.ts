/**
 * The disk during a start. A worn card or a loose connector may fail to read for a moment. The start waits and reads
 * again before it takes that for damage. Once the store is open, each reader retries by itself. Used by ledger.ts.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { START_READ_PAUSE_MS, START_READS_MS_MAX } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Disk, DiskFile, Found, Space } from '../system/disk.js';
import type { Log } from '../system/log.js';

/** A disk whose failed reads (EIO) are repeated, all of them together for START_READS_MS_MAX. */
export class PatientDisk implements Disk {
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #log: Log;
  /** On the boot's clock; null before the first read that fails. */
  #patientUntilMs: number | null = null;

  constructor({ disk, clock, log }: { readonly disk: Disk; readonly clock: Clock; readonly log: Log }) {
    this.#disk = disk;
    this.#clock = clock;
    this.#log = log;
  }

  /** The start is over: a read that fails says so at once. */
  endPatience(): void {
    this.#patientUntilMs = Number.NEGATIVE_INFINITY;
  }

  async open(path: string, how: 'read' | 'update' | 'create'): Promise<DiskFile> {
    if (how !== 'read') return await this.#disk.open(path, how);
    const file = await this.#read(() => this.#disk.open(path, how));
    return {
      read: (offset, length) => this.#read(() => file.read(offset, length)),
      size: () => this.#read(() => file.size()),
      write: (bytes, offset) => file.write(bytes, offset),
      sync: () => file.sync(),
      close: () => file.close(),
    };
  }

  look(path: string): Promise<Found | null> {
    return this.#read(() => this.#disk.look(path));
  }

  readWhole(path: string): Promise<Buffer | null> {
    return this.#read(() => this.#disk.readWhole(path));
  }

  list(directory: string): Promise<string[]> {
    return this.#read(() => this.#disk.list(directory));
  }

  makeDirectory(path: string): Promise<void> {
    return this.#disk.makeDirectory(path);
  }

  rename(from: string, to: string): Promise<void> {
    return this.#disk.rename(from, to);
  }

  remove(path: string): Promise<void> {
    return this.#disk.remove(path);
  }

  syncDirectory(path: string): Promise<void> {
    return this.#disk.syncDirectory(path);
  }

  space(path: string): Promise<Space> {
    return this.#disk.space(path);
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await read();
      } catch (error) {
        if (systemCodeOf(error) !== 'EIO' || !this.#isPatient(error)) throw error;
        await new Promise<void>((resolve) => void this.#clock.after(START_READ_PAUSE_MS, resolve));
      }
    }
  }

  #isPatient(error: unknown): boolean {
    if (this.#patientUntilMs === null) {
      this.#patientUntilMs = this.#clock.bootMs() + START_READS_MS_MAX;
      this.#log.warn('read failed', { reason: wordsOf(error) });
    }
    return this.#clock.bootMs() < this.#patientUntilMs;
  }
}
