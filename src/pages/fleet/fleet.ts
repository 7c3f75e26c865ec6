/**
 * The program of the operator's page (GET / of the reference cloud): lists the devices again and again, saves them as CSV,
 * and makes keys for them.
 */

import {
  ATTENTION,
  countOf,
  DEVICE_STATES,
  type FleetDevice,
  fleetHeadline,
  joiningSteps,
} from '../../base/fleet-lines.js';
import { counted } from '../../base/text.js';
import { byId, html, say, sayHeadline, showList } from '../dom.js';
import { type Answered, keepFresh, type Live } from '../live.js';
import { deviceItem, fillDevice, shownOf } from './device-item.js';
import { queryFor } from './devices.js';
import { offerFile, PAGE_MS } from './file.js';
import { createQuiet } from './quiet.js';

/** The list of very many devices is long. */
const REFRESH_MS = 5000;
/** So many devices are shown at first, and so many more each time. */
const SHOWN = 100;

function main(): void {
  // Without a keys file any key opens every call, but there must be one.
  const live = keepFresh('the cloud', read, { everyMs: REFRESH_MS, otherToken: 'any' });
  // There a key means nothing, and the cloud makes none.
  const isOpen = !('token' in document.documentElement.dataset);
  byId('add').hidden = isOpen;
  byId('add-open').hidden = !isOpen;
  const acts = { ...createQuiet(live), newKey: isOpen ? null : createKeyDialog(live) };
  const search = byId<HTMLInputElement>('search');
  const state = byId<HTMLSelectElement>('state');
  const more = byId('more');
  let devices: readonly FleetDevice[] = [];
  let limit = SHOWN;
  offerStates(state);
  const wish = () => JSON.stringify([search.value, state.value, limit]);

  async function read(): Promise<void> {
    let answered: string;
    // Somebody may type meanwhile.
    do {
      answered = wish();
      const { body } = await live.call('GET', `/devices?${queryFor(search.value, state.value, limit)}`);
      if (answered !== wish()) continue;
      devices = body.devices;
      sayHeadline('Devices', ...fleetHeadline(body.counts, body.refused));
      showDevices(body.total, countOf(body.counts));
      await fillOpen();
    } while (answered !== wish());
  }

  function showDevices(total: number, all: number): void {
    showList(
      byId('devices'),
      devices.map(shownOf),
      ({ id }) => id,
      (device, before) => deviceItem(device, before, () => void fillOpen().catch(() => live.refresh())),
    );
    more.hidden = total <= devices.length;
    say('shown', devices.length === all ? '' : `${devices.length} of ${counted(total, 'device')} shown`);
  }

  /** Asks for whom the cloud would tell about each open device. */
  async function fillOpen(): Promise<void> {
    for (const item of byId('devices').querySelectorAll<HTMLElement>('li:has(details[open])')) {
      const device = devices.find(({ id }) => id === item.dataset.key);
      const place = item.querySelector('[data-told]');
      if (device !== undefined && place !== null) await fillDevice(place, device, live, acts);
    }
  }

  const showUpTo = (count: number) => {
    limit = count;
    live.refresh();
  };
  search.addEventListener('input', () => showUpTo(SHOWN));
  state.addEventListener('change', () => showUpTo(SHOWN));
  more.addEventListener('click', () => showUpTo(limit + SHOWN));
  const save = () => void live.act(() => saveCsv(live), 'devices.csv is saved.');
  byId('csv').addEventListener('click', save);
}

function offerStates(select: HTMLSelectElement): void {
  select.append(
    html('option', { value: '' }, 'any'),
    html('option', { value: ATTENTION }, 'needs attention'),
    ...DEVICE_STATES.map((one) => html('option', {}, one)),
  );
}

/** Asks for all pages, and gives the browser one file to save. */
async function saveCsv({ call }: Live): Promise<void> {
  const texts: string[] = [];
  let query: string | null = '?format=csv';
  while (query !== null) {
    const { text, link }: Answered = await call('GET', `/devices${query}`, { withinMs: PAGE_MS });
    // Each page begins with the names of the columns.
    texts.push(texts.length === 0 ? text : text.slice(text.indexOf('\n') + 1));
    query = /^<(\?[^>]*)>; rel="next"$/.exec(link ?? '')?.[1] ?? null;
  }
  offerFile('devices.csv', texts);
}

/** A function that makes a key for a device; the page has #key and the form #add. */
function createKeyDialog(live: Live): (id: string) => void {
  const dialog = byId<HTMLDialogElement>('key');
  const key = byId('key-text');
  const copied = byId('key-copied');

  async function make(id: string): Promise<void> {
    const { body } = await live.call('POST', `/devices/${encodeURIComponent(id)}/key`);
    key.textContent = body.key;
    copied.textContent = '';
    byId('key-device').textContent = id;
    const steps = joiningSteps(location.origin + location.pathname, id);
    byId('key-steps').replaceChildren(
      ...steps.map(([words, text]) => html('li', {}, words, html('pre', {}, text))),
    );
    dialog.showModal();
  }

  const newKey = (id: string) => void live.act(() => make(id), `${id} has a new key.`);
  byId('key-copy').addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(key.textContent ?? '');
      copied.textContent = 'The key is copied.';
    } catch {
      // A browser allows it only over TLS or on this machine.
      getSelection()?.selectAllChildren(key);
      copied.textContent = 'The key is selected: copy it with Ctrl+C.';
    }
  });
  byId('key-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => {
    key.textContent = '';
  });
  byId<HTMLFormElement>('add').addEventListener('submit', (event) => {
    event.preventDefault();
    const input = byId<HTMLInputElement>('add-id');
    newKey(input.value.trim());
    input.value = '';
  });
  return newKey;
}

main();
