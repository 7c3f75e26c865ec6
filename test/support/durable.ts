/** A file as the program keeps it, whose content may have any shape. */
import { DurableFile } from '../../src/base/durable-file.js';
import type { Disk } from '../../src/base/system/disk.js';

/** The file at `path`. Reading one that is damaged fails. */
export function durable<Content>(disk: Disk, path: string): DurableFile<Content> {
  const onDamage = () => {
    throw new Error(`${path} is damaged`);
  };
  return new DurableFile<Content>({ disk, path, parse: (value) => value as Content, onDamage });
}
