/**
 * Relocation: copies old content to the end of the journal, so that old segments can go. A checkpoint does it only if at
 * least half of the bytes of these segments is not needed.
 */
import { RELOCATE_BYTES_MIN, RELOCATE_RECORD_BYTES, RELOCATED_EVENT_BYTES } from '../../base/limits.js';
import type { Message, Place } from '../message/message.js';
import type { MovedMessage } from './event.js';
import type { Journal } from './journal.js';
import { sumOf } from './record.js';
import type { Segments } from './segments.js';
import type { State } from './state.js';

interface MoveOptions {
  readonly ledger: { readonly state: State; read(place: Place): Promise<Buffer> };
  readonly journal: Pick<Journal, 'append'>;
}

interface RelocationOptions extends MoveOptions {
  readonly segments: Pick<Segments, 'sizeOf'>;
  /** Segments that no snapshot needs for a replay. */
  readonly old: readonly number[];
  readonly budget: { readonly maxSpoolBytes: number };
  /** The disk is nearly full: then a little is worth moving, too. */
  readonly isShort: boolean;
}

/** Moves old content if that frees enough. Rejects like Journal.append. */
export async function relocate(options: RelocationOptions): Promise<void> {
  const { segments, budget, isShort, ledger } = options;
  const { liveBytes } = ledger.state;
  const old = options.old.filter((segment) => liveBytes.has(segment));
  const heldBytes = old.reduce((sum, segment) => sum + segments.sizeOf(segment), 0);
  const contentBytes = old.reduce((sum, segment) => sum + (liveBytes.get(segment) as number), 0);
  const floor = isShort ? 0 : Math.min(RELOCATE_BYTES_MIN, budget.maxSpoolBytes / 4);
  const isEnough = (movedBytes: number) => heldBytes - movedBytes > Math.max(floor, movedBytes);
  // Usually not even without the events: then no message is looked at.
  if (!isEnough(contentBytes)) return;
  const count = idsIn(old, ledger.state).length;
  if (isEnough(contentBytes + count * RELOCATED_EVENT_BYTES)) await moveContents(old, options);
}

/** Moves all content in these segments that can be read. Rejects like Journal.append. */
export async function moveContents(segments: readonly number[], options: MoveOptions): Promise<void> {
  const moving = idsIn(segments, options.ledger.state);
  while (moving.length > 0) await moveSome(moving, options);
}

function idsIn(segments: readonly number[], { messages }: State): string[] {
  return messages.withContentIn(new Set(segments));
}

/** Takes ids off the list, enough for one record, and moves those that can be read. */
async function moveSome(moving: string[], { ledger, journal }: MoveOptions): Promise<void> {
  const contents: Buffer[] = [];
  const messages: MovedMessage[] = [];
  let bytes = 0;
  let last = null as Place | null;
  for (let id = moving[0]; id !== undefined; id = moving[0]) {
    // Its content may be dropped meanwhile.
    const message = ledger.state.messages.get(id);
    const place = message?.place ?? null;
    const before = messages.at(-1);
    const isCopy = before !== undefined && place?.segment === last?.segment && place?.offset === last?.offset;
    if (!isCopy && bytes >= RELOCATE_RECORD_BYTES) break;
    moving.shift();
    // The recipients of one mail share its content.
    bytes += RELOCATED_EVENT_BYTES;
    if (isCopy && message) {
      messages.push({ ...acceptanceOf(message), length: before.length, crc: before.crc, shares: true });
      continue;
    }
    const content = message && place && (await ledger.read(place).catch(() => null));
    if (!content) continue;
    last = place;
    contents.push(content);
    messages.push({ ...acceptanceOf(message), ...sumOf(content) });
    bytes += content.length;
  }
  if (messages.length > 0)
    await journal.append({ events: [{ e: 'relocated', messages }], contents }, 'synced');
}

function acceptanceOf({ id, type, destination, from, subject, attachments, ...message }: Message) {
  const { extras, accepted: at, reachMs, more } = message;
  const common = { id, type, destination, from, subject, attachments, at, reachMs };
  return { ...more, ...common, ...(extras && { extras }) };
}
