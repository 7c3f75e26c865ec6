/**
 * The files of one request, from the first byte until an acceptance takes them (Q0, Q1).
 */
import { assert, FieldpostError } from '../../base/errors.js';
import { BLOCK_BYTES } from '../../base/limits.js';
import type { Attachment } from '../message/message.js';
import type { Reservation } from './budget.js';
import type { RoomMaker } from './room-maker.js';
import type { Spool } from './spool.js';
import { SpoolWriter } from './spool-writer.js';
import type { IncomingFile, Upload } from './store.js';

interface UploadOptions {
  readonly spool: Spool;
  readonly room: Reservation;
  /** Whole blocks; a file goes to the disk in pieces of so many bytes. */
  readonly writeBytes: number;
  readonly roomMaker: RoomMaker;
  readonly onOver: () => void;
}

/** Ends when an acceptance takes its files, or when it is discarded. */
export class SpoolUpload implements Upload {
  readonly #options: UploadOptions;
  readonly #coming = new Set<SpoolWriter>();
  /** Whole files that no acceptance took yet. */
  readonly #whole = new Set<string>();
  #isOver = false;

  constructor(options: UploadOptions) {
    this.#options = options;
  }

  async begin({ name, type }: { readonly name: string; readonly type: string }): Promise<IncomingFile> {
    const { spool, room, writeBytes, roomMaker } = this.#options;
    await roomMaker.makeFile(room);
    this.#mustGoOn();
    const writer = new SpoolWriter(await spool.create(), writeBytes, (id, bytes) => this.#grow(id, bytes));
    this.#coming.add(writer);
    if (this.#isOver) await this.discard();
    this.#mustGoOn();
    room.spend(BLOCK_BYTES);
    return {
      write: (bytes) => writer.write(bytes),
      finish: async () => {
        const written = await writer.finish();
        this.#mustGoOn();
        this.#coming.delete(writer);
        this.#whole.add(written.id);
        return { ...written, name, type };
      },
    };
  }

  /** Reserves and counts the next bytes of a file. */
  async #grow(id: string, bytes: number): Promise<void> {
    const { spool, room, roomMaker } = this.#options;
    this.#mustGoOn();
    // Only a file's last piece is no multiple of a block.
    const blockBytes = Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
    await roomMaker.makeRoom(room, blockBytes);
    await roomMaker.keepBudget();
    // In one step, so that no other upload gets these bytes.
    room.spend(blockBytes);
    spool.grow(id, bytes);
  }

  /** Two buffers of `writeBytes`: one is filled while the other is written. */
  get memoryBytes(): number {
    return 2 * this.#options.writeBytes;
  }

  /** True if this upload has the file, and no acceptance took it. */
  has(id: string): boolean {
    return this.#whole.has(id);
  }

  /** An acceptance takes the files, and removes them if it fails. */
  take(ids: readonly string[]): void {
    for (const id of ids) assert(this.#whole.delete(id), 'an attachment is taken once');
    this.#end();
  }

  async drop({ id }: Attachment): Promise<void> {
    assert(this.#whole.delete(id), 'a whole file that nobody has taken');
    await this.#options.spool.remove([id]);
  }

  async discard(): Promise<void> {
    this.#end();
    const coming = [...this.#coming];
    const ids = [...this.#whole, ...coming.map(({ id }) => id)];
    this.#coming.clear();
    this.#whole.clear();
    await Promise.all(coming.map((writer) => writer.close()));
    await this.#options.spool.remove(ids);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.room.end();
    this.#options.onOver();
  }

  #mustGoOn(): void {
    if (this.#isOver) throw new FieldpostError('malformed-request', 'the upload was given up');
  }
}
