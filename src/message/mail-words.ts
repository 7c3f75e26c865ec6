/**
 * Fields that other mailers have and this one does not. They are refused with a hint, because to ignore them would lose a
 * text, a recipient or a file. Pure. Used by draft.ts.
 */

const TEXT = 'is not a field here: the text is called plain (and HTML html)';
const HTML = 'is not a field here: HTML is called html';
const SUBJECT = 'is not a field here: it is called subject';
const RECIPIENT = 'is not a field here: the one recipient is called destination; post one message for each';
const COPY = 'is not supported: post one message for each recipient';
const SENDER = 'is not supported: the sender is the same for all messages (FIELDPOST_FROM)';
const REPLY = 'is not supported: answers go to the sender (FIELDPOST_FROM)';
const HEADERS = 'is not supported: a message has no headers of its own';
const FILES =
  'is not a field here: files are sent as a form (multipart/form-data), each as a part with a filename';
const READY_MADE = 'is not supported: send subject, plain and html';
const LATER = 'is not supported: a message is sent as soon as the link allows';

/** The hints, by plainName(). */
const HINTS: ReadonlyMap<string, string> = new Map(
  (
    [
      [TEXT, 'text body content contents msg textbody bodytext plaintext textplain bodyplain textcontent'],
      [HTML, 'htmlbody bodyhtml texthtml htmltext htmlcontent htmlpart'],
      [SUBJECT, 'subjectline mailsubject'],
      [RECIPIENT, 'to tos recipient recipients receiver receivers rcpt rcptto mailto destinations'],
      [RECIPIENT, 'toaddress toaddresses toemail torecipients toname'],
      [COPY, 'cc bcc ccaddress ccaddresses bccaddress bccaddresses ccrecipients bccrecipients'],
      [SENDER, 'from sender fromaddress fromemail fromname sendername senderaddress senderemail'],
      [SENDER, 'mailfrom envelope envelopefrom returnpath'],
      [REPLY, 'replyto replytoaddress replytoaddresses replytolist inreplyto references'],
      [HEADERS, 'header headers customheaders extraheaders additionalheaders internetmessageheaders'],
      [FILES, 'attachment attachments attach file files inline inlineattachments inlineimages'],
      [READY_MADE, 'raw mime rfc822 eml amp amphtml markdown alternatives icalevent calendar'],
      [READY_MADE, 'template templateid templatename templatedata dynamictemplatedata personalizations'],
      [LATER, 'sendat sendlater scheduledat deliverat deliverytime'],
    ] as const
  ).flatMap(([hint, words]) => words.split(' ').map((word): [string, string] => [word, hint])),
);

/**
 * Why a field that is not among `known` is refused: other mailers have it, or it is a known name in another spelling.
 * Null: it can be ignored.
 */
export function mailWordFault(name: string, known: ReadonlySet<string>): string | null {
  const plain = plainName(name);
  for (const ours of known) if (plainName(ours) === plain) return `is written ${ours}`;
  const hint = HINTS.get(plain);
  if (hint === undefined) return null;
  return hint === TEXT && known.has('message') ? 'is not a field here: the text is called message' : hint;
}

/** `Reply-To`, `reply_to` and `replyTo` are one word. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}
