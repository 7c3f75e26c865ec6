/**
 * How many devices' documents name each person. A person of few devices never needs a digest, so is told at once. The store
 * of the documents keeps it up to date.
 */
import { createHash } from 'node:crypto';

/** Counts devices by person. */
export class People {
  /** A short hash of each person, and the number of their devices. */
  readonly #devices = new Map<number, number>();
  /** The hashes of each device's people. */
  readonly #people = new Map<string, readonly number[]>();

  /** The people in the device's document (`peopleOf`), each once; null: the document is gone. */
  set(device: string, people: readonly string[] | null): void {
    for (const hash of this.#people.get(device) ?? []) this.#add(hash, -1);
    if (people === null || people.length === 0) this.#people.delete(device);
    else this.#people.set(device, people.map(hashOf));
    for (const hash of this.#people.get(device) ?? []) this.#add(hash, 1);
  }

  /** The number of devices whose documents name this person. */
  devicesOf(person: string): number {
    return this.#devices.get(hashOf(person)) ?? 0;
  }

  #add(hash: number, change: 1 | -1): void {
    const count = (this.#devices.get(hash) ?? 0) + change;
    if (count === 0) this.#devices.delete(hash);
    else this.#devices.set(hash, count);
  }
}

/** 48 bits: a number takes less memory than an address. Two people with one hash would only wait for the end of a batch. */
function hashOf(person: string): number {
  return createHash('sha256').update(person).digest().readUIntBE(0, 6);
}
