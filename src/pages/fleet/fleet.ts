/**
 * The program of the operator's page (GET / of the reference cloud): lists the devices again and again.
 */
import { counted } from '../../sizes.js';
import type { Ask } from '../calls.js';
import { byId, html, showList } from '../dom.js';
import { keepFresh } from '../live.js';
import { saveCsv } from './csv.js';
import { deviceItem, fillDevice, shownOf } from './device-item.js';
import {
  ATTENTION,
  DEVICE_STATES,
  type FleetCounts,
  type FleetDevice,
  fleetHeadline,
  queriesFor,
} from './devices.js';
import { createKeyDialog } from './key-dialog.js';

/** The list of very many devices is long. */
const REFRESH_MS = 5000;
/** So many devices are shown at first, and so many more each time. */
const SHOWN = 100;

function main(): void {
  // Without a keys file any key opens every call, but there must be one.
  const live = keepFresh('the cloud', read, { everyMs: REFRESH_MS, token: 'any' });
  const newKey = createKeyDialog(live);
  const search = byId<HTMLInputElement>('search');
  const state = byId<HTMLSelectElement>('state');
  const more = byId('more');
  let devices: readonly FleetDevice[] = [];
  let limit = SHOWN;
  offerStates(state);
  const wish = () => JSON.stringify([search.value, state.value, limit]);

  async function read(ask: Ask): Promise<void> {
    let answered: string;
    // Somebody may type meanwhile.
    do {
      answered = wish();
      const found = await find(ask, search.value, state.value, limit);
      if (answered !== wish()) continue;
      devices = found.devices;
      showHeadline(found.counts);
      showRefused(found.refused);
      showDevices(found.total, found.all);
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
    showCount(devices.length, total, all);
  }

  /** Asks for whom the cloud would tell about each open device. */
  async function fillOpen(): Promise<void> {
    for (const item of byId('devices').querySelectorAll<HTMLElement>('li:has(details[open])')) {
      const device = devices.find(({ id }) => id === item.dataset.key);
      const place = item.querySelector('[data-told]');
      if (device !== undefined && place !== null) await fillDevice(place, device, live, newKey);
    }
  }

  const showUpTo = (count: number) => {
    limit = count;
    live.refresh();
  };
  search.addEventListener('input', () => showUpTo(SHOWN));
  state.addEventListener('change', () => showUpTo(SHOWN));
  more.addEventListener('click', () => showUpTo(limit + SHOWN));
  byId('csv').addEventListener(
    'click',
    () => void live.act(() => saveCsv(live.call), 'devices.csv is saved.'),
  );
}

function offerStates(select: HTMLSelectElement): void {
  select.append(
    html('option', { value: '' }, 'any'),
    html('option', { value: ATTENTION }, 'needs attention'),
    ...DEVICE_STATES.map((one) => html('option', {}, one)),
  );
}

function showRefused(count: number): void {
  const line = byId('refused');
  line.hidden = count === 0;
  line.textContent = `There are too many devices: ${counted(count, 'call')} of others refused.`;
}

/** The first `limit` devices that fit, and what the cloud says of all. Asks only for states that devices are in. */
async function find(ask: Ask, words: string, state: string, limit: number) {
  const devices: FleetDevice[] = [];
  let [total, refused] = [0, 0];
  let counts: FleetCounts | null = null;
  for (const [of, query] of queriesFor(words, state)) {
    if (counts !== null && counts[of] === 0) continue;
    const room = limit - devices.length;
    query.set('limit', String(Math.max(1, room)));
    const { body } = await ask('GET', `/devices?${query}`);
    devices.push(...body.devices.slice(0, room));
    total += body.total;
    counts = body.counts as FleetCounts;
    refused = body.refused;
  }
  const known = counts ?? { offline: 0, online: 0, moved: 0, unheard: 0 };
  const all = DEVICE_STATES.reduce((sum, one) => sum + known[one], 0);
  return { devices, total, refused, counts: known, all };
}

/** Shows how many of the devices are in the list, unless all are. */
function showCount(shown: number, wanted: number, all: number): void {
  const words = shown === all ? '' : `${shown} of ${counted(wanted, 'device')} shown`;
  const line = byId('shown');
  // A screen reader reads out each change.
  if (line.textContent !== words) line.textContent = words;
}

function showHeadline(counts: FleetCounts): void {
  const [mood, words] = fleetHeadline(counts);
  const line = byId('headline');
  if (line.textContent !== words) line.textContent = words;
  line.className = mood;
  document.title = `${mood === 'bad' ? '! ' : ''}Devices: ${words}`;
}

main();
