/**
 * What a failed attempt means for the message, over any transport: the time of its next attempt, or its end if its content
 * cannot be read.
 */
import type { Config } from '../../base/config/settings.js';
import { FieldpostError, wordsOf } from '../../base/errors.js';
import { ageMs } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { Message, Verdict } from '../message/message.js';
import type { Store } from '../store/store.js';
import { retryDelayMs } from './schedule.js';

/** What the charge depends on. */
export interface ChargeOptions {
  readonly store: Store;
  readonly config: Pick<Config, 'retryMinMs' | 'retryMaxMs'>;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** The message is tried again after a delay that grows with its age. */
export function deferral(
  message: Message,
  reply: string,
  options: ChargeOptions,
): Verdict & { kind: 'deferred' } {
  const { store, config, random, clock } = options;
  const oldMs = ageMs(message.retried ?? message.accepted, clock, store.boots);
  const delayMs = retryDelayMs(oldMs, random(), config.retryMinMs, config.retryMaxMs);
  return { kind: 'deferred', reply, delayMs };
}

/** The verdict on a message whose content cannot be read: failed if the content is damaged, else deferred. */
export function unreadable(message: Message, error: unknown, options: ChargeOptions): Verdict {
  const reason = wordsOf(error);
  options.log.error('message unreadable', { id: message.id, reason });
  return error instanceof FieldpostError && error.code === 'storage-damaged'
    ? { kind: 'failed', reply: 'storage damaged' }
    : deferral(message, reason, options);
}
