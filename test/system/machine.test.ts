import { arch, hostname, totalmem } from 'node:os';
import { test } from 'tap';
import { machineNames, machineNow } from '../../src/base/system/machine.js';
import { FakeClock } from '../support/clock.js';

test('the machine of this process', async (t) => {
  const { os, kernel, cores, uptimeMs, ...rest } = machineNow();
  t.match(rest, { arch: arch(), memoryBytes: totalmem() });
  t.match(kernel, /^\d+\.\d+/);
  t.ok(os !== '' && cores > 0 && rest.freeMemoryBytes > 0 && uptimeMs > 1000);
});

test('its names are read once a minute, however many ask', async (t) => {
  const clock = new FakeClock();
  const files = new Map([
    ['/etc/hosts', `127.0.0.1 localhost\n127.0.1.1 ${hostname()}.example.com ${hostname()} # me\n`],
  ]);
  let reads = 0;
  const names = machineNames(clock, (path) => {
    reads++;
    const text = files.get(path);
    if (text === undefined) throw new Error('not found');
    return text;
  });
  for (let n = 0; n < 100; n++) t.same(names(), [hostname(), `${hostname()}.example.com`]);
  t.equal(reads, 1);
  files.set('/etc/hosts', `127.0.1.1 ${hostname()}.example.org ${hostname()} mail.example.com\n`);
  await clock.advance(60_000);
  t.same(names(), [hostname(), `${hostname()}.example.org`]);
  files.clear();
  await clock.advance(60_000);
  t.same(names(), [hostname()]);
});
