/**
 * What both sides have made of an address book, in the order in which it happened, and what may have become of it in the
 * end. It knows the promises (no acknowledged edit is lost, nothing deleted comes back, a cloud that has lost its document
 * or goes back in time drops nobody) and nothing of how they are kept. Every value of a field is written only once, so that
 * it tells who wrote it. Where both sides did something to one entry, and neither had what the other did, either outcome is
 * let pass. The cloud has what a PUT has brought it, whether or not the device was told.
 */

export type Side = 'device' | 'cloud';

interface Happening {
  /** When it was asked for, and when it was certainly done; Infinity: nobody was told that it is. */
  readonly at: number;
  doneAt: number;
  /** When it was certainly done, or else never will be. */
  settledAt: number;
  readonly side: Side;
  /** Of one entry, for ever. */
  readonly key: string;
  readonly kind: 'create' | 'edit' | 'delete';
  readonly fields: Readonly<Record<string, unknown>>;
}

/** An edit that was asked for. */
export interface Booked {
  /** It is certain. */
  done(): void;
  /** It was refused, and nothing was changed. */
  refused(): void;
}

type Entry = Readonly<Record<string, unknown>>;

export class Edits {
  readonly #keyOf: (entry: Entry) => string | undefined;
  #happenings: Happening[] = [];
  /** Syncs that succeeded, by when they asked for the cloud's document, and when they were over at the latest. */
  readonly #syncs = new Map<number, number>();
  /** When it became unknown what both sides had agreed on. */
  readonly #discards: number[] = [];
  /** When the cloud lost what had happened there since. */
  readonly #losses: { readonly at: number; readonly since: number }[] = [];
  /** The documents that the device has put, by when they reached the cloud. */
  readonly #arrivals: { readonly at: number; readonly entries: ReadonlyMap<string | undefined, Entry> }[] =
    [];
  /** When the device asked for the cloud's document, and when it was given it. */
  readonly #asked: number[] = [];
  #hasMoved = false;
  #now = 0;

  /** `keyOf`: which entry it is, by anything that stands in it. */
  constructor(keyOf: (entry: Entry) => string | undefined) {
    this.#keyOf = keyOf;
  }

  /** A moment of its own. */
  tick(): number {
    return ++this.#now;
  }

  /** Books an edit, before it is made. */
  book(side: Side, kind: Happening['kind'], key: string, fields: Happening['fields'] = {}): Booked {
    const [doneAt, settledAt] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    const booked: Happening = { at: this.tick(), doneAt, settledAt, side, key, kind, fields };
    this.#happenings.push(booked);
    return {
      done: () => {
        booked.doneAt = this.tick();
        booked.settledAt = booked.doneAt;
      },
      refused: () => {
        this.#happenings = this.#happenings.filter((happening) => happening !== booked);
      },
    };
  }

