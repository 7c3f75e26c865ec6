/**
 * `GET /openapi.json` of the reference cloud: the contract, for those who build another cloud, and the calls of its operator.
 */
import { describeService } from '../base/http/openapi.js';
import type { CloudRoute } from './routes.js';
import { CLOUD_SCHEMAS, type CloudSchemaName, deviceIdSchema } from './schemas.js';

/** The tag of the calls for each caller. */
const TAGS = { device: 'contract', operator: 'operator', anyone: 'cloud' } as const;

const DEVICE = [{ device: [] }, { operator: [] }];
const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description });

/** The document, as JSON. */
export function describeCloud(routes: readonly CloudRoute[], version: string): string {
  return describeService<CloudSchemaName, CloudRoute>({
    title: 'Fieldpost: the contract of a cloud, and its reference',
    description:
      'The calls with the tag `contract` are all that a device needs of a cloud. Bodies are JSON in UTF-8: documents of at most 1 MiB, all else of at most 64 KiB. Unknown members are ignored in heartbeats, messages and answers. Refusals are problems (RFC 9457) with a title or detail. A key opens its own device only: 401 or 403 for any other. The other calls are of the reference cloud.',
    version,
    server: { url: 'http://127.0.0.1:43780', description: 'the default of FIELDPOST_CLOUD_SERVER_LISTEN' },
    tags: [
      { name: TAGS.device, description: 'What devices call. Any cloud may implement it.' },
      { name: TAGS.operator, description: 'The operator of the reference cloud.' },
      { name: TAGS.anyone, description: 'The reference cloud itself.' },
    ],
    tagOf: (route) => TAGS[route.for],
    security: [{ operator: [] }],
    securityOf: (route) => (route.for === 'anyone' ? [] : route.for === 'device' ? DEVICE : null),
    securitySchemes: {
      device: bearer('The key of the device in the path.'),
      operator: bearer("The operator's key; it opens every device that has a key of its own."),
    },
    problems: [400, 401, 403, 408, 431, 500, 503],
    id: deviceIdSchema,
    schemas: CLOUD_SCHEMAS,
    routes,
  });
}
