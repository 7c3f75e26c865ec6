/**
 * An address book in memory, the sync of it, and a cloud's document. Used by the tests of the sync.
 */
import { Sync } from '../../src/cloud/sync.js';
import { type Book, emptyBook } from '../../src/destinations/book.js';
import type { FieldpostError } from '../../src/errors.js';
import { FakeClock } from './clock.js';
import { CloudDocument } from './cloud-document.js';
import { memoryBook } from './memory-store.js';

/** `state`: what the book begins with, as after a restart. `name`: the cloud's, as the configuration spells it. */
export function startSync({
  cloud = new CloudDocument(),
  state = emptyBook(),
  name = 'https://cloud.example/a',
} = {}) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const log = (event: string, fields = {}) => void lines.push([event, ...Object.values(fields)].join(' '));
  const bench = {
    cloud,
    clock,
    lines,
    state: state as Book,
    isOnline: true,
    failure: null as FieldpostError | null,
    /** How many records were written. */
    records: 0,
    book: memoryBook(() => {
      if (bench.failure) throw bench.failure;
      bench.records++;
    }, state),
    sync: null as unknown as Sync,
    /** What was called since the last time. */
    calls: () => cloud.calls.splice(0).join(' '),
    async syncNow() {
      bench.sync.request();
      await clock.advance(0);
    },
  };
  bench.sync = new Sync({
    book: bench.book,
    cloud: name,
    client: cloud,
    config: { heartbeatMs: 30_000, backoffMinMs: 1000, backoffMaxMs: 300_000 },
    isOnline: () => bench.isOnline,
    clock,
    random: () => 0,
    log: { debug: log, info: log, warn: log, error: log },
  });
  return bench;
}
