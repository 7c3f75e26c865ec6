/**
 * `fieldpost-cloud device`: all that the cloud knows of one device.
 */
import { EXIT } from '../../base/errors.js';
import type { FleetDevice } from '../../base/fleet-lines.js';
import type { JsonObject } from '../../base/json.js';
import { SECOND_MS } from '../../base/limits.js';
import { counted, span, visible } from '../../base/text.js';
import { AT_ONCE, planOf } from '../../mail/book/rules.js';
import { type Call, CallError } from '../client.js';
import type { Command, OperatorContext } from '../command.js';
import { json, LOCAL, type Times, terms, timesFor, typeName, widthOf } from '../words.js';
import { connectCloud, oneId, pathOf } from './client.js';

interface Telling {
  readonly at: string;
  readonly of: string;
  readonly news?: string;
  readonly destination: string;
  readonly status?: string | null;
}

/** The answer of `GET /devices/ID/outages`. */
interface Outages {
  /** How many there were; left out by earlier clouds. */
  readonly total?: number;
  readonly scope: string;
  readonly outages: readonly {
    readonly kind: string | null;
    readonly began: string | null;
    readonly ended: string | null;
    readonly lastedS: number | null;
    /** Left out by earlier clouds, as `news` and `status`. */
    readonly why?: string | null;
    readonly word?: string | null;
    readonly told: readonly Telling[];
  }[];
}

/** A document of a device; its entries may have any shape. */
type Document = Readonly<Record<string, unknown>> & { readonly destinations?: unknown };

/** So many outages are shown; --json has all. */
const OUTAGES_SHOWN = 5;

export const device: Command<OperatorContext> = {
  name: 'device',
  group: '',
  summary: 'show one device: its state, whom the cloud would tell, its outages',
  help: `fieldpost-cloud device ID [--local] [--json]

Shows the state of a device, what it said with its last heartbeat, whom the
cloud would tell when it goes offline, when they last confirmed a drill, and its
last outages: who was told of each, and what became of the message. --local:
times in the time zone of this machine, not in UTC. --json: the device, with its
address book as document, and its last 100 outages.

Exit status: 0 shown, 65 there is no such device, 69 no cloud answers, 77 it
refuses the operator's key.`,
  examples: [['fieldpost-cloud device pump-3', 'why was nobody told of pump-3?']],
  options: { json: { type: 'boolean' }, ...LOCAL },
  takesWords: true,
  asksService: true,
  async run(input, context) {
    const { stdout } = context;
    const id = oneId(input.words);
    const call = connectCloud(context);
    const found = (await call('GET', pathOf(id))).body as FleetDevice;
    const document = found.destinations === null ? null : await documentOf(id, call);
    const outages = (await call('GET', `${pathOf(id)}/outages`)).body as Outages;
    if (input.options.json === true) stdout.write(json({ ...found, document, ...outages }));
    else {
      const rows = rowsOf(found, document, outages, timesFor(input));
      stdout.write(`${terms(rows, widthOf(stdout)).join('\n')}\n`);
    }
    return EXIT.ok;
  },
};

/** Null: the operator cannot read it, because the device has no key. */
async function documentOf(id: string, call: Call): Promise<Document | null> {
  try {
    return (await call('GET', `${pathOf(id)}/destinations`)).body as Document;
  } catch (error) {
    if (error instanceof CallError && (error.status === 401 || error.status === 404)) return null;
    throw error;
  }
}

type Row = readonly [name: string, words: string];

function rowsOf(found: FleetDevice, document: Document | null, outages: Outages, times: Times): Row[] {
  const { id, name, state, since, lastHeartbeat, version, queue, relay, link, tags, late, quiet } = found;
  const time = (iso: string | null) => (iso === null ? 'not known' : times.full(iso));
  const facts: readonly (readonly [name: string, words: string | null])[] = [
    ['id', id],
    ['name', name],
    ['site', textOf(document?.site)],
    ['tags', textOf(tags.join(', '))],
    ['contact', textOf(document?.contact)],
    ['delay', textOf(document?.delay)],
    ['quiet', quiet && `until ${time(quiet.until)}${quiet.why === null ? '' : `: ${quiet.why}`}`],
    ['state', since === null ? state : `${state} since ${time(since)}`],
    ['last heartbeat', time(lastHeartbeat)],
    ['version', version],
    ['messages', queue && `${queue.queued} queued, ${queue.deferred} deferred, ${queue.failed} failed`],
    ['relay', relay],
    ['link before', link],
    ['late', textOf(late.join(', '))],
  ];
  return [
    ...facts.flatMap(([topic, words]) => (words === null ? [] : [[topic, words] as const])),
    ...under('tells', peopleIn(found, document, time)),
    ...under('outages', outageLines(outages, time)),
  ];
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function under(topic: string, lines: readonly string[]): Row[] {
  return lines.map((line, index) => [index === 0 ? topic : '', line]);
}

function peopleIn(
  { destinations }: FleetDevice,
  document: Document | null,
  time: (iso: string | null) => string,
): string[] {
  if (destinations === null) return ['nobody: it has sent no address book'];
  const entries = Array.isArray(document?.destinations) ? document.destinations : null;
  if (entries === null) return [`${counted(destinations, 'destination')}, not shown: it has no key`];
  if (entries.length === 0) return ['nobody: its address book is empty'];
  return entries.map((entry: unknown) => {
    const { type, destination, name, lang, confirmedAt } = (entry ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof type !== 'number' || typeof destination !== 'string')
      return 'an entry that cannot be read here';
    const plan = planOf(entry as JsonObject);
    const rules = plan === AT_ONCE ? '' : `; ${plan}`;
    const confirmed = typeof confirmedAt === 'string' ? `; confirmed a drill ${time(confirmedAt)}` : '';
    return `${visible(String(name))}: ${destination} (${typeName(type)}, ${lang})${visible(rules)}${confirmed}`;
  });
}

/** Why it was away, by the cloud's word for it. */
const WHY: Readonly<Record<string, string>> = { ran: 'it ran throughout', restarted: 'it restarted' };

/** What a message was about, where that is more than offline or online. */
const NEWS: Readonly<Record<string, string>> = { still: 'still offline', word: 'its last word' };

function outageLines({ scope, outages, total }: Outages, time: (iso: string | null) => string): string[] {
  const part = scope === 'instance' ? ', as far as this instance of the cloud has told of them' : '';
  if (outages.length === 0) return [`none in the last year${part}`];
  const lines = outages.slice(0, OUTAGES_SHOWN).map(({ kind, began, ended, lastedS, why, word, told }) => {
    const lasted = lastedS === null ? '' : ` (${span(lastedS * SECOND_MS)})`;
    const end = ended === null ? 'not over, as far as is known' : `to ${time(ended)}${lasted}`;
    const people = told.map(({ of, news = '', destination, at, status = null }) => {
      const became = status === null ? '' : `, ${status}`;
      return `${visible(destination)} of ${NEWS[news] ?? of} at ${time(at)}${became}`;
    });
    const heard = people.length === 0 ? 'nobody was told' : `told: ${people.join('; ')}`;
    const facts = [WHY[why ?? ''] ?? [], word ? `last word "${visible(word)}"` : [], heard].flat();
    return `${kind ?? 'silent'} from ${time(began)} ${end}; ${facts.join('; ')}`;
  });
  return [`${counted(total ?? outages.length, 'outage')} in the last year${part}`, ...lines];
}
