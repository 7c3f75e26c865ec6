/**
 * `fieldpost destinations plan`: who would hear what, when and how, if this device fell silent at some moment.
 */
import { EXIT } from '../base/errors.js';
import { MINUTE_MS } from '../base/limits.js';
import { isoOf, visible } from '../base/text.js';
import type { Destination } from '../mail/book/destination.js';
import { hoursBeginMs, hoursIn, isZone, momentInWords } from '../mail/book/hours.js';
import { dueMs, rulesOf } from '../mail/book/rules.js';
import { CommandError, textOption } from './command.js';
import { type Action, noMore } from './verbs.js';
import { columns, json, typeName, widthOf, wrapped } from './words.js';

/** A cloud in UTC names none. */
const NO_ZONE = 'Times are in UTC: the cloud has named no other time zone.';
const STRANGE_ZONE = "Times are in UTC: the cloud's time zone is not known here.";
const DELAY =
  "All of it comes after the cloud's delay, which is not known here. Nobody is told while the device is quiet.";
const LINE_CHARS = 80;

/** What one person would hear. */
interface Step {
  readonly person: Destination;
  readonly dueMs: number;
  /** What this person hears if the device is back before; null: it cannot be. */
  readonly ifBack: string | null;
  readonly isWeekly: boolean;
}

/** `fieldpost destinations plan`. */
export async function plan(...[words, input, call, { stdout, clock }]: Parameters<Action>): Promise<void> {
  noMore(words);
  const people = (await call('GET', '/api/internal/offline_notification_destinations'))
    .body as readonly Destination[];
  const { link } = (await call('GET', '/api/internal/state')).body as { link?: { zone?: unknown } };
  const known = isZone(link?.zone) ? link.zone : null;
  const zone = known ?? 'UTC';
  const at = textOption(input, 'at');
  const atMs = at === null ? clock.wallMs() : hoursBeginMs(minuteOf(at), zone, clock.wallMs());
  const steps = people.map((person) => stepOf(person, zone, atMs)).sort((a, b) => a.dueMs - b.dueMs);
  if (input.options.json === true) {
    const shown = steps.map(({ person, dueMs: ms, ifBack }) => ({ ...person, at: isoOf(ms), ifBack }));
    return stdout.write(json({ at: isoOf(atMs), zone: known, people: shown }));
  }
  if (steps.length === 0) return stdout.write('The address book is empty: nobody is told.\n');
  const weekly = steps.filter(({ isWeekly }) => isWeekly).map(({ person }) => person.name);
  const cells = widthOf(stdout);
  const notes = [
    DELAY,
    ...(weekly.length > 0 ? [`Each Monday at 07:00 a report goes to ${weekly.join(', ')}.`] : []),
    ...(known === null ? [link?.zone === undefined ? NO_ZONE : STRANGE_ZONE] : []),
  ].flatMap((note) => wrapped(visible(note), Math.min(cells, LINE_CHARS)));
  const head = `If this device fell silent at ${momentInWords(zone, atMs)} (${zone}):`;
  stdout.write(
    `${[head, '', ...columns(rowsOf(steps, zone, atMs), { cells, elastic: [1, 3] }), '', ...notes].join('\n')}\n`,
  );
}

/** The minute of `22:00` or `Sa 22:00`, as hours. */
function minuteOf(text: string) {
  const [, day = '', hour = '', minute = ''] = /^(?:([a-z]{2}) +)?(\d\d?):(\d\d)$/i.exec(text.trim()) ?? [];
  const next = Number(hour) * 60 + Number(minute) + 1;
  const hours = hoursIn(
    `${day} ${hour}:${minute}-${Math.floor(next / 60)}:${String(next % 60).padStart(2, '0')}`,
  );
  if (hours !== null) return hours;
  throw new CommandError(EXIT.usage, `--at ${text}: it takes a time such as 22:00 or "Sa 22:00"`);
}

function stepOf(person: Destination, zone: string, atMs: number): Step {
  const rules = rulesOf({ ...person });
  const { afterMs, dropsNight, weekly: isWeekly } = rules;
  const ms = dueMs(rules, zone, atMs);
  const line = afterMs === 0 ? 'one line' : `one line if ${afterMs / MINUTE_MS} min+`;
  const waits = ms > atMs + afterMs;
  const ifBack = ms === atMs ? null : waits && !dropsNight ? line : 'nothing';
  return { person, dueMs: ms, ifBack, isWeekly };
}

function rowsOf(steps: readonly Step[], zone: string, atMs: number): string[][] {
  const rows = steps.map(({ person: { name, type, destination }, dueMs: ms, ifBack }) => [
    ms === atMs ? 'at once' : momentInWords(zone, ms),
    name,
    typeName(type),
    destination,
    ifBack ?? '-',
  ]);
  return [['TOLD', 'NAME', 'HOW', 'DESTINATION', 'IF BACK BEFORE'], ...rows];
}
