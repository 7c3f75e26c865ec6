/**
 * Points in time for a reader. Pure.
 */

/** The time as `toISOString` gives it, which loads the local time zone: 1.1 MiB that UTC does not need. */
export function isoOf(wallMs: number): string {
  const date = new Date(wallMs);
  const year = date.getUTCFullYear();
  if (!(year >= 0 && year <= 9999)) return date.toISOString();
  const day = `${digits(year, 4)}-${digits(date.getUTCMonth() + 1)}-${digits(date.getUTCDate())}`;
  const time = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()].map((part) => digits(part));
  return `${day}T${time.join(':')}.${digits(date.getUTCMilliseconds(), 3)}Z`;
}

function digits(value: number, count = 2): string {
  return String(value).padStart(count, '0');
}
