/**
 * `GET /openapi.json`: the routes table as an OpenAPI 3.1 document. A test compares it with the answers of the routes.
 * Used by routes.ts.
 */
import { LANGS } from '../destinations/destination.js';
import { PROBLEMS } from '../http/problem.js';
import {
  DESTINATION_NAME_CHARS_MAX,
  FORM_FIELD_BYTES_MAX,
  SMS_CHARS_MAX,
  SUBJECT_CHARS_MAX,
} from '../limits.js';
import { STATUSES } from '../message/message.js';
import { LINK_STATES, RELAY_STATES, STORAGE_STATES } from '../views.js';
import type { Route } from './routes.js';

const text = { type: 'string' };
const count = { type: 'integer', minimum: 0 };
const names = { type: 'array', items: text };
const instant = { type: 'string', format: 'date-time' };
const orNull = (schema: { type: string }) => ({ ...schema, type: [schema.type, 'null'] });
const destination = {
  ...text,
  description: 'email address; E.164 number for types 2 and 3; email address or placeholder for 4',
};
const messageType = { type: 'integer', enum: [1, 2, 3, 4], description: '1 email, 2 SMS, 3 phone, 4 push' };

/** An object of exactly these members; all but the optional ones are always there. */
function record(properties: Readonly<Record<string, object>>, optional: readonly string[] = []): object {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', properties, required, additionalProperties: false };
}

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
  oldestAgeMs: count,
  bytes: count,
  held: { type: 'boolean' },
};

const SCHEMAS = {
  Drafts: {
    type: 'array',
    minItems: 1,
    items: {
      type: 'object',
      required: ['type', 'destination'],
      description:
        'type 1 needs subject, plain or html; types 2 to 4 need message. Unknown fields are ignored and named in the answer; those of other mailers (to, cc, text, from, attachments …) are a 422.',
      properties: {
        type: messageType,
        destination,
        subject: { ...orNull(text), maxLength: SUBJECT_CHARS_MAX },
        plain: orNull(text),
        html: orNull(text),
        message: { ...orNull(text), description: `an SMS has at most ${SMS_CHARS_MAX} characters` },
        title: orNull(text),
        auto_open: orNull({ type: 'boolean' }),
        app_data: {},
      },
    },
  },
  Form: {
    type: 'object',
    required: ['destination'],
    description:
      'One email: needs subject, plain or html. A part with a filename, or with another Content-Type than text, is a file, under whatever name; text is UTF-8. Other fields are ignored and named in the answer.',
    properties: {
      type: { const: '1' },
      destination: { ...text, description: 'email address' },
      subject: { ...text, maxLength: SUBJECT_CHARS_MAX },
      plain: { ...text, maxLength: FORM_FIELD_BYTES_MAX },
      html: { ...text, maxLength: FORM_FIELD_BYTES_MAX },
      file: { type: 'array', items: { ...text, contentMediaType: 'application/octet-stream' } },
    },
  },
  Accepted: {
    type: 'array',
    items: record(
      {
        id: text,
        type: messageType,
        destination: text,
        status: { const: 'queued' },
        ignored: { type: 'array', items: text, minItems: 1 },
      },
      ['ignored'],
    ),
  },
  Message: record({
    id: text,
    type: messageType,
    destination: text,
    status: { type: 'string', enum: STATUSES },
    final: { type: 'boolean' },
    acceptedAt: instant,
    attempts: count,
    lastReply: orNull(text),
    nextAttemptAt: orNull(instant),
    attachments: { type: 'array', items: record({ name: text, type: text, size: count }) },
  }),
  Page: record({
    messages: { type: 'array', items: { $ref: '#/components/schemas/Message' } },
    next: orNull(text),
  }),
  DestinationFields: {
    type: 'object',
    required: Object.keys(destinationFields),
    description: 'Unknown fields are ignored and named in the answer. With PUT the id may be repeated.',
    properties: { id: count, ...destinationFields },
  },
  Destination: record(
    { id: count, ...destinationFields, ignored: { type: 'array', items: text, minItems: 1 } },
    ['ignored'],
  ),
  HiddenEntry: record({
    id: { type: 'string', pattern: '^hidden-[0-9a-f]{16}$' },
    reason: { ...text, description: 'why it is not understood' },
    entry: { description: "what stands in the cloud's document: anything" },
  }),
  OneDestination: {
    anyOf: [{ $ref: '#/components/schemas/Destination' }, { $ref: '#/components/schemas/HiddenEntry' }],
  },
  Destinations: { type: 'array', items: { $ref: '#/components/schemas/OneDestination' } },
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
    }),
    queue: record({
      ...queue,
      used: record({ messages: count, bytes: count, memoryBytes: count }),
      limits: record({ messages: count, bytes: count, memoryBytes: orNull(count) }),
      full: {
        type: 'boolean',
        description: 'true while a limit keeps the queue from accepting even a message of 1 KiB',
      },
      reason: orNull(text),
    }),
    destinations: record({
      count,
      hidden: { ...count, description: "entries of the cloud's document that are not understood" },
      synced: { type: 'boolean' },
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
    clock: record({ trusted: { type: 'boolean' } }),
    settings: record({
      state: { type: 'string', enum: ['ok', 'refused'] },
      since: instant,
      reason: orNull(text),
    }),
    version: text,
    uptimeMs: count,
  }),
  Problem: record(
    {
      type: { type: 'string', enum: Object.keys(PROBLEMS).map((code) => `urn:fieldpost:problem:${code}`) },
      title: text,
      status: { type: 'integer' },
      detail: text,
      errors: { type: 'array', items: record({ pointer: text, detail: text }) },
    },
    ['errors'],
  ),
  Description: { type: 'object' },
};

