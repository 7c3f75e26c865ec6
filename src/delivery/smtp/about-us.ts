/**
 * Refusals that concern this device (its name, its sender or its login), not the recipient or the mail. Relays give
 * them as late as RCPT (Postfix by default), or after the content (Exchange Online). Pure.
 */
import type { Phase, Reply } from './reply.js';

/** The part of this device's identity that the relay refuses. */
type Complaint = 'sender' | 'name' | 'client' | 'login' | 'encryption' | 'relaying' | 'protocol';

/** The setting to correct, as a sentence about the relay. */
const REMEDIES: Readonly<Record<Complaint, string>> = {
  sender: 'it does not take our sender address: set FIELDPOST_FROM to one that it takes',
  name: 'it does not take the name of this device: set FIELDPOST_HELO_NAME to a full host name, such as pump-3.example.com',
  client:
    'it takes no mail from the address of this device: log in (FIELDPOST_RELAY_USER), or ask the operator of the relay',
  login:
    'it wants another login: see FIELDPOST_RELAY_USER, and FIELDPOST_RELAY_PASSWORD_FILE or the settings of the access token',
  encryption: 'it wants TLS: take ?tls=never out of FIELDPOST_RELAY',
  relaying: 'it does not relay this for us: log in (FIELDPOST_RELAY_USER), or ask the operator of the relay',
  protocol: 'it does not follow our commands',
};

/** Words of mail servers, in the order in which they are tried, and where they come from. */
const WORDS: readonly (readonly [words: RegExp, complaint: Complaint])[] = [
  // Postfix: smtpd_check.c, smtpd_check.h (SMTPD_NAME_*), smtpd_sasl_glue.c; postconf(5) rbl default reply.
  [/Helo command (?:rejected|\[[^\]]*\] blocked)/i, 'name'],
  [/Sender address rejected: not (?:logged in|owned by user)/i, 'login'],
  [/Sender address (?:rejected|\[[^\]]*\] blocked)/i, 'sender'],
  [/Client (?:host|certificate) (?:rejected|\[[^\]]*\] blocked)/i, 'client'],
  [/SASL login name rejected/i, 'login'],
  [/Relay access denied/i, 'relaying'],
  [/Must issue a STARTTLS command first|Session encryption is required/i, 'encryption'],
  [/Data command rejected/i, 'protocol'],
  [/access denied for \S+\[/i, 'client'],
  // Exim: acl.c, verify.c, smtp_in.c; configure.default (acl_check_rcpt).
  [/Sender verify failed|Could not complete sender verify|sender address must contain a domain/i, 'sender'],
  [/argument does not match calling host/i, 'name'],
  [/relay not permitted/i, 'relaying'],
  // Sendmail: cf/m4/proto.m4 (check_mail, check_rcpt, trust_auth), cf/feature/require_rdns.m4.
  [/domain of sender address|domain name required for sender address/i, 'sender'],
  [/Relaying (?:temporarily )?denied/i, 'relaying'],
  [/not allowed to act as/i, 'login'],
  [/Fix reverse DNS/i, 'client'],
  // OpenSMTPD: smtp_session.c. Its "Invalid recipient" means either, so it is not here.
  [/Sender rejected|Sender address syntax error/i, 'sender'],
  [/Must issue an AUTH command first/i, 'login'],
  // Exchange Online: "Email non-delivery reports in Exchange Online" and "Fix 5.7.700 through 5.7.750", learn.microsoft.com.
  [/SendAsDenied|permissions to send as this sender|bad outbound sender|unregistered domain/i, 'sender'],
  [/not pass DMARC|DMARC policy/i, 'sender'],
  [/Client was not authenticated/i, 'login'],
  [/Unable to relay|Tenant(?:Inbound)?Attribution/i, 'relaying'],
  [/traffic not accepted from this IP|exceeded threshold|banned sending IP/i, 'client'],
  // Words of several mail servers.
  [/authentication (?:is )?required|authenticate first/i, 'login'],
  [/reverse DNS|PTR record/i, 'client'],
];

/** Enhanced codes by their subject and detail: RFC 3463 §3.2 and §3.8, RFC 4954 §6, RFC 7372, RFC 7505. */
const DETAILS: Readonly<Record<string, Complaint>> = {
  '1.7': 'sender',
  '1.8': 'sender',
  '7.8': 'login',
  '7.9': 'login',
  '7.10': 'encryption',
  '7.11': 'encryption',
  '7.13': 'login',
  '7.23': 'sender',
  '7.24': 'sender',
  '7.25': 'client',
  '7.26': 'sender',
  '7.27': 'sender',
};

/** Codes that never concern a recipient: RFC 4954 §6, RFC 5321 §4.2.4. */
const CODES: Readonly<Record<number, Complaint>> = {
  502: 'protocol',
  503: 'protocol',
  530: 'login',
  535: 'login',
  538: 'encryption',
};

/** What a refusal (4xx or 5xx) objects to in this device; null if it concerns the recipient, the mail or the relay. */
export function complaintOf(phase: Phase, { code, enhanced, text }: Reply): Complaint | null {
  for (const [words, complaint] of WORDS) if (words.test(text)) return complaint;
  const detail = enhanced?.slice(2) ?? '';
  const complaint = DETAILS[detail];
  if (complaint !== undefined) return complaint;
  if (code < 500 || (phase !== 'mail' && phase !== 'rcpt')) return null;
  if (CODES[code] !== undefined) return CODES[code];
  // MAIL contains only our sender; 5.3.x is a fault of the relay.
  if (phase === 'mail') return detail.startsWith('3.') ? null : 'sender';
  // A Postfix policy service says "Recipient address rejected" (5.7.x) for every reason: the text proves nothing.
  if (detail.startsWith('7.')) return 'relaying';
  return detail.startsWith('5.') && !/recipient/i.test(text) ? 'protocol' : null;
}

/** What to correct, as a sentence; empty if it is not known. */
export function remedyOf(phase: Phase, reply: Reply): string {
  const complaint = complaintOf(phase, reply);
  return complaint === null ? '' : REMEDIES[complaint];
}
