/**
 * The field `headers` of a mail: headers that a client may add, and no other. Pure.
 */
import { Buffer } from 'node:buffer';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { hasControl, hasLoneSurrogate, oneSpaced } from '../../base/text.js';
import { HEADER_NAME_CHARS_MAX, HEADER_VALUE_OCTETS_MAX, OWN_HEADERS_MAX } from '../mail-limits.js';
import { type FaultReport, isGiven } from './field.js';
import type { MailHead } from './message.js';

const NAME = /^(?:X-[!-9;-~]+|References|In-Reply-To|List-[!-9;-~]+|Auto-Submitted)$/i;
const NAMES_IN_WORDS = 'X-…, References, In-Reply-To, List-… or Auto-Submitted';

/** The headers, in their order. Faults are reported. */
export function ownHeaders({ headers }: JsonObject, report: FaultReport): NonNullable<MailHead['headers']> {
  if (!isGiven(headers)) return [];
  if (!isJsonObject(headers)) {
    report('headers', 'must be an object, like {"X-Site":"north"}');
    return [];
  }
  const entries = Object.entries(headers);
  if (entries.length > OWN_HEADERS_MAX) {
    report('headers', `must not have more than ${OWN_HEADERS_MAX} members`);
    return [];
  }
  const seen = new Set<string>();
  return entries.flatMap(([name, value]) => {
    const fault = seen.has(name.toLowerCase()) ? 'is there twice' : nameFault(name);
    seen.add(name.toLowerCase());
    const fail = (detail: string) => {
      report('headers', detail, name);
      return [];
    };
    if (fault !== null) return fail(fault);
    // What is no string has no text: to make one of it may throw.
    if (typeof value !== 'string') return fail('must be a string');
    const badText = valueFault(name, value);
    return badText === null ? [[name, isText(name) ? value : oneSpaced(value)]] : fail(badText);
  });
}

function nameFault(name: string): string | null {
  if (name.length > HEADER_NAME_CHARS_MAX)
    return `has a name longer than ${HEADER_NAME_CHARS_MAX} characters`;
  return NAME.test(name) ? null : `is not among the allowed headers: ${NAMES_IN_WORDS}`;
}

function valueFault(name: string, value: string): string | null {
  if (value.trim() === '') return 'must not be empty';
  if (hasControl(value)) return 'must not contain line breaks or other control characters';
  if (hasLoneSurrogate(value)) return 'contains half a surrogate pair, which is not a character';
  if (Buffer.byteLength(value) > HEADER_VALUE_OCTETS_MAX) {
    return `must not be longer than ${HEADER_VALUE_OCTETS_MAX} octets`;
  }
  return isText(name) || /^[ -~]+$/.test(value) ? null : 'must be ASCII';
}

/** True for a header that is text for people. The others have a syntax, which encoded words would break. */
function isText(name: string): boolean {
  return /^x-/i.test(name);
}
