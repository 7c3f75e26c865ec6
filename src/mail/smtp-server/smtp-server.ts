/**
 * The SMTP server: takes mails from programs of this device, and from other devices.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { digest, WrongSecrets } from '../../base/http/access.js';
import { discard, linger } from '../../base/http/connection.js';
import { placesIn } from '../../base/http/connections.js';
import { SECOND_MS } from '../../base/limits.js';
import { GOODBYE } from './replies.js';
import { type SmtpParts, SmtpSession } from './session.js';

/** While no connection is free, a client that has been idle for this long gives way. */
const GIVE_WAY_MS = 10 * SECOND_MS;
/** Sockets that are open at once, for each session: clients that are refused still read the reply. */
const SOCKETS_PER_SESSION = 4;

/** An SMTP server. */
export interface SmtpServer {
  /** A server that does not listen yet. `isExposed`: other devices can reach it. */
  makeServer(isExposed: boolean): Server;
  /**
   * Ends the connections that wait for a command at once, the others after the mail that is coming, all of them after
   * `withinMs`. Close the listeners first.
   */
  stop(withinMs: number): Promise<void>;
}

/** A server of these parts. */
export function createSmtpServer(parts: SmtpParts): SmtpServer {
  const secrets = { all: parts.tokens.map(digest), send: (parts.sendTokens ?? []).map(digest) };
  const sessions = new Map<SmtpSession, Promise<void>>();
  const wrongLogins = new WrongSecrets(parts);
  const { sessions: sessionsMax } = placesIn(parts.descriptors);
  let isStopping = false;

  /** True if a session may begin; the longest idle one gives way. */
  function hasPlace(): boolean {
    const open = [...sessions.keys()].filter(({ wire }) => !wire.isOver);
    if (open.length < sessionsMax) return true;
    let longest: SmtpSession | null = null;
    let longestMs = parts.clock.bootMs() - GIVE_WAY_MS + 1;
    for (const session of open) {
      const { waitingSinceMs } = session.wire;
      if (waitingSinceMs === null || waitingSinceMs >= longestMs) continue;
      longest = session;
      longestMs = waitingSinceMs;
    }
    longest?.dismiss(GOODBYE.gaveWay);
    return longest !== null;
  }

  function serve(socket: Socket, isExposed: boolean): void {
    const reason = isStopping ? GOODBYE.stopping : hasPlace() ? null : GOODBYE.full;
    if (reason !== null) {
      refuse(socket, reason, parts);
      return;
    }
    const session = new SmtpSession(socket, { ...parts, secrets, isExposed, wrongLogins });
    const served = session.serve().finally(() => sessions.delete(session));
    sessions.set(session, served);
  }

  return {
    makeServer(isExposed) {
      const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
        serve(socket, isExposed),
      );
      server.maxConnections = SOCKETS_PER_SESSION * sessionsMax;
      return server;
    },
    async stop(withinMs) {
      isStopping = true;
      for (const session of sessions.keys()) session.dismiss(GOODBYE.stopping);
      const deadline = parts.clock.after(withinMs, () => {
        for (const session of sessions.keys()) session.wire.destroy();
      });
      await Promise.all(sessions.values());
      deadline.stop();
      wrongLogins.end();
    },
  };
}

/** Says why there is no session. */
function refuse(socket: Socket, reply: string, parts: SmtpParts): void {
  parts.refused?.(reply === GOODBYE.full ? 'busy' : 'stopping');
  socket.on('error', () => undefined);
  socket.end(`${reply}\r\n`);
  discard(socket, parts.streamed ?? (() => undefined));
  linger(socket, parts.clock);
}
