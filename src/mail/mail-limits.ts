/**
 * Limits of mails, of the SMTP server, and of access tokens, as limits.ts has them.
 */
import { DAY_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from '../base/limits.js';

// The SMTP server (doors.md). For the pace of a mail it has the limits of a request.
export const SMTP_CONNECTIONS_MAX = 32;
/** Longer than RFC 5321 §4.5.3.1.4 asks for: a path beyond ASCII with its parameters, and a long token in AUTH. */
export const SMTP_LINE_BYTES_MAX = 2 * KIB;
/** RFC 5321 §4.5.3.1.5: a line of a reply has 512 octets, with its CR LF. */
export const SMTP_REPLY_CHARS_MAX = 510;
/** Early input is refused: a client that does not wait for the greeting is no mail client. Its bytes are here by then. */
export const SMTP_GREETING_MS = 1;
/** RFC 5321 §4.5.3.2.7: so long a server waits for the next command, from its reply to the end of the line. */
export const SMTP_IDLE_MS = 5 * MINUTE_MS;
/** While no connection is free, a client that has been idle for this long gives way. */
export const SMTP_GIVE_WAY_MS = 10 * SECOND_MS;
/** A client with more mistakes than this since its last mail is disconnected: it is no mail client. */
export const SMTP_MISTAKES_MAX = 20;
/** So is one with more commands than this since its last mail: none of a hundred recipients needs more than two. */
export const SMTP_COMMANDS_MAX = 2 * 100 + 20;
/** The same before it has logged in, where it must. */
export const SMTP_STRANGER_COMMANDS_MAX = 20;
/** Lines that a client has sent ahead are answered in groups of this many; then the others have their turn. */
export const SMTP_LINES_A_TURN = 20;
/** Wrong logins of one connection, */
export const SMTP_LOGINS_MAX = 3;
/** and the pause before the answer to the first; it doubles. */
export const SMTP_LOGIN_PAUSE_MS = SECOND_MS;
/** A client that leaves more than this of our replies unread is disconnected. */
export const SMTP_UNREAD_BYTES_MAX = 64 * KIB;
/** A refused mail is read to its end, because a client without a reply would send it again; but no more than this. */
export const SMTP_REFUSED_BYTES_MAX = 256 * MIB;

// Mails (doors.md).
/** A line of a ready-made mail without its CRLF (RFC 5322 §2.1.1). */
export const READY_MADE_LINE_OCTETS_MAX = 998;
/** The header section of a ready-made mail. */
export const MAIL_HEADER_BYTES_MAX = 64 * KIB;
/** A mail with this many Received headers goes round in a loop. */
export const RECEIVED_MAX = 30;
/** A longer one of a ready-made mail counts as missing. */
export const MESSAGE_ID_CHARS_MAX = 250;
/** All recipients of one mail: To, Cc and Bcc. */
export const MAIL_RECIPIENTS_MAX = 100;
/** The name beside an address. */
export const MAILBOX_NAME_CHARS_MAX = 128;
/** Headers of its own that a posted mail may have. */
export const OWN_HEADERS_MAX = 20;
export const HEADER_NAME_CHARS_MAX = 76;
export const HEADER_VALUE_OCTETS_MAX = 998;
/** The longest life that a client may give a message. */
export const EXPIRES_IN_MS_MAX = 30 * DAY_MS;

// OAuth 2.0 towards relays.
