/** How many files this process may open for its clients, as the shell's `ulimit -n` says it. */
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import t from 'tap';
import { freeDescriptors } from '../../src/base/system/machine.js';

t.test('what is free is the limit, less what is open and what the daemon keeps for itself', async (t) => {
  const limit = execFileSync('/bin/sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
  const most = limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit);
  const free = freeDescriptors();
  t.ok(free < most || most === Number.POSITIVE_INFINITY);
  t.ok(free >= most - readdirSync('/proc/self/fd').length - 20);
});
