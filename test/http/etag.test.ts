/** Which edits and reads a request means, by its conditions. */
import t from 'tap';
import { type Conditions, checkPrecondition, etagOf } from '../../src/base/http/etag.js';

const NOW = etagOf('now');

t.test('an ETag is equal for equal texts alone, and strong', async (t) => {
  t.equal(etagOf('now'), NOW);
  t.not(etagOf('now '), NOW);
  t.match(NOW, /^"[\w-]{22}"$/);
});

t.test('the conditions of an edit must fit the present ETag', async (t) => {
  const rows: [ifMatch: string | undefined, ifNoneMatch: string | undefined, here: string, absent: string][] =
    [
      [undefined, undefined, 'ok', 'ok'],
      [NOW, undefined, 'ok', 'precondition-failed'],
      [` "x" ,${NOW} `, undefined, 'ok', 'precondition-failed'],
      ['"a,b", "c"', undefined, 'precondition-failed', 'precondition-failed'],
      ['*', undefined, 'ok', 'precondition-failed'],
      [`W/${NOW}`, undefined, 'precondition-failed', 'precondition-failed'],
      [undefined, '*', 'precondition-failed', 'ok'],
      [undefined, `W/${NOW}`, 'precondition-failed', 'ok'],
      [undefined, '"x"', 'ok', 'ok'],
      [NOW, '"x"', 'ok', 'precondition-failed'],
      [NOW.slice(1, -1), undefined, 'malformed-request', 'malformed-request'],
      [`${NOW}, *`, undefined, 'malformed-request', 'malformed-request'],
      ['', undefined, 'malformed-request', 'malformed-request'],
      [undefined, '"x', 'malformed-request', 'malformed-request'],
    ];
  for (const [ifMatch, ifNoneMatch, here, absent] of rows) {
    const conditions = { 'if-match': ifMatch, 'if-none-match': ifNoneMatch };
    t.same([checked(conditions, NOW), checked(conditions, null)], [here, absent], JSON.stringify(conditions));
  }
  t.equal(checked({}, NOW, true), 'precondition-required');
  t.equal(checked({ 'if-match': NOW }, NOW, true), 'ok');
  t.equal(checked({ 'if-none-match': '*' }, null, true), 'ok');
});

t.test('a W/ within the quotes is part of the tag', async (t) => {
  t.equal(checked({ 'if-none-match': '"aW/b"' }, '"ab"'), 'ok');
});

function checked(conditions: Conditions, etag: string | null, isRequired?: boolean): string {
  try {
    checkPrecondition(conditions, etag, isRequired);
    return 'ok';
  } catch (error) {
    return (error as { code: string }).code;
  }
}
