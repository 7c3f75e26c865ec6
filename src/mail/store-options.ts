/**
 * How a service opens its store.
 */
import { senderOf } from '../base/config/names.js';
import type { Config } from '../base/config/settings.js';
import { storeMemory } from '../base/system/memory.js';
import type { StoreOptions } from './store/journaled-store.js';
import type { System } from './system.js';

/** The options of a store. It follows `config`, which a reload changes. */
export function storeOptions(config: Config, system: System): Omit<StoreOptions, 'directory'> {
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
