/** Lists bounded by bytes. */
import t from 'tap';
import { firstAsJson } from '../../src/base/json.js';

t.test('a page has as many as fit, and at least one', async (t) => {
  const made: string[] = [];
  function* values() {
    for (const value of ['łł', 'bb', 'cc', 'dd']) {
      made.push(value);
      yield value;
    }
  }
  t.same(firstAsJson(values(), 12), ['"łł"', '"bb"'], 'in octets, with a comma each');
  t.same(made, ['łł', 'bb', 'cc'], 'and no more are made than one');
  t.same(firstAsJson(values(), 11), ['"łł"']);
  t.same(firstAsJson(values(), 1), ['"łł"']);
  t.same(firstAsJson(values(), 100).length, 4);
  t.same(firstAsJson([], 1), []);
});
