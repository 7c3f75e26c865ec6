/**
 * The conversation over a connected socket. The only file that knows smtp-client, of which it takes connect, write,
 * negotiateTLS, close and the events, and puts right what loses replies. Used by smtp-session.ts.
 */
import type { Socket } from 'node:net';
import { SMTPClient } from 'smtp-client';
import { isLastLine } from './reply.js';

/** One connection to a relay. */
export class Channel extends SMTPClient {
  /** What the next socket stands on; null where smtp-client says so itself (STARTTLS). */
  #connected: Socket | null = null;

  /** Speaks over this socket, with TLS at once where the configuration says `secure`. Settles with the greeting. */
  over(connected: Socket): Promise<string> {
    this.#connected = connected;
    return this.connect();
  }

  // "250\r\n" without a text is a reply, too.
  override isLastReply(line: string): boolean {
    return isLastLine(line) === true;
  }

  // Nobody wants to know, and taking what is sent apart costs more than sending it.
  override _onSend(): void {}

  // A relay may refuse and hang up while we write. The write then fails before the refusal was read, and Node would
  // throw the refusal away. Reading tells all of it: what the relay said, then that the connection is gone.
  override _createSocket(config: { readonly secure?: boolean }, onConnect: () => void): Socket {
    const socket = this.#makeSocket(config, onConnect);
    const { _write, _writev } = socket;
    socket._write = (data, encoding, done) => _write.call(socket, data, encoding, unlessFailed(done));
    if (_writev) socket._writev = (chunks, done) => _writev.call(socket, chunks, unlessFailed(done));
    return socket;
  }

  #makeSocket(config: { readonly secure?: boolean }, onConnect: () => void): Socket {
    const connected = this.#connected;
    this.#connected = null;
    if (connected === null) return super._createSocket(config, onConnect);
    if (config.secure) return super._createSocket({ ...config, socket: connected }, onConnect);
    // Its `connect` event is over. Not before the caller has the socket.
    queueMicrotask(onConnect);
    return connected;
  }
}

/** Calls back for a write that went well. After one that failed the stream waits for its reading side to end. */
function unlessFailed(done: (error?: Error | null) => void): (error?: Error | null) => void {
  return (error) => {
    if (!error) done();
  };
}
