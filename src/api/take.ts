/**
 * The way of a request's body into the store, which JSON and forms have in common.
 */
import type { Exchange } from '../http/exchange.js';
import type { Draft } from '../message/message.js';
import type { Accepted } from '../store/store.js';
import type { FormFile } from './form.js';
import type { ApiContext } from './parts.js';

/** The drafts of a body, accepted. */
export interface Posted extends Accepted {
  readonly drafts: readonly Draft[];
}

/** Accepts the drafts with these files, under the request's key if it has one. */
type Accept = (drafts: readonly Draft[], files: readonly FormFile[]) => Promise<Accepted>;
/** Reads the body and accepts the drafts in it. */
export type Take = (
  exchange: Exchange,
  context: ApiContext,
  key: string | null,
  accept: Accept,
) => Promise<Posted>;
