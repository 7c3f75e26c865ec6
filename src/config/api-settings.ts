/**
 * The settings of the local API's door: where it listens, and who may call. Used by settings.ts.
 */
import { listeners } from './endpoints.js';
import { credential, given, hidden, optional, SECRET } from './setting.js';
import { bearer, hosts, secretFile } from './values.js';

export const API_SETTINGS = {
  FIELDPOST_LISTEN: given(
    listeners,
    '127.0.0.1:43770',
    (config) => config.listen,
    'Where the local API listens. Anything but loopback and unix sockets needs a token. Who calls at `unix-send:/path` may send, and nothing else. Port 0 takes any free one. Sockets of systemd stand in for the default.',
  ),
  FIELDPOST_ALLOWED_HOSTS: optional(
    hosts,
    'none',
    (config) => config.allowedHosts.join(','),
    'Names besides `localhost`, `127.0.0.1` and `[::1]` by which clients may call the API.',
  ),
  FIELDPOST_API_TOKEN_FILE: optional(
    secretFile,
    credential('api-token'),
    null,
    'The token that clients of the API must bring.',
    SECRET,
  ),
  FIELDPOST_API_TOKEN: optional(
    bearer,
    'none',
    (config) => hidden(config.apiToken),
    'The same in the environment: works and warns.',
    SECRET,
  ),
  FIELDPOST_SEND_TOKEN_FILE: optional(
    secretFile,
    credential('send-token'),
    null,
    'A second token, for programs that may send and ask after what they sent, and nothing else. Needs `FIELDPOST_API_TOKEN_FILE`.',
    SECRET,
  ),
  FIELDPOST_SEND_TOKEN: optional(
    bearer,
    'none',
    (config) => hidden(config.sendToken),
    'The same in the environment: works and warns.',
    SECRET,
  ),
};
