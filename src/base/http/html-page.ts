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
  /** The page may show documents and pictures of this service. */
  readonly frames?: boolean;
}

/** Answers with the page. */
export async function sendPage(
  exchange: Exchange,
  { html, allows }: HtmlPage,
  { asksToken, frames = false }: PageOptions,
): Promise<void> {
  const [script, style] = allows;
  const policy = [
    "default-src 'none'",
    `script-src ${script}`,
    `style-src ${style}`,
    "connect-src 'self'",
    `img-src data:${frames ? " 'self'" : ''}`,
    ...(frames ? ["frame-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ];
  const text = asksToken ? html.replace('<html ', '<html data-token ') : html;
  // For phones by slow links: a third of the bytes.
  const isGzip = /\bgzip\b(?!\s*;\s*q=0(?![.\d]))/.test(
    String(exchange.req.headers['accept-encoding'] ?? ''),
  );
  const body = isGzip ? (await import('node:zlib')).gzipSync(text) : text;
  exchange.send(200, 'text/html; charset=utf-8', body, {
    ...(isGzip && { 'Content-Encoding': 'gzip' }),
    Vary: 'Accept-Encoding',
    'Content-Security-Policy': policy.join('; '),
    // A new version of the daemon has a new page.
    'Cache-Control': 'no-cache',
    'Referrer-Policy': 'no-referrer',
  });
}
