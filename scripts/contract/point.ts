/**
 * What a point of the contract is, and how all of them are tried. Used by main.ts and by the suite's own test.
 */
import { Broken, type Cloud, NotChecked } from './cloud.js';
import { DOCUMENT_POINTS } from './documents.js';
import { HEARTBEAT_POINTS } from './heartbeats.js';
import { MESSAGE_POINTS } from './messages.js';

/** One sentence of the contract, and the way to find out whether it holds. */
export interface Point {
  readonly name: string;
  /** What goes wrong where it does not hold. */
  readonly why: string;
  /** Throws Broken or NotChecked. */
  check(cloud: Cloud): Promise<void>;
}

/** What came of a point. */
export interface Finding {
  readonly point: Point;
  readonly result: 'holds' | 'broken' | 'not checked';
  /** What was seen; empty where it holds. */
  readonly words: string;
}

// In this order: the first need a device that has no document yet.
export const POINTS: readonly Point[] = [...DOCUMENT_POINTS, ...HEARTBEAT_POINTS, ...MESSAGE_POINTS];

/** Tries every point in turn, and puts the document back as it was. */
export async function* examine(cloud: Cloud): AsyncGenerator<Finding> {
  const before = await cloud.get().catch(() => null);
  for (const point of POINTS) {
    try {
      await point.check(cloud);
      yield { point, result: 'holds', words: '' };
    } catch (error) {
      if (error instanceof Broken) yield { point, result: 'broken', words: error.message };
      else if (error instanceof NotChecked) yield { point, result: 'not checked', words: error.message };
      else throw error;
    }
  }
  const { status, json } = before ?? {};
  await cloud.replace(status === 200 && json ? json : { destinations: [] }).catch(() => undefined);
}
