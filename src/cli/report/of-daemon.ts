/**
 * What the running daemon tells for a report.
 */

import { LIST_LIMIT_MAX } from '../../base/limits.js';
import { counted, span } from '../../base/sizes.js';
import { type DaemonState, headline, stateLines } from '../../base/state-lines.js';
import type { Destination } from '../../mail/book/destination.js';
import type { Call } from '../client.js';
import { CommandError } from '../command.js';
import type { ShownMessage } from '../listing.js';
import { columns, moment, typeName } from '../words.js';
import type { StandIns } from './stand-ins.js';

const LINKS_SHOWN = 20;
const ATTEMPTS_SHOWN = 20;
const SUBJECT_CHARS_MIN = 8;

type LinkHistory = {
  readonly since: string;
  readonly state: string;
  readonly durationMs: number;
  readonly reason: string | null;
};

/** The names in the address book. `standIns` learns who gets messages. */
export async function namesOf(call: Call, standIns: StandIns): Promise<string[]> {
  const book = await bodyOf<Destination[]>(call, '/api/internal/offline_notification_destinations');
  const messages = await latest(call);
  standIns.learnRecipients([...(book ?? []), ...messages].map(({ destination }) => destination));
  // A short one is an ordinary word.
  standIns.learn(
    messages.flatMap(({ subject }) => (subject && subject.length >= SUBJECT_CHARS_MIN ? subject : [])),
  );
  return (book ?? []).map(({ name }) => name);
}

/** The state, as `fieldpost status` shows it, and the latest states of the link. */
export async function stateSection(call: Call, standIns: StandIns): Promise<string[]> {
  const state = await bodyOf<DaemonState & { link?: { history?: readonly LinkHistory[] } }>(
    call,
    '/api/internal/state',
  );
  if (state === null) return ['(the daemon does not tell it)'];
  const time = (iso: string) => `${moment(iso)} UTC`;
  const rows = stateLines(state, time).map(([topic, , words]) => [topic, standIns.text(words)]);
  const said = headline(state, time);
  const history = (state.link?.history ?? [])
    .slice(0, LINKS_SHOWN)
    .map(({ since, state: was, durationMs, reason }) => [
      `${time(since)} for ${span(durationMs)}`,
      was,
      standIns.text(reason ?? ''),
    ]);
  return [
    `version ${state.version ?? '(not told)'}, up ${span(state.uptimeMs ?? 0)}`,
    ...(said === null ? [] : [standIns.text(said[1])]),
    ...columns(rows),
    ...(history.length === 0 ? [] : ['earlier states of the link:', ...columns(history)]),
  ];
}

/** The messages whose last attempt was no success, the latest first: never their subjects. */
export async function messageLines(call: Call, standIns: StandIns): Promise<string[]> {
  const bad = (await latest(call)).filter(({ status, lastReply }) => lastReply !== null && status !== 'sent');
  const shown = bad.slice(0, ATTEMPTS_SHOWN);
  const rows = shown.map(({ id, type, status, acceptedAt, attempts, destination, lastReply }) => [
    id,
    typeName(type),
    moment(acceptedAt),
    status,
    counted(attempts, 'attempt'),
    standIns.recipient(destination),
    standIns.reply(lastReply ?? ''),
  ]);
  return rows.length === 0 ? ['none'] : columns(rows);
}

async function latest(call: Call): Promise<readonly ShownMessage[]> {
  const body = await bodyOf<{ messages?: readonly ShownMessage[] }>(
    call,
    `/api/internal/messages?limit=${LIST_LIMIT_MAX}`,
  );
  return body?.messages ?? [];
}

/** Null if the daemon refuses. */
async function bodyOf<T>(call: Call, path: string): Promise<T | null> {
  try {
    return (await call('GET', path)).body as T;
  } catch (error) {
    if (error instanceof CommandError) return null;
    throw error;
  }
}
