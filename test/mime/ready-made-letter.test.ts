/** A ready-made mail goes out as it came, behind the headers that it lacks. */
import t from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import type { Missing } from '../../src/mail/message/message.js';
import { renderReadyMade } from '../../src/mail/mime/letter.js';
import { whole } from '../support/drafts.js';

const STAMPS = {
  from: 'device@x.example' as Address,
  messageId: '1@x.example',
  dateMs: Date.UTC(2026, 10, 20, 9),
};
const MAIL = Buffer.from('Subject: x\r\n\r\n.\r\n');

async function rendered(
  missing: readonly Missing[],
  stamps: Partial<{ dateMs: null; headers: readonly (readonly [string, string])[] }> = {},
  size = MAIL.length,
) {
  const file = {
    name: '',
    type: 'message/rfc822',
    size,
    open: async function* () {
      yield MAIL.subarray(0, 5);
      yield MAIL.subarray(5);
    },
  };
  const content = { subject: 'x', missing, fromName: 'Pump, 3' };
  const mail = renderReadyMade(content, { ...STAMPS, ...stamps }, file);
  const bytes = await whole(mail.bytes as AsyncIterable<Buffer>);
  return { text: bytes.toString(), isOfSize: bytes.length === mail.size };
}

t.test('only what is missing is added', async (t) => {
  t.same(await rendered([]), { text: MAIL.toString(), isOfSize: true });
  t.same(await rendered(['message-id', 'date', 'from']), {
    text: `From: "Pump, 3" <device@x.example>\r\nDate: Fri, 20 Nov 2026 09:00:00 +0000\r\nMessage-ID: <1@x.example>\r\n${MAIL}`,
    isOfSize: true,
  });
});

t.test('headers of ours stand in front', async (t) => {
  const headers = [['X-Fieldpost-Waited', 'P21D']] as const;
  t.same(await rendered([], { headers }), { text: `X-Fieldpost-Waited: P21D\r\n${MAIL}`, isOfSize: true });
});

t.test('while the clock is wrong the relay adds the date', async (t) => {
  t.same(await rendered(['date'], { dateMs: null }), { text: MAIL.toString(), isOfSize: true });
});

t.test('a file of another size is damage', async (t) => {
  await t.rejects(rendered([], {}, MAIL.length + 1), { code: 'storage-damaged' });
  await t.rejects(rendered([], {}, MAIL.length - 1), { code: 'storage-damaged' });
});
