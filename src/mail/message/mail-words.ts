/**
 * Fields that other mailers have and this one does not. They are refused with a hint, because to ignore them would lose a
 * text, a recipient or a file. Pure.
 */

const TEXT = 'is not a field here: the text is called plain (and HTML html)';
const HTML = 'is not a field here: HTML is called html';
const SUBJECT = 'is not a field here: it is called subject';
const RECIPIENT = 'is not a field here: recipients are called to, cc and bcc';
const COPY = 'is not a field here: these recipients are called cc or bcc';
const SENDER =
  'is not a field here: the sender is called from, with its name, like "Pump 3 <pump@example.com>"';
const REPLY = 'is not a field here: it is called reply_to';
const ENVELOPE = 'is not supported: bounces go to the sender, which is called from';
const THREAD = 'is not a field here: it is one of the headers, like {"headers":{"In-Reply-To":"<id>"}}';
const HEADERS = 'is not a field here: it is called headers';
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
      [ENVELOPE, 'mailfrom envelope envelopefrom returnpath'],
      [REPLY, 'replyto replytoaddress replytoaddresses replytolist'],
      [THREAD, 'inreplyto references'],
      [HEADERS, 'header headers customheaders extraheaders additionalheaders internetmessageheaders'],
      [FILES, 'attachment attachments attach file files inline inlineattachments inlineimages'],
      [READY_MADE, 'raw mime rfc822 eml amp amphtml markdown alternatives icalevent calendar'],
      [READY_MADE, 'template templateid templatename templatedata dynamictemplatedata personalizations'],
      [LATER, 'sendat sendlater scheduledat deliverat deliverytime'],
    ] as const
  ).flatMap(([hint, words]) => words.split(' ').map((word): [string, string] => [word, hint])),
);

/** The hints for a message that is no mail, and has one recipient. */
const SHORT_HINTS: ReadonlyMap<string, string> = new Map([
  [TEXT, 'is not a field here: the text is called message'],
  [RECIPIENT, 'is not a field here: the one recipient is called destination; post one message for each'],
  [COPY, 'is not a field here: post one message for each recipient'],
  [SENDER, 'is not a field here: only an email has a sender'],
  [ENVELOPE, 'is not a field here: only an email has a sender'],
  [REPLY, 'is not a field here: only an email has it'],
  [THREAD, 'is not a field here: only an email has headers'],
  [HEADERS, 'is not a field here: only an email has headers'],
]);

/**
 * Why a field that is not among `known` is refused: other mailers have it, or it is a known name in another spelling.
 * Null: it can be ignored.
 */
export function mailWordFault(name: string, known: ReadonlySet<string>): string | null {
  const plain = plainName(name);
  for (const ours of known) if (plainName(ours) === plain) return `is written ${ours}`;
  const hint = HINTS.get(plain);
  if (hint === undefined) return null;
  return known.has('message') ? (SHORT_HINTS.get(hint) ?? hint) : hint;
}

/** `Reply-To`, `reply_to` and `replyTo` are one word. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}
