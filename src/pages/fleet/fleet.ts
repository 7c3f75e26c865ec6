/**
 * The program of the operator's page (GET / of the reference cloud): lists the devices again and again.
 */
import { counted } from '../../sizes.js';
import type { Ask } from '../calls.js';
import { byId, html, showList } from '../dom.js';
import { keepFresh } from '../live.js';
import { deviceItem, fillDevice } from './device-item.js';
import { DEVICE_STATES, type FleetDevice, fleetHeadline, selected } from './devices.js';

/** The list of very many devices is long. */
const REFRESH_MS = 5000;
/** So many devices are shown at first, and so many more each time. */
const SHOWN = 100;

function main(): void {
  // Without a keys file any key opens every call, but there must be one.
  const live = keepFresh('the cloud', read, { everyMs: REFRESH_MS, token: 'any' });
  const search = byId<HTMLInputElement>('search');
  const state = byId<HTMLSelectElement>('state');
  const more = byId('more');
  let devices: readonly FleetDevice[] = [];
  let limit = SHOWN;
  state.append(html('option', { value: '' }, 'any'), ...DEVICE_STATES.map((one) => html('option', {}, one)));

  async function read(ask: Ask): Promise<void> {
    const { body } = await ask('GET', '/devices');
    devices = body.devices;
    showHeadline(devices);
    const refused = byId('refused');
    refused.hidden = body.refused === 0;
    refused.textContent = `There are too many devices: ${counted(body.refused, 'call')} of others refused.`;
    showDevices();
    await fillOpen();
  }

  function showDevices(): void {
    const wanted = selected(devices, search.value, state.value);
    const shown = wanted
      .slice(0, limit)
      .map(({ id, state: of, since }) => ({ id, state: of, since: since ?? null }));
    showList(
      byId('devices'),
      shown,
      ({ id }) => id,
      (device, before) => deviceItem(device, before, () => void fillOpen().catch(() => live.refresh())),
    );
    more.hidden = wanted.length <= limit;
    showCount(shown.length, wanted.length, devices.length);
  }

  /** Asks for whom the cloud would tell about each open device. */
  async function fillOpen(): Promise<void> {
    for (const item of byId('devices').querySelectorAll<HTMLElement>('li:has(details[open])')) {
      const device = devices.find(({ id }) => id === item.dataset.key);
      const place = item.querySelector('[data-told]');
      if (device !== undefined && place !== null) await fillDevice(place, device, live);
    }
  }

  const again = () => {
    limit = SHOWN;
    showDevices();
  };
  search.addEventListener('input', again);
  state.addEventListener('change', again);
  more.addEventListener('click', () => {
    limit += SHOWN;
    showDevices();
  });
}

/** Shows how many of the devices are in the list, unless all are. */
function showCount(shown: number, wanted: number, all: number): void {
  const words = shown === all ? '' : `${shown} of ${counted(wanted, 'device')} shown`;
  const line = byId('shown');
  // A screen reader reads out each change.
  if (line.textContent !== words) line.textContent = words;
}

function showHeadline(devices: readonly FleetDevice[]): void {
  const [mood, words] = fleetHeadline(devices);
  const line = byId('headline');
  if (line.textContent !== words) line.textContent = words;
  line.className = mood;
  document.title = `${mood === 'bad' ? '! ' : ''}Devices: ${words}`;
}

main();
