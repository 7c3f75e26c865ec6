/**
 * Waits until messages are final, and tells what became of them. Used by send.ts.
 */
import { SECOND_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Call } from './client.js';
import { EXIT } from './command.js';

/** One call waits this long: less than the time after which a silent daemon counts as dead. */
const SLICE_S = 20;

/** A message as the daemon shows it. */
interface Shown {
  readonly id: string;
  readonly destination: string;
  readonly status: string;
  readonly final: boolean;
  readonly lastReply: string | null;
}

/** What became of some messages. */
export interface Ended {
  readonly messages: readonly Shown[];
  /** 0: all were sent. 65: one was not, and never will be. 75: one waits still. */
  readonly code: number;
}

/** Resolves when all are final, or after `ms`. Rejects as `call` does. */
export async function outcomeOf(
  ids: readonly string[],
  ms: number,
  call: Call,
  clock: Pick<Clock, 'bootMs'>,
): Promise<Ended> {
  const endMs = clock.bootMs() + ms;
  const messages: Shown[] = [];
  for (const id of ids) messages.push(await finalOf(id, endMs, call, clock));
  const isSent = messages.every(({ status }) => status === 'sent');
  const isOver = messages.some(({ final, status }) => final && status !== 'sent');
  return { messages, code: isSent ? EXIT.ok : isOver ? EXIT.data : EXIT.tempFail };
}

async function finalOf(id: string, endMs: number, call: Call, clock: Pick<Clock, 'bootMs'>): Promise<Shown> {
  for (;;) {
    const leftS = Math.max(0, Math.ceil((endMs - clock.bootMs()) / SECOND_MS));
    const path = `/api/internal/messages/${encodeURIComponent(id)}?wait=${Math.min(leftS, SLICE_S)}`;
    const message = (await call('GET', path)).body as Shown;
    if (message.final || clock.bootMs() >= endMs) return message;
  }
}

/** `0000001… sent to john@example.com: 250 ok` */
export function outcomeLine({ id, destination, status, final, lastReply }: Shown): string {
  const words = final ? status : `${status}, and tried again`;
  return `${id} ${words}: ${destination}${lastReply === null ? '' : `: ${lastReply}`}`;
}
