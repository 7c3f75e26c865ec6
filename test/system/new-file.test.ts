import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { systemDisk, writeNew } from '../../src/base/system/disk.js';
import { FaultyDisk } from '../support/faulty-disk.js';

test('a new file is for its user alone, and replaces nothing', async (t) => {
  const path = join(t.testdir(), 'report');
  await writeNew(systemDisk(), path, 'grüße\n');
  t.equal(readFileSync(path, 'utf8'), 'grüße\n');
  t.equal(statSync(path).mode & 0o777, 0o600);
  await t.rejects(writeNew(systemDisk(), path, 'other'), { code: 'EEXIST' });
  t.equal(readFileSync(path, 'utf8'), 'grüße\n');
});

test('a file that cannot be written whole does not stay', async (t) => {
  const disk = new FaultyDisk();
  await disk.makeDirectory('/d');
  disk.onOperation = (_n, { kind }) => (kind === 'write' ? 'error:ENOSPC' : 'ok');
  await t.rejects(writeNew(disk, '/d/report', 'text'), { code: 'ENOSPC' });
  t.same(await disk.list('/d'), []);
});
