import { t } from 'tap';
import { SmtpInput } from '../../src/dev/smtp-input.js';
import { FakeClock } from '../support/clock.js';

function input(chunks: Iterable<Buffer | Error>): SmtpInput {
  async function* source() {
    for (const chunk of chunks) {
      if (chunk instanceof Error) throw chunk;
      yield chunk;
    }
  }
  return new SmtpInput(source(), new FakeClock(), 1000, () => t.fail('no time passes'));
}

const cut = (bytes: Buffer, ...places: number[]) =>
  [0, ...places].map((from, at) => bytes.subarray(from, places[at] ?? bytes.length));

const CONTENT = '.. one\r\n...\r\n..\r\n\r\n.x\r\nbare\n.\nlf\r.\r\n.\r \r\nend\r\n';
// RFC 5321 §4.5.2: the first dot of a line goes. Only CRLF ends a line, so the bare ones begin none.
const UNSTUFFED = '. one\r\n..\r\n.\r\n\r\nx\r\nbare\n.\nlf\r.\r\n\r \r\nend\r\n';

t.test('commands and mail do not depend on the packets', async (t) => {
  const sent = Buffer.from(`DATA\r\n${CONTENT}.\r\nMAIL FROM:<ż@x>\r\n.\r\nNOOP\nQUIT\r\n`);
  const conversation = async (chunks: Buffer[]) => {
    const from = input(chunks);
    const first = await from.line();
    const content = String(await from.content(1000));
    const second = await from.line();
    const empty = String(await from.content(1000));
    return [first, content, second, empty, await from.line(), await from.line(), await from.line()];
  };
  const expected = ['DATA', UNSTUFFED, 'MAIL FROM:<ż@x>', '', 'NOOP', 'QUIT', null];
  t.same(await conversation([sent]), expected);
  t.same(
    await conversation(cut(sent, ...Array.from({ length: sent.length - 1 }, (_, at) => at + 1))),
    expected,
  );
  for (let first = 1; first < sent.length; first++) {
    for (let second = first; second < sent.length; second += 3) {
      const found = await conversation(cut(sent, first, second));
      if (JSON.stringify(found) !== JSON.stringify(expected)) t.same(found, expected, `${first} ${second}`);
    }
  }
});

t.test('a line that is too long is skipped', async (t) => {
  const whole = Buffer.from(
    `${'x'.repeat(10_000)}\r\nNOOP\r\n${'y'.repeat(2047)}\r\n${'z'.repeat(2048)}\r\n`,
  );
  for (const step of [1, 100, 2048, 2049, whole.length]) {
    const from = input(
      cut(whole, ...Array.from({ length: Math.floor(whole.length / step) }, (_, at) => (at + 1) * step)),
    );
    t.same([await from.line(), await from.line()], ['', 'NOOP'], `in chunks of ${step}`);
    t.same([(await from.line())?.length, await from.line(), await from.line()], [2047, '', null]);
  }
});
