/**
 * Finds the routes of a path in a table.
 */
import { checkPercent } from './exchange.js';

/** The methods that routes have; HEAD goes with GET. */
export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** One row of a table of routes. */
export interface Routed {
  readonly method: Method;
  /** An `{id}` stands for one segment. */
  readonly path: string;
}

/** The routes of one path, and the id in it. */
export interface RoutedPath<Route extends Routed> {
  readonly methods: ReadonlyMap<string, Route>;
  readonly id: string;
}

/** A function from a path, as the client sent it, to its routes; null if there are none. It throws malformed-request. */
export function createRouter<Route extends Routed>(
  routes: readonly Route[],
): (path: string) => RoutedPath<Route> | null {
  const fixed = new Map<string, Map<string, Route>>();
  const patterns = new Map<string, { regex: RegExp; methods: Map<string, Route> }>();
  for (const route of routes) {
    const methods = fixed.get(route.path) ?? patterns.get(route.path)?.methods ?? new Map<string, Route>();
    methods.set(route.method, route);
    if (!route.path.includes('{id}')) fixed.set(route.path, methods);
    else {
      const regex = new RegExp(`^${route.path.replaceAll('{id}', '([^/]+)')}$`);
      patterns.set(route.path, { regex, methods });
    }
  }
  return (sentPath) => {
    const path = sentPath.includes('%') ? decodePath(sentPath) : sentPath;
    const methods = fixed.get(path);
    if (methods !== undefined) return { methods, id: '' };
    for (const pattern of patterns.values()) {
      const match = pattern.regex.exec(path);
      if (match !== null) return { methods: pattern.methods, id: match[1] ?? '' };
    }
    return null;
  };
}

/** RFC 3986 §6.2.2.2, but a `%2F` stays what it is: it separates nothing. */
function decodePath(path: string): string {
  checkPercent(path);
  return path
    .split('/')
    .map((segment) => decodeURIComponent(segment).replaceAll('/', '%2F'))
    .join('/');
}
