/**
 * One device of the list: it opens to whom the cloud would tell.
 */
import { type FleetDevice, troubleOf } from '../../base/fleet-lines.js';
import { oneLine } from '../../base/text.js';
import { button, factList, html, openable, show } from '../dom.js';
import { type Live, Refusal, wordsOf } from '../live.js';
import { clockTime, exactTime, TYPES } from '../words.js';
import { peopleIn, STATE_WORDS } from './devices.js';
import { outageList, outagesOf } from './outages.js';
import type { QuietActs } from './quiet.js';

/** Without a value it is not shown. */
type Fact = readonly [name: string, value: string | null];

const MOODS: Readonly<Record<string, string>> = { online: 'good', offline: 'bad' };

/** A device without what changes with each heartbeat: its element stays while this does. */
export interface ShownDevice extends Pick<FleetDevice, 'id' | 'name' | 'site' | 'state' | 'since' | 'quiet'> {
  readonly trouble: string | null;
}

/** What the list shows of a device. */
export function shownOf(device: FleetDevice): ShownDevice {
  const { id, name, site, state, since, quiet } = device;
  return { id, name, site, state, since, quiet, trouble: troubleOf(device) };
}

/** The element of a device; `before` is the one that it replaces. */
export function deviceItem(
  { id, name, site, state, since, quiet, trouble }: ShownDevice,
  before: Element | undefined,
  opened: () => void,
): HTMLElement {
  const when = since ? [html('time', { datetime: since, class: 'soft' }, clockTime(since, Date.now()))] : [];
  const summary = [
    html('strong', { class: MOODS[state] ?? 'soft' }, state),
    html('span', {}, html('span', {}, id), ...(name === null ? [] : [' ', html('span', {}, name)])),
    html('span', { class: 'soft' }, STATE_WORDS[state] ?? ''),
    ...when,
    ...(site === null ? [] : [html('span', { class: 'soft' }, site)]),
    ...(quiet === null ? [] : [html('strong', { class: 'uneasy' }, quietWords(quiet, clockTime))]),
    ...(trouble === null ? [] : [html('strong', { class: 'bad' }, trouble)]),
  ];
  const told = before?.querySelector('[data-told]') ?? html('div', { 'data-told': '' });
  return openable(summary, [told], before, opened);
}

function quietWords(
  { until, why }: NonNullable<FleetDevice['quiet']>,
  timeOf: (iso: string, nowMs: number) => string,
): string {
  return `quiet until ${timeOf(until, Date.now())}${why === null ? '' : `: ${oneLine(why)}`}`;
}

/** What the buttons of a device do. */
interface DeviceActs extends QuietActs {
  /** Makes a key; null where keys mean nothing. */
  readonly newKey: ((id: string) => void) | null;
}

/** Fills the open device with what the cloud knows now. */
export async function fillDevice(
  place: Element,
  device: FleetDevice,
  live: Live,
  acts: DeviceActs,
): Promise<void> {
  const { id, lastHeartbeat, since, quiet } = device;
  const facts: readonly Fact[] = [
    ['Last heartbeat', lastHeartbeat === null ? 'not known' : exactTime(lastHeartbeat)],
    [`${device.state} since`, since ? exactTime(since) : null],
    ['Nobody is told', quiet && quietWords(quiet, exactTime)],
    ...reported(device),
  ];
  const document = device.destinations === null ? NONE : await documentOf(id, live);
  const outages = await outagesOf(place, device, live);
  const { newKey } = acts;
  show(place, [facts, document, outages], () => [
    factList([...facts, ...aboutDocument(document)]),
    ...toldList(document),
    ...outageList(place, id, outages, live),
    html(
      'div',
      { class: 'buttons' },
      button('Quiet', () => acts.begin(id), `Quiet for ${id}`),
      ...(quiet === null ? [] : [button('End the quiet', () => acts.end(id), `End the quiet of ${id}`)]),
      button('Drill', () => acts.drill(id), `Drill for ${id}`),
      ...(newKey === null ? [] : [button('New key', () => newKey(id), `New key for ${id}`)]),
      button('Remove', () => remove(id, live), `Remove ${id}`),
    ),
  ]);
}

/** What it said of itself with its last heartbeat. */
function reported({ version, queue, relay, link, late }: FleetDevice): Fact[] {
  return [
    ['Version', version && oneLine(version)],
    ['Messages', queue && `${queue.queued} queued, ${queue.deferred} deferred, ${queue.failed} failed`],
    ['Relay', relay && oneLine(relay)],
    ['Link before that', link && oneLine(link)],
    ['Late programs', late.length === 0 ? null : late.map((name) => oneLine(name)).join(', ')],
  ];
}

/** What was stored by the device; a text says why there is none. */
type DocumentShown = Readonly<Record<string, unknown>> | string;

const NONE = 'It has sent no address book: nobody would be told.';

async function documentOf(id: string, { call }: Live): Promise<DocumentShown> {
  try {
    return (await call('GET', `/devices/${encodeURIComponent(id)}/destinations`)).body;
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 401) throw error;
    return error.status === 404 ? NONE : wordsOf(error);
  }
}

function aboutDocument(document: DocumentShown): Fact[] {
  if (typeof document === 'string') return [];
  const texts = ['name', 'site', 'contact', 'delay'].map((member): Fact => {
    const value = document[member];
    return [member, typeof value === 'string' && value !== '' ? oneLine(value) : null];
  });
  const { tags } = document;
  const shown = Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : [];
  return [...texts, ['tags', shown.length === 0 ? null : oneLine(shown.join(', '))]];
}

function toldList(document: DocumentShown): HTMLElement[] {
  if (typeof document === 'string') return [html('p', { class: 'uneasy' }, document)];
  const { people, others } = peopleIn(document.destinations);
  const more = others === 0 ? '' : ` Parts of its address book cannot be read here: ${others}.`;
  if (people.length === 0) {
    return [html('p', { class: 'uneasy' }, `Nobody is in its address book: nobody would be told.${more}`)];
  }
  const items = people.map(({ type, destination, lang, name, rules, confirmedAt }) =>
    html(
      'li',
      { class: 'row' },
      html('span', {}, `${name}: ${destination}`),
      html(
        'span',
        { class: 'soft' },
        `${TYPES[type - 1]}, ${lang}${rules === '' ? '' : `; ${oneLine(rules)}`}`,
      ),
      ...(confirmedAt === null
        ? []
        : [html('span', { class: 'soft' }, `confirmed a drill ${exactTime(confirmedAt)}`)]),
    ),
  );
  return [
    html('p', {}, 'When it goes offline, the cloud tells:'),
    html('ul', { class: 'rows' }, ...items),
    ...(more ? [html('p', { class: 'uneasy' }, more)] : []),
  ];
}

function remove(id: string, { call, act }: Live): void {
  const question = `Remove ${id} and its address book? If it still calls, it comes back.`;
  if (confirm(question))
    void act(() => call('DELETE', `/devices/${encodeURIComponent(id)}`), `${id} is removed.`);
}
