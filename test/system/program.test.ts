import { test } from 'tap';
import { outputOf } from '../../src/base/system/program.js';

test('the output of another program, or why there is none, in a sentence', async (t) => {
  t.equal(await outputOf('echo', ['a', 'b']), 'a b\n');
  const why = (program: string, args: string[]) =>
    outputOf(program, args).catch((error: Error) => error.message);
  t.equal(await why('no-such-program-here', []), 'there is no no-such-program-here');
  t.equal(await why('sh', ['-c', 'echo no >&2; exit 3']), 'sh: no');
  t.equal(await why('sh', ['-c', 'echo hint >&2']), 'sh: hint', 'no output, but the words of its complaint');
  t.equal(await why('true', []), 'true: it prints nothing');
  t.equal(await why('cat', []), 'cat: it prints nothing', 'its input is empty');
});
