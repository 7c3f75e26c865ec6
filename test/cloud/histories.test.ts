/**
 * Random histories of an address book that is edited on two sides: lost requests and answers, power cuts at every step,
 * damage, a cloud that forgets or goes back to a backup, stray 404s, another cloud, another URL of the same cloud. In the
 * end both sides must agree on a document that the log of edits allows. FIELDPOST_TEST_SEED runs one history first.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { type Destination, type Entry, isEntry, targetOf } from '../../src/destinations/destination.js';
import { sameDocument } from '../../src/destinations/merge.js';
import { Edits } from '../simulation/edits.js';
import { type BookDevice, bookDevice, type DeviceWorld, type Step } from '../support/book-device.js';
import { settled } from '../support/clock.js';
import { CloudDocument, type Fate } from '../support/cloud-document.js';
import { seededRandom, testSeed } from '../support/random.js';

const LONG = process.env.FIELDPOST_TEST_LONG === '1';
const HISTORIES = LONG ? 4000 : 200;
const WITH_COLLISIONS = LONG ? 2000 : 100;
const STEPS_MAX = 24;
/** The most failures that are told. */
const FOUND_MAX = 3;
const HEARTBEAT_MS = 30_000;
const LANGS = ['nl', 'fr', 'de', 'en', 'it', 'pl', 'es'] as const;
const FATES: readonly [Fate, ...Fate[]] = [
  'lost request',
  'lost answer',
  'lost answer',
  'late',
  'error',
  'stray',
];

class History {
  readonly told: string[] = [];
  readonly #random: () => number;
  /** Targets are drawn from few, so that two entries have the same. */
  readonly #hasFewTargets: boolean;
  /** The heartbeats tell the document's ETag; a cloud need not. */
  readonly #tellsETags: boolean;
  readonly #log = new Edits((entry) => entry.uid as string);
  readonly #home = new CloudDocument('h');
  readonly #away = new CloudDocument('a');
  readonly #world: DeviceWorld;
  /** Uids by the targets they ever had, which are unique unless there are collisions. */
  readonly #uidOf = new Map<string, string>();
  readonly #idOf = new Map<string, number>();
  readonly #gone: Entry[] = [];
  /** Values in the document that no device understands. */
  readonly #strange = new Set<unknown>();
  readonly #found: string[] = [];
  readonly #backups: { readonly cloud: CloudDocument; readonly since: number; restore(): void }[] = [];
  #spellings = 0;
  #device!: BookDevice;
  #cloud = this.#home;
  #askedAt = 0;
  /** The device whose last call was a PUT, and how many edits it had seen by then. */
  #put: { readonly device: BookDevice; readonly generation: number } | null = null;
  #tokens = 0;
  #highestId = 0;
  #isCalm = false;

  constructor(seed: number, hasFewTargets: boolean) {
    this.#random = seededRandom(seed);
    this.#hasFewTargets = hasFewTargets;
    this.#tellsETags = this.#random() < 0.5;
    for (const cloud of [this.#home, this.#away]) {
      cloud.onCall = async (call) => {
        const fate = await this.#onCall(call);
        // What was edited meanwhile is in the document that is given now.
        if (call === 'get') this.#log.asked();
        return fate;
      };
      cloud.onArrival = (entries) => this.#log.arrived(entries);
    }
    this.#world = {
      random: this.#random,
      onRecord: () => this.#onRecord(),
      client: this.#home,
      cloud: 'home',
      isOnline: true,
      made: 0,
      drawn: 0,
    };
  }

