/**
 * Checks what a simulated device reports: compares its state, its metrics, its health and its list of messages with each
 * other and with earlier answers to clients.
 */
import { SECOND_MS } from '../../src/base/limits.js';
import type { Listed } from './programs.js';
import type { World } from './world.js';

const STATUSES = ['queued', 'sending', 'deferred', 'failed'] as const;
/** While mail flows, two answers may be about two moments. */
const TRIES_MAX = 4;

/** Compares all reports. A difference counts only if every try finds one. */
export async function tellTruth(world: World, isAtRest: boolean): Promise<void> {
  let lies: readonly string[] = [];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if (tries > 0) await world.pass(SECOND_MS);
    lies = await liesOf(world, isAtRest);
    if (lies.length === 0) return;
  }
  for (const words of lies) world.model.violation(words);
}

async function liesOf(world: World, isAtRest: boolean): Promise<readonly string[]> {
  const { programs, model, live } = world;
  const asked = await world.awaited(
    Promise.all([
      programs.state(),
      programs.get('/metrics'),
      programs.get('/healthz'),
      programs.list(),
      programs.state(),
    ]),
  );
  if (asked === null) return [];
  const [before, metrics, health, list, state] = asked;
  if (before === null || state === null || list === null || metrics?.status !== 200 || health === null)
    return [];
  const lies: string[] = [];
  const equal = (what: string, found: unknown, wanted: unknown) => {
    if (found !== wanted) lies.push(`${what} is ${found}, and ${wanted} is true`);
  };
  const { queue, storage } = state as Readonly<Record<string, Record<string, unknown>>> as {
    queue: Record<string, unknown> & { used: { messages: number; bytes: number; memoryBytes: number } };
    storage: Record<string, unknown>;
  };
  const numbers = numbersOf(metrics.body.toString());
  for (const status of STATUSES) {
    const count = list.filter((listed) => listed.status === status).length;
    equal(`queue.${status}`, queue[status], count);
    equal(`the metric of ${status}`, numbers.get(`queue_messages{status="${status}"}`), count);
  }
  if (model.isHeld !== null) equal('queue.held', queue.held, model.isHeld);
  equal('the metric of the hold', numbers.get('queue_held'), Number(queue.held));
  equal('the metric of the bytes', numbers.get('queue_bytes'), queue.bytes);
  equal('the metric of the memory', numbers.get('queue_used_memory_bytes'), queue.used.memoryBytes);
  const open = list.filter(({ final }) => !final).length;
  // Files that are still being uploaded have reserved room.
  if (isAtRest || queue.used.messages < open) equal('queue.used.messages', queue.used.messages, open);
  equal('the metric of the storage', numbers.get(`storage_state{state="${storage.state}"}`), 1);
  equal('/healthz', health.status, storage.state === 'ok' && queue.full !== true ? 200 : 503);
  const finished = list.filter(({ final, status }) => final && status !== 'failed').length;
  if (finished > live.history) lies.push(`${finished} finished messages are kept, of ${live.history}`);
  return [...lies, ...missingIn(world, list)];
}

/** Accepted messages that are neither listed nor known to be final, and listed ones that no one has posted. */
function missingIn(world: World, list: readonly Listed[]): string[] {
  const { model, programs } = world;
  const ids = new Set(list.map(({ id }) => id));
  const lost = world.posted(
    ({ id, request }) => id !== null && request.standing === 'promised' && !ids.has(id),
  );
  const lies = lost
    .filter((posted) => !programs.mayBeForgotten(posted))
    .map(({ token, id }) => `${token} (${id}) is not listed`);
  // A check was in progress when it ended.
  if (lies.length > 0) return lies;
  const known = new Map(world.posted(({ id }) => id !== null).map((posted) => [posted.id, posted]));
  const unknown = list.filter(({ id }) => !known.has(id)).length;
  const unanswered = [...model.messages.values()].filter(
    ({ id, request }) => id === null && request.standing !== 'refused',
  ).length;
  if (unknown > unanswered) lies.push(`${unknown - unanswered} messages are listed that nobody has posted`);
  for (const listed of list) {
    const posted = known.get(listed.id);
    if (posted !== undefined) programs.seen(posted, listed);
  }
  return lies;
}

/** The samples of a page of metrics, by name and labels. */
function numbersOf(text: string): Map<string, number> {
  const numbers = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name, value] = /^fieldpost_(\S+) (\S+)$/.exec(line) ?? [];
    if (name !== undefined) numbers.set(name, Number(value));
  }
  return numbers;
}
