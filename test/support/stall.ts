/** A disk that waits until a test releases it. */
import type { FaultyDisk, Operation } from './faulty-disk.js';

/** Holds up these operations until `release` is called; `arrived` resolves once one of them waits. */
export function stall(
  disk: FaultyDisk,
  isMeant: (operation: Operation) => boolean = () => true,
): { release: () => void; arrived: Promise<void> } {
  const { pace } = disk;
  let open: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    open = resolve;
  });
  const arrived = new Promise<void>((resolve) => {
    disk.pace = (operation) => {
      if (!isMeant(operation)) return null;
      resolve();
      return released;
    };
  });
  const release = () => {
    disk.pace = pace;
    open();
  };
  return { release, arrived };
}
