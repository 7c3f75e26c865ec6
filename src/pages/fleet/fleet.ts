/**
 * The program of the operator's page (GET / of the reference cloud): lists the devices again and again.
 */
import { counted } from '../../base/sizes.js';
import type { Ask } from '../calls.js';
import { byId, html, showList } from '../dom.js';
import { keepFresh } from '../live.js';
import { saveCsv } from './csv.js';
import { deviceItem, fillDevice, shownOf } from './device-item.js';
import {
  ATTENTION,
  countOf,
  DEVICE_STATES,
  type FleetCounts,
  type FleetDevice,
  fleetHeadline,
  queryFor,
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
      const { body } = await ask('GET', `/devices?${queryFor(search.value, state.value, limit)}`);
      if (answered !== wish()) continue;
      devices = body.devices;
      showHeadline(body.counts, body.refused);
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

/** Shows how many of the devices are in the list, unless all are. */
function showCount(shown: number, wanted: number, all: number): void {
  const words = shown === all ? '' : `${shown} of ${counted(wanted, 'device')} shown`;
  const line = byId('shown');
  // A screen reader reads out each change.
  if (line.textContent !== words) line.textContent = words;
}

function showHeadline(counts: FleetCounts, refused: number): void {
  const [mood, words] = fleetHeadline(counts, refused);
  const line = byId('headline');
  if (line.textContent !== words) line.textContent = words;
  line.className = mood;
  document.title = `${mood === 'bad' || mood === 'uneasy' ? '! ' : ''}Devices: ${words}`;
}

main();
