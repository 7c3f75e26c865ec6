/** `echo text | fieldpost send` in shells, cron and services: the built program with a real standard input. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { MAIN, needsProgram, startIn } from '../support/daemon.js';

const run = promisify(execFile);

t.test('fieldpost send reads the text from a pipe or a file', needsProgram, async (t) => {
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: t.testdir(), FIELDPOST_FROM: 'd@example.com' });
  const env = { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}` };
  const shell = async (command: string): Promise<number> => {
    const script = command.replace('SEND', `'${MAIN}' send --to john@example.com`);
    return await run('/bin/sh', ['-c', script], { env }).then(
      () => 0,
      (error: { code: number }) => error.code,
    );
  };
  // Without a subject a text is required: success proves that the text was read.
  t.equal(await shell('echo text | SEND'), 0);
  t.equal(await shell(`SEND < ${MAIN}`), 0, 'a file');
  t.equal(await shell('SEND < /dev/null'), 64, 'no input, as in a service');
  t.equal(await shell(': | SEND'), 64, 'an empty pipe, as from cron');
  t.equal(await shell('SEND <&-'), 64, 'a closed standard input');
  t.equal(await shell(': | SEND --subject x'), 0);
  t.equal(await shell('SEND --subject x < /dev/null'), 0);
  // Node.js gives its child a socket as standard input, and leaves it open.
  const { stdout } = await run(MAIN, ['send', '--to', 'john@example.com', '--subject', 'x'], { env });
  t.match(stdout, /is queued/);
  t.equal(await daemon.end('SIGTERM'), 0);
});
