/**
 * The server's side of STARTTLS: makes a TLS connection of a plain one.
 */
import type { Socket } from 'node:net';

/** A certificate with its chain, and its private key, as PEM. */
export interface TlsIdentity {
  readonly cert: string;
  readonly key: string;
}

/**
 * Resolves with the TLS connection once the handshake is done. The plain socket must be paused, with nothing read ahead.
 * Rejects with the error of TLS, or if the connection closes.
 */
export type SecureSocket = (socket: Socket, identity: TlsIdentity) => Promise<Socket>;

/** Over node:tls, which is loaded with the first connection that needs it. */
export const secureSocket: SecureSocket = async (socket, { cert, key }) => {
  const { createSecureContext, TLSSocket } = await import('node:tls');
  const secureContext = createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
  // A client must not renegotiate: it costs us more than the client.
  const secured = new TLSSocket(socket, { isServer: true, secureContext });
  secured.disableRenegotiation();
  return await new Promise<Socket>((resolve, reject) => {
    secured.once('secure', () => resolve(secured));
    // The listener stays: after the handshake, whoever reads notices a broken connection.
    secured.on('error', reject);
    for (const event of ['end', 'close']) {
      secured.once(event, () => reject(new Error('the client closed the connection during the handshake')));
    }
  });
};
