/** Codes of failed calls, also of those that libuv has no name for. */
import { getSystemErrorName } from 'node:util';
import t from 'tap';
import { isDiskFull, isUnreadable, systemCodeOf, wordsOf } from '../src/base/errors.js';
import { systemError } from './support/system-error.js';

t.test('an error without a name in libuv has one here', async (t) => {
  for (const [errno, code] of [
    [-74, 'EBADMSG'],
    [-117, 'EUCLEAN'],
    [-122, 'EDQUOT'],
  ] as const) {
    const error = systemError(code, `${code}: open '/a'`);
    const given = `Unknown system error ${errno}`;
    t.equal(getSystemErrorName(errno), given, 'what Node.js says');
    t.match(error, { code: given, errno }, 'the fake says the same');
    t.equal(systemCodeOf(error), code);
    t.equal(isUnreadable(error), code !== 'EDQUOT');
    t.equal(
      wordsOf(error).startsWith(code === 'EDQUOT' ? 'the disk is full' : `${code}: `),
      true,
      wordsOf(error),
    );
  }
  t.ok(isUnreadable(systemError('EIO')));
  t.notOk(isUnreadable(systemError('ENOENT')));
  t.ok(isDiskFull(systemError('EDQUOT')));
  t.equal(systemCodeOf(null), '');
  t.equal(systemCodeOf({ code: 5 }), '');
});
