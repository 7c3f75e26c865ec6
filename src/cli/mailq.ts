/**
 * The queue as Postfix's mailq prints it, because people and monitoring plugins read that.
 */

import { KIB } from '../base/limits.js';
import { counted } from '../base/sizes.js';
import { visible } from '../base/text.js';
import { isRelayDown } from '../base/views.js';
import type { Call } from './client.js';
import { messagesWith, type ShownMessage, WAITING } from './listing.js';
import { typeName } from './words.js';

// The format for long queue ids.
const HEAD = '----Queue ID----- --Size-- ---Arrival Time---- --Sender/Recipient------';
const ID_CHARS = 17;
const SIZE_CHARS = 8;
/** Recipients begin here, as the sender above does. */
const ADDRESSES_AT = 47;
/** A reason ends here if it is short. */
const REASON_END = 78;

/** What the state of the daemon says of all waiting messages. */
interface Standing {
  readonly isHeld: boolean;
  /** Why the relays take no mail at all; null if they do. */
  readonly relayReason: string | null;
}

/** The text that mailq prints. */
export async function mailqText(call: Call): Promise<string> {
  const messages = await messagesWith(WAITING, call);
  if (messages.length === 0) return 'Mail queue is empty\n';
  const state = (await call('GET', '/api/internal/state')).body as {
    queue: { held: boolean };
    relay: { state: string; reason: string | null };
  };
  const relayReason = isRelayDown(state.relay.state) ? state.relay.reason : null;
  const standing = { isHeld: state.queue.held, relayReason };
  const bytes = messages.reduce((sum, { size = 0 }) => sum + size, 0);
  const blocks = messages.map((message) => blockOf(message, standing));
  const total = `-- ${Math.floor(bytes / KIB)} Kbytes in ${counted(messages.length, 'Request')}.`;
  return `${HEAD}\n${blocks.join('\n')}\n${total}\n`;
}

function blockOf(message: ShownMessage, { isHeld, relayReason }: Standing): string {
  const { id, type, status, size = 0, acceptedAt, from, lastReply, destination } = message;
  // As Postfix marks a message: with a star while it is delivered, with an exclamation mark while it is held.
  const mark = status === 'sending' ? '*' : isHeld ? '!' : ' ';
  const name = `${id}${mark}`.padEnd(ID_CHARS);
  const sender = from === '' ? 'MAILER-DAEMON' : (from ?? '-');
  const reason = lastReply ?? (typeName(type) === 'email' ? relayReason : null);
  const lines = [
    `${name} ${String(size).padStart(SIZE_CHARS)} ${timeOf(acceptedAt)} ${sender}`,
    ...(reason === null ? [] : [`(${reason})`.padStart(REASON_END)]),
    `${' '.repeat(ADDRESSES_AT)}${destination}`,
  ];
  return lines.map((line) => `${visible(line)}\n`).join('');
}

/** A time of the API as asctime(3) writes it, in local time, without the year. */
function timeOf(iso: string): string {
  const date = new Date(iso);
  const [weekday = '', month = ''] = date.toString().split(' ');
  const two = (value: number) => String(value).padStart(2, '0');
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  return `${weekday} ${month} ${String(date.getDate()).padStart(2)} ${time}`;
}
