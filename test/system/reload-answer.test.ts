import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { answerReload } from '../../src/system/reload-answer.js';

t.test('the file holds only the newest answer, whole', async (t) => {
  const directory = t.testdir();
  answerReload(directory, 'FIELDPOST_LOG=loud: no');
  answerReload(directory, 'ok');
  t.equal(readFileSync(`${directory}/reload`, 'utf8'), 'ok\n');
  t.strictSame(readdirSync(directory), ['reload']);
});
