/** What requests may take follows the memory of the service. */
import t from 'tap';
import { ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, httpMemory } from '../../src/base/http/connections.js';
import { MIB } from '../../src/base/limits.js';
import { memoryLimit, storeMemory } from '../../src/base/system/memory.js';

t.test('requests have an eighth of the memory', async (t) => {
  t.has(httpMemory(64 * MIB, {}), { bodiesBytes: 6 * MIB, answersBytes: 2 * MIB });
  t.has(httpMemory(128 * MIB, {}), { bodiesBytes: 12 * MIB, answersBytes: 4 * MIB });
  const most = { bodiesBytes: BODIES_BYTES_MAX, answersBytes: ANSWERS_BYTES_MAX };
  t.has(httpMemory(memoryLimit(0, 1024 ** 4), {}), most);
  t.has(httpMemory(Number.POSITIVE_INFINITY, {}), most);
  t.equal(storeMemory(64 * MIB), 8 * MIB, 'and the store none of that');
});
