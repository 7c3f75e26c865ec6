/**
 * Holds requests and answers against build/openapi, the descriptions of the API and of the reference cloud. A request is
 * checked only if it succeeds, because tests also send wrong ones. An answer may have no member and no header that is not
 * described.
 */
import { readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';

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
const TEXT_HEADER = { schema: { type: 'string' } };
const PROBLEM = { $ref: '#/components/schemas/Problem' };
/** Parameters that tests send because no service knows them. */
const STRANGE_PARAMETERS = /^(?:foo|other|x)$/;
/** Headers that say nothing of a call. */
const COMMON_HEADERS =
  /^(?:content-(?:encoding|type|length|disposition|security-policy)|date|connection|keep-alive|x-content-type-options|vary|cache-control|referrer-policy|allow)$/;

/** What is not as described, one sentence each. */
export type Check = (exchanged: Exchanged) => string[];

/** The checks, made when they are first needed. */
const checks: { api?: Check; cloud?: Check } = {};

/** A document of build/openapi. */
export function described(name: 'fieldpost' | 'fieldpost-cloud'): Json {
  return JSON.parse(readFileSync(`build/openapi/${name}.json`, 'utf8'));
}

/** The operations of a document; `name` is `POST /path`. */
export function operationsOf(document: Json): { readonly name: string; readonly operation: Json }[] {
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item)
      .filter(([key]) => key !== 'parameters')
      .map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
}

/** Throws unless the exchange is as the description of the API says. */
export function assertDescribed(exchanged: Exchanged): void {
  checks.api ??= checkAgainst(described('fieldpost'));
  throwFaults(exchanged, checks.api(exchanged));
}

/** Throws unless the exchange is as the description of the reference cloud says. */
export function assertCloudDescribed(exchanged: Exchanged): void {
  checks.cloud ??= checkAgainst(described('fieldpost-cloud'));
  throwFaults(exchanged, checks.cloud(exchanged));
}

function throwFaults(exchanged: Exchanged, faults: readonly string[]): void {
  if (faults.length === 0) return;
  const { method, path, status } = exchanged;
  throw new Error(`${method} ${path}, answered ${status}, is not as described: ${faults.join('; ')}`);
}

type Side = 'request' | 'answer';

