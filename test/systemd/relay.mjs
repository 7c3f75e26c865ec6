/**
 * A relay in the container: `node relay.mjs DIRECTORY`. It listens on 127.0.0.1:2525 and wants the user `device` with
 * the password `sesame`. It writes each mail to a file named after the id in its Message-ID.
 */
import { writeFileSync } from 'node:fs';
import { SMTPServer } from 'smtp-server';

const directory = process.argv[2];
const relay = new SMTPServer({
  allowInsecureAuth: true,
  disabledCommands: ['STARTTLS'],
  onAuth({ username, password }, _session, done) {
    const isRight = username === 'device' && password === 'sesame';
    done(isRight ? null : new Error('wrong password'), { user: username });
  },
  onData(stream, _session, done) {
    let text = '';
    stream.on('data', (chunk) => {
      text += chunk;
    });
    stream.on('end', () => {
      const id = /^Message-ID: <([^.]+)\./m.exec(text)?.[1];
      writeFileSync(`${directory}/${id}`, text);
      done();
    });
  },
});
// A daemon that stops in the middle of a mail may reset the connection.
relay.on('error', () => undefined);
relay.listen(2525, '127.0.0.1');
