/**
 * Points in time for the reader of a page, in the time zone of the browser. Pure.
 */
import { DAY_MS } from '../base/limits.js';

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `14:02` within the last day, `20 Nov 14:02` within this year, else `20 Nov 2025 14:02`. Other text stays as it is. */
export function clockTime(iso: string, nowMs: number): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  const agoMs = nowMs - at.getTime();
  if (agoMs >= 0 && agoMs < DAY_MS) return time;
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
