/**
 * The outbox of messages to people: the cloud's own notifications, and the messages of devices. Delivery sends them from the
 * cloud's store. A 2xx of the cloud promises as much as a 202 of a device.
 *
 * It has three parts, so that none fills the room of another while a relay or a provider is down: the cloud's own mails, its
 * own SMS, calls and push messages, and the messages of devices. A device has a share of the last part.
 */
import { createHash } from 'node:crypto';
import { type Fault, FieldpostError } from '../base/errors.js';
import { type JsonObject, shapeOf } from '../base/json.js';
import type { Lang } from '../base/langs.js';
import { DAY_MS, HOUR_MS, IDEMPOTENCY_KEY_CHARS_MAX } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { counted } from '../base/text.js';
import { invalidMessage, parseShortMessage } from '../mail/message/draft.js';
import { type Draft, recipientsOf, type ShortContent, type ShortDraft } from '../mail/message/message.js';
import type { Accepted, KeyedContent, Store } from '../mail/store/store.js';
import { DeviceLimit } from './device-limit.js';
import type { FleetStore } from './fleet-store.js';
import { HOOK_CALLER, type HookEvent, isForHook, newsIn } from './webhook.js';

/** Idempotency-Keys that the cloud remembers, and for how long. */
export const CLOUD_KEYS_MAX = 100_000;
export const CLOUD_KEYS_AGE_MS = 7 * DAY_MS;
/** The parts of the outbox, of FIELDPOST_MAX_QUEUE. */
const SHARES = { mail: 1 / 2, short: 1 / 4, devices: 1 / 4, hook: 0 } as const;
/** With a hook its part comes from that of the mails: a tool that is down keeps nobody from being told. */
const HOOK_SHARE = 1 / 8;
/** The part of the outbox, and of FLEET_MESSAGES_MAX, that messages of one device may take. */
export const OUTBOX_DEVICE_SHARE = 1 / 100;
/** What messages of one device may take also of a small outbox. */
const DEVICE_MIN = 10;

type Part = keyof typeof SHARES;

/** By which ways messages can go. */
export interface Ways {
  /** False: no relay is configured. */
  readonly takesMail: boolean;
  /** False: no webhook is configured for SMS, phone and push messages. */
  readonly takesShort: boolean;
  /** True: a hook for the operator's own tools is configured. */
  readonly takesHook: boolean;
}

/** True if there is a way to this person. */
export function isReachable(
  { type }: Pick<Draft, 'type'>,
  ways: Pick<Ways, 'takesMail' | 'takesShort'>,
): boolean {
  return type === 1 ? ways.takesMail : ways.takesShort;
}

interface AcceptedOptions extends Ways {
  readonly store: Pick<
    Store,
    'accept' | 'recall' | 'keys' | 'queued' | 'deferred' | 'whenFinal' | 'room' | 'storage'
  >;
  readonly maxQueue: number;
  /** Tells delivery that there is something to send. */
  readonly nudge: () => void;
}

