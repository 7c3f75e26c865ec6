/**
 * Random histories: all that can happen to a store, in any order, with disk errors, clean stops, kills and power cuts.
 * After each end the next store is compared with the books. A history follows from its seed: FIELDPOST_TEST_SEED runs it
 * first.
 */
// A process of its own: it takes long.
import t from 'tap';
import { MIB, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import type { EmailContent, Message, Verdict } from '../../src/mail/message/message.js';
import { draftTo, nameOf, octets, strayFiles } from '../support/drafts.js';
import { type Fault, FaultyDisk } from '../support/faulty-disk.js';
import type { PowerCut } from '../support/faulty-nodes.js';
import { seededRandom, testSeed } from '../support/random.js';
import { type Bench, openOn, STATE_DIR } from '../support/store.js';
import { StoreClient } from './store-client.js';

const HISTORIES = process.env.FIELDPOST_TEST_LONG === '1' ? 250 : 20;
const LIVES_MAX = 4;
const STEPS_MAX = 40;
const CUTS: readonly PowerCut[] = ['nothing', 'everything', 'random', 'random', 'torn-head', 'torn-tail'];
const FAULTS: readonly Fault[] = [
  'error:EIO',
  'error-half:EIO',
  'error-after:EIO',
  'error:ENOSPC',
  'error-half:ENOSPC',
  'power-cut-before',
  'power-cut-after',
];
const VERDICTS: readonly Verdict[] = [
  { kind: 'sent', reply: '250 taken' },
  { kind: 'sent', reply: '250 taken' },
  { kind: 'failed', reply: '550 unknown' },
  { kind: 'expired', reply: 'too old' },
  { kind: 'deferred', reply: '451 later', delayMs: 60_000 },
];
// Small, so that segments soon go and their content moves.
const BUDGET = { maxQueue: 10_000, maxSpoolBytes: 12 * MIB, minFreeBytes: 0 };

class History {
  readonly told: string[] = [];
  readonly #random: () => number;
  readonly #books = new StoreClient();
  #disk: FaultyDisk;
  #names = 0;
  #killable = false;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#books.mayDrop = true;
    this.#disk = new FaultyDisk({ random: seededRandom(seed + 1), directories: ['/var/lib'] });
  }

  /** Lives until something is broken; says what, or nothing. */
  async run(): Promise<string[]> {
    for (let life = this.#below(LIVES_MAX) + 1; life > 0; life--) {
      await this.#live().catch((error) => {
        // A start that meets an error is repeated.
        if (!this.#disk.dead && !/^E[A-Z]+:/.test(error.message)) throw error;
      });
      this.#end();
      const { store } = await openOn(this.#disk, this.#below(1000), { budget: BUDGET });
      const found = await this.#books.violations(store);
      found.push(...(await strayFiles(this.#disk, STATE_DIR, store)));
      if (found.length > 0) return found;
      this.#books.reconcile(store);
      // The next life begins with what was just read, as after a kill.
      this.#disk = this.#disk.afterKill();
    }
    return [];
  }

  async #live(): Promise<void> {
    this.#plantFault(0.2);
    let bench = await openOn(this.#disk, this.#below(1000), { budget: BUDGET });
    for (let step = this.#below(STEPS_MAX); step > 0 && !this.#disk.dead; step--) {
      this.#plantFault(0.1);
      if (this.#random() < 0.05) {
        await bench.store.close();
        if (bench.store.storage().state === 'ok' && !this.#disk.dead) this.#books.synced();
        bench = await openOn(this.#disk, this.#below(1000), { budget: BUDGET });
      }
      await this.#step(bench);
    }
    // A kill loses nothing that was written.
    if (bench.store.storage().state === 'ok' && !this.#disk.dead) this.#killable = true;
  }

  #end(): void {
    const isKill = this.#killable && this.#random() < 0.4;
    const kind = this.#pick(CUTS) as PowerCut;
    this.told.push(isKill ? 'kill' : `power cut: ${kind}`);
    if (isKill) this.#books.synced();
    const next = isKill ? this.#disk.afterKill() : this.#disk.afterPowerCut(kind, this.#random);
    this.#disk.cutPower();
    this.#disk = next;
    this.#killable = false;
  }

  async #step({ store, clock }: Bench): Promise<void> {
    const waiting = [...store.queued(), ...store.deferred()].filter(({ status }) => status !== 'sending');
    const failed = store.list({ status: 'failed', limit: 1000, after: null }).messages;
    const accept = (count: number, bytes: number, key: string | null = null) => {
      const drafts = Array.from({ length: count }, () => draftTo(`m${this.#names++}`, bytes));
      return this.#books.accept(store, drafts, key === null ? null : { key, hash: 'h' });
    };
    const acceptFiles = (count: number, bytes: number, key: string | null = null) => {
      const files = Array.from({ length: count }, (_, i) => octets(bytes + i));
      const keyed = key === null ? null : { key, hash: 'h' };
      return this.#books.acceptFiles(store, draftTo(`m${this.#names++}`), files, keyed);
    };
    /** An upload that its client leaves. */
    const giveUp = async () => {
      const upload = await store.upload(1000).catch(() => null);
      const file = await upload?.begin({ name: 'a', type: 'text/plain' }).catch(() => null);
      await file?.write(octets(300_000))?.catch(() => undefined);
      await upload?.discard();
    };
    const settle = async (message: Message | undefined) => {
      if (!message) return;
      await this.#books.settle(store, nameOf(message), this.#pick(VERDICTS) as Verdict);
      // If the outcome could not be recorded, the claim is still open.
      if (store.get(message.id)?.status === 'sending') store.giveBack(message.id);
    };
    const read = async (message: Message | undefined) => {
      if (!message || this.#disk.dead) return;
      const { subject } = (await store.content(message)) as EmailContent;
      if (subject !== nameOf(message)) throw new Error(`${nameOf(message)} reads as ${subject}`);
    };
    const steps: Record<string, () => Promise<unknown>> = {
      accept: () => accept(1, 100 + this.#below(3000)),
      batch: () => accept(2 + this.#below(3), 500, `k${this.#names}`),
      big: () => accept(2, 100_000 + this.#below(200_000)),
      files: () => acceptFiles(1 + this.#below(3), 200 + this.#below(3000)),
      bigFile: () => acceptFiles(1, 200_000 + this.#below(700_000), `f${this.#names}`),
      uploads: () =>
        Promise.all([acceptFiles(2, 900), acceptFiles(1, 100), settle(this.#pick(waiting)), giveUp()]),
      huge: () => accept(1, 700_000 + this.#below(700_000)),
      together: () =>
        Promise.all([accept(1, 300), accept(2, 3000), settle(this.#pick(waiting)), accept(1, 90_000)]),
      settle: () => settle(this.#pick(waiting)),
      settleMany: async () => {
        for (const message of waiting) if (this.#random() < 0.7) await settle(message);
      },
      readWhileWriting: () =>
        Promise.all([accept(1, 150_000), read(this.#pick(waiting)).catch(this.#ifAlive), accept(1, 150_000)]),
      cancel: async () => {
        const message = this.#pick(waiting);
        if (message) await this.#books.change(store, nameOf(message), 'cancel', 'cancelled');
      },
      retry: async () => {
        const message = this.#pick(failed.filter(({ place }) => place));
        if (message) await this.#books.change(store, nameOf(message), 'retry', 'queued');
      },
      destination: async () => {
        const { destinations } = this.#books;
        const name = this.#pick(destinations.names);
        const draw = this.#random();
        if (!name || draw < 0.4) await destinations.add(store, `d${this.#names++}`);
        else if (draw < 0.8)
          await destinations.change(store, name, this.#pick(['nl', 'fr', 'de'] as const) ?? 'en');
        else await destinations.remove(store, name);
      },
      hold: () => this.#books.setHeld(store, this.#random() < 0.5),
      flush: () => store.flush().catch(() => undefined),
      second: async () => {
        await clock.advance(1100);
        if (store.storage().state === 'ok' && !this.#disk.dead) this.#books.synced();
      },
      mend: () => clock.advance(STORAGE_RETRY_MS),
    };
    const name = this.#pick(Object.keys(steps)) as string;
    this.told.push(name);
    await steps[name]?.();
  }

  readonly #ifAlive = (error: Error): void => {
    if (!this.#disk.dead) throw error;
  };

  /** One of the next operations fails, perhaps. */
  #plantFault(odds: number): void {
    if (this.#random() > odds) return;
    const at = this.#disk.operations + 1 + this.#below(12);
    const fault = this.#pick(FAULTS) as Fault;
    this.#disk.onOperation = (n, { kind, path }) => {
      if (n === at) this.told.push(`${fault} at ${kind} ${path}`);
      return n === at ? fault : 'ok';
    };
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from[this.#below(from.length)];
  }
}

t.test('random histories', async (t) => {
  const seed = testSeed();
  t.comment(`seed ${seed}`);
  const found: string[] = [];
  for (let i = 0; i < HISTORIES && found.length < 3; i++) {
    const history = new History(seed + i);
    const words = await history.run().catch((error: Error) => [String(error.stack)]);
    if (words.length > 0) found.push(`seed ${seed + i}: ${words.join('; ')}\n  ${history.told.join(', ')}`);
  }
  t.same(found, []);
});
