/**
 * How a browser gets what strangers sent without harm: the HTML of a mail, and files with their names.
 */
import { MIB } from '../base/limits.js';
import { cut, harmlessName } from '../base/text.js';
import type { MailFile } from './reader.js';

/** Each answer with content of a mail has these: nothing in it runs, or loads anything from anywhere. */
export const SAFE_HEADERS = {
  'Content-Security-Policy':
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
  'Referrer-Policy': 'no-referrer',
  // Browsers look up the names in links of a page before anybody follows them.
  'X-DNS-Prefetch-Control': 'off',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
} as const;

const NAME_CHARS_MAX = 150;
/** Images within one document take at most this much; others are left out. */
const IMAGES_CHARS_MAX = 32 * MIB;

/** The name under which a file is saved: no directory, no hidden file, nothing that a file system reads otherwise. */
export function safeFileName(name: string, instead: string): string {
  const plain = harmlessName(name, '')
    .replace(/^.*[/\\](?=.)/s, '')
    .replace(/[/\\:*?"<>|]+/g, '_')
    .replace(/^[.\s]+|(?<![.\s])[.\s]+$/g, '');
  return cut(plain, NAME_CHARS_MAX) || instead;
}

/** The header that saves the answer as a file of this safe name (RFC 6266). */
export function attachmentNamed(name: string): string {
  const ascii = name.replace(/[^ -~]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

/** The HTML with the images of the mail in it, in place of their `cid:` addresses. */
export function withImages(html: string, files: readonly MailFile[]): string {
  const images = new Map(
    files.flatMap(({ contentId, type, octets }) =>
      contentId !== '' && /^image\/[a-z0-9.+-]{1,40}$/.test(type) ? [[contentId, { type, octets }]] : [],
    ) as [string, Pick<MailFile, 'type' | 'octets'>][],
  );
  if (images.size === 0) return html;
  let left = IMAGES_CHARS_MAX;
  return html.replace(/\bcid:([^\s"'<>()]{1,250})/gi, (address, id: string) => {
    const image = images.get(decoded(id));
    if (image === undefined) return address;
    const url = `data:${image.type};base64,${image.octets.toString('base64')}`;
    left -= url.length;
    return left < 0 ? address : url;
  });
}

/** RFC 2392: the address has the id percent-encoded. */
function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
