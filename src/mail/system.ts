/**
 * The interface of the outside world, which the process hands to the composition roots.
 */

import type { Handed } from '../base/system/activation.js';
import type { Connect } from '../base/system/connect.js';
import type { openHttps } from '../base/system/https.js';
import type { openListeners } from '../base/system/listen.js';
import type { SettingsFault } from '../base/views.js';
import type { ApiContext } from '../device/api/parts.js';
import type { openSession } from './delivery/smtp/smtp-session.js';
import type { StoreOptions } from './store/journaled-store.js';

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
  readonly peerUid?: ApiContext['peerUid'];
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
