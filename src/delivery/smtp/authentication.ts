/**
 * The login at a relay. What the relay says to it is told to people, so secrets that it repeats are taken out.
 */
import { withoutSecrets } from '../../text.js';
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
    const secrets = [login.token ?? '', ...lines.map((line) => line.replace(/^AUTH \S+ ?/, ''))];
    const status = dismissal === null ? null : challengeStatusOf(challenge);
    throw new SessionError(harmless(error.ending, secrets, status));
  }
}

/** The same ending without secrets, and with the status of the challenge. */
function harmless(ending: Ending, secrets: readonly string[], status: string | null): Ending {
  if ('trouble' in ending) {
    const { kind, words } = ending.trouble;
    return { ...ending, trouble: { kind, words: withoutSecrets(words, secrets) } };
  }
  const text = withoutSecrets(ending.reply.text, secrets);
  return { ...ending, reply: { ...ending.reply, text: status === null ? text : `${text} (${status})` } };
}