/** Gives what is wrong with a value, a part of a request or of an answer, by its schema in this document. */
function validator(document: Json): (schema: Json, value: unknown, name: string, side: Side) => string[] {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addFormat(
    'date-time',
    (text: string) => Number.isFinite(Date.parse(text)) && new Date(text).toISOString() === text,
  );
  const { schemas } = document.components;
  ajv.addSchema({ $id: 'https://request.invalid/', components: { schemas } });
  ajv.addSchema({ $id: 'https://answer.invalid/', components: { schemas: closed(schemas) } });
  const compiled = new Map<string, ValidateFunction>();
  return (schema, value, name, side) => {
    const key = JSON.stringify(schema).replaceAll('"#/', `"https://${side}.invalid/#/`);
    const validate = compiled.get(key) ?? ajv.compile(JSON.parse(key));
    compiled.set(key, validate);
    if (validate(value)) return [];
    return (validate.errors as ErrorObject[]).map(
      ({ instancePath, message, params }) => `${name}${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  };
}

/** What is wrong with the examples in a document, and how many there are. */
export function faultsOfExamples(document: Json): { readonly faults: string[]; readonly count: number } {
  const faultsOf = validator(document);
  const faults: string[] = [];
  let count = 0;
  const walk = (part: Json, place: string, side: Side): void => {
    if (typeof part !== 'object' || part === null) return;
    const { example, examples = {}, schema = part } = part;
    const named = Object.values<Json>(examples).map((one) => (Array.isArray(examples) ? one : one.value));
    for (const value of [...(example === undefined ? [] : [example]), ...named]) {
      faults.push(...faultsOf(schema, value, place, side));
      count++;
    }
    for (const [key, inner] of Object.entries<Json>(part)) {
      if (key !== 'example' && key !== 'examples')
        walk(inner, `${place}/${key}`, key === 'requestBody' ? 'request' : side);
    }
  };
  walk(document, '', 'answer');
  return { faults, count };
}

/** A check against this OpenAPI document. */
export function checkAgainst(document: Json): Check {
  const faultsOf = validator(document);

  /** What a reference leads to; the value itself if it is none. */
  function resolved(value: Json): Json {
    if (value?.$ref === undefined) return value;
    const steps: string[] = value.$ref.split('/').slice(1);
    return steps.reduce((at, step) => at[step], document);
  }

  function headerFaults(given: Exchanged['answerHeaders'], headers: Json): string[] {
    const names = Object.keys(headers).map((name) => name.toLowerCase());
    const others = Object.keys(given).filter((name) => !names.includes(name) && !COMMON_HEADERS.test(name));
    const faults = Object.entries(headers).flatMap(([name, reference]) => {
      const { required, schema } = resolved(reference);
      const value = given[name.toLowerCase()];
      if (value === undefined) return required ? [`its header ${name} is missing`] : [];
      return faultsOf(schema, value, `header ${name}`, 'answer');
    });
    return [...faults, ...others.map((name) => `its header ${name} is not described`)];
  }

  function answerFaults({ status, method, answerHeaders, answerBody }: Exchanged, response: Json): string[] {
    const faults = headerFaults(answerHeaders, response.headers ?? {});
    const type = mediaType(answerHeaders['content-type']);
    if (response.content === undefined) {
      return type === '' && answerBody === '' ? faults : [...faults, `${status} has a body`];
    }
    const content = response.content[type];
    if (content === undefined) return [...faults, `${status} as ${type || 'nothing'} is not described`];
    if (method === 'HEAD') return faults;
    return [...faults, ...faultsOf(content.schema, parsed(type, answerBody), 'answer', 'answer')];
  }

  function requestFaults(exchanged: Exchanged, item: Json, operation: Json): string[] {
    const { path, headers, body } = exchanged;
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const faults: string[] = [];
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
    for (const name of query.keys()) {
      const isKnown = STRANGE_PARAMETERS.test(name) || parameters.some((one) => one.name === name);
      if (!isKnown) faults.push(`query ${name} is not described`);
    }
    for (const { name, in: place, schema, required } of parameters) {
      if (place === 'path') continue;
      const texts = place === 'query' ? query.getAll(name) : [headers[name.toLowerCase()] ?? []].flat();
      if (texts.length === 0) faults.push(...(required ? [`${place} ${name} is missing`] : []));
      else faults.push(...faultsOf(schema, typed(texts, schema), `${place} ${name}`, 'request'));
    }
    if (operation.requestBody === undefined) return faults;
    const type = mediaType(headers['content-type']);
    const content = operation.requestBody.content[type];
    if (content === undefined) return [...faults, `a body of the type ${type || '(none)'} is not described`];
    // The parts of a form are a matter of its own reader.
    if (type === 'multipart/form-data') return faults;
    return [...faults, ...faultsOf(content.schema, parsed(type, String(body)), 'request', 'request')];
  }

  return (exchanged) => {
    const { method, path, status } = exchanged;
    const item = itemOf(document, path.replace(/^https?:\/\/[^/]*/i, '').split('?')[0] ?? '');
    const operation = item?.[method === 'HEAD' ? 'get' : method.toLowerCase()];
    if (operation === undefined) {
      if (!UNDESCRIBED.includes(status)) return [`${status} is not described, nor is the call`];
      const headers = { 'WWW-Authenticate': TEXT_HEADER, 'Retry-After': TEXT_HEADER };
      return answerFaults(exchanged, {
        headers,
        content: { 'application/problem+json': { schema: PROBLEM } },
      });
    }
    const response = resolved(operation.responses[status]);
    if (response === undefined) return [`${status} is not described`];
    const faults = answerFaults(exchanged, response);
    return status < 400 ? [...faults, ...requestFaults(exchanged, item, operation)] : faults;
  };
}

/** The schemas, with no member in an object but those that they name, unless they say otherwise. */
function closed(schema: Json): Json {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(closed);
  const inner = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  const isClosed = schema.type !== undefined && schema.properties !== undefined;
  return { ...(isClosed && { additionalProperties: false }), ...inner };
}

/** The path item of a path; undefined if there is none. */
function itemOf(document: Json, path: string): Json {
  const segments = path.split('/').map(decoded);
  const fits = (pattern: string) => {
    const parts = pattern.split('/');
    return (
      parts.length === segments.length &&
      parts.every((part, i) => part.startsWith('{') || part === segments[i])
    );
  };
  const found = Object.keys(document.paths).filter(fits);
  return document.paths[found.find((pattern) => !pattern.includes('{')) ?? found[0] ?? ''];
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
