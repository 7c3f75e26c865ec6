/**
 * The outages of an open device: the last ones, and all of the year as a file.
 */
import type { FleetDevice } from '../../base/fleet-lines.js';
import { MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { counted, oneLine, span } from '../../base/text.js';
import { button, html } from '../dom.js';
import { type Live, Refusal, wordsOf } from '../live.js';
import { exactTime, TYPES } from '../words.js';
import { offerFile, PAGE_MS } from './file.js';

/** So many outages, and so many other messages, are shown. */
const SHOWN = 20;

/** A message to a person. */
interface TellingShown {
  readonly at: string;
  readonly news: string;
  readonly type: number;
  readonly name: string;
  readonly destination: string;
  readonly status: string | null;
}

interface OutageShown {
  readonly kind: string | null;
  readonly began: string | null;
  readonly ended: string | null;
  readonly lastedS: number | null;
  readonly why: string | null;
  readonly word: string | null;
  readonly quiet: { readonly until: string; readonly why: string | null } | null;
  readonly told: readonly TellingShown[];
}

/** What an open device shows of its outages; a text says why there is nothing. */
export type OutagesShown =
  | {
      readonly scope: string;
      readonly total: number;
      readonly outages: readonly OutageShown[];
      readonly others: readonly TellingShown[];
    }
  | string;

/** The cloud reads a log for them, so they are asked for only after a change. */
const ASKED = new WeakMap<
  Element,
  { readonly change: string; readonly atMs: number; readonly shown: OutagesShown }
>();

const pathOf = (id: string) => `/devices/${encodeURIComponent(id)}/outages`;

/** The outages of the device that `place` shows. */
export async function outagesOf(
  place: Element,
  { id, state, since }: FleetDevice,
  { call }: Live,
): Promise<OutagesShown> {
  const change = `${id} ${state} ${since}`;
  const before = ASKED.get(place);
  // People are told a while after the change.
  if (before?.change === change && Date.now() - before.atMs < MINUTE_MS) return before.shown;
  let shown: OutagesShown;
  try {
    shown = (await call('GET', `${pathOf(id)}?limit=${SHOWN}`)).body;
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 401) throw error;
    shown = wordsOf(error);
  }
  ASKED.set(place, { change, atMs: Date.now(), shown });
  return shown;
}

/** The elements that show them in `place`. */
export function outageList(place: Element, id: string, shown: OutagesShown, live: Live): HTMLElement[] {
  if (typeof shown === 'string') return [html('p', { class: 'uneasy' }, shown)];
  const { scope, total, outages, others } = shown;
  const part = scope === 'instance' ? ', as far as this instance of the cloud has told of them' : '';
  const last = total > outages.length ? `: the last ${outages.length}` : '';
  const list = (name: string, words: string, items: readonly HTMLElement[]) => {
    // It is made anew with each heartbeat.
    const open = place.querySelector<HTMLDetailsElement>(`[data-list=${name}]`)?.open ?? false;
    const rows = html('ul', { class: 'rows' }, ...items);
    return html('details', { open, 'data-list': name }, html('summary', {}, words), rows);
  };
  const heard = `${counted(others.length, 'other message')} about it`;
  return [
    total === 0
      ? html('p', {}, `No outage in the last year${part}.`)
      : list(
          'outages',
          `${counted(total, 'outage')} in the last year${part}${last}`,
          outages.map(outageItem),
        ),
    ...(others.length === 0 ? [] : [list('others', heard, others.map(tellingItem))]),
    ...(total + others.length === 0
      ? []
      : [
          html(
            'p',
            {},
            button('Save outages as CSV', () => save(id, live), `Save outages as CSV: ${id}`),
          ),
        ]),
  ];
}

function save(id: string, { call, act }: Live): void {
  const name = `outages-${id.replace(/[^\w.-]/g, '_')}.csv`;
  const get = async () => {
    const { text } = await call('GET', `${pathOf(id)}?format=csv`, { withinMs: PAGE_MS });
    offerFile(name, [text]);
  };
  void act(get, `${name} is saved.`);
}

const WHY: Readonly<Record<string, string>> = {
  ran: 'it ran throughout: the network was away',
  restarted: 'it lost power or restarted',
};

function outageItem({ kind, began, ended, lastedS, why, word, quiet, told }: OutageShown): HTMLElement {
  const length = [lastedS === null ? '' : span(lastedS * SECOND_MS), kind ?? ''].join(' ').trim();
  const reason = quiet !== null && quiet.why !== null ? `: ${oneLine(quiet.why)}` : '';
  const facts = [
    length === '' ? [] : length,
    WHY[why ?? ''] ?? [],
    word === null ? [] : `last word: “${oneLine(word)}”`,
    quiet === null ? [] : `quiet until ${exactTime(quiet.until)}${reason}`,
  ].flat();
  return html(
    'li',
    { class: 'row' },
    html('span', {}, `${began === null ? 'not known' : exactTime(began)} to ${endOf(ended)}`),
    html('span', { class: 'soft' }, facts.join('; ')),
    html(
      'ul',
      { class: 'rows' },
      ...(told.length === 0 ? [html('li', {}, 'Nobody was told.')] : told.map(tellingItem)),
    ),
  );
}

function endOf(ended: string | null): string {
  return ended === null ? 'an end that is not known yet' : exactTime(ended);
}

/** What a message was about. A word that this page does not know is shown as it is. */
const NEWS: Readonly<Record<string, string>> = {
  ...{ silent: 'offline', stopped: 'offline', back: 'online', still: 'still offline', word: 'its last word' },
  ...{ stuck: 'its mails do not leave', flows: 'its mails leave again', drill: 'test' },
};

function tellingItem({ at, news, type, name, destination, status }: TellingShown): HTMLElement {
  const words = `${exactTime(at)}: ${oneLine(name)} (${oneLine(destination)}), ${NEWS[news] ?? oneLine(news)}`;
  const isLost = status === 'failed' || status === 'expired';
  return html(
    'li',
    {},
    html('span', {}, words),
    ' ',
    html(
      'span',
      { class: 'soft' },
      `${TYPES[type - 1] ?? ''}${status === null || isLost ? '' : `, ${status}`}`,
    ),
    ...(isLost ? [' ', html('strong', { class: 'bad' }, status)] : []),
  );
}
