/**
 * The messages of devices in etcd: from the device's call until an instance has accepted them for delivery. Any instance may
 * take a repeated call, so etcd keeps the hash of each message that was taken.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../../base/errors.js';
import { objectIn, shapeOf } from '../../base/json.js';
import { DAY_MS, SECOND_MS } from '../../base/limits.js';
import type { ShortDraft } from '../../mail/message/message.js';
import type { KeyedContent } from '../../mail/store/store.js';
import type { Office, TakenKeys } from '../fleet-store.js';
import { CLOUD_KEYS_AGE_MS, deviceFull, isShortDraft, OUTBOX_DEVICE_SHARE } from '../outbox.js';
import { EtcdError, TXN_OPS_MAX } from './etcd.js';
import { chunksOf } from './layout.js';
import { type FleetParts, orUnavailable, type Shelf } from './mirror.js';

/** Messages of devices that no instance has accepted for delivery yet. */
export const FLEET_MESSAGES_MAX = 10_000;

interface MessageParts extends FleetParts {
  readonly office: Pick<Office, 'isLeader'>;
  /** Accepts a message for delivery by this instance. */
  readonly accept: (draft: ShortDraft, keyed: KeyedContent) => Promise<unknown>;
  /** There is a message to accept. */
  readonly came: () => void;
}

/** A message that no instance has accepted yet. */
interface WaitingMessage {
  readonly draft: ShortDraft;
  readonly keyed: KeyedContent;
  readonly createRevision: number;
}

/** The messages that wait. */
export class EtcdMessages implements TakenKeys {
  readonly #parts: MessageParts;
  /** Those that wait, by name. */
  readonly #waiting = new Map<string, WaitingMessage>();
  /** How many wait, by device. */
  readonly #counts = new Map<string, number>();
  /** The lease of the keys that are remembered from now on: one for each day, not for each key. */
  #lease: { readonly id: Promise<string>; readonly madeMs: number } | null = null;
  readonly shelf: Shelf = {
    names: () => this.#waiting.keys(),
    put: (name, { value, createRevision }) => {
      const { draft, keyed } = objectIn(value) ?? {};
      if (!isShortDraft(draft) || !isKeyed(keyed)) throw new SyntaxError('no message');
      if (!this.#waiting.has(name)) this.#count(name, 1);
      this.#waiting.set(name, { draft, keyed, createRevision });
      this.#parts.came();
    },
    deleted: (name) => {
      if (this.#waiting.delete(name)) this.#count(name, -1);
    },
  };

  constructor(parts: MessageParts) {
    this.#parts = parts;
  }

  /**
   * Takes a message once. Resolves when it is stored for good: true if it is new. Rejects with invalid and unavailable, and
   * for a message that etcd does not know with queue-full and with what `admit` throws.
   */
  async take(device: string, draft: ShortDraft, keyed: KeyedContent, admit: () => void): Promise<boolean> {
    const name = nameOf(device, keyed.key);
    const taken = `taken/${name}`;
    try {
      this.#assertRoom(device);
      admit();
    } catch (refusal) {
      const isUnknown = [{ key: taken, modRevision: 0 }];
      const { succeeded } = await orUnavailable(this.#parts.etcd.txn(isUnknown, []));
      if (succeeded) throw refusal;
    }
    const { succeeded, current } = await orUnavailable(
      this.#withLease((lease) =>
        this.#parts.etcd.txn(
          [{ key: taken, modRevision: 0 }],
          [
            { put: taken, value: keyed.hash, lease },
            { put: `message/${name}`, value: JSON.stringify({ draft, keyed }) },
          ],
        ),
      ),
    );
    if (!succeeded && current?.value !== keyed.hash) {
      throw new FieldpostError('invalid', 'this Idempotency-Key was used with other content', {
        hint: 'use a new key for a new message',
      });
    }
    return succeeded;
  }

  async hashOf(device: string, key: string): Promise<string | null> {
    const found = await orUnavailable(this.#parts.etcd.get(`taken/${nameOf(device, key)}`));
    return found?.value ?? null;
  }

  async remember(device: string, { key, hash }: KeyedContent): Promise<void> {
    const put = `taken/${nameOf(device, key)}`;
    await orUnavailable(this.#withLease((lease) => this.#parts.etcd.txn([], [{ put, value: hash, lease }])));
  }

  /**
   * Hands what waits to `accept`, the oldest first, while this instance leads, and deletes what is accepted. Resolves with
   * why some are not accepted; null: all are. Rejects with EtcdError.
   */
  async handOver(): Promise<unknown> {
    const { etcd, office, accept } = this.#parts;
    const waiting = [...this.#waiting].sort(([, a], [, b]) => a.createRevision - b.createRevision);
    let refusal: unknown = null;
    /** Those with a share of the outbox that is full: they do not hold back the others. */
    const behind = new Set<string>();
    for (const next of chunksOf(waiting, TXN_OPS_MAX)) {
      if (!office.isLeader) return refusal;
      const chunk = next.filter(([name]) => !behind.has(deviceOf(name)));
      const outcomes = await Promise.allSettled(chunk.map(([, { draft, keyed }]) => accept(draft, keyed)));
      const accepted = chunk.flatMap(([name], n) => (outcomes[n]?.status === 'fulfilled' ? [name] : []));
      if (accepted.length > 0)
        await etcd.txn(
          [],
          accepted.map((name) => ({ delete: `message/${name}` })),
        );
      for (const name of accepted) this.shelf.deleted(name, 0);
      for (const [n, outcome] of outcomes.entries()) {
        if (outcome.status !== 'rejected') continue;
        refusal ??= outcome.reason;
        behind.add(deviceOf(chunk[n]?.[0] ?? ''));
      }
    }
    return refusal;
  }

  #count(name: string, by: 1 | -1): void {
    const device = deviceOf(name);
    const next = (this.#counts.get(device) ?? 0) + by;
    if (next > 0) this.#counts.set(device, next);
    else this.#counts.delete(device);
  }

  #assertRoom(device: string): void {
    if (this.#waiting.size >= FLEET_MESSAGES_MAX) {
      throw new FieldpostError('queue-full', `${FLEET_MESSAGES_MAX} messages wait already`);
    }
    // The outbox of the teller has the same share again.
    if ((this.#counts.get(device) ?? 0) >= FLEET_MESSAGES_MAX * OUTBOX_DEVICE_SHARE) throw deviceFull();
  }

  async #withLease<T>(work: (lease: string) => Promise<T>): Promise<T> {
    const { etcd, clock } = this.#parts;
    const nowMs = clock.bootMs();
    if (this.#lease === null || nowMs - this.#lease.madeMs >= DAY_MS) {
      this.#lease = { id: etcd.grant((CLOUD_KEYS_AGE_MS + DAY_MS) / SECOND_MS), madeMs: nowMs };
    }
    const { id } = this.#lease;
    try {
      return await work(await id);
    } catch (error) {
      // It may be the lease that is gone.
      if (error instanceof EtcdError && this.#lease?.id === id) this.#lease = null;
      throw error;
    }
  }
}

const isKeyShape = shapeOf({ key: '', hash: '' });
const isKeyed = (value: unknown): value is KeyedContent => isKeyShape(value);

/** The name of a message with this key. */
function nameOf(device: string, key: string): string {
  return `${device}/${createHash('sha256').update(key).digest('hex').slice(0, 32)}`;
}

/** The device in the name of a message. */
function deviceOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/'));
}
