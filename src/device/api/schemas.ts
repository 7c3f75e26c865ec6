/**
 * The schemas of what the API takes and answers.
 */

import { PROBLEMS } from '../../base/http/problem.js';
import { LANGS } from '../../base/langs.js';
import { DESTINATION_NAME_CHARS_MAX } from '../../base/limits.js';
import { LINK_STATES, RELAY_STATES, STORAGE_STATES } from '../../base/views.js';
import { MESSAGE_SCHEMAS, messageType } from './message-schemas.js';
import { count, flag, ignored, instant, listOf, names, orNull, record, ref, text } from './schema.js';

const destination = {
  ...text,
  description: 'email address; E.164 number for types 2 and 3; email address or placeholder for 4',
};

const destinationFields = {
  type: messageType,
  destination,
  lang: { type: 'string', enum: LANGS },
  name: { ...text, minLength: 1, maxLength: DESTINATION_NAME_CHARS_MAX },
};

const queue = {
  queued: count,
  sending: count,
  deferred: count,
  failed: count,
  forCloud: { ...count, description: 'SMS, calls and pushes among those that wait; all others are emails' },
  oldestAgeMs: count,
  bytes: count,
  held: flag,
};

/** A refusal (RFC 9457). */
export const PROBLEM = record(
  {
    type: { type: 'string', enum: Object.keys(PROBLEMS).map((code) => `urn:fieldpost:problem:${code}`) },
    title: text,
    status: { type: 'integer' },
    detail: text,
    errors: listOf(record({ pointer: text, detail: text })),
  },
  ['errors'],
);

export const SCHEMAS = {
  ...MESSAGE_SCHEMAS,
  DestinationFields: {
    type: 'object',
    required: Object.keys(destinationFields),
    description: 'Unknown fields are ignored and named in the answer. With PUT the id may be repeated.',
    properties: { id: count, ...destinationFields },
  },
  Destination: record({ id: count, ...destinationFields, ignored }, ['ignored']),
  HiddenEntry: record({
    id: { type: 'string', pattern: '^hidden-[0-9a-f]{16}$' },
    reason: { ...text, description: 'why it is not understood' },
    entry: { description: "what stands in the cloud's document: anything" },
  }),
  OneDestination: {
    anyOf: [ref('Destination'), ref('HiddenEntry')],
  },
  Destinations: listOf(ref('OneDestination')),
  Queue: record(queue),
  State: record({
    link: record({
      state: { type: 'string', enum: LINK_STATES },
      since: instant,
      lastHeartbeat: orNull(instant),
      reason: orNull(text),
      history: {
        type: 'array',
        items: record({ state: text, since: instant, durationMs: count, reason: orNull(text) }),
      },
    }),
    relay: record({
      state: { type: 'string', enum: RELAY_STATES },
      since: instant,
      reason: orNull(text),
      nextTryAt: {
        ...orNull(instant),
        description: 'when a relay that is failing or refusing is tried again; null during a try',
      },
    }),
    queue: record({
      ...queue,
      used: record({ messages: count, bytes: count, memoryBytes: count }),
      limits: {
        ...record({ messages: count, bytes: count, memoryBytes: orNull(count) }),
        description: 'of each, 5 % are kept for messages with the priority high',
      },
      full: {
        ...flag,
        description: 'true while a limit keeps the queue from accepting even an ordinary message of 1 KiB',
      },
      reason: orNull(text),
    }),
    destinations: record({
      count,
      hidden: { ...count, description: "entries of the cloud's document that are not understood" },
      synced: flag,
      lastSync: orNull(instant),
      reason: orNull(text),
    }),
    storage: record({
      state: { type: 'string', enum: STORAGE_STATES },
      reason: orNull(text),
      freeBytes: orNull(count),
      damaged: { ...count, description: 'what could not be read, and files of a newer version' },
      newer: { ...names, description: 'files that a newer version wrote; they are put aside' },
      unusable: {
        ...names,
        description: 'names in the state directory that can be neither read nor renamed',
      },
    }),
    clock: record({
      trusted: flag,
      now: { ...instant, description: 'what the clock of the device says: `since` is by the same clock' },
    }),
    settings: record({
      state: { type: 'string', enum: ['ok', 'refused'] },
      since: instant,
      reason: orNull(text),
    }),
    version: text,
    uptimeMs: count,
  }),
  Problem: PROBLEM,
  Description: { type: 'object' },
};

/** The name of a schema. */
export type SchemaName = keyof typeof SCHEMAS;
