/**
 * The cloud as one of the relays: a mail goes to it as `message/rfc822`. Its key is the message's id, so an attempt whose
 * answer was lost is repeated without harm.
 */
import { Buffer } from 'node:buffer';
import { MINUTE_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { TrialFault, TrialStep } from '../../base/views.js';
import { type Address, domainOf, withALabel } from '../message/address.js';
import type { SendMail, ShortAnswer } from '../message/message.js';
import { render } from '../mime/letter.js';
import { senderOf } from '../names.js';
import type { MailConfig } from '../settings.js';
import { PAUSES } from './smtp/failure-classification.js';
import { type Envelope, SessionError } from './smtp/protocol.js';
import type { Outcome } from './transport.js';

/** As after the final dot of SMTP. */
const ANSWER_MS = 10 * MINUTE_MS;

/** How mails go to the cloud. */
interface MailWay {
  readonly sendMail: SendMail;
  /** True while the link to the cloud is. */
  readonly isOnline: () => boolean;
}

/** What a line has in place of a session with a relay. The HTTP client keeps the connections. */
export class CloudSession {
  readonly usable = true;
  readonly takesAhead = false;
  readonly sizeLimit = null;
  /** True if the cloud could be reached at the last offer. */
  hasHeard = false;
  readonly #way: MailWay;
  readonly #timeoutMs: number;
  readonly #abort = new AbortController();

  constructor(way: MailWay, timeoutMs: number) {
    this.#way = way;
    this.#timeoutMs = timeoutMs;
  }

  oneByOne(): void {}

  /** Offers the mail of this id. Never rejects. */
  async offer(
    id: string,
    { to, size }: Pick<Envelope, 'to' | 'size'>,
    octets: Buffer | AsyncIterable<Buffer>,
  ): Promise<Outcome> {
    const limits = { timeoutMs: this.#timeoutMs, answerMs: ANSWER_MS };
    const answer = await this.#way.sendMail({ id, to: [to], size, octets, ...limits }, this.#abort.signal);
    // Any page of a network on the way may answer; the link knows the cloud.
    this.hasHeard = answer.kind !== 'later' || this.#way.isOnline();
    return cloudOutcomeOf(answer);
  }

  async close(): Promise<void> {
    this.#abort.abort();
  }
}

/**
 * What an answer means for a mail.
 *
 * | answer                           | kind     | suspect   |
 * |----------------------------------|----------|-----------|
 * | 2xx with the id                  | sent     |           |
 * | 400, 413, 415, 422 and a problem | failed   |           |
 * | 501                              | deferred | device    |
 * | any other                        | deferred | peer here |
 * | none, after a connection         | deferred | either    |
 * | no connection                    | deferred | peer      |
 */
export function cloudOutcomeOf(answer: ShortAnswer): Outcome {
  const { reply } = answer;
  const common = { reply, reason: reply, retryAfterMs: 0 };
  if (answer.kind !== 'later') {
    const kind = answer.kind === 'taken' ? 'sent' : 'failed';
    return { ...common, kind, suspect: null, isProof: true };
  }
  const { isReached, status } = answer;
  const later = { ...common, kind: 'deferred', isProof: false } as const;
  // It takes no mails at all: an operator has to change that.
  if (status === 501) return { ...later, suspect: 'device', pauses: PAUSES };
  if (!isReached) return { ...later, suspect: 'peer' };
  // Where the cloud has taken the mail, its key makes it one.
  if (status === undefined) return { ...later, suspect: 'either', isDoubtful: true };
  return { ...later, suspect: 'peer here', retryAfterMs: answer.retryAfterMs ?? 0 };
}

/** What a trial of the cloud needs. */
export interface CloudTrial {
  readonly config: MailConfig;
  readonly to: Address | null;
  readonly tell: (step: TrialStep) => void;
  readonly clock: Pick<Clock, 'trust' | 'wallMs'>;
  readonly hostname: () => string;
  readonly version: string;
  readonly id: string;
}

/** Blames the login for these statuses. */
const LOGIN = [401, 403];

/**
 * Tries whether the cloud takes mails. Without a recipient it offers nothing to nobody, which a cloud that takes mails
 * refuses. Gives the fault, or null. `sendMail` is null without a link to a cloud.
 */
export async function tryCloud(
  sendMail: SendMail | null,
  { config, to, tell, clock, hostname, version, id }: CloudTrial,
): Promise<TrialFault | null> {
  if (sendMail === null) return { step: 'cloud', words: NO_LINK, blame: 'settings', hint: '' };
  const from = senderOf(config, hostname);
  const { size, bytes } = render({
    from: { name: config.from?.name ?? '', address: from },
    to: to === null ? [] : [{ name: '', address: to }],
    content: {
      subject: `Test mail from ${hostname()}`,
      plain: `Fieldpost ${version} on ${hostname()} has sent this mail to try the cloud.\r\n`,
      html: '',
    },
    messageId: `check-${id}@${domainOf(withALabel(from))}`,
    dateMs: clock.trust() === 'wrong' ? null : clock.wallMs(),
    attachments: [],
  });
  const mail = to === null ? { to: [], size: 0, octets: Buffer.alloc(0) } : { to: [to], size, octets: bytes };
  const limits = { timeoutMs: config.smtpTimeoutMs, answerMs: config.smtpTimeoutMs };
  const answer = await sendMail({ ...mail, ...limits, id: `check-${id}` }, new AbortController().signal);
  const { reply } = answer;
  const isGood = answer.kind === (to === null ? 'refused' : 'taken');
  if (isGood) {
    tell({ step: 'mail', words: to === null ? 'the cloud takes mails' : `accepted (${reply})` });
    return null;
  }
  const step = { step: 'mail', words: reply, hint: '' };
  if (answer.kind !== 'later') return { ...step, blame: 'mail' };
  const { status = 0 } = answer;
  if (LOGIN.includes(status)) return { ...step, blame: 'login', hint: 'see FIELDPOST_CLOUD_KEY_FILE' };
  const hint = 'see FIELDPOST_CLOUD_SERVER_MAILS of the cloud, or name another relay in FIELDPOST_RELAY';
  return status === 501 ? { ...step, blame: 'settings', hint } : { ...step, blame: 'relay' };
}

/** Why the relay `cloud` cannot be used: a reload does not open the link. */
const NO_LINK = 'the link to the cloud of FIELDPOST_CLOUD begins with a restart';

/** The failure to open a session without a link. */
export function noLink(): SessionError {
  return new SessionError({ phase: 'connect', trouble: { kind: 'unreachable', words: NO_LINK } });
}
