/**
 * `GET /openapi.json`: the routes table as an OpenAPI 3.1 document.
 */
import { describeService } from '../../base/http/openapi.js';
import type { Route } from './routes.js';
import { text } from './schema.js';
import { SCHEMAS, type SchemaName } from './schemas.js';

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

/** The document, as JSON. */
export function describe(routes: readonly Route[], version: string): string {
  return describeService<SchemaName, Route>({
    title: 'Fieldpost: local messaging on the device',
    description: 'Programs on the device post messages, and the daemon delivers them when the link is back.',
    version,
    server: { url: 'http://127.0.0.1:43770', description: 'the default of FIELDPOST_LISTEN' },
    tags: TAGS.map(({ name, description }) => ({ name, description })),
    tagOf: ({ path }) => TAGS.find(({ of }) => path.startsWith(of))?.name ?? '',
    security: [{}, { token: [] }],
    securityOf: ({ access }) => (access === 'anybody' ? [] : null),
    securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    problems: [400, 401, 403, 408, 431, 500, 503],
    id: text,
    schemas: SCHEMAS,
    routes,
  });
}
