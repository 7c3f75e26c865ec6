/**
 * Waits until messages are final, and tells what became of them.
 */

import { EXIT } from '../base/errors.js';
import { SECOND_MS } from '../base/limits.js';
import { type Call, CallError, isPassing } from './client.js';
import type { CommandContext } from './command.js';

/** One call waits this long: less than the time after which a silent daemon counts as dead. */
const SLICE_S = 20;
/** The least time between two calls: an older daemon does not know `wait`, and a stopped one may be restarting. */
const REPEAT_MS = SECOND_MS;

/** A message as the daemon shows it. */
interface Shown {
  readonly id: string;
  readonly destination: string;
  readonly status: string;
  readonly final: boolean;
  readonly lastReply: string | null;
}

/** What became of some messages. */
interface Ended {
  /** Those that the daemon has told of. */
  readonly messages: readonly Shown[];
  /** Why the outcome of a message is not known, in words; null if the daemon has told of all. */
  readonly fault: string | null;
  /** 0: all were sent. 65: one was not, and never will be. 75: one waits still, or its outcome is not known. */
  readonly code: number;
}

/** How to wait; `tell` gets a sentence if the daemon is away. */
export interface Waiting extends Pick<CommandContext, 'clock' | 'pause'> {
  readonly call: Call;
  readonly tell: (words: string) => void;
}

/** Resolves when all are final, or after `ms`. */
export async function outcomeOf(ids: readonly string[], ms: number, waiting: Waiting): Promise<Ended> {
  const endMs = waiting.clock.bootMs() + ms;
  const messages: Shown[] = [];
  let fault: string | null = null;
  for (const id of ids) {
    const found = await finalOf(id, endMs, waiting);
    if (typeof found === 'string') fault = found;
    else messages.push(found);
  }
  const isSent = fault === null && messages.every(({ status }) => status === 'sent');
  const isOver = messages.some(({ final, status }) => final && status !== 'sent');
  return { messages, fault, code: isSent ? EXIT.ok : isOver ? EXIT.data : EXIT.tempFail };
}

/** The message once it is final, or as it is at the end; a text says why the daemon does not show it. */
async function finalOf(
  id: string,
  endMs: number,
  { call, clock, pause, tell }: Waiting,
): Promise<Shown | string> {
  let wasAway = false;
  for (;;) {
    const startedMs = clock.bootMs();
    const leftS = Math.max(0, Math.ceil((endMs - startedMs) / SECOND_MS));
    const path = `/api/internal/messages/${encodeURIComponent(id)}?wait=${Math.min(leftS, SLICE_S)}`;
    let found: Shown | string;
    try {
      found = (await call('GET', path)).body as Shown;
      if (found.final) return found;
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      found = error.message;
      if (!isPassing(error)) return found;
      if (!wasAway) tell(`${found}; waiting for it`);
      wasAway = true;
    }
    const nowMs = clock.bootMs();
    if (nowMs >= endMs) return found;
    const restMs = Math.min(startedMs + REPEAT_MS, endMs) - nowMs;
    if (restMs > 0) await pause(restMs);
  }
}

/** `0000001… sent: john@example.com: 250 ok` */
export function outcomeLine({ id, destination, status, final, lastReply }: Shown): string {
  const words = final ? status : `${status}, and tried again`;
  return `${id} ${words}: ${destination}${lastReply === null ? '' : `: ${lastReply}`}`;
}
