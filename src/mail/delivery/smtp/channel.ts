/**
 * The conversation over a connected socket. The only file that knows smtp-client: it uses connect, write, negotiateTLS,
 * close and the events, and corrects the bugs that lose replies.
 */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { SMTPClient } from 'smtp-client';
import { isLastLine } from './reply.js';

/** One connection to a relay. */
export class Channel extends SMTPClient {
  /** The connected TCP socket for the next session; null if smtp-client passes it itself (STARTTLS). */
  #connected: Socket | null = null;
  /** Called after a TLS handshake, before Node verifies the certificate; null: nobody is interested. */
  onCertificate: ((socket: TLSSocket) => void) | null = null;

  /** Uses this socket, with TLS from the start if the configuration says `secure`. Settles with the greeting. */
  over(connected: Socket): Promise<string> {
    this.#connected = connected;
    return this.connect();
  }

  // For each command smtp-client makes two streams and six listeners, which cost more than the command. `reply` and
  // `close` tell all that its promise would.
  override async write(data: string | Buffer | Readable): Promise<string> {
    if (data instanceof Readable || this._socket === null) return await super.write(data);
    this._socket.write(data);
    return '';
  }

  // "250\r\n" without a text is a reply, too.
  override isLastReply(line: string): boolean {
    return isLastLine(line) === true;
  }

  // Not used: splitting the sent data into lines costs more than sending it.
  override _onSend(): void {}

  // A relay may refuse and close the connection while we write. The write then fails before the refusal is read, and
  // Node would discard the refusal. So a failed write is ignored: reading gives the refusal, then the end.
  override _createSocket(config: { readonly secure?: boolean }, onConnect: () => void): Socket {
    const socket = this.#makeSocket(config, onConnect);
    // `secure` comes before `secureConnect`. Node's own listener for it destroys a socket without a good certificate.
    if (this.onCertificate !== null && 'encrypted' in socket)
      socket.prependOnceListener('secure', () => this.onCertificate?.(socket as TLSSocket));
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
    // The socket is connected already. Call back only after the caller has the socket.
    queueMicrotask(onConnect);
    return connected;
  }
}

/** Calls back after a successful write. After a failed one the stream waits for its reading side to end. */
function unlessFailed(done: (error?: Error | null) => void): (error?: Error | null) => void {
  return (error) => {
    if (!error) done();
  };
}
