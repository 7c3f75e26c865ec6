/** The relations between limits of mails on which the code relies. */
import t from 'tap';
import { HEADER_SECTION_BYTES_MAX, KIB, MIB } from '../src/limits.js';
import * as limits from '../src/mail-limits.js';

t.test('they go together', async (t) => {
  const { MAIL_HEADER_BYTES_MAX, MAIL_RECIPIENTS_MAX, OWN_HEADERS_MAX, HEADER_VALUE_OCTETS_MAX } = limits;
  t.ok(
    OWN_HEADERS_MAX * HEADER_VALUE_OCTETS_MAX < MAIL_HEADER_BYTES_MAX / 2,
    'own headers fit a header section',
  );
  t.ok(limits.HEADER_VALUE_OCTETS_MAX <= limits.READY_MADE_LINE_OCTETS_MAX, 'a value fits a line');
  // Each recipient stands in the query with its name and an escape or two.
  t.ok(MAIL_RECIPIENTS_MAX * 120 < HEADER_SECTION_BYTES_MAX, 'usual recipients fit the query of one request');
  t.ok(
    (limits.TOKEN_CHARS_MAX + KIB) * (4 / 3) <= 12 * KIB,
    'a token and its user fit a SASL response (RFC 4954)',
  );
  t.ok(limits.SMTP_REFUSED_BYTES_MAX > 25 * MIB, 'a refused mail of the usual limit is read to its end');
});
