/**
 * Of the messages that wait for one recipient under one collapse key, only the newest stays: the older ones end as
 * `replaced`. A message that is being sent, or cancelled, is left alone.
 *
 * - An acceptance replaces what waits, in the same record. Acceptances of one key take turns, so that each sees the one before.
 * - A send that is to be tried later, or was not tried, ends as replaced if a newer message waits.
 * - What waits beside a newer message for any other reason is replaced when the turn of one of them comes.
 */
import type { Stamp } from '../../base/stamp.js';
import type { Log } from '../../base/system/log.js';
import { type Draft, type Message, recipientsOf, slotOf } from '../message/message.js';
import { type Amounts, accountsOf } from './accounts.js';
import type { AcceptedMessage, StoreEvent } from './event.js';
import type { State } from './state.js';
import { messageWeight } from './weight.js';

type Replaced = Extract<StoreEvent, { e: 'replaced' }>;

const NONE: readonly Replaced[] = [];

/** A message that ends, and the newer one that replaces it. */
interface Ending {
  readonly id: string;
  readonly by?: string;
}

interface CollapseWorld {
  readonly now: () => Stamp;
  readonly log: Log;
}

/** Says which messages replace which. */
export class Collapse {
  readonly #state: Pick<State, 'messages' | 'slots'>;
  /** See Store: the messages whose end is on its way to the disk. */
  readonly #leaving: Set<string>;
  /** The slots of acceptances in progress, and their ends. */
  readonly #busy = new Map<string, Promise<void>>();

  readonly #now: () => Stamp;
  readonly #log: Log;

  constructor(state: Pick<State, 'messages' | 'slots'>, leaving: Set<string>, { now, log }: CollapseWorld) {
    this.#state = state;
    this.#leaving = leaving;
    this.#now = now;
    this.#log = log;
  }

  /** Accepts the drafts when no other acceptance of their keys is in progress. */
  inTurn<T>(drafts: readonly Draft[], accept: () => Promise<T>): Promise<T> {
    // No promise of its own: what is recorded in one turn of the event loop shares a write.
    return drafts.some(hasKey) ? this.#inTurn(drafts, accept) : accept();
  }

  async #inTurn<T>(drafts: readonly Draft[], accept: () => Promise<T>): Promise<T> {
    const slots = new Set(slotsOf(drafts));
    const busy = () => [...slots].find((slot) => this.#busy.has(slot));
    for (let slot = busy(); slot !== undefined; slot = busy()) await this.#busy.get(slot);
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    for (const slot of slots) this.#busy.set(slot, ended);
    try {
      return await accept();
    } finally {
      for (const slot of slots) this.#busy.delete(slot);
      end();
    }
  }

  /** What the drafts need, less the places of the messages that they replace, if those are on their accounts. */
  needed(asked: Amounts, drafts: readonly Draft[]): Amounts {
    if (!drafts.some(hasKey)) return asked;
    const slots = slotsOf(drafts);
    const names = accountsOf(drafts[0]);
    let [count, memoryBytes] = [asked.count, asked.memoryBytes];
    const own = new Set(slots);
    count -= slots.length - own.size;
    for (const slot of own) {
      for (const message of this.#waiting(slot)) {
        const freed = accountsOf(message.extras);
        if (!names.every((name) => freed.includes(name))) continue;
        count--;
        memoryBytes -= messageWeight(message);
      }
    }
    return { ...asked, count: Math.max(0, count), memoryBytes: Math.max(0, memoryBytes) };
  }

  /** The messages to accept, which know how many they replace, and the events behind their acceptance. */
  replace(messages: AcceptedMessage[]): { messages: AcceptedMessage[]; replaced: Replaced[] } {
    const replaced: Replaced[] = [];
    if (!messages.some(({ extras }) => extras?.collapse !== undefined)) return { messages, replaced };
    const at = this.#now();
    const newest = new Map<string, string>();
    const slots = messages.map((message) => slotOf(message, message.extras?.collapse));
    for (const [i, slot] of slots.entries()) if (slot !== undefined) newest.set(slot, messages[i]?.id ?? '');
    const counts = new Map<string, number>();
    const end = (id: string, by: string, had = 0) => {
      replaced.push({ e: 'replaced', id, by, at });
      counts.set(by, (counts.get(by) ?? 0) + 1 + had);
    };
    for (const [slot, by] of newest)
      for (const { id, extras } of this.#waiting(slot)) end(id, by, extras?.replaced);
    for (const [i, { id }] of messages.entries()) {
      const by = newest.get(slots[i] ?? '');
      if (by !== undefined && by !== id) end(id, by);
    }
    const withCount = (message: AcceptedMessage): AcceptedMessage => {
      const count = counts.get(message.id);
      return count === undefined ? message : { ...message, extras: { ...message.extras, replaced: count } };
    };
    return { messages: messages.map(withCount), replaced };
  }

  /**
   * The event that ends this message, because a newer one of its key waits; none if none does. With `andOthers` also the
   * events of all that wait beside it, but the newest: in one record, so that each counts.
   */
  endsOf(message: Message, andOthers = false): readonly Replaced[] {
    const slot = slotOf(message, message.extras?.collapse);
    if (slot === undefined) return NONE;
    const waiting = [...this.#waiting(slot)];
    const newest = waiting.reduce((one, other) => (other.id > one.id ? other : one), message);
    if (newest === message) return NONE;
    const at = this.#now();
    let count = newest.extras?.replaced ?? 0;
    const older = andOthers ? waiting.filter((one) => one !== newest) : [message];
    return older.map(({ id, extras }) => {
      count += 1 + (extras?.replaced ?? 0);
      return { e: 'replaced', id, by: newest.id, at, count };
    });
  }

  /** Records the end of these messages, which meanwhile cannot be sent. Those with `by` are replaced. */
  leave(ends: readonly Ending[], record: () => Promise<void>): Promise<void> {
    return ends.length > 0 ? this.#leave(ends, record) : record();
  }

  async #leave(ends: readonly Ending[], record: () => Promise<void>): Promise<void> {
    for (const { id } of ends) this.#leaving.add(id);
    try {
      await record();
    } finally {
      for (const { id } of ends) this.#leaving.delete(id);
    }
    for (const { id, by } of ends) if (by !== undefined) this.#log.info('replaced', { id, by });
  }

  /** The messages that a newer one replaces. */
  *#waiting(slot: string): Generator<Message, void, void> {
    for (const id of this.#state.slots.get(slot) ?? []) {
      const message = this.#leaving.has(id) ? undefined : this.#state.messages.get(id);
      if (message && message.status !== 'sending') yield message;
    }
  }
}

function hasKey({ collapse }: Draft): boolean {
  return collapse !== undefined;
}

/** One for each recipient of a draft with a key. */
function slotsOf(drafts: readonly Draft[]): string[] {
  return drafts.flatMap((draft) => {
    const slots = recipientsOf(draft).map((destination) =>
      slotOf({ type: draft.type, destination }, draft.collapse),
    );
    return slots.filter((slot) => slot !== undefined);
  });
}
