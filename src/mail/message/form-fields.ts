/**
 * The texts of a form as the fields that JSON would have (local-api §1). Pure.
 */
import type { JsonObject } from '../../base/json.js';
import type { FaultReport } from './field.js';

/** Lists of addresses: such a field may be in a form more than once. */
const LISTS: readonly string[] = ['to', 'cc', 'bcc', 'reply_to'];

/** The text fields of a mail. Without a file name they are text, whatever their Content-Type. */
export const TEXT_FIELDS: readonly string[] = [
  'type',
  'destination',
  ...LISTS,
  'from',
  'headers',
  'subject',
  'plain',
  'html',
  'priority',
  'expires_in_s',
];

/** The fields. Reports those that may be there once only, and those that cannot be read. */
export function fieldsOfForm(texts: ReadonlyMap<string, readonly string[]>, report: FaultReport): JsonObject {
  for (const name of TEXT_FIELDS) {
    const isOnce = !LISTS.includes(name);
    if (isOnce && (texts.get(name)?.length ?? 0) > 1) report(name, 'must not appear more than once');
  }
  // An assignment would lose a field named __proto__; fromEntries keeps it.
  return Object.fromEntries(
    [...texts].map(([name, all]): [string, unknown] => {
      const [text = ''] = all;
      // Browsers send an empty text for an input that nobody filled in.
      if (LISTS.includes(name)) return [name, all.filter((one) => one.trim() !== '')];
      if (name === 'headers') return [name, parseHeaders(text, report)];
      if (text === '' && (name === 'expires_in_s' || name === 'priority')) return [name, undefined];
      if (name === 'expires_in_s') return [name, /^\d{1,15}$/.test(text) ? Number(text) : text];
      return [name, text];
    }),
  );
}

function parseHeaders(text: string, report: FaultReport): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    report('headers', 'must be JSON, an object, like {"X-Site":"north"}');
    return undefined;
  }
}
