/**
 * The news in etcd that people are not told yet, and which closed batches are whole.
 */
import { type DeviceNews, isHappening } from '../news.js';
import { objectIn, type Shelf } from './mirror.js';

/** News in etcd. */
export interface PendingOne {
  readonly news: DeviceNews;
  /** The batch that it belongs to, once that is closed; null: the open one. */
  readonly batch: string | null;
  readonly createRevision: number;
  readonly modRevision: number;
}

/** Memory of the news. */
export class EtcdPending {
  readonly #pending = new Map<string, PendingOne>();
  /** The names of each device's news, the oldest first. */
  readonly #byDevice = new Map<string, string[]>();
  /** The batches of which all members are marked. */
  readonly #whole = new Set<string>();
  readonly shelves: Readonly<Record<'outbox' | 'whole', Shelf>>;

  /** `came` is called when there may be something to tell. */
  constructor(came: () => void) {
    const [pending, whole] = [this.#pending, this.#whole];
    const outbox: Shelf = {
      get names() {
        return pending.keys();
      },
      put: (name, found) => {
        this.keep(name, found);
        came();
      },
      deleted: (name) => this.#drop(name),
    };
    const wholeShelf: Shelf = {
      get names() {
        return whole.values();
      },
      put: (batch) => {
        whole.add(batch);
        came();
      },
      deleted: (batch) => void whole.delete(batch),
    };
    this.shelves = { outbox, whole: wholeShelf };
  }

  get size(): number {
    return this.#pending.size;
  }

  /** The number of devices with news. */
  get devices(): number {
    return this.#byDevice.size;
  }

  /** The names of a device's news, the oldest first. */
  newsOf(device: string): readonly string[] {
    return this.#byDevice.get(device) ?? [];
  }

  has(news: DeviceNews): boolean {
    return this.#pending.has(nameOf(news));
  }

  /** The oldest first. */
  inOrder(): PendingOne[] {
    return [...this.#pending.values()].sort((a, b) => a.createRevision - b.createRevision);
  }

  isClosed(batch: string | null): batch is string {
    return batch !== null && this.#whole.has(batch);
  }

  /** All members of the batch are marked. */
  close(batch: string): void {
    this.#whole.add(batch);
  }

  /** Closed batches without members. */
  unusedBatches(): string[] {
    const used = new Set([...this.#pending.values()].map(({ batch }) => batch));
    return [...this.#whole].filter((batch) => !used.has(batch));
  }

  /** Throws SyntaxError. */
  keep(name: string, found: { value: string; modRevision: number; createRevision: number }): void {
    const [device, id] = name.split('/') as [string, string];
    const { batch = null, ...happening } = objectIn(found.value);
    if (!isHappening(happening) || (batch !== null && typeof batch !== 'string'))
      throw new SyntaxError('no news');
    const { modRevision, createRevision } = found;
    if ((this.#pending.get(name)?.modRevision ?? 0) >= modRevision) return;
    const isNew = !this.#pending.has(name);
    this.#pending.set(name, { news: { ...happening, id, device }, batch, modRevision, createRevision });
    if (!isNew) return;
    // A list gives them in the order of their names.
    const ageOf = (other: string) => this.#pending.get(other)?.createRevision ?? 0;
    const names = [...this.newsOf(device), name].sort((a, b) => ageOf(a) - ageOf(b));
    this.#byDevice.set(device, names);
  }

  /** This key is deleted. */
  deleted(key: string): void {
    const name = key.slice(key.indexOf('/') + 1);
    if (key.startsWith('outbox/')) this.#drop(name);
    if (key.startsWith('whole/')) this.#whole.delete(name);
  }

  #drop(name: string): void {
    if (!this.#pending.delete(name)) return;
    const device = name.slice(0, name.indexOf('/'));
    const rest = this.newsOf(device).filter((other) => other !== name);
    if (rest.length === 0) this.#byDevice.delete(device);
    else this.#byDevice.set(device, rest);
  }
}

/** The name of the news below `outbox/`. */
export function nameOf({ device, id }: DeviceNews): string {
  return `${device}/${id}`;
}

/** The news as a member of a closed batch. */
export function textOf({ id: _, device: __, ...happening }: DeviceNews, batch: string): string {
  return JSON.stringify({ ...happening, batch });
}
