/**
 * Tries a relay for a person: a session like those of delivery, each step in words, and on request a test mail that goes
 * past the queue.
 */
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../../base/system/clock.js';
import type { Connect } from '../../../base/system/connect.js';
import { bytesInWords, oneLine } from '../../../base/text.js';
import type { TrialFault, TrialStep } from '../../../base/views.js';
import { type Address, domainOf, needsSmtpUtf8, withALabel } from '../../message/address.js';
import { render } from '../../mime/letter.js';
import { heloNameOf, senderOf } from '../../names.js';
import type { MailConfig, RelayConfig } from '../../settings.js';
import type { RelayTokens } from '../oauth/access-tokens.js';
import type { SessionStep } from './conversation.js';
import { meaningOf, outcomeOf, subjectOf } from './failure-classification.js';
import { type Ending, PHASES, parseExtensions, type Reply, SessionError, type Trouble } from './protocol.js';
import { openSession, type Session } from './session.js';

/** What a trial needs. */
export interface TrialOptions {
  /** Without `fromHeader` no program brings mails of its own: none of cron is tried. */
  readonly config: MailConfig & { readonly fromHeader?: 'fix' | 'keep' };
  /** The recipient of a test mail; null: none is sent. */
  readonly to: Address | null;
  readonly tell: (step: TrialStep) => void;
  readonly clock: Clock;
  readonly connect: Connect;
  readonly tokens: Pick<RelayTokens, 'session' | 'close'>;
  readonly hostname: () => string;
  readonly version: string;
  /** Makes the Message-ID unique. */
  readonly id: string;
}

/** Opens a session, sends the test mail if there is one, and closes the session. Gives the fault that ended it, or null. */
export async function tryRelay(relay: RelayConfig, options: TrialOptions): Promise<TrialFault | null> {
  const { config, to, tell, clock, connect, hostname, tokens } = options;
  let isOver = false;
  let isSecure = false;
  const watch = (step: SessionStep) => {
    isSecure ||= step.kind === 'verified';
    if (!isOver) tell(stepOf(step, relay));
  };
  let session: Session | null = null;
  try {
    const { relayPassword: password, relayCa: ca, relayCert: cert, relayKey: key } = config;
    const own = {
      relay,
      password,
      ca,
      cert,
      key,
      timeoutMs: config.smtpTimeoutMs,
      clock,
      connect,
      watch,
      helo: heloNameOf(config, hostname()),
    };
    session = await tokens.session(relay, (token) => openSession({ ...own, token }));
    if (!isSecure) tell({ step: PHASES.tls.step, words: 'none: everything goes in clear text' });
    if (relay.user === null) tell({ step: PHASES.auth.step, words: 'none is configured' });
    return to === null ? null : await sendTests(session, to, options);
  } catch (error) {
    if (error instanceof SessionError) return faultOf(error.ending, false);
    throw error;
  } finally {
    isOver = true;
    await session?.close();
    await tokens.close();
  }
}

/** A mail as programs post it, and one as cron hands it over: relays that check the header may take only one of them. */
async function sendTests(session: Session, to: Address, options: TrialOptions): Promise<TrialFault | null> {
  const { config, hostname, version, tell } = options;
  const from = senderOf(config, hostname);
  const smtpUtf8 = needsSmtpUtf8(from) || needsSmtpUtf8(to);
  const names = [config.from?.name ?? ''];
  if (config.fromHeader !== undefined) names.push(`root on ${hostname()}`);
  const words = `Fieldpost ${version} on ${hostname()} has sent this mail to try the relay.\r\n`;
  for (const [index, name] of names.entries()) {
    const isCron = index > 0;
    const fixed = `${config.fromHeader === 'fix' ? 'with' : 'without'} a From that is fixed`;
    if (isCron) tell({ step: 'mail of cron', words: fixed });
    const subject = `Test mail from ${hostname()}${isCron ? ', as cron sends it' : ''}`;
    const { bytes } = render({
      from: { name, address: from },
      to: [{ name: '', address: to }],
      content: { subject, plain: words, html: '' },
      messageId: `check-${options.id}-${index}@${domainOf(withALabel(from))}`,
      dateMs: options.clock.trust() === 'wrong' ? null : options.clock.wallMs(),
      attachments: [],
    });
    // Without attachments it is one piece.
    const mail = bytes as Buffer;
    const content = isCron && config.fromHeader === 'keep' ? asRoot(mail) : mail;
    const ending = await session.send({ from, to, size: content.length, smtpUtf8 }, content);
    if (outcomeOf(ending, smtpUtf8).kind !== 'sent') return faultOf(ending, smtpUtf8);
  }
  return null;
}

/** The mail with the From header of cron. */
function asRoot(mail: Buffer): Buffer {
  return Buffer.from(mail.toString().replace(/^From: .*$/m, 'From: root (Cron Daemon)'));
}

