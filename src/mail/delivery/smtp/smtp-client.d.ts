/**
 * What session.ts uses of smtp-client 0.4.0 and the smtp-channel under it. The package's own types lack the
 * events, write() and TLS options.
 */
declare module 'smtp-client' {
  import type { EventEmitter } from 'node:events';
  import type { Socket } from 'node:net';
  import type { Readable } from 'node:stream';
  import type { ConnectionOptions } from 'node:tls';

  interface ClientEvents {
    connect: [];
    /** Text as it arrives. */
    receive: [chunk: string];
    /** A line without its end; empty lines are left out. */
    reply: [line: string];
    end: [];
    close: [];
    error: [error: Error];
  }

  export class SMTPClient extends (EventEmitter as new () => EventEmitter<ClientEvents>) {
    constructor(config: Omit<ConnectionOptions, 'timeout'> & { secure: boolean });
    /** Settles with the greeting, unless the connection hangs. */
    connect(): Promise<string>;
    /** Settles with the first reply that is read after it. */
    write(data: string | Buffer | Readable): Promise<string>;
    negotiateTLS(): Promise<void>;
    /** Destroys the socket; pends for ever where it never was connected. */
    close(): Promise<void>;
    isLastReply(line: string): boolean;
    /** Null before `connect`, and once it is closed. */
    _socket: Socket | null;
    _onSend(chunk: string): void;
    /** Makes the socket, or the TLS one on top of it. */
    _createSocket(config: object, onConnect: () => void): Socket;
  }
}
