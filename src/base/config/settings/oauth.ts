/**
 * The settings of OAuth 2.0 towards relays: where access tokens come from.
 */
import { certificates } from '../file-kinds.js';
import { inFile, optional, secret } from '../row.js';
import { bearer, clientId, clientSecret, scope, secretPath, tokenUrl } from '../values.js';

export const OAUTH_SETTINGS = {
  relayTokenUrl: optional({
    key: 'FIELDPOST_RELAY_OAUTH_TOKEN_URL',
    kind: tokenUrl,
    follows: 'delivery',
    about:
      "The token endpoint that gives the relay user's access tokens (OAuth 2.0), in place of a password. Needs a client id.",
  }),
  relayClientId: optional({
    key: 'FIELDPOST_RELAY_OAUTH_CLIENT_ID',
    kind: clientId,
    follows: 'delivery',
    about: 'The id by which the token endpoint knows the application.',
  }),
  relayClientSecret: secret({
    key: 'FIELDPOST_RELAY_OAUTH_CLIENT_SECRET',
    kind: clientSecret,
    credential: 'relay-client-secret',
    follows: 'delivery',
    about: "The application's secret.",
  }),
  relayScope: optional({
    key: 'FIELDPOST_RELAY_OAUTH_SCOPE',
    kind: scope,
    follows: 'delivery',
    about: 'What the tokens are for.',
  }),
  relayRefreshToken: secret({
    key: 'FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN',
    kind: bearer,
    credential: 'relay-refresh-token',
    follows: 'delivery',
    about:
      'The refresh token. With it the grant is `refresh_token`, else `client_credentials`. A newer one that the endpoint sends is kept in the state directory, until another one is given here.',
  }),
  relayTokenCa: inFile({
    key: 'FIELDPOST_RELAY_OAUTH_CA_FILE',
    kind: certificates,
    none: "that of `FIELDPOST_RELAY_CA_FILE`, else the system's",
    follows: 'delivery',
    about: "The private CA of the token endpoint's certificate.",
  }),
  relayTokenFile: optional({
    key: 'FIELDPOST_RELAY_TOKEN_FILE',
    kind: secretPath,
    follows: 'delivery',
    about:
      'In place of a token endpoint: a file with an access token that another program renews. It is read for each connection.',
    // Somebody may give the token itself.
    isSecret: true,
  }),
};
