/**
 * Saves the devices as a file of CSV, page by page.
 */
import type { Ask } from '../calls.js';
import { html } from '../dom.js';

const PAGE_MS = 60_000;

/** Asks for all pages, and gives the browser one file to save. */
export async function saveCsv(ask: Ask): Promise<void> {
  const texts: string[] = [];
  let query: string | null = '?format=csv';
  while (query !== null) {
    const { text, link }: Awaited<ReturnType<Ask>> = await ask('GET', `/devices${query}`, {
      withinMs: PAGE_MS,
    });
    // Each page begins with the names of the columns.
    texts.push(texts.length === 0 ? text : text.slice(text.indexOf('\n') + 1));
    query = /^<(\?[^>]*)>; rel="next"$/.exec(link ?? '')?.[1] ?? null;
  }
  const href = URL.createObjectURL(new Blob(texts, { type: 'text/csv' }));
  html('a', { href, download: 'devices.csv' }).click();
  setTimeout(() => URL.revokeObjectURL(href), PAGE_MS);
}
