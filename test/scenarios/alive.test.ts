/** The built program: a program that gives signs is known after a kill, and the command says so. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { needsProgram, startIn } from '../support/daemon.js';

t.test('a sign outlasts a kill -9, and a further one writes nothing', needsProgram, async (t) => {
  const FIELDPOST_STATE_DIR = t.testdir();
  const file = () => readFile(join(FIELDPOST_STATE_DIR, 'alive.json'), 'utf8');
  const first = await startIn(t, { FIELDPOST_STATE_DIR });
  t.match(first.run('alive', 'plc-reader', '--within', '10m'), { status: 0, stdout: /watched from now on/ });
  const written = await file();
  await first.end('SIGKILL');
  const second = await startIn(t, { FIELDPOST_STATE_DIR });
  t.match(second.run('alive').stdout, /^plc-reader +ok +10m +- +the address book$/m);
  t.match(second.run('alive', 'plc-reader', '--within', '10m'), { status: 0, stdout: '' });
  t.match(second.run('status').stdout, /^programs +1 program watched$/m);
  t.equal(await file(), written);
  t.match(second.run('alive', 'plc-reader', '--off'), { status: 0 });
  await t.rejects(file(), { code: 'ENOENT' });
  t.equal(await second.end('SIGTERM'), 0);
});
