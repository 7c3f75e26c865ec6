/**
 * Messages in a snapshot of format 1, which this version reads and no longer writes:
 *
 *     {"to":"john@example.com","from":"device@example.com","boot":"69c8d2fc"},
 *     ["0000001C2VSM8V2",73904479,1,147,1053,665632860],
 *     {"status":"sent","attempts":1,"reply":"250 OK"},
 *     ["0000003DQ4XTAGF",73904512]
 *
 * A list is a message: its id, when its boot accepted it (ms), and, while its content is kept, the segment, offset, length
 * and CRC-32 of that. An object says what is different for this message and those behind it; null is the usual value.
 */
import type { JsonObject } from '../../base/json.js';
import { type Message, NO_ATTACHMENTS, type Place } from '../message/message.js';
import { unknownMembers } from './format.js';
import { isOldChange, isOldRow } from './shapes.js';
import { type State, sharedSender } from './state.js';

type OldRow =
  | readonly [id: string, bootMs: number]
  | readonly [id: string, bootMs: number, segment: number, offset: number, length: number, crc: number];
/** A message, or what is different from here on. */
export type SnapshotRow = OldRow | JsonObject;

/** What a message may have in common with the one before it. */
type Common = Omit<Message, 'id' | 'accepted' | 'place'> & { readonly boot: string };

const USUAL: Common = {
  boot: '',
  type: 1,
  destination: '',
  from: undefined,
  subject: '',
  extras: undefined,
  attachments: NO_ATTACHMENTS,
  reachMs: 0,
  status: 'queued',
  attempts: 0,
  lastReply: null,
  due: null,
  textBytes: 0,
  more: undefined,
};

/** The names in the objects, with what they name. All other names are a newer version's. */
const MEMBERS: ReadonlyMap<string, Exclude<keyof Common, 'more'>> = new Map([
  ['boot', 'boot'],
  ['type', 'type'],
  ['to', 'destination'],
  ['from', 'from'],
  ['subject', 'subject'],
  ['extras', 'extras'],
  ['attachments', 'attachments'],
  ['reachMs', 'reachMs'],
  ['retried', 'retried'],
  ['failed', 'failed'],
  ['sent', 'sent'],
  ['status', 'status'],
  ['attempts', 'attempts'],
  ['reply', 'lastReply'],
  ['due', 'due'],
  ['textBytes', 'textBytes'],
]);

/** Reads rows one after another. */
export class RowReader {
  readonly #state: State;
  #common = USUAL;

  constructor(state: State) {
    this.#state = state;
  }

  /** The messages, without a place yet, and their places. */
  *read(rows: readonly SnapshotRow[]): Generator<[message: Message, place: Place | null], void, void> {
    for (const row of rows) {
      if (!Array.isArray(row)) {
        this.#common = changed(this.#state, this.#common, row as JsonObject);
        continue;
      }
      if (!isOldRow(row)) throw new TypeError('a message has another form');
      const [id, bootMs, segment, offset, length, crc] = row as unknown as OldRow;
      const { boot, ...common } = this.#common;
      const message: Message = { id, ...common, accepted: { boot, bootMs }, place: null };
      yield [message, segment === undefined ? null : ({ segment, offset, length, crc } as Place)];
    }
  }
}

/** What the messages behind an object have in common. */
function changed(state: State, before: Common, changes: JsonObject): Common {
  // No version wrote a message that is no list, or an object without a known member.
  const isChange = !('id' in changes) && Object.keys(changes).some((name) => MEMBERS.has(name));
  if (!isChange || !isOldChange(withoutNulls(changes) ?? {})) throw new TypeError('a message must be a list');
  const common: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(changes)) {
    const member = MEMBERS.get(name);
    if (member) common[member] = value ?? USUAL[member];
  }
  const { from, more, ...rest } = common as unknown as Common;
  const unknown = unknownMembers(changes, MEMBERS);
  return {
    ...rest,
    from: sharedSender(state, from),
    more: unknown ? withoutNulls({ ...more, ...unknown }) : more,
  };
}

function withoutNulls(members: JsonObject): JsonObject | undefined {
  const entries = Object.entries(members).filter(([, value]) => value !== null);
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}
