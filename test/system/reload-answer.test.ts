import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { answerReload } from '../../src/base/system/signals.js';

t.test('the file holds only the newest answer, whole', async (t) => {
  const directory = t.testdir();
  answerReload(directory, 'FIELDPOST_LOG=loud: no');
  answerReload(directory, 'ok');
  t.equal(readFileSync(`${directory}/reload`, 'utf8'), 'ok\n');
  t.strictSame(readdirSync(directory), ['reload']);
});

t.test('only the user of the service reads it, whatever the umask and what a crash has left', async (t) => {
  const directory = t.testdir();
  const before = process.umask(0);
  t.teardown(() => process.umask(before));
  writeFileSync(`${directory}/reload.new`, 'half');
  chmodSync(`${directory}/reload.new`, 0o666);
  answerReload(directory, 'ok');
  t.equal(statSync(`${directory}/reload`).mode & 0o777, 0o600);
});
