/**
 * The ways to the daemon of this device: its unix sockets, then loopback TCP. A call takes the first that works. If none
 * does, it tries for a while: the daemon may be restarting.
 */
import { type Environment, type ListenConfig, parseConfig } from '../config.js';
import { SENDMAIL_PAUSE_MS, SENDMAIL_TRY_MS } from '../limits.js';
import { API_SOCKET, type Call, CallError, callOn, isPassing } from './client.js';
import { type CommandContext, CommandError, EXIT } from './command.js';
import { hasOwnSettings, tolerantEnvironment } from './environment.js';

/** The sockets of the systemd units. */
const SOCKETS: readonly ListenConfig[] = [
  { kind: 'unix', path: '/run/fieldpost/send.sock', sendOnly: true },
  API_SOCKET,
];

/** A call that may send only, or one that needs an operator's access. */
export type Purpose = 'send' | 'operate';

/**
 * A function that calls the daemon. Repeat a call only if it is safe: with an Idempotency-Key. Throws CommandError: 75 if no
 * daemon answers in time, 77 if this user may use no way.
 */
export function reach(purpose: Purpose, context: CommandContext): Call {
  const { listeners, token } = settingsOf(context);
  const calls = inOrder(listeners, purpose).map((listener) => callOn(listener, token, context));
  return async (method, path, content) => {
    const endMs = context.clock.bootMs() + SENDMAIL_TRY_MS;
    for (;;) {
      const faults: CallError[] = [];
      for (const call of calls) {
        try {
          return await call(method, path, content);
        } catch (error) {
          if (!(error instanceof CallError) || !(isShut(error) || isPassing(error))) throw error;
          faults.push(error);
        }
      }
      if (!faults.some(isPassing)) throw faults.at(-1) ?? noWay();
      if (context.clock.bootMs() >= endMs) throw tooLate(faults);
      await context.pause(SENDMAIL_PAUSE_MS);
    }
  };
}

/** True if this user may not use that way, or another program has taken it. */
function isShut({ status, code }: CallError): boolean {
  if (status === 0) return ['', 'EACCES', 'EPERM'].includes(code);
  return status === 401 || status === 403;
}

function tooLate(faults: readonly CallError[]): CommandError {
  return new CommandError(EXIT.tempFail, faults.map(({ message }) => message).join('; '));
}

function noWay(): CommandError {
  return new CommandError(EXIT.config, 'FIELDPOST_LISTEN names no listener');
}

/** Sockets first, because they wait for a daemon that restarts. */
function inOrder(listeners: readonly ListenConfig[], purpose: Purpose): ListenConfig[] {
  const rank = (one: ListenConfig) => {
    if (one.kind === 'unix' && one.sendOnly) return purpose === 'send' ? 0 : 3;
    return one.kind === 'unix' ? 1 : 2;
  };
  return [...listeners].sort((a, b) => rank(a) - rank(b));
}

/** The listeners of the service's settings, as far as this user can read them, and those of its units. */
function settingsOf(context: CommandContext): { listeners: readonly ListenConfig[]; token: string | null } {
  const env = tolerantEnvironment(context);
  const isAsked = hasOwnSettings(context.env);
  const { FIELDPOST_LISTEN, FIELDPOST_API_TOKEN, FIELDPOST_API_TOKEN_FILE, CREDENTIALS_DIRECTORY } = env;
  const token = { FIELDPOST_API_TOKEN, FIELDPOST_API_TOKEN_FILE, CREDENTIALS_DIRECTORY };
  // This user may have no permission to read the token, and a setting may have a fault: then it does without.
  const tries: Environment[] = [{ FIELDPOST_LISTEN, ...token }, { FIELDPOST_LISTEN }, {}];
  for (const one of tries) {
    const parsed = parseConfig(one, context.read, context);
    if ('problems' in parsed) continue;
    const { listen, apiToken } = parsed.config;
    const sockets = isAsked ? [] : SOCKETS;
    return { listeners: [...sockets, ...listen], token: apiToken ?? sendTokenOf(env, context) };
  }
  return { listeners: SOCKETS, token: null };
}

/** The token for senders; null if there is none, or if this user cannot read it. */
function sendTokenOf(env: Environment, { read }: CommandContext): string | null {
  const { FIELDPOST_SEND_TOKEN, FIELDPOST_SEND_TOKEN_FILE } = env;
  if (FIELDPOST_SEND_TOKEN_FILE === undefined) return FIELDPOST_SEND_TOKEN ?? null;
  try {
    const token = read(FIELDPOST_SEND_TOKEN_FILE).trim();
    return /^[\x21-\x7e]+$/.test(token) ? token : null;
  } catch {
    return null;
  }
}
