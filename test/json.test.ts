/** What counts as a JSON object. */
import { test } from 'tap';
import { isJsonObject } from '../src/base/json.js';

test('an object is one, null and an array are none', async (t) => {
  for (const object of [{}, { a: 1 }, JSON.parse('{"__proto__":1}')]) t.equal(isJsonObject(object), true);
  for (const other of [null, [], [{}], 'x', 1, true, undefined]) t.equal(isJsonObject(other), false);
});
