/**
 * The pages as they are served: small, and of one piece. How they look and work is tried in a browser (test/peers).
 */
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { KIB } from '../../src/base/limits.js';
import fleet from '../../src/pages/fleet.html';
import inbox from '../../src/pages/inbox.html';
import status from '../../src/pages/status.html';

const PAGES = { status, inbox, fleet };

for (const [name, { html, allows }] of Object.entries(PAGES)) {
  t.test(`${name}: small as it travels, with all that it needs in it`, async (t) => {
    const [plain, packed] = [Buffer.byteLength(html), gzipSync(html).length];
    // The status page has the quiet, drills, programs and the rules of people: 16.1 and 41.3 KiB.
    t.ok(packed < 17 * KIB && plain < 43 * KIB, `${packed} bytes of ${plain}`);
    // The namespace of SVG is a name, not an address.
    const addresses = (html.match(/\bhttps?:\/\/[^\s'"`]+/g) ?? []).filter(
      (one) => !one.includes('www.w3.org'),
    );
    t.strictSame(addresses, []);
    t.notMatch(html, /<(?:link|script|img|iframe)[^>]+(?:href|src)="(?!data:)/);
    t.notMatch(
      html,
      / (?:style|on\w+)="/,
      'the policy lets no style and no program through that is in an attribute',
    );
  });

  t.test(`${name}: the policy names its program and its style`, async (t) => {
    const texts = [
      /<script type="module">(.*?)<\/script>/s.exec(html)?.[1],
      /<style>(.*?)<\/style>/s.exec(html)?.[1],
    ];
    const hashes = texts.map(
      (text) =>
        `'sha256-${createHash('sha256')
          .update(text ?? '')
          .digest('base64')}'`,
    );
    t.strictSame(hashes, allows);
  });
}
