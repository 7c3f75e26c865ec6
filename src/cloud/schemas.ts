/**
 * The schemas of what the reference cloud takes and answers. Those of the contract allow more members than they name, because
 * later versions add some.
 */

import { LANGS } from '../base/langs.js';
import {
  DAY_MS,
  DESTINATION_NAME_CHARS_MAX,
  IDEMPOTENCY_KEY_CHARS_MAX,
  SMS_CHARS_MAX,
} from '../base/limits.js';
import { LINK_STATES, RELAY_STATES } from '../base/views.js';
import { count, instant, listOf, orNull, record, ref, text } from '../device/api/schema.js';
import { PROBLEM } from '../device/api/schemas.js';
import { BOOT_ID_CHARS_MAX } from './calls.js';
import { DEVICE_STATES } from './device-list.js';
import { SAID } from './presence.js';

/** The id of a device. */
export const deviceIdSchema = { ...text, pattern: '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$' };

const bool = { type: 'boolean' };
const mistake = record({ pointer: text, detail: text });
const depth = { queued: count, deferred: count, failed: count };

/** An object of at least the required members. */
function open(properties: Readonly<Record<string, object>>, required: readonly string[] = []) {
  return { type: 'object', properties, ...(required.length > 0 && { required }) };
}

export const CLOUD_SCHEMAS = {
  Heartbeat: open(
    {
      bootId: {
        description: `text of at most ${BOOT_ID_CHARS_MAX} characters: the same until the device boots anew`,
      },
      sequence: { description: 'counts the heartbeats since the daemon started, from 1' },
      uptimeMs: {
        description: 'number: since the boot. A heartbeat that arrives after a later one is ignored',
      },
      state: {
        ...text,
        enum: SAID,
        description: 'stopping: a planned stop. moved: it goes to another cloud, or to none',
      },
      intervalMs: {
        ...orNull(count),
        maximum: DAY_MS,
        description: 'its own interval: it is not offline before two and a half of these',
      },
      queue: { description: '{queued, deferred, failed}: its messages, by status' },
      version: { description: 'the version of the program of the device' },
      relay: { description: `the state of its relays: ${RELAY_STATES.join(', ')}` },
      link: { description: `the state of its link before this heartbeat: ${LINK_STATES.join(', ')}` },
    },
    ['state'],
  ),
  HeartbeatAnswer: open({
    destinations: {
      ...text,
      description: 'the ETag of the document, quotes included; left out if there is none',
    },
    heartbeatMs: {
      ...count,
      description: 'the interval that the cloud asks for; the device never shortens its own',
    },
    serverTime: { ...instant, description: 'the clock of the cloud; left out if it may be wrong' },
  }),
  Document: open(
    {
      destinations: listOf({
        anyOf: [
          ref('Entry'),
          { description: 'what the cloud does not understand: it keeps it, and gives it back unchanged' },
        ],
      }),
      name: { description: 'text: how people call the device' },
      site: { description: 'text: where it is' },
      contact: { description: 'text: whom to call' },
      fieldpost: { description: '{lineage, counter, nonce}: of the device, kept like all members' },
    },
    ['destinations'],
  ),
  Entry: open(
    {
      uid: { ...text, description: 'a UUID' },
      type: { type: 'integer', enum: [1, 2, 3, 4], description: '1 email, 2 SMS, 3 phone, 4 push' },
      destination: { ...text, description: 'email address, E.164 number, or placeholder for 4' },
      lang: { ...text, enum: LANGS },
      name: { ...text, minLength: 1, maxLength: DESTINATION_NAME_CHARS_MAX },
    },
    ['uid', 'type', 'destination', 'lang', 'name'],
  ),
  Misunderstood: open({ misunderstood: listOf(mistake) }),
  Message: open(
    {
      id: { ...text, maxLength: IDEMPOTENCY_KEY_CHARS_MAX, description: 'equal to the Idempotency-Key' },
      type: { type: 'integer', enum: [2, 3, 4], description: '2 SMS, 3 phone, 4 push' },
      destination: { ...text, description: 'E.164 number; for 4 an email address, or a placeholder' },
      message: { ...text, minLength: 1, description: `an SMS has at most ${SMS_CHARS_MAX} characters` },
      title: orNull(text),
      auto_open: orNull(bool),
      app_data: { description: 'any JSON, at most 4 KiB' },
    },
    ['id', 'type', 'destination', 'message'],
  ),
  Taken: open({ id: { ...text, description: 'that of the message' } }, ['id']),
  Device: record({
    id: deviceIdSchema,
    name: { ...orNull(text), description: 'the name in its document' },
    state: {
      ...text,
      enum: DEVICE_STATES,
      description: 'unheard: it has a document or a key, and has never called',
    },
    since: { ...orNull(instant), description: 'when it came into this state; null: not known' },
    lastHeartbeat: orNull(instant),
    destinations: { ...orNull(count), description: 'entries of its document; null: it has none' },
    version: orNull(text),
    queue: { ...orNull(record(depth)), description: 'messages by status, as it last reported' },
    relay: { ...orNull(text), description: `${RELAY_STATES.join(', ')}, or a word of a later version` },
    link: {
      ...orNull(text),
      description: `before its last heartbeat: ${LINK_STATES.join(', ')}, or a word of a later version`,
    },
  }),
  Devices: record({
    devices: listOf(ref('Device')),
    next: { ...orNull(text), description: 'the `after` of the next page; null: there is none' },
    total: { ...count, description: 'devices that fit the filter, on all pages' },
    counts: {
      ...record(Object.fromEntries([...DEVICE_STATES, 'attention'].map((name) => [name, count]))),
      description:
        'all devices by state; attention: those with a failing or refusing relay, or failed messages',
    },
    refused: { ...count, description: 'calls of new devices that were refused, because there are too many' },
  }),
  DeviceKey: record({
    id: deviceIdSchema,
    key: { ...text, description: 'shown only here' },
  }),
  Problem: PROBLEM,
  Description: { type: 'object' },
};

/** The name of a schema. */
export type CloudSchemaName = keyof typeof CLOUD_SCHEMAS;
