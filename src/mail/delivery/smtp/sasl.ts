/**
 * What a client says in AUTH (RFC 4954): PLAIN and LOGIN for a password, OAUTHBEARER (RFC 7628) and XOAUTH2 for an access
 * token.
 */
import { Buffer } from 'node:buffer';
import { SMTP_COMMAND_CHARS_MAX } from '../../mail-limits.js';

/** Who logs in where. A token takes the place of the password. */
export interface Login {
  readonly user: string;
  readonly password: string;
  readonly token: string | null;
  readonly host: string;
  readonly port: number;
}

/** One way to log in. */
export interface Mechanism {
  /** The command, and each answer to a 334. */
  readonly lines: readonly string[];
  /** The answer to the 334 that tells why the login is refused, so that the refusal follows; null: there is none. */
  readonly dismissal: string | null;
}

/**
 * The mechanism for this login of those that the relay offers; null if it offers none. OAUTHBEARER comes first: it is the
 * standard, and names the host for which the token is meant. Google and Dovecot offer both, Microsoft XOAUTH2 alone.
 */
export function mechanismFor(login: Login, offered: ReadonlySet<string>): Mechanism | null {
  const { user, password, token } = login;
  if (token !== null) {
    if (offered.has('OAUTHBEARER')) return bearer('OAUTHBEARER', oauthBearer(login, token), 'AQ==');
    if (offered.has('XOAUTH2')) return bearer('XOAUTH2', `user=${user}\x01auth=Bearer ${token}\x01\x01`, '');
    return null;
  }
  if (offered.has('PLAIN'))
    return { lines: [`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`], dismissal: null };
  if (offered.has('LOGIN')) return { lines: ['AUTH LOGIN', base64(user), base64(password)], dismissal: null };
  return null;
}

/** The `status` in a 334 that refuses a token, such as `invalid_token`; null if there is none. */
export function challengeStatusOf(text: string): string | null {
  const json = Buffer.from(text.replace(/^334\s*/, ''), 'base64').toString();
  return /"status"\s*:\s*"([\w.-]{1,64})"/.exec(json)?.[1] ?? null;
}

/** A response that makes the command too long goes alone, after an empty 334. */
function bearer(name: string, response: string, dismissal: string): Mechanism {
  const line = `AUTH ${name} ${base64(response)}`;
  const fits = line.length + '\r\n'.length <= SMTP_COMMAND_CHARS_MAX;
  return { lines: fits ? [line] : [`AUTH ${name}`, base64(response)], dismissal };
}

function oauthBearer({ user, host, port }: Login, token: string): string {
  // RFC 5801 §4: a comma ends the name.
  const name = user.replaceAll('=', '=3D').replaceAll(',', '=2C');
  return `n,a=${name},\x01host=${host}\x01port=${port}\x01auth=Bearer ${token}\x01\x01`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
