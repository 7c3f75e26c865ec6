/**
 * Connections in memory, and HTTP over them: the real parser and the real server of Node.js at both ends, no socket.
 */
import { type IncomingMessage, request, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

/** One end of a connection; what is written here is read at the other. It has what node:http asks of a socket. */
class End extends Duplex {
  other: End | null = null;
  bytesRead = 0;
  readonly remoteAddress = '127.0.0.1';
  #taken: Done | null = null;

  setTimeout(): this {
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  override _read(): void {
    const taken = this.#taken;
    this.#taken = null;
    taken?.();
  }

  override _write(chunk: Buffer, _encoding: string, done: Done): void {
    const { other } = this;
    if (other === null || other.destroyed) {
      done(reset());
      return;
    }
    other.bytesRead += chunk.length;
    if (other.push(chunk)) done();
    else other.#taken = done;
  }

  override _final(done: Done): void {
    if (this.other !== null && !this.other.destroyed) this.other.push(null);
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    const { other } = this;
    const taken = this.#taken;
    this.#taken = null;
    taken?.(reset());
    if (other !== null && !other.destroyed && !this.writableFinished) other.destroy(reset());
    else if (other !== null && !other.destroyed && other.writableFinished) other.destroy();
    done(error);
  }
}

function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}

/** A connection: both its ends. */
function connection(): { readonly near: Duplex; readonly far: Duplex } {
  const near = new End();
  const far = new End();
  near.other = far;
  far.other = near;
  for (const end of [near, far]) end.on('error', () => undefined);
  return { near, far };
}

/** What a program asks. */
export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | null;
  /** So much of the body is sent, then the connection is cut. */
  readonly cutAfterBytes?: number;
}

/** What it is answered. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** Asks the server over a connection of its own; null if that ends without a whole answer. Never rejects. */
export function ask(server: Server, asked: Request): Promise<Answer | null> {
  const { near, far } = connection();
  server.emit('connection', far as unknown as Socket);
  return askOver(near, asked);
}

/** Asks over this connection, and ends it. */
export function askOver(
  near: Duplex,
  { method, path, headers = {}, body = null, cutAfterBytes }: Request,
): Promise<Answer | null> {
  return new Promise((resolve) => {
    const bytes = body === null ? null : Buffer.from(body);
    const req = request({
      method,
      path,
      headers: { ...headers, ...(bytes !== null && { 'Content-Length': bytes.length }), Connection: 'close' },
      createConnection: () => near as unknown as Socket,
    });
    const over = (answer: Answer | null) => {
      resolve(answer);
      near.destroy();
    };
    req.on('error', () => over(null));
    req.on('response', (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('error', () => over(null));
      res.on('end', () =>
        over({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) }),
      );
    });
    if (bytes !== null && cutAfterBytes !== undefined && cutAfterBytes < bytes.length) {
      req.write(bytes.subarray(0, cutAfterBytes), () => over(null));
      req.flushHeaders();
    } else req.end(bytes ?? undefined);
  });
}
