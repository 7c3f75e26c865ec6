/** Email addresses in any script: which of them parseAddress takes. */
import t from 'tap';
import { visible } from '../../src/base/text.js';
import { isUserName, parseAddress } from '../../src/mail/message/address.js';

t.test('an address is a dot-atom and a host name of any script, or an address literal', async (t) => {
  const good = [
    'a@b.c',
    "x!#$%&'*+-/=?^_`{|}~0.y@example.com",
    'jürgen.müller@example.com',
    'jürgen@bücher-1.example',
    '用户.1@例え.テスト',
    'a@[192.0.2.1]',
  ];
  for (const text of good) t.equal(parseAddress(text), text, text);
});

t.test('no other text is an address, in ASCII or beyond', async (t) => {
  const foreign = ['\u0085', '\u00a0', '\u200e', '\u2028', '\ud800', '\ue000'];
  const bad = [
    ...['a', '@b.c', 'a@', 'a..b@c.d', '.a@b.c', 'a.@b.c', 'a b@c.d', 'a@b..c', 'a@-b.c', 'a@b-.c'],
    ...['ü..b@c.d', '.ü@b.c', 'ü.@b.c', 'ü b@c.d', 'a@-ü.c', 'a@ü-.c', 'a@ü..c', '"ü"@b.c', 'ü<@b.c'],
    ...foreign.flatMap((char) => [`a${char}ü@b.c`, `a@ü${char}.c`]),
  ];
  for (const text of bad) t.equal(parseAddress(text), null, visible(text));
});

t.test('a name of a user is what useradd(8) and directories take', async (t) => {
  const long = `${'x'.repeat(63)}$`;
  for (const name of ['root', 'www-data', '_apt', 'host01$', '4711-anna', '3com', 'john.doe', long])
    t.equal(isUserName(name), true, name);
  for (const text of ['', '4711', '+49123', '-x', '.x', '$', 'a$b', '|/bin/sh', '=?utf-8?q?x?=', 'a b', 'ü'])
    t.equal(isUserName(text), false, text);
  t.equal(isUserName('x'.repeat(65)), false);
});
