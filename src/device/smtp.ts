/**
 * The SMTP server within the daemon. Its code is loaded only if it has somewhere to listen.
 */
import { needsToken } from '../base/config/consistency.js';
import { addressOf } from '../base/config/endpoints.js';
import { heloNameOf, isOfThisDevice } from '../base/config/names.js';
import type { Config } from '../base/config/settings.js';
import type { ListenConfig } from '../base/config/types.js';
import { type ErrorCode, FieldpostError } from '../base/errors.js';
import { type Listeners, openListeners } from '../base/system/listen.js';
import { secureSocket } from '../base/system/tls-door.js';
import { namesOf, type System } from '../mail/engine.js';
import type { BeginMail } from '../mail/message/mail-intake.js';

/** An SMTP server that listens. */
export interface SmtpSide extends Listeners {
  /** Ends the connections, within bounds. Call `close` before, and wait for it after. */
  stop(withinMs: number): Promise<void>;
}

/**
 * Opens the listeners of FIELDPOST_SMTP_LISTEN and of fieldpost-smtp.socket; null without any. Rejects as those do.
 * `isApiOpen`: anybody on this device may do everything over the local API.
 */
export async function openSmtp(
  live: Config,
  system: System,
  begin: BeginMail,
  refused: (code: ErrorCode) => void,
  isApiOpen: () => boolean,
): Promise<SmtpSide | null> {
  const handed = system.handed?.filter(({ use }) => use === 'smtp') ?? [];
  if (live.smtpListen.length === 0 && handed.length === 0) return null;
  const { createSmtpServer } = await import('../mail/smtp-server/smtp-server.js');
  const { clock, log, streamed, hostname } = system;
  const { apiToken, sendToken } = live;
  const server = createSmtpServer({
    begin,
    refused,
    name: () => heloNameOf(live, hostname()),
    limitBytes: () => live.maxMessageBytes,
    localAddress: () => live.localMail,
    isOfThisDevice: (address) => isOfThisDevice(address, live, namesOf(system)),
    // Whoever may send over HTTP may send here, by the same rule.
    tokens: [apiToken, sendToken].filter((token) => token !== null),
    sendTokens: sendToken === null || sendToken === apiToken ? [] : [sendToken],
    strangersOnlySend: () => !isApiOpen(),
    tls: { identity: () => identityOf(live), secure: secureSocket },
    clock,
    log,
    streamed,
    descriptors: system.descriptors,
  });
  const makeServer = (address: ListenConfig) => {
    const isExposed = needsToken(address);
    // The check of the settings does not know the addresses of systemd's sockets.
    if (address.kind === 'unix' || (isExposed && apiToken === null)) throw unguarded(address);
    return server.makeServer(isExposed);
  };
  const open = system.openListeners ?? openListeners;
  const listeners = await open(live.smtpListen, makeServer, handed, 'FIELDPOST_SMTP_LISTEN', { clock, log });
  return { ...listeners, stop: (withinMs) => server.stop(withinMs) };
}

function identityOf({ smtpCert: cert, smtpKey: key }: Config) {
  return cert === null || key === null ? null : { cert, key };
}

function unguarded(address: ListenConfig): FieldpostError {
  const words =
    address.kind === 'unix'
      ? `${addressOf(address)}, handed over by systemd for SMTP, is no address with a port`
      : `${addressOf(address)}, handed over by systemd for SMTP, can be reached from other devices: that needs a token`;
  return new FieldpostError('bad-config', words, {
    hint: 'see FIELDPOST_API_TOKEN_FILE and fieldpost-smtp.socket',
  });
}
