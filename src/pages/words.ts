/**
 * Words of the pages: times, in the time zone of the browser, kinds of messages, and faults of fields. Pure.
 */
import { DAY_MS } from '../base/limits.js';

/** The names of the types 1 to 4 of messages and destinations. */
export const TYPES = ['Email', 'SMS', 'Phone call', 'Push message'];

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `14:02` within the last day and later today, `20 Nov 14:02` within this year, else `20 Nov 2025 14:02`. Other text stays as it is. */
export function clockTime(iso: string, nowMs: number): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  const agoMs = nowMs - at.getTime();
  const isNear = agoMs < 0 ? at.toDateString() === new Date(nowMs).toDateString() : agoMs < DAY_MS;
  if (isNear) return time;
  const year = at.getFullYear() === new Date(nowMs).getFullYear() ? '' : ` ${at.getFullYear()}`;
  return `${at.getDate()} ${MONTHS[at.getMonth()]}${year} ${time}`;
}

/** The date, and the time to the second: `20 Nov 2026 14:02:10`. */
export function exactTime(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':');
  return `${at.getDate()} ${MONTHS[at.getMonth()]} ${at.getFullYear()} ${time}`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** A fault of one field, as a problem of the API names it. */
export interface FieldFault {
  readonly pointer: string;
  readonly detail: string;
}

/** The words of the fault of the field `name`; empty without one. A pointer may name a member within the field. */
export function faultOf(name: string, faults: readonly FieldFault[]): string {
  return faults
    .filter(({ pointer }) => pointer === name || pointer === `/${name}` || pointer.startsWith(`/${name}/`))
    .map(({ detail }) => detail)
    .join('; ');
}
