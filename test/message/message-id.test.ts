/** The Message-ID of a mail: that of its first recipient, or the one that it came with. */
import t from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import { messageIdOf, newMessageId } from '../../src/mail/message/message.js';

const FROM = 'device@field.example' as Address;

t.test('a mail has one Message-ID, whoever its recipient is', async (t) => {
  const first = { id: '01', from: FROM, extras: undefined };
  const second = { id: '02', from: FROM, extras: { mail: '01' } };
  t.equal(messageIdOf(first, 'c0ffee'), '01.c0ffee@field.example');
  t.equal(messageIdOf(second, 'c0ffee'), '01.c0ffee@field.example');
  t.equal(newMessageId('01', 'c0ffee', FROM), '01.c0ffee@field.example');
});

t.test('a ready-made mail keeps its own, and what is no email has none', async (t) => {
  const extras = { isReadyMade: true, messageId: 'a@b' } as const;
  t.equal(messageIdOf({ id: '01', from: '', extras }, 'c0ffee'), 'a@b');
  t.equal(messageIdOf({ id: '01', from: undefined, extras: undefined }, 'c0ffee'), null);
});
