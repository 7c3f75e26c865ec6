/**
 * AUTH PLAIN and LOGIN (RFC 4954, RFC 4616): any user name, and a token of the local API as the password.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { digest, isOneOf } from '../../base/http/access.js';

/** `cancelled` and `malformed`: the client's mistake, which tells nothing of the password. */
type LoginResult = 'good' | 'good-to-send' | 'wrong' | 'cancelled' | 'malformed' | 'unknown' | 'closed';

/** Digests of the tokens, and of those for sending only. */
export interface Secrets {
  readonly all: readonly Buffer[];
  readonly send: readonly Buffer[];
}

/** Sends a challenge (empty, or base64) and gives the client's answer; null: it has closed the connection. */
type Challenge = (text: string) => Promise<string | null>;

const USERNAME = Buffer.from('Username:').toString('base64');
const PASSWORD = Buffer.from('Password:').toString('base64');

/** Carries out `AUTH <argument>`. */
export async function login(argument: string, challenge: Challenge, secrets: Secrets): Promise<LoginResult> {
  const [mechanism = '', initial, ...more] = argument.split(/ +/);
  if (more.length > 0) return 'malformed';
  switch (mechanism.toUpperCase()) {
    case 'PLAIN': {
      const answer = await answerTo('', challenge, initial);
      if ('result' in answer) return answer.result;
      // An identity to act as, a user, and the password.
      const parts = answer.text.split('\0');
      return parts.length === 3 ? judge(parts[2] as string, secrets) : 'malformed';
    }
    case 'LOGIN': {
      const user = await answerTo(USERNAME, challenge, initial);
      if ('result' in user) return user.result;
      const password = await answerTo(PASSWORD, challenge);
      return 'result' in password ? password.result : judge(password.text, secrets);
    }
    default:
      return 'unknown';
  }
}

function judge(password: string, { all, send }: Secrets): LoginResult {
  const given = digest(password);
  if (!isOneOf(given, all)) return 'wrong';
  return isOneOf(given, send) ? 'good-to-send' : 'good';
}

async function answerTo(
  text: string,
  challenge: Challenge,
  initial?: string,
): Promise<{ readonly text: string } | { readonly result: LoginResult }> {
  const answer = initial ?? (await challenge(text));
  if (answer === null) return { result: 'closed' };
  if (answer === '*') return { result: 'cancelled' };
  // RFC 4954 §4: `=` is an empty initial response.
  const base64 = initial === '=' ? '' : answer;
  const octets = Buffer.from(base64, 'base64');
  const isGood = unpadded(octets.toString('base64')) === unpadded(base64) && isUtf8(octets);
  return isGood ? { text: octets.toString() } : { result: 'malformed' };
}

function unpadded(base64: string): string {
  return base64.replace(/(?<!=)=+$/, '');
}
