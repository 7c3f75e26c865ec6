/**
 * The sources of access tokens for relays, with what they need of the outside. Loaded with the first session that needs a
 * token.
 */

import { assert } from '../base/errors.js';
import type { OpenTokenSource } from './delivery/oauth/token-source.js';
import type { RefreshToken } from './store/refresh-token.js';
import type { System } from './system.js';

/** The parts of the outside that sources need. */
type TokenSystem = Pick<System, 'disk' | 'clock' | 'connect' | 'log' | 'random' | 'openHttps'>;

/** Opens sources that keep refresh tokens in `directory`. */
export function tokenSources(system: TokenSystem, directory: string): OpenTokenSource {
  /** One for all sources: after a reload it still knows a token that the disk does not take. */
  let refresh: RefreshToken | null = null;
  return async (settings) => {
    const { relayTokenUrl: url, relayTokenFile, relayClientId: clientId } = settings;
    if (relayTokenFile !== null) {
      const { TokenFile } = await import('./delivery/oauth/token-file.js');
      return new TokenFile(relayTokenFile, system.disk);
    }
    assert(url !== null && clientId !== null, 'the settings were checked');
    const [{ openHttps }, { FetchedTokens }, { RefreshToken }] = await Promise.all([
      import('../base/system/https.js'),
      import('./delivery/oauth/fetched-tokens.js'),
      import('./store/refresh-token.js'),
    ]);
    refresh ??= new RefreshToken({ ...system, directory });
    const ca = settings.relayTokenCa ?? settings.relayCa;
    const https = (system.openHttps ?? openHttps)({ ...system, ca, clientCertificate: null });
    const { relayClientSecret: clientSecret, relayScope: scope, relayRefreshToken: refreshToken } = settings;
    const request = { url, clientId, clientSecret, scope, refreshToken };
    const tokens = new FetchedTokens({ ...system, request, refresh, send: https.send });
    return {
      token: () => tokens.token(),
      refused: (token) => tokens.refused(token),
      async close() {
        await tokens.close();
        https.close();
      },
    };
  };
}
