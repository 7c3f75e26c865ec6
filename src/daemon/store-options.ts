/**
 * How a service opens its store: the settings and the parts of the outside that it needs. Used by the two composition
 * roots, daemon.ts and cloud-server/cloud.ts.
 */
import { senderOf } from '../config/names.js';
import type { Config } from '../config.js';
import type { StoreOptions } from '../store/journaled-store.js';
import { storeMemory } from '../system/memory.js';
import type { System } from './system.js';

/** The options of a store that follows `config`, which may change. */
export function storeOptions(config: Config, system: System): Omit<StoreOptions, 'directory'> {
  return {
    ...system,
    historyMax: config.history,
    keepFailedMs: config.keepFailedMs,
    budget: config,
    sender: () => senderOf(config, system.hostname()),
    memoryBytesMax: storeMemory(system.memoryBytes ?? Number.POSITIVE_INFINITY),
  };
}
