import { arch, totalmem } from 'node:os';
import { test } from 'tap';
import { machineNow } from '../../src/system/machine.js';

test('the machine of this process', async (t) => {
  const { os, kernel, cores, uptimeMs, ...rest } = machineNow();
  t.match(rest, { arch: arch(), memoryBytes: totalmem() });
  t.match(kernel, /^\d+\.\d+/);
  t.ok(os !== '' && cores > 0 && rest.freeMemoryBytes > 0 && uptimeMs > 1000);
});
