/** An access token in a file that another program renews. */
import { execFileSync } from 'node:child_process';
import { renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { KIB } from '../../../src/base/limits.js';
import { systemDisk } from '../../../src/base/system/disk.js';
import { TOKEN_CHARS_MAX, TokenFile } from '../../../src/mail/delivery/oauth/access-tokens.js';

t.test('the file is read anew for each session, through links, and without blanks around', async (t) => {
  const directory = t.testdir({ first: 'one\n', second: ' two\r\n' });
  const path = join(directory, 'token');
  symlinkSync('first', path);
  const tokens = new TokenFile(path, systemDisk());
  t.equal(await tokens.token(), 'one');
  symlinkSync('second', `${path}.new`);
  renameSync(`${path}.new`, path);
  t.equal(await tokens.token(), 'two');
  writeFileSync(path, 'x'.repeat(TOKEN_CHARS_MAX));
  t.equal((await tokens.token()).length, TOKEN_CHARS_MAX);
});

t.test('a file that holds no token is told, and its content is not', async (t) => {
  const path = join(t.testdir(), 'token');
  const tokens = new TokenFile(path, systemDisk());
  await t.rejects(tokens.token(), { name: 'TokenError', message: /cannot be read: ENOENT/ });
  for (const [text, words] of [
    ['', 'is empty'],
    [' \n', 'is empty'],
    ['abc def', 'holds something else'],
    ['abc\x01def', 'holds something else'],
    ['tökendef', 'holds something else'],
    ['abc'.repeat(1_000_000), 'holds something else'],
  ] as const) {
    writeFileSync(path, text);
    const error = await tokens.token().catch((error) => error);
    t.match(error, { name: 'TokenError', message: words });
    t.notMatch(error.message, /abc|def/);
  }
  execFileSync('mkfifo', [`${path}.fifo`]);
  await t.rejects(new TokenFile(`${path}.fifo`, systemDisk()).token(), { message: /cannot be read/ });
});

t.test('a token and its user fit a SASL response (RFC 4954)', async (t) => {
  t.ok((TOKEN_CHARS_MAX + KIB) * (4 / 3) <= 12 * KIB);
});
