/**
 * Accepts messages to people into the cloud's store, from which delivery sends them, and counts them. The outbox has three
 * parts, so that none fills the room of another while a relay or a provider is down: the cloud's own mails, its own SMS,
 * calls and push messages, and the messages of devices. A device has a share of the last part.
 */
import { FieldpostError } from '../base/errors.js';
import { OUTBOX_DEVICE_MIN, OUTBOX_DEVICE_SHARE, OUTBOX_SHARES } from '../base/limits.js';
import { counted } from '../base/sizes.js';
import type { Draft } from '../mail/message/message.js';
import type { Accepted, KeyedContent, Store } from '../mail/store/store.js';

type Part = keyof typeof OUTBOX_SHARES;

interface AcceptedOptions {
  readonly store: Pick<
    Store,
    'accept' | 'recall' | 'keys' | 'queued' | 'deferred' | 'whenFinal' | 'room' | 'storage'
  >;
  readonly maxQueue: number;
  /** False: no relay is configured. */
  readonly takesMail: boolean;
  /** False: no webhook is configured for SMS, phone and push messages. */
  readonly takesShort: boolean;
  /** Tells delivery that there is something to send. */
  readonly nudge: () => void;
}

const WORDS = { mail: 'mails', short: 'SMS, calls and pushes', devices: 'messages of devices' } as const;

/** The store's key of a device's message. */
export function messageKey(device: string, id: string): string {
  return `message ${device} ${id}`;
}

/** The device of that key; null: the message is a notification of the cloud. */
function deviceOf(key: string): string | null {
  return /^message (\S+) /.exec(key)?.[1] ?? null;
}

/** Accepts within the shares. */
export class AcceptedMessages {
  readonly #options: AcceptedOptions;
  /** Messages accepted since the start, by kind. */
  readonly totals = { notification: 0, message: 0 };
  /** How many wait in each part. */
  readonly waiting: Record<Part, number> = { mail: 0, short: 0, devices: 0 };
  readonly #ofDevice = new Map<string, number>();

  /** Counts what waits already. */
  constructor(options: AcceptedOptions) {
    this.#options = options;
    const { store } = options;
    const devices = new Map([...store.keys].map(([key, { ids }]) => [ids[0], deviceOf(key)]));
    for (const { id, type, extras } of [...store.queued(), ...store.deferred()]) {
      const device = devices.get(id) ?? null;
      // It may wait for longer than its key is remembered. Only the cloud's own are urgent.
      const isOfDevice = device !== null || !(devices.has(id) || extras?.urgent);
      this.#endsWith(id, this.#enter(partOf(type, isOfDevice), device));
    }
  }

  /**
   * Accepts a message once for its key. Rejects with queue-full beyond a share, with what `admit` throws about a new
   * message, and as Store.accept does.
   */
  async accept(draft: Draft, keyed: KeyedContent, admit?: () => void): Promise<Accepted> {
    const device = deviceOf(keyed.key);
    // The cloud's own go first, and have the room that the store keeps for urgent messages.
    const drafts = [device === null ? { ...draft, urgent: true as const } : draft];
    // It has its room already, perhaps in a part that is full now.
    if (this.#options.store.recall(keyed.key) !== null)
      return await this.#options.store.accept(drafts, keyed);
    const part = partOf(draft.type, device !== null);
    this.#check(part, device);
    admit?.();
    const leave = this.#enter(part, device);
    let answer: Accepted | null = null;
    try {
      answer = await this.#options.store.accept(drafts, keyed);
    } finally {
      if (answer === null || answer.replayed) leave();
    }
    if (!answer.replayed) {
      this.#endsWith(answer.ids[0] as string, leave);
      this.totals[device === null ? 'notification' : 'message']++;
    }
    this.#options.nudge();
    return answer;
  }

  /** Why some notification of 1 KiB does not fit, as a sentence; null: all fit. */
  get fullness(): string | null {
    const full = this.#ownParts.find((part) => this.#isFull(part));
    return full === undefined ? this.#options.store.room().urgentReason : this.#fullnessOf(full);
  }

  /** False: it refuses every notification. */
  get mayTakeMore(): boolean {
    const { store } = this.#options;
    const isOpen = store.storage().state === 'ok' && store.room().urgentReason === null;
    return isOpen && this.#ownParts.some((part) => !this.#isFull(part));
  }

  /** The parts that notifications go to. */
  get #ownParts(): Part[] {
    const { takesMail, takesShort } = this.#options;
    return [...(takesMail ? (['mail'] as const) : []), ...(takesShort ? (['short'] as const) : [])];
  }

  #fullnessOf(part: Part): string {
    return `the outbox has no more room for ${WORDS[part]}: ${counted(this.waiting[part], 'message')} wait`;
  }

  #isFull(part: Part): boolean {
    return this.waiting[part] >= Math.max(1, Math.floor(this.#options.maxQueue * OUTBOX_SHARES[part]));
  }

  #check(part: Part, device: string | null): void {
    const own = this.#ofDevice.get(device ?? '') ?? 0;
    const share = Math.floor(this.#options.maxQueue * OUTBOX_DEVICE_SHARE);
    if (own >= Math.max(OUTBOX_DEVICE_MIN, share)) throw deviceFull();
    if (this.#isFull(part)) throw new FieldpostError('queue-full', this.#fullnessOf(part));
  }

  /** Counts a message as waiting, until the given function is called. */
  #enter(part: Part, device: string | null): () => void {
    const add = (by: 1 | -1) => {
      this.waiting[part] += by;
      if (device === null) return;
      const count = (this.#ofDevice.get(device) ?? 0) + by;
      if (count > 0) this.#ofDevice.set(device, count);
      else this.#ofDevice.delete(device);
    };
    add(1);
    return () => add(-1);
  }

  #endsWith(id: string, leave: () => void): void {
    void this.#options.store.whenFinal(id).then(leave);
  }
}

function partOf(type: Draft['type'], isOfDevice: boolean): Part {
  if (type === 1) return 'mail';
  return isOfDevice ? 'devices' : 'short';
}

/** A device's share is used up, in an outbox or in etcd. */
export function deviceFull(): FieldpostError {
  return new FieldpostError('queue-full', 'as many messages of this device wait as the cloud takes');
}
