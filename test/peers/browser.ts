/**
 * Debian's Chromium, as the tests of the pages use it: by role and label, as a person does. It collects what must not
 * be: words in the console, requests to elsewhere, faults that axe-core finds.
 */
import { mkdirSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Test } from 'tap';

export const CHROMIUM = '/usr/bin/chromium';
const SCREENSHOTS = 'build/out/pages';

/** Text that would do harm as markup. */
export const HARMFUL = '<img src=x onerror="document.title=1"><script>document.title=2</script>';

/** How a person looks at a page. */
export interface Look {
  readonly width: 360 | 1280;
  readonly scheme: 'light' | 'dark';
}

export const LOOKS: readonly Look[] = [
  { width: 360, scheme: 'dark' },
  { width: 360, scheme: 'light' },
  { width: 1280, scheme: 'dark' },
  { width: 1280, scheme: 'light' },
];

/** A page that is open, and what must not be. */
export interface Seen {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the console says, errors of the page among it. */
  readonly complaints: string[];
  /** The URLs of requests to elsewhere. */
  readonly strays: string[];
}

/** A browser that ends with the test, with these flags more. */
export async function openBrowser(t: Test, flags: readonly string[] = []): Promise<Browser> {
  // The first flag: root has no sandbox of its own. The others: no request of the browser's own to its maker.
  const quiet = ['quic', 'background-networking', 'component-update', 'sync', 'gpu'].map(
    (one) => `--disable-${one}`,
  );
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--no-first-run', ...quiet, ...flags],
  });
  t.teardown(() => browser.close());
  return browser;
}

/** Opens `url` in a new profile. It resolves when the page is loaded. */
export async function open(
  browser: Browser,
  url: string,
  { width, scheme }: Look = { width: 1280, scheme: 'light' },
): Promise<Seen> {
  const viewport = { width, height: 900 };
  const context = await browser.newContext({ viewport, colorScheme: scheme, reducedMotion: 'reduce' });
  const complaints: string[] = [];
  const strays: string[] = [];
  const { origin } = new URL(url);
  context.on('console', (message) => complaints.push(message.text()));
  context.on('weberror', (error) => complaints.push(String(error.error())));
  context.on('request', (request) => {
    if (!request.url().startsWith('data:') && new URL(request.url()).origin !== origin)
      strays.push(request.url());
  });
  const page = await context.newPage();
  await page.goto(url);
  return { page, context, complaints, strays };
}

/** What axe-core finds on the page, a sentence each. */
export async function barriersOf(page: Page): Promise<string[]> {
  const { violations } = await page
    .evaluate(`${axe.source}; axe.run(document, { resultTypes: ['violations'] })`)
    .then((found) => found as { violations: { id: string; help: string; nodes: { html: string }[] }[] });
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html}`));
}

/** Keeps a picture of the whole page below build/out, for people. */
export async function keepPicture(page: Page, name: string, { width, scheme }: Look): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: `${SCREENSHOTS}/${name}-${width}-${scheme}.png`, fullPage: true });
}

/** True if the page is wider than the window: a person on a phone would have to push it about. */
export function isTooWide(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth');
}
