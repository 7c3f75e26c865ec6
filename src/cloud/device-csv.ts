/**
 * A list of devices as CSV (RFC 4180), for a spreadsheet. Pure.
 */
import type { Device } from './device-list.js';
import type { DeviceStatus } from './status.js';

/** A device as the answers of the cloud show it. Times are ISO 8601. */
export interface DeviceView extends Pick<Device, 'id' | 'name' | 'state' | 'destinations'>, DeviceStatus {
  readonly since: string | null;
  readonly lastHeartbeat: string | null;
}

type Value = string | number | null;

const COLUMNS: readonly (readonly [name: string, of: (device: DeviceView) => Value | undefined])[] = [
  ['id', ({ id }) => id],
  ['state', ({ state }) => state],
  ['since', ({ since }) => since],
  ['lastHeartbeat', ({ lastHeartbeat }) => lastHeartbeat],
  ['version', ({ version }) => version],
  ['queued', ({ queue }) => queue?.queued],
  ['deferred', ({ queue }) => queue?.deferred],
  ['failed', ({ queue }) => queue?.failed],
  ['relay', ({ relay }) => relay],
  ['link', ({ link }) => link],
  ['destinations', ({ destinations }) => destinations],
  ['name', ({ name }) => name],
];

/** The lines, each with its end: the names of the columns, then one for each device. */
export function csvOf(devices: readonly DeviceView[]): string[] {
  return [
    lineOf(COLUMNS.map(([name]) => name)),
    ...devices.map((device) => lineOf(COLUMNS.map(([, of]) => of(device)))),
  ];
}

function lineOf(values: readonly (Value | undefined)[]): string {
  return `${values.map((value) => cellOf(value ?? '')).join(',')}\r\n`;
}

function cellOf(value: string | number): string {
  if (typeof value === 'number') return String(value);
  // A spreadsheet takes such a text for a formula, and devices choose their texts.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
