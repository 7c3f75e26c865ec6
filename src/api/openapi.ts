/**
 * `GET /openapi.json`: the routes table as an OpenAPI 3.1 document. The tests compare it with every answer of the API.
 * Used by routes.ts.
 */
import { PROBLEMS } from '../http/problem.js';
import type { Route } from './routes.js';
import { ref, text } from './schema.js';
import { SCHEMAS } from './schemas.js';

const TITLE = 'Fieldpost: local messaging on the device';
/** The default of FIELDPOST_LISTEN. */
const SERVER = 'http://127.0.0.1:43770';

/** The groups of operations, by how their paths begin. */
const TAGS = [
  {
    name: 'messages',
    of: '/api/internal/messages',
    description: 'Send messages, and learn what became of them.',
  },
  { name: 'queue', of: '/api/internal/queue/', description: 'Control the delivery of all messages.' },
  {
    name: 'destinations',
    of: '/api/internal/offline_notification_destinations',
    description: 'The people to notify when this device goes offline.',
  },
  { name: 'daemon', of: '/', description: 'The daemon itself.' },
];

/** The problems of every route. */
const COMMON_PROBLEMS = [400, 401, 403, 408, 431, 500, 503];

/** A header of an answer. */
export interface AnswerHeader {
  readonly description: string;
  /** True: it is always there. */
  readonly required?: true;
}

const RETRY_AFTER = { 'Retry-After': { description: 'seconds', required: true } } as const;
/** The headers of problems. */
const PROBLEM_HEADERS: Readonly<Record<number, Readonly<Record<string, AnswerHeader>>>> = {
  401: { 'WWW-Authenticate': { description: 'Bearer', required: true } },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
  507: RETRY_AFTER,
};

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
    info: {
      title: TITLE,
      version,
      description:
        'Programs on the device post messages, and the daemon delivers them when the link is back.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: SERVER, description: 'the default of FIELDPOST_LISTEN' }],
    tags: TAGS.map(({ name, description }) => ({ name, description })),
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
  const { body = {}, answer, answerHeaders = {} } = route;
  const bodies = Object.entries(body).map(([type, of]) => [type, { schema: ref(of) }]);
  return {
    operationId: route.name,
    summary: route.summary,
    tags: [TAGS.find(({ of }) => route.path.startsWith(of))?.name],
    ...(parameters.length > 0 && { parameters }),
    ...(bodies.length > 0 && { requestBody: { required: true, content: Object.fromEntries(bodies) } }),
    responses: {
      [route.status]: { description: 'Done', ...headers(answerHeaders), ...(answer && content(answer)) },
      ...(route.cacheable && {
        304: { description: 'The given ETag is still right', ...headers(answerHeaders) },
      }),
      ...Object.fromEntries(problems.map((status) => [status, problem(status)])),
    },
  };
}

function parameter(place: 'path' | 'query' | 'header', name: string, schema: object): object {
  return { name, in: place, schema };
}

function headers(of: Readonly<Record<string, AnswerHeader>>): object {
  const all = Object.entries(of).map(([name, header]) => [name, { ...header, schema: text }]);
  return all.length > 0 ? { headers: Object.fromEntries(all) } : {};
}

function content(of: NonNullable<Route['answer']>): object {
  if (of === 'text/plain' || of === 'text/html') return { content: { [of]: { schema: text } } };
  return { content: { 'application/json': { schema: ref(of) } } };
}

function problem(status: number): object {
  const codes = Object.entries(PROBLEMS).filter(([, [of]]) => of === status);
  return {
    description: codes.map(([code, [, title]]) => `${code}: ${title}`).join('. '),
    ...headers(PROBLEM_HEADERS[status] ?? {}),
    content: { 'application/problem+json': { schema: ref('Problem') } },
  };
}
