/**
 * The calls of `sendmail`, which needs no readable settings and has nobody to ask: while no way to the daemon works, it
 * tries for a while, because the daemon may be restarting.
 */

import { parseConfig } from '../base/config/config.js';
import type { Environment, ListenConfig } from '../base/config/types.js';
import { EXIT } from '../base/errors.js';
import { SENDMAIL_PAUSE_MS, SENDMAIL_TRY_MS } from '../base/limits.js';
import { type Call, type CallError, callFirst, isPassing, isShut, type Purpose, waysOver } from './client.js';
import { type CommandContext, CommandError } from './command.js';
import { hasOwnSettings, tolerantEnvironment } from './environment.js';

/**
 * A function that calls the daemon. Repeat a call only if it is safe: with an Idempotency-Key. Throws CommandError: 75 if no
 * daemon answers in time, 77 if this user may use no way.
 */
export function reach(purpose: Purpose, context: CommandContext): Call {
  const env = tolerantEnvironment(context);
  const { listeners, token } = settingsOf(env, context);
  const ways = waysOver(listeners, purpose, token, { ...context, env });
  return async (...request) => {
    const endMs = context.clock.bootMs() + SENDMAIL_TRY_MS;
    for (;;) {
      const { answer, faults } = await callFirst(ways, request, (fault) => isShut(fault) || isPassing(fault));
      if (answer !== null) return answer;
      if (!faults.some(isPassing)) throw faults.at(-1) ?? noWay();
      if (context.clock.bootMs() >= endMs) throw tooLate(faults);
      await context.pause(SENDMAIL_PAUSE_MS);
    }
  };
}

function tooLate(faults: readonly CallError[]): CommandError {
  return new CommandError(EXIT.tempFail, faults.map(({ message }) => message).join('; '));
}

function noWay(): CommandError {
  return new CommandError(EXIT.config, 'FIELDPOST_LISTEN names no listener');
}

/** The listeners of the service's settings, as far as this user can read them, and those of its units. */
function settingsOf(
  env: Environment,
  context: CommandContext,
): { listeners: readonly ListenConfig[]; token: string | null } {
  const isAsked = hasOwnSettings(context.env);
  const { FIELDPOST_LISTEN, FIELDPOST_API_TOKEN, FIELDPOST_API_TOKEN_FILE, CREDENTIALS_DIRECTORY } = env;
  const token = { FIELDPOST_API_TOKEN, FIELDPOST_API_TOKEN_FILE, CREDENTIALS_DIRECTORY };
  // This user may have no permission to read the token, and a setting may have a fault: then it does without.
  const tries: Environment[] = [{ FIELDPOST_LISTEN, ...token }, { FIELDPOST_LISTEN }, {}];
  for (const one of tries) {
    const parsed = parseConfig(one, context.read, context);
    if ('problems' in parsed) continue;
    const { listen, apiToken } = parsed.config;
    const sockets = isAsked ? [] : context.sockets;
    return { listeners: [...sockets, ...listen], token: apiToken ?? sendTokenOf(env, context) };
  }
  return { listeners: context.sockets, token: null };
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
