/**
 * Files that the page gives the browser to save.
 */
import { html } from '../dom.js';

/** The answer with a file may take this long, and so may the browser to save it. */
export const PAGE_MS = 60_000;

/** Gives the browser a file of CSV. */
export function offerFile(name: string, texts: string[]): void {
  const href = URL.createObjectURL(new Blob(texts, { type: 'text/csv' }));
  html('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), PAGE_MS);
}