/** The name of a schema. */
export type SchemaName = keyof typeof SCHEMAS;

/** The problems of every route. */
const COMMON_PROBLEMS = [400, 401, 403, 408, 431, 500, 503];

/** The document, as JSON. */
export function describe(routes: readonly Route[], version: string): string {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const { method, path, access } = route;
    paths[path] ??= path.includes('{id}')
      ? { parameters: [{ ...parameter('path', 'id', text), required: true }] }
      : {};
    paths[path][method.toLowerCase()] = {
      ...operation(route),
      ...(access === 'anybody' && { security: [] }),
    };
  }
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'Fieldpost: local messaging on the device', version },
    security: [{}, { token: [] }],
    paths,
    components: { schemas: SCHEMAS, securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  });
}

function operation(route: Route): object {
  const parameters = [
    ...Object.entries(route.query ?? {}).map(([name, schema]) => parameter('query', name, schema)),
    ...Object.entries(route.headers ?? {}).map(([name, schema]) => parameter('header', name, schema)),
  ];
  const problems = [...COMMON_PROBLEMS, ...(route.problems ?? [])].sort((a, b) => a - b);
  return {
    summary: route.summary,
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: true,
        content: { ...content(route.body), ...(route.form && content(route.form, 'multipart/form-data')) },
      },
    }),
    responses: {
      [route.status]: { description: 'Done', ...(route.answer && { content: content(route.answer) }) },
      ...(route.cacheable && { 304: { description: 'The given ETag is still right' } }),
      ...Object.fromEntries(problems.map((status) => [status, problem(status)])),
    },
  };
}

function parameter(place: 'path' | 'query' | 'header', name: string, schema: object): object {
  return { name, in: place, schema };
}

function content(of: SchemaName | 'text/plain', type = 'application/json'): object {
  if (of === 'text/plain') return { 'text/plain': { schema: text } };
  return { [type]: { schema: { $ref: `#/components/schemas/${of}` } } };
}

function problem(status: number): object {
  const codes = Object.entries(PROBLEMS).filter(([, [of]]) => of === status);
  return {
    description: codes.map(([code, [, title]]) => `${code}: ${title}`).join('. '),
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  };
}
