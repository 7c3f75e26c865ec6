/**
 * The settings of the local API: where it listens, and who may call. They wait for a restart, because the listeners are
 * opened with them.
 */
import { listeners } from '../endpoints.js';
import { given, secret } from '../row.js';
import { bearer, hosts } from '../values.js';

export const API_SETTINGS = {
  listen: given({
    key: 'FIELDPOST_LISTEN',
    kind: listeners,
    fallback: '127.0.0.1:43770',
    about:
      'Where the local API listens. Anything but loopback and unix sockets needs a token. Clients of `unix-send:/path` may send, and nothing else. Port 0 takes any free one. Sockets of systemd stand in for the default.',
  }),
  allowedHosts: given({
    key: 'FIELDPOST_ALLOWED_HOSTS',
    kind: hosts,
    fallback: '',
    words: 'none',
    about: 'Names besides `localhost`, `127.0.0.1` and `[::1]` by which clients may call the API.',
  }),
  apiToken: secret({
    key: 'FIELDPOST_API_TOKEN',
    kind: bearer,
    credential: 'api-token',
    about: 'The token that clients of the API must bring.',
  }),
  sendToken: secret({
    key: 'FIELDPOST_SEND_TOKEN',
    kind: bearer,
    credential: 'send-token',
    about:
      'A second token, for programs that may send and ask after what they sent, and nothing else. They share half of the queue. Needs `FIELDPOST_API_TOKEN_FILE`.',
  }),
};