  async run(): Promise<string[]> {
    this.#device = await bookDevice(this.#world);
    for (let step = this.#below(STEPS_MAX); step > 0 && this.#found.length === 0; step--) {
      await this.#step();
      if (this.#device.isDead) await this.#restart();
      this.#observe();
    }
    return this.#found.length > 0 ? this.#found : await this.#end();
  }

  /** All is well again: both sides must agree, stay so, and have kept every promise. */
  async #end(): Promise<string[]> {
    this.#isCalm = true;
    this.#world.isOnline = true;
    for (let round = 0; round < 15; round++) {
      this.#device.sync.request();
      await this.#device.clock.advance(120_000);
      if (round >= 2 && this.#device.sync.view().synced) break;
    }
    this.#observe();
    const document = this.#cloud.entries ?? [];
    const found = [...this.#found];
    if (!this.#device.sync.view().synced) found.push('they do not agree in the end');
    for (const strange of this.#strange) if (!document.includes(strange)) found.push(`${strange} is lost`);
    const { etag } = this.#cloud;
    this.#device.sync.request();
    await this.#device.clock.advance(1000);
    if (this.#cloud.etag !== etag) found.push('what was agreed is put again');
    const listed = this.#device.book.list().map(fieldsOf);
    if (!sameDocument(listed, document.filter(isEntry).map(fieldsOf)))
      found.push('the list is not the document');
    if (!this.#hasFewTargets) found.push(...this.#log.violations(document));
    return found;
  }

  async #step(): Promise<void> {
    const weights: Record<string, [weight: number, () => Promise<void> | void]> = {
      add: [4, () => this.#add()],
      change: [5, () => this.#change()],
      remove: [2, () => this.#remove()],
      screen: [7, () => this.#screen()],
      sync: [5, () => this.#sync()],
      wait: [3, () => this.#device.clock.advance(1000 + this.#below(3000))],
      'link goes': [1, () => this.#linkGoes()],
      'link comes': [2, () => this.#linkComes()],
      'power fails': [1, () => this.#device.die()],
      'late requests arrive': [2, () => this.#cloud.arriveLate()],
      'cloud forgets': [0.3, () => this.#forget()],
      'cloud is backed up': [0.6, () => this.#backUp()],
      'backup is restored': [0.6, () => this.#restore()],
      'ETag flaps': [0.3, () => this.#cloud.flap()],
      'URL is spelled anew': [0.3, () => this.#respell()],
      'half an hour goes by': [0.3, () => this.#device.clock.advance(30 * 60_000)],
      'cloud changes': [0.3, () => this.#move()],
    };
    let draw = this.#random() * Object.values(weights).reduce((sum, [weight]) => sum + weight, 0);
    for (const [name, [weight, work]] of Object.entries(weights)) {
      draw -= weight;
      if (draw > 0) continue;
      this.told.push(name);
      return await work();
    }
  }

  #linkGoes(): void {
    this.#world.isOnline = false;
  }

  async #linkComes(): Promise<void> {
    const { sync, clock } = this.#device;
    this.#world.isOnline = true;
    // A heartbeat has come through: many a cloud tells with it which document it has.
    if (this.#tellsETags) sync.seen(this.#cloud.entries && this.#cloud.etag);
    sync.online();
    // Others may have come online in the same second: that is spread over up to a heartbeat.
    await clock.advance(this.#below(HEARTBEAT_MS));
    await settled();
  }

  async #sync(): Promise<void> {
    this.#device.sync.request();
    await this.#device.clock.advance(0);
    await settled();
  }

  /** Does an edit on the device, which may die of it; true if it was acknowledged. */
  async #edit<T>(work: (book: BookDevice['book']) => Promise<T>): Promise<T | null> {
    const device = this.#device;
    const done = work(device.book).catch((error: Error & { code?: string }) => {
      const isExpected = ['storage-failed', 'not-found', 'conflict'].includes(error.code ?? '');
      if (!isExpected) throw error;
      this.told.push(error.message);
      return null;
    });
    const result = await Promise.race([done, device.died.then(() => null)]);
    if (result !== null) device.sync.edited();
    return result;
  }

  async #add(): Promise<void> {
    const fields = {
      type: 1,
      lang: this.#pick(LANGS),
      name: this.#token('n'),
      destination: this.#target(),
    } as const;
    const before = this.#device.lastUid;
    const device = this.#device;
    let isDone = false;
    const added = this.#edit((book) => book.add(fields)).finally(() => {
      isDone = true;
    });
    while (device.lastUid === before && !isDone) await nextTurn();
    const uid = device.lastUid;
    if (uid === before) return;
    this.#uidOf.set(fields.destination, uid);
    const booked = this.#log.book('device', 'create', uid, {
      name: fields.name,
      destination: fields.destination,
    });
    const destination = await added;
    if (!destination) return;
    booked.done();
    if (destination.id <= this.#highestId) this.#found.push(`id ${destination.id} is given again`);
    this.#highestId = Math.max(this.#highestId, destination.id);
  }

  async #change(): Promise<void> {
    const old = this.#pick(this.#device.book.list());
    if (!old) return;
    const change: Record<string, unknown> = {};
    if (this.#random() < 0.7) change.name = this.#token('n');
    if (this.#random() < 0.4) change.destination = this.#target();
    if (Object.keys(change).length === 0) return;
    if (this.#random() < 0.4) change.lang = this.#pick(LANGS);
    const uid = this.#uidOf.get(old.destination) ?? '';
    const { lang: _, ...noted } = change;
    const booked = this.#log.book('device', 'edit', uid, noted);
    if (typeof change.destination === 'string') this.#uidOf.set(change.destination, uid);
    const { id, ...fields } = { ...old, ...change } as Destination;
    if (await this.#edit((book) => book.replace(id, fields))) booked.done();
  }

  async #remove(): Promise<void> {
    const old = this.#pick(this.#device.book.list());
    if (!old) return;
    const booked = this.#log.book('device', 'delete', this.#uidOf.get(old.destination) ?? '');
    if (await this.#edit((book) => book.remove(old.id).then(() => true))) booked.done();
  }

  /** Somebody edits in the cloud; a document that was lost is made anew. */
  #screen(): void {
    const cloud = this.#cloud;
    const entries = (cloud.entries ?? []).filter(isEntry);
    const old = this.#pick(entries);
    const draw = this.#random();
    const book = (kind: 'create' | 'edit' | 'delete', uid: string, fields = {}) =>
      this.#log.book('cloud', kind, uid, fields).done();
    if (!old || draw < 0.3) {
      const back = draw < 0.1 ? this.#gone.pop() : undefined;
      const uid = back?.uid ?? `00000000-0000-4000-9000-${(++this.#tokens).toString().padStart(12, '0')}`;
      if (entries.some((entry) => entry.uid === uid)) return;
      const noted = { name: this.#token('n'), destination: this.#target(), room: this.#token('r') };
      this.#uidOf.set(noted.destination, uid);
      book('create', uid, noted);
      cloud.edit((all) => [...all, { uid, type: 1, lang: this.#pick(LANGS), ...noted }]);
    } else if (draw < 0.45) {
      this.#gone.push(old);
      book('delete', old.uid);
      cloud.edit((all) => all.filter((entry) => (entry as Entry)?.uid !== old.uid));
    } else if (draw < 0.5) {
      const strange = this.#token('strange');
      this.#strange.add(strange);
      cloud.edit((all) => [...all, strange]);
    } else {
      const noted: Record<string, unknown> = {};
      if (this.#random() < 0.6) noted.name = this.#token('n');
      if (this.#random() < 0.3) noted.destination = this.#target();
      if (this.#random() < 0.3) noted.room = this.#token('r');
      if (typeof noted.destination === 'string') this.#uidOf.set(noted.destination, old.uid);
      book('edit', old.uid, noted);
      cloud.edit((all) =>
        all.map((entry) => ((entry as Entry)?.uid === old.uid ? { ...old, ...noted } : entry)),
      );
    }
  }

  #forget(): void {
    this.#cloud.forget();
    this.#strange.clear();
    this.#log.lost(0);
  }

  #backUp(): void {
    const cloud = this.#cloud;
    if (cloud.entries === null) return;
    this.#backups.push({ cloud, since: this.#log.tick(), restore: cloud.backUp() });
  }

  #restore(): void {
    const backup = this.#pick(this.#backups.filter(({ cloud }) => cloud === this.#cloud));
    if (!backup) return;
    backup.restore();
    this.#log.lost(backup.since);
    this.#strange.clear();
    for (const value of this.#cloud.entries ?? []) if (typeof value === 'string') this.#strange.add(value);
  }

  /** The device is told of the same cloud in other words, and starts anew. */
  async #respell(): Promise<void> {
    this.#world.cloud = `${this.#world.cloud.split(' ')[0]} ${++this.#spellings}`;
    await this.#restart(false);
  }

  /** The device is told to use the other cloud, and starts anew. */
  async #move(): Promise<void> {
    this.#cloud = this.#cloud === this.#home ? this.#away : this.#home;
    this.#world.client = this.#cloud;
    this.#world.cloud = this.#cloud === this.#home ? 'home' : 'away';
    this.#log.moved();
    this.#strange.clear();
    await this.#restart(false);
  }

  async #restart(isDamaged = this.#random() < 0.15): Promise<void> {
    this.told.push(isDamaged ? 'damage is found' : 'it goes on');
    if (isDamaged) this.#log.discarded();
    const wasCalm = this.#isCalm;
    this.#isCalm = true;
    this.#device = await this.#device.restart(isDamaged);
    this.#isCalm = wasCalm;
  }

  /** What must hold at any time. */
  #observe(): void {
    const { book, sync } = this.#device;
    const { reason, lastSyncMs, synced } = sync.view();
    // The last GET then was that of the sync that succeeded.
    if (reason === null && lastSyncMs !== null && this.#askedAt > 0) this.#log.synced(this.#askedAt);
    const list = book.list();
    const targets = new Set(list.map(targetOf));
    if (targets.size !== list.length) this.#found.push('two entries have the same target');
    const isSettled = synced && book.etag === this.#cloud.etag && this.#cloud.entries !== null;
    if (isSettled && this.#cloud.entries) {
      const document = this.#cloud.entries.filter(isEntry).map(fieldsOf);
      if (!sameDocument(document, list.map(fieldsOf))) this.#found.push('synced is told, and is not so');
    }
    if (this.#hasFewTargets) return;
    for (const { id, destination } of list) {
      const uid = this.#uidOf.get(destination) ?? '';
      const known = this.#idOf.get(uid);
      if (known !== undefined && known !== id) this.#found.push(`${uid} had id ${known} and has ${id}`);
      this.#idOf.set(uid, id);
      this.#highestId = Math.max(this.#highestId, id);
    }
    const ids = [...this.#idOf.values()];
    if (new Set(ids).size !== ids.length) this.#found.push('an id stands for two');
  }

  async #onCall(call: 'get' | 'put'): Promise<Fate> {
    const device = this.#device;
    const { generation } = device.book;
    // What was edited while a document was put has a sync of its own: this one's last GET says nothing of it.
    const isEditedSince = this.#put?.device === device && this.#put.generation !== generation;
    if (call === 'get' && !isEditedSince) this.#askedAt = this.#log.tick();
    this.#put = call === 'put' ? { device, generation } : null;
    if (this.#isCalm) return 'ok';
    const draw = this.#random();
    if (draw < 0.06) this.#screen();
    else if (draw < 0.1) await this.#change();
    else if (draw < 0.14) await this.#remove();
    else if (draw < 0.17) device.die();
    else if (draw < 0.4) {
      const fate = this.#pick(FATES);
      this.told.push(`${call}: ${fate}`);
      // A device that has never seen a document believes it, and knows no more than before.
      if (call === 'get' && fate === 'stray') this.#askedAt = 0;
      if (this.#random() < 0.1) device.die();
      return fate;
    }
    return 'ok';
  }

  #onRecord(): Step {
    if (this.#isCalm) return 'ok';
    const draw = this.#random();
    const step = draw < 0.03 ? 'dies before' : draw < 0.06 ? 'dies after' : draw < 0.08 ? 'refused' : 'ok';
    if (step !== 'ok') this.told.push(`record: ${step}`);
    return step;
  }

  #target(): string {
    if (this.#hasFewTargets) return `d${this.#below(5)}@${this.#pick(['example.com', 'EXAMPLE.com'])}`;
    return `${this.#token('d')}@example.com`;
  }

  #token(kind: string): string {
    return `${kind}${++this.#tokens}`;
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #pick<T>(from: readonly [T, ...T[]]): T;
  #pick<T>(from: readonly T[]): T | undefined;
  #pick<T>(from: readonly T[]): T | undefined {
    return from[this.#below(from.length)];
  }
}

function fieldsOf({ type, destination, lang, name }: Destination | Entry): object {
  return { type, destination, lang, name };
}

/** Runs histories until some have failed; says which, and how they went. */
async function runMany(seed: number, count: number, hasFewTargets: boolean): Promise<string[]> {
  const found: string[] = [];
  for (let i = 0; i < count && found.length < FOUND_MAX; i++) {
    const history = new History(seed + i, hasFewTargets);
    const words = await history.run().catch((error: Error) => [String(error.stack)]);
    if (words.length > 0) found.push(`seed ${seed + i}: ${words.join('; ')}\n  ${history.told.join(', ')}`);
  }
  return found;
}

const seed = testSeed();
t.comment(`seed ${seed}`);

t.test('both sides agree in the end, and no edit is lost', async (t) => {
  t.same(await runMany(seed, HISTORIES, false), []);
});

t.test('with few targets, so that two entries become one', async (t) => {
  t.same(await runMany(seed, WITH_COLLISIONS, true), []);
});