  /** The device's process has ended: nothing that was asked of it is done any more. */
  ended(): void {
    const at = this.tick();
    for (const one of this.#happenings)
      if (one.side === 'device') one.settledAt = Math.min(one.settledAt, at);
  }

  /** True if since that tick the device may have made an edit. */
  isEditedSince(tick: number): boolean {
    return this.#happenings.some(({ side, settledAt }) => side === 'device' && settledAt > tick);
  }

  /** The device asks for the cloud's document, or the cloud gives it. Gives the tick of that. */
  asked(): number {
    const at = this.tick();
    this.#asked.push(at);
    return at;
  }

  /** A sync has succeeded; `askedAt` is the tick of its GET. */
  synced(askedAt: number): void {
    if (!this.#syncs.has(askedAt)) this.#syncs.set(askedAt, this.tick());
  }

  /** The device no longer knows what was agreed. */
  discarded(): void {
    this.#discards.push(this.tick());
  }

  /** A document that the device has put has reached the cloud. */
  arrived(document: readonly unknown[]): void {
    this.#arrivals.push({ at: this.tick(), entries: this.#keyed(document) });
  }

  /** The cloud has lost what happened there since that tick; 0: everything. */
  lost(since: number): void {
    this.discarded();
    this.#losses.push({ at: this.#now, since });
  }

  /** The device has been moved to another cloud, or back. */
  moved(): void {
    this.#hasMoved = true;
    this.discarded();
  }

  /** What is wrong with the document on which both sides agree in the end. */
  violations(document: readonly unknown[]): string[] {
    const keys = new Set(this.#happenings.map(({ key }) => key));
    const entries = this.#keyed(document);
    return [...keys].flatMap((key) => {
      const told = this.#happenings.filter((happening) => happening.key === key);
      const found = [...this.#presence(told, entries.get(key)), ...this.#values(told, entries.get(key))];
      return found.map((words) => `${key} ${words} (${this.#tell(told)})`);
    });
  }

  #tell(told: readonly Happening[]): string {
    const words = told.map(({ at, side, kind, fields, doneAt }) => {
      return `${at} ${side} ${kind}${isSure({ doneAt }) ? '' : '?'} ${Object.values(fields)}`;
    });
    return `${words.join('; ')}; synced ${[...this.#syncs].map((span) => span.join('-'))}; discarded ${this.#discards}`;
  }

  #presence(told: readonly Happening[], entry: Entry | undefined): string[] {
    const deletions = told.filter(({ kind }) => kind === 'delete');
    const [creation] = told.filter(({ kind }) => kind === 'create');
    if (deletions.length === 0) {
      if (entry || creation === undefined || !isSure(creation)) return [];
      // What only a cloud had that has lost it is lost.
      const isExcused =
        creation.side === 'cloud' &&
        (this.#hasMoved ||
          this.#losses.some(({ at, since }) => {
            return since < creation.doneAt && creation.at < at && !this.#isSynced(creation.doneAt, at);
          }));
      return isExcused ? [] : ['is lost, and nobody has deleted it'];
    }
    if (!entry) return this.#isKept(told) ? ['is gone, although somebody had edited it meanwhile'] : [];
    const last = told.filter(({ kind }) => kind !== 'edit').at(-1) as Happening;
    if (last.kind !== 'delete' || !isSure(last) || this.#isUncertain(last.at)) return [];
    if (last.side === 'cloud' && this.#isForeign(last.at)) return [];
    // A backup brings back what was deleted since.
    if (this.#losses.some(({ at, since }) => since > 0 && at > last.at)) return [];
    const others = told.filter(({ side }) => side !== last.side);
    const isTouched = others.some((other) => other.at > last.at || !this.#isKnown(other, last.at));
    return isTouched ? [] : [`has come back after the ${last.side} deleted it`];
  }

  /** True if one side has edited it, and the other cannot have known of that when it deleted it. */
  #isKept(told: readonly Happening[]): boolean {
    const hasReturned = told.filter(({ kind }) => kind === 'create').length > 1;
    if (this.#hasMoved || this.#discards.length > 0 || hasReturned) return false;
    const deletions = told.filter(({ kind }) => kind === 'delete');
    return told.some(({ kind, side, at, doneAt, fields }) => {
      if (kind !== 'edit' || doneAt === Number.POSITIVE_INFINITY || Object.keys(fields).length === 0)
        return false;
      return deletions.every(
        (one) => one.side !== side && (one.at < at || this.#isApart(side, at, one.settledAt)),
      );
    });
  }

  /** True if between these ticks nothing of that side can have come to the other. */
  #isApart(side: Side, from: number, to: number): boolean {
    const passed = side === 'device' ? this.#arrivals.map(({ at }) => at) : this.#asked;
    return !passed.some((at) => from < at && at < to);
  }

  #values(told: readonly Happening[], entry: Entry | undefined): string[] {
    if (!entry) return [];
    const names = new Set(told.flatMap(({ fields }) => Object.keys(fields)));
    return [...names].flatMap((name) => this.#value(name, told, entry[name]));
  }

  #value(name: string, told: readonly Happening[], value: unknown): string[] {
    // Who creates an entry without a field has said that there is none.
    const written = told.filter(({ kind, fields }) => kind === 'create' || name in fields);
    if (!written.some(({ fields }) => fields[name] === value))
      return [`has the ${name} ${value}, which nobody wrote`];
    const deleters = new Set(told.filter(({ kind }) => kind === 'delete').map(({ side }) => side));
    const sure = written.filter(isSure);
    const last = sure.at(-1);
    if (!last) return [];
    const later = written.filter(({ at }) => at > last.at).map(({ fields }) => fields[name]);
    const isRight = [last.fields[name], ...later].includes(value);
    if (isRight || deleters.size > 0) return [];
    // The device's last word holds whatever the cloud has said before, merged or not.
    if (last.side === 'device')
      return [`has the ${name} ${value}, but the device has said ${last.fields[name]} later`];
    const isConcurrent = written.some((one) => one.side === 'device' && !this.#isKnown(one, last.at));
    if (isConcurrent || this.#isUncertain(last.at)) return [];
    return [`has the ${name} ${value}, but the cloud has said ${last.fields[name]} later`];
  }

  /** True if at that tick the other side had what happened, or what its side made of that later. */
  #isKnown({ at, doneAt, side, kind, key, fields }: Happening, to: number): boolean {
    if (this.#isSynced(doneAt, to)) return true;
    if (side === 'cloud' || kind === 'delete') return false;
    const later = this.#happenings.filter((one) => one.key === key && one.side === 'device' && one.at >= at);
    const isIn = (entry: Entry | undefined) =>
      entry !== undefined &&
      Object.keys(fields).every((name) =>
        later.some((one) => name in one.fields && one.fields[name] === entry[name]),
      );
    return this.#arrivals.some((arrival) => arrival.at < to && isIn(arrival.entries.get(key)));
  }

  /** True if no PUT of the device had reached the cloud's document by then: what is missing there may mean anything. */
  #isForeign(to: number): boolean {
    const madeAt = Math.max(0, ...this.#losses.filter(({ at }) => at < to).map(({ at }) => at));
    return !this.#arrivals.some(({ at }) => madeAt < at && at < to);
  }

  #isSynced(from: number, to: number): boolean {
    return [...this.#syncs].some(([askedAt, overAt]) => from < askedAt && overAt < to);
  }

  /** True if between the syncs before and after it the base was lost. */
  #isUncertain(at: number): boolean {
    if (this.#hasMoved) return true;
    const syncs = [...this.#syncs];
    const before = Math.max(0, ...syncs.filter(([, overAt]) => overAt < at).map(([askedAt]) => askedAt));
    const later = syncs.filter(([askedAt]) => askedAt > at).map(([, overAt]) => overAt);
    const after = Math.min(Number.POSITIVE_INFINITY, ...later);
    return this.#discards.some((discard) => before < discard && discard < after);
  }

  #keyed(document: readonly unknown[]): Map<string | undefined, Entry> {
    return new Map(
      (document as (Entry | null)[]).flatMap((entry) =>
        entry === null ? [] : [[this.#keyOf(entry), entry]],
      ),
    );
  }
}

function isSure({ doneAt }: Pick<Happening, 'doneAt'>): boolean {
  return doneAt < Number.POSITIVE_INFINITY;
}
