/**
 * What a service takes of the outside, and the parts of the engine that it opens with it. The device and the cloud are both
 * made of them.
 */

import { assert, wordsOf } from '../base/errors.js';
import type { Connect } from '../base/system/connect.js';
import type { openHttps } from '../base/system/https.js';
import type { Handed, openListeners } from '../base/system/listen.js';
import type { Log } from '../base/system/log.js';
import { storeMemory } from '../base/system/memory.js';
import type { peerUid } from '../base/system/peer.js';
import type { SettingsFault } from '../base/views.js';
import type { OpenTokenSource } from './delivery/oauth/access-tokens.js';
import type { openSession } from './delivery/smtp/session.js';
import { senderOf } from './names.js';
import type { MailConfig } from './settings.js';
import type { BudgetLimits } from './store/quota.js';
import type { RefreshToken } from './store/refresh-token.js';
import type { StoreOptions } from './store/store.js';

/** The outside of a service. Tests hand over fakes. */
export interface System extends Pick<StoreOptions, 'disk' | 'clock' | 'log' | 'randomBytes' | 'takeLock'> {
  /** In [0, 1), for jitter. */
  random(): number;
  /** The device's present name. */
  hostname(): string;
  /** All of its names; left out: this one. */
  hostNames?(): readonly string[];
  readonly version: string;
  readonly connect: Connect;
  /** Left out: no limit. */
  readonly memoryBytes?: number;
  /** How many files the process may open for its clients. Left out: no limit. */
  readonly descriptors?: number;
  /** Called with a number of streamed bytes, to run garbage collections. */
  readonly streamed?: (bytes: number) => void;
  /** The same for bytes that were in memory for longer. */
  readonly dropped?: (bytes: number) => void;
  /** The user that opened a connection on this device; null or left out: not known. */
  readonly peerUid?: typeof peerUid;
  /** Calls back when the network of this device has changed. It polls the state only while `isOffline`. */
  readonly watchNetwork?: (onChange: () => void, isOffline: () => boolean) => { close(): void };
  /** Why the newest settings are not followed; null or left out: they are. */
  readonly settingsFault?: () => SettingsFault | null;
  /** Listening sockets that systemd has opened. */
  readonly handed?: readonly Handed[];
  /** Left out: over the sockets of this device. */
  readonly openListeners?: typeof openListeners;
  readonly openSession?: typeof openSession;
  readonly openHttps?: typeof openHttps;
}

/** The names of this device. */
export function namesOf({ hostname, hostNames }: Pick<System, 'hostname' | 'hostNames'>): readonly string[] {
  return hostNames?.() ?? [hostname()];
}

/** What a reload has changed: the keys that hold at once, and those that wait for a restart. */
export interface Reloaded {
  readonly taken: readonly string[];
  readonly waiting: readonly string[];
}

/** The options of a store. It follows `config`, which a reload changes. */
export function storeOptions(
  config: MailConfig & Pick<BudgetLimits, 'maxShare' | 'failuresTo'>,
  system: System,
): Omit<StoreOptions, 'directory'> {
  return {
    ...system,
    historyMax: config.history,
    keepFailedMs: config.keepFailedMs,
    budget: config,
    sender: () => senderOf(config, system.hostname),
    senderName: () => config.from?.name ?? '',
    memoryBytesMax: storeMemory(system.memoryBytes ?? Number.POSITIVE_INFINITY),
  };
}

/** The parts of the outside that sources need. */
type TokenSystem = Pick<System, 'disk' | 'clock' | 'connect' | 'log' | 'random' | 'openHttps'>;

/** Opens sources that keep refresh tokens in `directory`. */
export function tokenSources(system: TokenSystem, directory: string): OpenTokenSource {
  /** One for all sources: after a reload it still knows a token that the disk does not take. */
  let refresh: RefreshToken | null = null;
  return async (settings) => {
    const { relayTokenUrl: url, relayTokenFile, relayClientId: clientId } = settings;
    if (relayTokenFile !== null) {
      const { TokenFile } = await import('./delivery/oauth/access-tokens.js');
      return new TokenFile(relayTokenFile, system.disk);
    }
    assert(url !== null && clientId !== null, 'the settings were checked');
    const [{ openHttps }, { FetchedTokens }, { RefreshToken }] = await Promise.all([
      import('../base/system/https.js'),
      import('./delivery/oauth/token-endpoint.js'),
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

/** Runs each step, even after a failure. Throws the first failure at the end. */
export async function inOrder(
  complain: Log['error'],
  steps: readonly (() => Promise<void>)[],
): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    await step().catch((error) => {
      complain('stop failed', { reason: wordsOf(error) });
      failures.push(error);
    });
  }
  if (failures.length > 0) throw failures[0];
}
