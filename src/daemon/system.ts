/**
 * The outside world, as main.ts hands it to the composition roots.
 */
import type { ApiParts } from '../api/parts.js';
import type { openSession } from '../delivery/smtp-session.js';
import type { StoreOptions } from '../store/journaled-store.js';
import type { Handed } from '../system/activation.js';
import type { Connect } from '../system/connect.js';
import type { openHttps } from '../system/https.js';
import type { openListeners } from '../system/listen.js';
import type { SettingsFault } from '../views.js';

/** What a service sees of the outside; tests hand over fakes. */
export interface System extends Pick<StoreOptions, 'disk' | 'clock' | 'log' | 'randomBytes' | 'takeLock'> {
  /** In [0, 1), for jitter. */
  random(): number;
  /** The device's name at this moment. */
  hostname(): string;
  readonly version: string;
  /** Connects to relays, the cloud and the webhook. */
  readonly connect: Connect;
  /** Bytes of memory that the daemon may take; left out, there is no limit. */
  readonly memoryBytes?: number;
  /** Told of the octets that were streamed, so that memory does not pile up (system/memory.ts). */
  readonly streamed?: (bytes: number) => void;
  /** The same for those that were kept for a while. */
  readonly dropped?: (bytes: number) => void;
  /** The user at the other end of a connection from this device; null, or left out, where that is not known. */
  readonly peerUid?: ApiParts['peerUid'];
  /** Calls back when the network of this device has changed; looks closer while `isOffline`. */
  readonly watchNetwork?: (onChange: () => void, isOffline: () => boolean) => { close(): void };
  /** Why the settings found last are not followed; null, or left out, where they are. */
  readonly settingsFault?: () => SettingsFault | null;
  /** Listening sockets that systemd has opened for us. */
  readonly handed?: readonly Handed[];
  /** Where programs call, how relays and the cloud are reached; left out, over the sockets of this device. */
  readonly openListeners?: typeof openListeners;
  readonly openSession?: typeof openSession;
  readonly openHttps?: typeof openHttps;
}
