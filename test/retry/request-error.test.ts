/** Failed requests in words: who failed, and the setting to look at. */
import t from 'tap';
import { requestWordsOf } from '../../src/base/retry/call-error.js';

const HINTS = { 'certificate-unknown-authority': '; see THE_SETTING' };
const words = (thrown: object) =>
  requestWordsOf(Object.assign(new Error('no good'), thrown), 'c.test', Date.UTC(2026, 10, 20), HINTS);

t.test('the words name the host', async (t) => {
  for (const code of ['ABORT_ERR', 'DEADLINE', 'TOO_LARGE', 'CUT_SHORT'])
    t.equal(words({ code }), 'c.test: no good');
  t.equal(words({ code: 'ENOTFOUND' }), 'the name c.test cannot be resolved (ENOTFOUND)');
  t.match(words({ code: 'ECONNREFUSED' }), /^c\.test: the connection was refused/);
  t.match(words({ code: 'SELF_SIGNED_CERT_IN_CHAIN' }), /^c\.test: no authority .*; see THE_SETTING$/);
});

t.test('an error without a code is a bug', async (t) => {
  t.throws(() => words({}), { message: 'no good' });
});
