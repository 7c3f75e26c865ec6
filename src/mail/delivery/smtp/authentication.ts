/**
 * The login at a relay (RFC 4954): PLAIN and LOGIN for a password, OAUTHBEARER (RFC 7628) and XOAUTH2 for an access token.
 * What the relay says is told to people, so secrets that it repeats are taken out, also of its later replies.
 */
import { Buffer } from 'node:buffer';
import { withoutSecrets } from '../../../base/text.js';
import type { Conversation } from './conversation.js';
import { type Ending, SessionError } from './protocol.js';

/** RFC 5321 §4.5.3.1.4: a longer AUTH command sends its response alone. */
const COMMAND_CHARS_MAX = 512;

/** Who logs in where. A token takes the place of the password. */
interface Login {
  readonly user: string;
  readonly password: string;
  readonly token: string | null;
  readonly host: string;
  readonly port: number;
}

/** Logs in by a mechanism that the relay offers. Rejects with SessionError, and the conversation has ended. */
export async function authenticate(
  talk: Conversation,
  login: Login,
  offered: ReadonlySet<string>,
): Promise<void> {
  const phase = login.token === null ? 'auth' : 'token';
  const mechanism = mechanismFor(login, offered);
  if (mechanism === null)
    talk.fail(
      phase,
      'no-auth',
      login.token === null
        ? 'offers neither AUTH PLAIN nor LOGIN'
        : 'offers neither AUTH OAUTHBEARER nor XOAUTH2, for which the access token is',
    );
  const { lines, dismissal } = mechanism;
  let challenge = '';
  const secrets = secretsOf(login, lines);
  talk.hide(secrets);
  try {
    for (const line of lines) {
      const { replies } = talk.demand(await talk.exchange([phase], `${line}\r\n`));
      if (replies[0]?.code !== 334) return;
      challenge = replies[0].text;
    }
    if (dismissal !== null) talk.demand(await talk.exchange([phase], `${dismissal}\r\n`));
    talk.fail(phase, 'garbage', 'continues AUTH after its end');
  } catch (error) {
    if (!(error instanceof SessionError)) throw error;
    const status = dismissal === null ? null : challengeStatusOf(challenge);
    throw new SessionError(withStatus(error.ending, status && withoutSecrets(status, secrets)));
  }
}

/** What must not be told of a login: the secret itself, each form in which it was sent, and those of AUTH PLAIN and LOGIN. */
function secretsOf({ user, password, token }: Login, lines: readonly string[]): readonly string[] {
  const secret = token ?? password;
  const sent = lines.map((line) => line.replace(/^AUTH \S+ ?/, ''));
  const encoded = [secret, `\0${user}\0${secret}`].map((text) => Buffer.from(text).toString('base64'));
  return [secret, ...encoded, ...sent].filter((text) => text !== '');
}

/** The same ending with the status of the challenge. */
function withStatus(ending: Ending, status: string | null): Ending {
  if (status === null || 'trouble' in ending) return ending;
  return { ...ending, reply: { ...ending.reply, text: `${ending.reply.text} (${status})` } };
}

/** One way to log in. */
interface Mechanism {
  /** The command, and each answer to a 334. */
  readonly lines: readonly string[];
  /** The answer to the 334 that tells why the login is refused, so that the refusal follows; null: there is none. */
  readonly dismissal: string | null;
}

/**
 * The mechanism for this login of those that the relay offers; null if it offers none. OAUTHBEARER comes first: it is the
 * standard, and names the host for which the token is meant. Google and Dovecot offer both, Microsoft XOAUTH2 alone.
 */
function mechanismFor(login: Login, offered: ReadonlySet<string>): Mechanism | null {
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
function challengeStatusOf(text: string): string | null {
  const json = Buffer.from(text.replace(/^334\s*/, ''), 'base64').toString();
  return /"status"\s*:\s*"([\w.-]{1,64})"/.exec(json)?.[1] ?? null;
}

/** A response that makes the command too long goes alone, after an empty 334. */
function bearer(name: string, response: string, dismissal: string): Mechanism {
  const line = `AUTH ${name} ${base64(response)}`;
  const fits = line.length + '\r\n'.length <= COMMAND_CHARS_MAX;
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
