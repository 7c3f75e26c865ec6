/**
 * An entry of the address book: somebody to notify when this device goes offline. The api takes its fields, the
 * cloud's document holds entries. Values and their rules only.
 */
import { type Fault, FieldpostError } from '../../base/errors.js';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { LANGS, type Lang } from '../../base/langs.js';
import { DESTINATION_NAME_CHARS_MAX } from '../../base/limits.js';
import { hasControl, hasLoneSurrogate } from '../../base/text.js';
import { isMessageType, type MessageType, recipientFault, TYPE_FAULT } from '../message/message.js';
import { RULES, type RuleFields, ruleFaults } from './rules.js';

/** The members that a client must give. */
export interface Fields {
  readonly type: MessageType;
  /** Its form depends on the type (message/message.ts). */
  readonly destination: string;
  readonly lang: Lang;
  readonly name: string;
}

/**
 * What a client gives. PUT replaces the four members that are required. A rule that is left out stays as it is, and null
 * removes it: programs that know only the four members must not remove the rules that a person has set elsewhere.
 */
export interface Edit extends Fields, RuleFields {}

/** A destination in the cloud's document. Unknown members are kept. */
export interface Entry extends Fields {
  /** A UUID, made where the destination was created. */
  readonly uid: string;
  readonly [member: string]: unknown;
}

/** A destination as clients on the device see it, with the rules that it has. */
export interface Destination extends Edit {
  /** This device's own number: it never changes and is never used again. */
  readonly id: number;
  /** When a drill was last confirmed. The cloud sets it. */
  readonly confirmedAt?: string;
  /** One sentence: when this person is told. */
  readonly plan: string;
}

/** The names of the members of Fields, which are required. */
export const FIELDS: readonly string[] = ['type', 'destination', 'lang', 'name'];
/** What answers have beside the fields. It may be sent back, and has no effect. */
const ANSWERED = ['id', 'confirmedAt', 'plan'];
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The fields of a parsed request body, and the names of other members. `id`: the id in the path, which the body may
 * repeat; null for a new one. Throws malformed-request if the body is not an object, and invalid with the faults of all
 * fields.
 */
export function parseFields(body: unknown, id: number | null): { fields: Edit; ignored: string[] } {
  if (!isJsonObject(body)) {
    throw new FieldpostError('malformed-request', 'The body must be a JSON object, a destination', {
      hint: 'like {"type":1,"destination":"john@example.com","lang":"en","name":"John"}',
    });
  }
  const faults = [...faultsOf(body), ...ruleFaults(body)];
  if (id !== null && (body.id ?? id) !== id) {
    faults.unshift({ pointer: '/id', detail: `must be ${id}, as in the path, or be left out` });
  }
  if (faults.length > 0) {
    const count = faults.length === 1 ? 'One fault' : `${faults.length} faults`;
    throw new FieldpostError('invalid', `${count} found, nothing was changed; see errors`, { faults });
  }
  const own = [...FIELDS, ...RULES].filter((member) => Object.hasOwn(body, member));
  const known = id === null ? own : [...own, ...ANSWERED];
  const ignored = Object.keys(body).filter((member) => !known.includes(member));
  return {
    fields: Object.fromEntries(own.map((member) => [member, body[member]])) as unknown as Edit,
    ignored,
  };
}

/** The faults of the four required fields; other members are not checked. */
export function faultsOf(fields: JsonObject): Fault[] {
  const { type, destination, lang, name } = fields;
  const faults: Fault[] = [];
  const report = (field: string, detail: string | null) => {
    if (detail !== null) faults.push({ pointer: `/${field}`, detail });
  };
  if (isMessageType(type)) report('destination', recipientFault(type, destination));
  else {
    report('type', TYPE_FAULT);
    // The form of a destination depends on the type, but it is always text.
    if (typeof destination !== 'string') report('destination', 'is required and must be a string');
  }
  if (!(LANGS as readonly unknown[]).includes(lang)) report('lang', `must be one of ${LANGS.join(', ')}`);
  report('name', nameFault(name));
  return faults;
}

function nameFault(name: unknown): string | null {
  if (typeof name !== 'string' || name === '') return 'is required and must be a string, not empty';
  if ([...name].length > DESTINATION_NAME_CHARS_MAX) {
    return `must not be longer than ${DESTINATION_NAME_CHARS_MAX} characters`;
  }
  if (hasControl(name)) return 'must not contain line breaks or other control characters';
  if (hasLoneSurrogate(name)) return 'contains half a surrogate pair, which is not a character';
  return null;
}

/** True for a value of the document without any fault. Only entries are shown and notified. */
export function isEntry(value: unknown): value is Entry {
  return uidOf(value) !== null && faultsOf(value as Entry).length === 0;
}

/** Why a value of the document is not shown, in words. */
export function whyHidden(value: unknown): string {
  if (!isJsonObject(value)) return 'is not an object';
  if (uidOf(value) === null) return 'has no uid, or one that is not a UUID';
  const [fault] = faultsOf(value);
  return fault ? `${fault.pointer.slice(1)} ${fault.detail}` : 'has the uid of another entry';
}

/** The uid of a value of the document; null without one that is a UUID. */
export function uidOf(value: unknown): string | null {
  return isJsonObject(value) && typeof value.uid === 'string' && UUID.test(value.uid) ? value.uid : null;
}

/** Equal for two destinations if and only if both reach the same place. */
export function targetOf({ type, destination }: Pick<Fields, 'type' | 'destination'>): string {
  // Only an email address has an @, and of it only the domain is the same in any case (RFC 5321 §2.4).
  const at = destination.lastIndexOf('@') + 1;
  return `${type} ${destination.slice(0, at)}${at > 0 ? destination.slice(at).toLowerCase() : destination}`;
}
