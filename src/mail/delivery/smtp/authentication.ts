/**
 * The login at a relay. What the relay says is told to people, so secrets that it repeats are taken out, also of its later
 * replies.
 */
import { Buffer } from 'node:buffer';
import { withoutSecrets } from '../../../base/text.js';
import type { Conversation } from './conversation.js';
import type { Ending } from './reply.js';
import { challengeStatusOf, type Login, mechanismFor } from './sasl.js';
import { SessionError } from './session.js';

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
