/**
 * Answers with a page for a browser. The page has its program and its style in it, runs nothing else, asks nobody but
 * this service, and cannot be put into a page of others.
 */
import type { Exchange } from './exchange.js';

/** A page as scripts/pages.mjs makes it. */
export interface HtmlPage {
  readonly html: string;
  /** The sources of its Content-Security-Policy: the hash of its program, and that of its style. */
  readonly allows: readonly [script: string, style: string];
}

interface PageOptions {
  /** Calls need a token: the page asks for it at once. */
  readonly asksToken: boolean;
  /** The page may show documents of this service in frames. */
  readonly frames?: boolean;
}

/** Answers with the page. */
export function sendPage(
  exchange: Exchange,
  { html, allows }: HtmlPage,
  { asksToken, frames = false }: PageOptions,
): void {
  const [script, style] = allows;
  const policy = [
    "default-src 'none'",
    `script-src ${script}`,
    `style-src ${style}`,
    "connect-src 'self'",
    'img-src data:',
    ...(frames ? ["frame-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ];
  const text = asksToken ? html.replace('<html ', '<html data-token ') : html;
  exchange.send(200, 'text/html; charset=utf-8', text, {
    'Content-Security-Policy': policy.join('; '),
    // A new version of the daemon has a new page.
    'Cache-Control': 'no-cache',
    'Referrer-Policy': 'no-referrer',
  });
}