const WORDS = {
  mail: 'mails',
  short: 'SMS, calls and pushes',
  devices: 'messages of devices',
  hook: 'the hook',
} as const;

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
  readonly waiting: Record<Part, number> = { mail: 0, short: 0, devices: 0, hook: 0 };
  readonly #ofDevice = new Map<string, number>();

  /** Counts what waits already. */
  constructor(options: AcceptedOptions) {
    this.#options = options;
    const { store } = options;
    const devices = new Map<string, string | null>();
    for (const [key, { ids }] of store.keys) for (const id of ids) devices.set(id, deviceOf(key));
    for (const { id, type, extras } of [...store.queued(), ...store.deferred()]) {
      const device = devices.get(id) ?? null;
      // It may wait for longer than its key is remembered. Only the cloud's own are urgent.
      const isForgotten = type === 1 ? extras?.isReadyMade : !(devices.has(id) || extras?.urgent);
      const isOfDevice = device !== null || isForgotten === true;
      this.#endsWith(id, this.#enter(isForHook({ extras }) ? 'hook' : partOf(type, isOfDevice), device));
    }
  }

  /**
   * Accepts a message once for its key. Rejects with queue-full beyond a share, with what `admit` throws about a new
   * message, and as Store.accept does.
   */
  async accept(draft: Draft, keyed: KeyedContent, admit?: () => void): Promise<Accepted> {
    const device = deviceOf(keyed.key);
    // The cloud's own go first, and have the room that the store keeps for urgent messages.
    const isHook = device === null && newsIn(draft.content) !== null;
    const own = { urgent: true as const, ...(isHook && { caller: HOOK_CALLER }) };
    const drafts = [device === null ? { ...draft, ...own } : draft];
    // It has its room already, perhaps in a part that is full now.
    if (this.#options.store.recall(keyed.key) !== null)
      return await this.#options.store.accept(drafts, keyed);
    const part = isHook ? 'hook' : partOf(draft.type, device !== null);
    this.#check(part, device);
    admit?.();
    // A mail of a device may have several recipients.
    const leaves = recipientsOf(draft).map(() => this.#enter(part, device));
    let answer: Accepted | null = null;
    try {
      answer = await this.#options.store.accept(drafts, keyed);
    } finally {
      if (answer === null || answer.replayed) for (const leave of leaves) leave();
    }
    if (!answer.replayed) {
      for (const [at, leave] of leaves.entries()) this.#endsWith(answer.ids[at] as string, leave);
      this.totals[device === null ? 'notification' : 'message']++;
    }
    this.#options.nudge();
    return answer;
  }

  /** Why some notification to people of 1 KiB does not fit, as a sentence; null: all fit. */
  get fullness(): string | null {
    const full = this.#ownParts.find((part) => this.#isFull(part));
    return full === undefined ? this.#options.store.room().urgentReason : this.#fullnessOf(full);
  }

  /** False: it refuses every notification. */
  get mayTakeMore(): boolean {
    const { store, takesHook } = this.#options;
    const isOpen = store.storage().state === 'ok' && store.room().urgentReason === null;
    const parts = [...this.#ownParts, ...(takesHook ? (['hook'] as const) : [])];
    return isOpen && parts.some((part) => !this.#isFull(part));
  }

  /** True if a message that can wait should leave the rest of the room to news of outages. */
  isBusy(type: Draft['type']): boolean {
    return this.#isFull(partOf(type, false), 1 / 2);
  }

  /** The parts that notifications to people go to. */
  get #ownParts(): Part[] {
    const { takesMail, takesShort } = this.#options;
    return [...(takesMail ? (['mail'] as const) : []), ...(takesShort ? (['short'] as const) : [])];
  }

  #fullnessOf(part: Part): string {
    return `the outbox has no more room for ${WORDS[part]}: ${counted(this.waiting[part], 'message')} wait`;
  }

  #isFull(part: Part, share = 1): boolean {
    const most = Math.floor(this.#options.maxQueue * this.#shareOf(part) * share);
    return this.waiting[part] >= Math.max(1, most);
  }

  #shareOf(part: Part): number {
    const moved = this.#options.takesHook ? HOOK_SHARE : 0;
    return SHARES[part] + (part === 'hook' ? moved : part === 'mail' ? -moved : 0);
  }

  #check(part: Part, device: string | null): void {
    const own = this.#ofDevice.get(device ?? '') ?? 0;
    const share = Math.floor(this.#options.maxQueue * OUTBOX_DEVICE_SHARE);
    if (own >= Math.max(DEVICE_MIN, share)) throw deviceFull();
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
  if (isOfDevice) return 'devices';
  return type === 1 ? 'mail' : 'short';
}

/** A device's share is used up, in an outbox or in etcd. */
export function deviceFull(): FieldpostError {
  return new FieldpostError('queue-full', 'as many messages of this device wait as the cloud takes');
}

interface OutboxOptions extends Pick<Ways, 'takesShort'> {
  readonly takeMessage: FleetStore['takeMessage'];
  /** SMS and calls of one device. */
  readonly hourlyLimit: number;
  readonly clock: Pick<Clock, 'bootMs'>;
  readonly log: Log;
}

/** The door for messages of devices. */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #hourly: DeviceLimit;

  constructor(options: OutboxOptions) {
    const { hourlyLimit: most, clock, log } = options;
    this.#options = options;
    const reason = `the cloud takes ${most} SMS and calls of a device in an hour`;
    this.#hourly = new DeviceLimit({ spanMs: HOUR_MS, most, reason, clock, log });
  }

  /**
   * Accepts a message of a device. Resolves with its id when it is stored for good. Throws malformed-request,
   * invalid, rate-limited, unavailable without a webhook, and the errors of FleetStore.takeMessage.
   */
  async take(device: string, key: string | string[] | undefined, body: unknown): Promise<string> {
    const { takesShort, takeMessage } = this.#options;
    const { id } = (body ?? {}) as { id?: unknown };
    if (typeof id !== 'string' || id !== key || id.length > IDEMPOTENCY_KEY_CHARS_MAX) {
      const words = `The Idempotency-Key must be the message's id, of at most ${IDEMPOTENCY_KEY_CHARS_MAX} characters`;
      throw new FieldpostError('malformed-request', words);
    }
    const draft = parseMessage(body as JsonObject, device);
    if (!takesShort) {
      throw new FieldpostError('unavailable', 'This cloud has no way to send SMS, phone and push messages', {
        hint: 'see FIELDPOST_CLOUD_SERVER_WEBHOOK',
      });
    }
    const { type, destination, content } = draft;
    const keyed = { key: messageKey(device, id), hash: hashOf(type, destination, content) };
    // A push message costs nobody money.
    const size = type === 4 ? 0 : 1;
    await this.#hourly.within(device, size, (admit) => takeMessage(device, draft, keyed, admit));
    return id;
  }
}

