/**
 * Holds requests and answers against the descriptions that the API and the reference cloud give of themselves
 * (`GET /openapi.json`). A request is checked only if it succeeds, because tests also send wrong ones.
 */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { describeCloud } from '../../src/cloud/openapi.js';
import { CLOUD_ROUTES } from '../../src/cloud/routes.js';
import { describe } from '../../src/device/api/openapi.js';
import { ROUTES } from '../../src/device/api/routes.js';

// biome-ignore lint/suspicious/noExplicitAny: a JSON document that is looked at where it is expected to be
type Json = any;

/** A request and its answer. Header names are in lower case. */
export interface Exchanged {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  readonly status: number;
  readonly answerHeaders: Readonly<Record<string, string>>;
  readonly answerBody: string;
}

/** Statuses that any path may answer for a method or path that is not described. */
const UNDESCRIBED = [400, 401, 403, 404, 405, 408, 413, 431, 503];
const PROBLEM = { $ref: '#/components/schemas/Problem' };

/** What is not as described, one sentence each. */
export type Check = (exchanged: Exchanged) => string[];

/** The descriptions, made when they are first needed. */
const checks: { api?: Check; cloud?: Check } = {};

/** Throws unless the exchange is as the API's own description says. */
export function assertDescribed(exchanged: Exchanged): void {
  checks.api ??= checkAgainst(JSON.parse(describe(ROUTES, '1.2.3')));
  throwFaults(exchanged, checks.api(exchanged));
}

/** Throws unless the exchange is as the description of the reference cloud says. */
export function assertCloudDescribed(exchanged: Exchanged): void {
  checks.cloud ??= checkAgainst(JSON.parse(describeCloud(CLOUD_ROUTES, '1.2.3')));
  throwFaults(exchanged, checks.cloud(exchanged));
}

function throwFaults(exchanged: Exchanged, faults: readonly string[]): void {
  if (faults.length === 0) return;
  const { method, path, status } = exchanged;
  throw new Error(`${method} ${path}, answered ${status}, is not as described: ${faults.join('; ')}`);
}

/** A check against this OpenAPI document. */
export function checkAgainst(document: Json): Check {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addFormat(
    'date-time',
    (text: string) => Number.isFinite(Date.parse(text)) && new Date(text).toISOString() === text,
  );
  ajv.addSchema({ $id: 'https://fieldpost.invalid/', components: document.components });
  const compiled = new Map<string, ValidateFunction>();

  /** What is wrong with `value`. */
  function faultsOf(schema: Json, value: unknown, name: string): string[] {
    const key = JSON.stringify(schema).replaceAll('"#/', '"https://fieldpost.invalid/#/');
    const validate = compiled.get(key) ?? ajv.compile(JSON.parse(key));
    compiled.set(key, validate);
    if (validate(value)) return [];
    return (validate.errors as ErrorObject[]).map(
      ({ instancePath, message, params }) => `${name}${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }

  function answerFaults({ status, method, answerHeaders, answerBody }: Exchanged, response: Json): string[] {
    const faults = Object.entries<Json>(response.headers ?? {}).flatMap(([name, header]) => {
      const value = answerHeaders[name.toLowerCase()];
      if (value === undefined) return header.required ? [`its header ${name} is missing`] : [];
      return faultsOf(header.schema, value, `header ${name}`);
    });
    const type = mediaType(answerHeaders['content-type']);
    if (response.content === undefined) {
      return type === '' && answerBody === '' ? faults : [...faults, `${status} has a body`];
    }
    const content = response.content[type];
    if (content === undefined) return [...faults, `${status} as ${type || 'nothing'} is not described`];
    if (method === 'HEAD') return faults;
    return [...faults, ...faultsOf(content.schema, parsed(type, answerBody), 'answer')];
  }

  function requestFaults(exchanged: Exchanged, item: Json, operation: Json): string[] {
    const { path, headers, body } = exchanged;
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const faults: string[] = [];
    for (const { name, in: place, schema, required } of [
      ...(item.parameters ?? []),
      ...(operation.parameters ?? []),
    ]) {
      if (place === 'path') continue;
      const texts = place === 'query' ? query.getAll(name) : [headers[name.toLowerCase()] ?? []].flat();
      if (texts.length === 0) faults.push(...(required ? [`${place} ${name} is missing`] : []));
      else faults.push(...faultsOf(schema, typed(texts, schema), `${place} ${name}`));
    }
    if (operation.requestBody === undefined) return faults;
    const type = mediaType(headers['content-type']);
    const content = operation.requestBody.content[type];
    if (content === undefined) return [...faults, `a body of the type ${type || '(none)'} is not described`];
    // The parts of a form are a matter of its own reader.
    if (type === 'multipart/form-data') return faults;
    return [...faults, ...faultsOf(content.schema, parsed(type, String(body)), 'request')];
  }

  return (exchanged) => {
    const { method, path, status } = exchanged;
    const item = itemOf(document, path.replace(/^https?:\/\/[^/]*/i, '').split('?')[0] ?? '');
    const operation = item?.[method === 'HEAD' ? 'get' : method.toLowerCase()];
    if (operation === undefined) {
      if (!UNDESCRIBED.includes(status)) return [`${status} is not described, nor is the call`];
      return answerFaults(exchanged, { content: { 'application/problem+json': { schema: PROBLEM } } });
    }
    const response = operation.responses[status];
    if (response === undefined) return [`${status} is not described`];
    const faults = answerFaults(exchanged, response);
    return status < 400 ? [...faults, ...requestFaults(exchanged, item, operation)] : faults;
  };
}

/** The path item of a path; undefined if there is none. */
function itemOf(document: Json, path: string): Json {
  const segments = path.split('/').map(decoded);
  const fits = (pattern: string) => {
    const parts = pattern.split('/');
    return (
      parts.length === segments.length && parts.every((part, i) => part === '{id}' || part === segments[i])
    );
  };
  const found = Object.keys(document.paths).filter(fits);
  return document.paths[found.find((pattern) => !pattern.includes('{id}')) ?? found[0] ?? ''];
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** `text/plain; charset=utf-8` → `text/plain` */
function mediaType(header = ''): string {
  return (header.split(';')[0] ?? '').trim().toLowerCase();
}

function parsed(type: string, body: string): unknown {
  // The API takes a byte order mark, as many programs on Windows write it.
  return /json$/.test(type) ? JSON.parse(body.replace(/^\ufeff/, '')) : body;
}

/** The values of a parameter as its schema has them. */
function typed(texts: readonly string[], { type }: Json): unknown {
  const [text = ''] = texts;
  if (type === 'array') return texts;
  if (type === 'integer') return Number(text);
  return type === 'boolean' ? text === 'true' : text;
}