function stepOf(step: SessionStep, relay: RelayConfig): TrialStep {
  switch (step.kind) {
    case 'resolved':
      return { step: PHASES.resolve.step, words: `${relay.host} has an address` };
    case 'connected':
      return { step: PHASES.connect.step, words: `open to ${step.address}, port ${relay.port}` };
    case 'certificate':
      return { step: 'certificate', words: certificateWords(step.socket) };
    case 'verified':
      return { step: PHASES.tls.step, words: 'the certificate is good' };
    case 'login':
      return { step: PHASES.auth.step, words: `as ${relay.user} by AUTH ${step.mechanism}` };
    case 'reply':
      return { step: PHASES[step.phase].step, words: replyWords(step) };
  }
}

function replyWords({ phase, reply, lines }: Extract<SessionStep, { kind: 'reply' }>): string {
  // A relay may repeat what it was sent.
  if (phase === 'auth' || phase === 'token') return `accepted (${reply.code})`;
  if (phase !== 'ehlo') return reply.text;
  const { sizeLimit } = parseExtensions(lines);
  const size = sizeLimit === null ? '' : `; the largest mail has ${bytesInWords(sizeLimit)}`;
  const words = lines.slice(1).map((line) => line.slice(4));
  return oneLine(`it offers ${words.join(', ') || 'nothing'}${size}`);
}

function certificateWords(socket: TLSSocket): string {
  const { subject, issuer, subjectaltname, valid_to: until } = socket.getPeerCertificate();
  // Node gives no date in a form of its own.
  const date = Number.isNaN(Date.parse(until))
    ? until
    : new Date(Date.parse(until)).toISOString().slice(0, 10);
  const names = subjectaltname?.replace(/(?:DNS|IP Address):/g, '') ?? subject?.CN ?? 'nobody';
  return oneLine(
    `${socket.getProtocol()}, for ${names}, signed by ${issuer?.CN ?? issuer?.O ?? 'nobody'}, until ${date}`,
  );
}

/** The fault in an ending. `smtpUtf8`: the envelope has an address beyond ASCII. */
function faultOf(ending: Ending, smtpUtf8: boolean): TrialFault {
  const step = PHASES[ending.phase].step;
  if ('trouble' in ending) {
    const { kind, words } = ending.trouble;
    const [blame, hint] = TROUBLES[kind] ?? ['relay', ''];
    return { step, words, blame, hint };
  }
  const { phase, reply } = ending;
  const hint = meaningOf(phase, reply)?.words ?? '';
  const words = `refused: ${reply.text}`;
  if (step === PHASES.auth.step)
    return { step, words, blame: isFinal(reply) ? 'login' : 'relay', hint: hint || LOGIN_HINT };
  return { step, words, blame: blameFor(ending, smtpUtf8), hint };
}

function blameFor(ending: Extract<Ending, { reply: Reply }>, smtpUtf8: boolean): TrialFault['blame'] {
  const { suspect } = outcomeOf(ending, smtpUtf8);
  if (suspect === 'message' || suspect === 'unclear') return 'mail';
  const meaning = meaningOf(ending.phase, ending.reply);
  if (meaning === null || meaning.isOfAccount) return 'relay';
  return subjectOf(ending.phase, ending.reply) === 'login' ? 'login' : 'settings';
}

function isFinal({ code }: Reply): boolean {
  return code >= 500;
}

const LOGIN_HINT =
  'see FIELDPOST_RELAY_USER, and FIELDPOST_RELAY_PASSWORD_FILE or the settings of the access token';
const PLACE_HINT = 'check host and port in FIELDPOST_RELAY, and the network of this device';

/** By the kind of trouble; a hint is empty if the words have one. */
const TROUBLES: Partial<Record<Trouble['kind'], readonly [TrialFault['blame'], string]>> = {
  dns: ['relay', PLACE_HINT],
  refused: ['relay', PLACE_HINT],
  unreachable: ['relay', PLACE_HINT],
  deadline: ['relay', PLACE_HINT],
  tls: ['relay', 'smtps:// is for TLS from the first byte (port 465); smtp:// is for STARTTLS (587 and 25)'],
  certificate: [
    'settings',
    'the host in FIELDPOST_RELAY must be a name in the certificate, which must be valid',
  ],
  'certificate-unknown-authority': ['settings', ''],
  'client-certificate': ['settings', ''],
  'no-starttls': ['settings', 'only ?tls=never in FIELDPOST_RELAY allows clear text'],
  'no-token': ['login', ''],
  'no-auth': ['login', 'take the user out of FIELDPOST_RELAY if it wants none'],
  'too-large': ['mail', ''],
  'no-smtputf8': ['mail', ''],
};
