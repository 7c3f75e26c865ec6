/**
 * Explains a failed HTTP request to the person who must mend it. Pure.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { oneLine } from '../text.js';
import { type SocketError, socketErrorOf } from './socket-error.js';

/** What to add about some faults: the setting to look at. */
export type RequestHints = Readonly<Partial<Record<SocketError, string>>>;

/**
 * The rejection of a SendRequest to `host`, as a sentence. The words of a certificate error give the date of `wallMs`.
 * Rethrows an error without a `code`, because it is a bug.
 */
export function requestWordsOf(thrown: unknown, host: string, wallMs: number, hints: RequestHints): string {
  const code = systemCodeOf(thrown);
  if (code === '') throw thrown;
  if (['ABORT_ERR', 'TOO_LARGE', 'CUT_SHORT'].includes(code)) return `${host}: ${wordsOf(thrown)}`;
  const { proxy } = thrown as { proxy?: string };
  const peer = proxy === undefined ? host : `the proxy ${proxy}`;
  if (code === 'DEADLINE') return `${peer}: ${wordsOf(thrown)}`;
  if (code === 'PROXY') return `${peer} ${wordsOf(thrown)}`;
  const { kind, words } = socketErrorOf(thrown, wallMs);
  if (kind === 'dns') {
    const name = proxy === undefined ? `the name ${host}` : `the name of the proxy ${proxy}`;
    return `${name} cannot be resolved (${code})`;
  }
  return oneLine(`${peer}: ${words}${hints[kind] ?? ''}`);
}
