/**
 * A table of routes as an OpenAPI 3.1 document. The tests compare it with every answer.
 */
import { PROBLEMS } from './problem.js';
import type { Routed } from './routing.js';

/** A header of an answer. */
export interface AnswerHeader {
  readonly description: string;
  /** True: it is always there. */
  readonly required?: true;
}

/** A media type of an answer that is not JSON. */
type TextType = 'text/plain' | 'text/html' | 'text/csv';

/** A route with its description. `Name`: the names of the schemas. */
export interface DescribedRoute<Name extends string> extends Routed {
  /** Its operationId: programs made from the description use it as a name. */
  readonly name: string;
  readonly summary: string;
  /** The rules in words. */
  readonly description?: string;
  readonly query?: Readonly<Record<string, object>>;
  readonly headers?: Readonly<Record<string, object>>;
  /** By media type. */
  readonly body?: Readonly<Record<string, Name>>;
  /** The status of a success. */
  readonly status: number;
  /** Several: the client chooses. */
  readonly answer?: Name | TextType | readonly (Name | TextType)[];
  readonly answerHeaders?: Readonly<Record<string, AnswerHeader>>;
  /** What another success answers, by its status. */
  readonly otherwise?: Readonly<Record<number, Pick<DescribedRoute<Name>, 'answer' | 'answerHeaders'>>>;
  /** It has an ETag, and answers 304 to a client that knows it. */
  readonly cacheable?: true;
  /** Statuses of its problems, beside those of every route. */
  readonly problems?: readonly number[];
}

/** What a service says of itself as a whole. */
interface Service<Name extends string, Route extends DescribedRoute<Name>> {
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly server: { readonly url: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly tagOf: (route: Route) => string;
  /** Another security than that of the service; null: that one. */
  readonly securityOf: (route: Route) => readonly object[] | null;
  readonly security: readonly object[];
  readonly securitySchemes: Readonly<Record<string, object>>;
  /** The problems of every route. */
  readonly problems: readonly number[];
  /** The schema of the `{id}` in a path. */
  readonly id: object;
  readonly schemas: Readonly<Record<Name, object>>;
  readonly routes: readonly Route[];
}

const text = { type: 'string' };
const RETRY_AFTER = { 'Retry-After': { description: 'seconds', required: true } } as const;
/** The headers of problems. */
const PROBLEM_HEADERS: Readonly<Record<number, Readonly<Record<string, AnswerHeader>>>> = {
  401: { 'WWW-Authenticate': { description: 'Bearer', required: true } },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
  507: RETRY_AFTER,
};

/** The document, as JSON. */
export function describeService<Name extends string, Route extends DescribedRoute<Name>>(
  service: Service<Name, Route>,
): string {
  const { title, description, version, server, tags, routes, security, securitySchemes, schemas } = service;
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const { method, path } = route;
    const own = service.securityOf(route);
    paths[path] ??= path.includes('{id}')
      ? { parameters: [{ ...parameter('path', 'id', service.id), required: true }] }
      : {};
    paths[path][method.toLowerCase()] = { ...operation(route, service), ...(own && { security: own }) };
  }
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title, version, description, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [server],
    tags,
    security,
    paths,
    components: { schemas, securitySchemes },
  });
}

function operation<Name extends string, Route extends DescribedRoute<Name>>(
  route: Route,
  { tagOf, problems: ofAll }: Service<Name, Route>,
): object {
  const parameters = [
    ...Object.entries(route.query ?? {}).map(([name, schema]) => parameter('query', name, schema)),
    ...Object.entries(route.headers ?? {}).map(([name, schema]) => parameter('header', name, schema)),
  ];
  const problems = [...ofAll, ...(route.problems ?? [])].sort((a, b) => a - b);
  const { name, summary, description, body = {}, status, answerHeaders = {}, otherwise = {} } = route;
  const bodies = Object.entries(body).map(([type, of]) => [type, { schema: ref(of) }]);
  const successes = Object.entries({ ...otherwise, [status]: route });
  return {
    operationId: name,
    summary,
    ...(description !== undefined && { description }),
    tags: [tagOf(route)],
    ...(parameters.length > 0 && { parameters }),
    ...(bodies.length > 0 && { requestBody: { required: true, content: Object.fromEntries(bodies) } }),
    responses: {
      ...Object.fromEntries(successes.map(([code, success]) => [code, answer(success)])),
      ...(route.cacheable && {
        304: { description: 'The given ETag is still right', ...headers(answerHeaders) },
      }),
      ...Object.fromEntries(problems.map((code) => [code, problem(code)])),
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

function answer({
  answer: of = [],
  answerHeaders = {},
}: Pick<DescribedRoute<string>, 'answer' | 'answerHeaders'>): object {
  const contents = [of].flat().map((one) => {
    const isText = one.startsWith('text/');
    return isText ? [one, { schema: text }] : ['application/json', { schema: ref(one) }];
  });
  return {
    description: 'Done',
    ...headers(answerHeaders),
    ...(contents.length > 0 && { content: Object.fromEntries(contents) }),
  };
}

function problem(status: number): object {
  const codes = Object.entries(PROBLEMS).filter(([, [of]]) => of === status);
  return {
    description: codes.map(([code, [, title]]) => `${code}: ${title}`).join('. '),
    ...headers(PROBLEM_HEADERS[status] ?? {}),
    content: { 'application/problem+json': { schema: ref('Problem') } },
  };
}

function ref(name: string): object {
  return { $ref: `#/components/schemas/${name}` };
}
