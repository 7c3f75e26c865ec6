/**
 * The queue as Postfix's mailq prints it, because people and monitoring plugins read that. Used by sendmail.ts.
 */
import { KIB } from '../limits.js';
import { visible } from '../text.js';
import type { Call } from './client.js';
import { messagesWith, type ShownMessage, WAITING } from './listing.js';
import { counted } from './words.js';

const HEAD = '-Queue ID-  --Size-- ----Arrival Time---- -Sender/Recipient-------';
const ID_CHARS = 11;
/** Where the size ends, the time begins, and the addresses begin. */
const SIZE_END = 19;
const ADDRESSES_AT = 41;
/** A reason ends here if it is short. */
const REASON_END = 78;

/** The text that mailq prints. */
export async function mailqText(call: Call): Promise<string> {
  const messages = await messagesWith(WAITING, call);
  if (messages.length === 0) return 'Mail queue is empty\n';
  const { held } = ((await call('GET', '/api/internal/state')).body as { queue: { held: boolean } }).queue;
  const bytes = messages.reduce((sum, { size = 0 }) => sum + size, 0);
  const blocks = messages.map((message) => blockOf(message, held));
  const total = `-- ${Math.floor(bytes / KIB)} Kbytes in ${counted(messages.length, 'Request')}.`;
  return `${HEAD}\n${blocks.join('\n')}\n${total}\n`;
}

function blockOf(
  { id, status, size = 0, acceptedAt, from, lastReply, destination }: ShownMessage,
  held: boolean,
): string {
  // As Postfix marks a message: with a star while it is delivered, with an exclamation mark while it is held.
  const mark = status === 'sending' ? '*' : held ? '!' : ' ';
  const name = `${id}${mark}`.padEnd(ID_CHARS);
  const sizeText = ` ${size}`.padStart(SIZE_END - name.length);
  const sender = from === '' ? 'MAILER-DAEMON' : (from ?? '-');
  const reason = lastReply === null ? [] : [`(${lastReply})`.padStart(REASON_END)];
  const lines = [
    `${name}${sizeText} ${timeOf(acceptedAt)}  ${sender}`,
    ...reason,
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