/**
 * `device`: the device that sent the message, or that the notification is about; a digest has none. The webhook can use it
 * to resolve the destination OWNER of a push message. `lang`: the language of a notification, for a service that reads it
 * aloud. `hook`: what a program of the operator hears in place of a person.
 */
export type DeviceContent = ShortContent & {
  readonly device?: string;
  readonly lang?: Lang;
  readonly hook?: HookEvent;
};

/**
 * The message in a device's request. The contract has no other members: a priority, for example, is a matter of the device.
 * Throws invalid with all faults.
 */
function parseMessage(body: JsonObject, device: string): ShortDraft {
  const faults: Fault[] = [];
  const report = (field: string, detail: string) => faults.push({ pointer: `/${field}`, detail });
  const { type, destination, message, title, auto_open, app_data } = body;
  const isPush = type !== 2 && type !== 3;
  if (isPush && type !== 4)
    report('type', 'must be the integer 2 (SMS), 3 (phone) or 4 (push); email goes through a relay');
  const members = { destination, message, ...(isPush && { title, auto_open, app_data }) };
  const draft = parseShortMessage(isPush ? 4 : type, members, report);
  if (faults.length > 0) throw invalidMessage(faults);
  const content: DeviceContent = { ...draft.content, device };
  return { ...draft, content };
}

const isWritten = shapeOf({
  type: (value) => value === 2 || value === 3 || value === 4,
  destination: '',
  content: { message: '' },
  attachments: (value) => Array.isArray(value) && value.length === 0,
  ignored: [''],
});

/** True for a draft of parseMessage, as a store has written it. */
export const isShortDraft = (value: unknown): value is ShortDraft => isWritten(value);

/** SHA-256 in hex: equal if and only if the parts are. */
export function hashOf(...parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
