/**
 * The way of a request's body into the store, which JSON, forms and ready-made mails have in common.
 */
import { FieldpostError } from '../../base/errors.js';
import type { Exchange } from '../../base/http/exchange.js';
import type { Address } from '../../mail/message/address.js';
import type { DraftLimits } from '../../mail/message/draft.js';
import type { Draft } from '../../mail/message/message.js';
import type { Accepted, Store, Upload } from '../../mail/store/store.js';
import { hashOf } from './content-hash.js';
import type { FormFile } from './form.js';
import type { ApiContext } from './parts.js';

/** The limits of what a client may post. */
export function draftLimits({ settings, mayBeFrom, isOfThisDevice }: ApiContext): DraftLimits {
  const { maxBatch, cloud } = settings;
  const homeOf = (address: Address) => (isOfThisDevice(address) ? settings.localMail : address);
  return { maxBatch, cloud, mayBeFrom, homeOf };
}

/** The drafts, which say so if their caller may only send. */
export function marked<D extends Draft>(drafts: readonly D[], onlySends: boolean): readonly D[] {
  return onlySends ? drafts.map((draft) => ({ ...draft, onlySends })) : drafts;
}

/** The drafts of a body, accepted. */
export interface Posted extends Accepted {
  readonly drafts: readonly Draft[];
}

/** What an Idempotency-Key led to before. */
export type Before = NonNullable<ReturnType<Store['recall']>>;

/** Gives a repeated body the ids of the first one with its key. Throws invalid if their contents differ. */
export function replayOf(before: Before, drafts: readonly Draft[], files: readonly FormFile[]): Posted {
  if (before.hash === hashOf(drafts, files)) return { drafts, ids: before.ids, replayed: true };
  throw new FieldpostError('invalid', 'This Idempotency-Key was used with other content', {
    hint: 'use a new key for a new message',
  });
}

/** The upload of a replay: it discards the files. */
export const NOWHERE: Upload = {
  begin: async (file) => ({
    write: () => undefined,
    finish: async () => ({ ...file, id: '', size: 0, crc: 0 }),
  }),
  drop: async () => undefined,
  discard: async () => undefined,
};

/** Accepts the drafts with these files, under the request's key if it has one. */
type Accept = (drafts: readonly Draft[], files: readonly FormFile[]) => Promise<Accepted>;
/** Reads the body and accepts the drafts in it. */
export type Take = (
  exchange: Exchange,
  context: ApiContext,
  key: string | null,
  accept: Accept,
) => Promise<Posted>;
