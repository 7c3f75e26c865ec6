/**
 * Accepts JSON with `attachments`. Their content is base64 (RFC 4648 §4); they become files in the store as the parts of a
 * form do.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.js';
import { isJsonObject } from '../../base/json.js';
import { counted } from '../../base/text.js';
import { parseDrafts } from '../../mail/message/draft.js';
import { type FaultReport, isEmpty, isGiven, isSet, textOf } from '../../mail/message/fields.js';
import { type Attachment, type Draft, NO_ATTACHMENTS } from '../../mail/message/message.js';
import type { ApiContext } from './context.js';
import { namedFile, tooLarge, tooLargeMessage, UNNAMED } from './form-part.js';
import {
  type Accept,
  checkMails,
  draftLimits,
  NOWHERE,
  type Posted,
  type PostedFile,
  replayOf,
} from './intake.js';

const MEMBERS = ['name', 'type', 'content_id', 'content'] as const;
const BASE64_FAULT =
  'must be base64 of the standard alphabet (A to Z, a to z, 0 to 9, + and /), filled up with =, without line breaks';

/** The contents of files that are not stored yet, in base64. */
type Contents = Map<Attachment, string>;

/** Accepts the messages of a parsed body. It checks all of them before it stores the first file. */
export async function takeFiles(
  body: unknown,
  exchange: Exchange,
  context: ApiContext,
  key: string | null,
  accept: Accept,
): Promise<Posted> {
  const { store, settings } = context;
  const { onlySends, caller } = exchange;
  const contents: Contents = new Map();
  const filesOf = (given: unknown, report: FaultReport) =>
    readFiles(given, contents, settings.maxAttachments, report);
  const drafts = parseDrafts(body, { ...draftLimits(context), filesOf });
  for (const draft of drafts) checkSize(draft, settings.maxMessageBytes);
  const before = key === null ? null : store.recall(key);
  if (before === null) checkMails(drafts, context);
  if (contents.size === 0) return { drafts, ...(await accept(drafts, [])) };
  const isUrgent = drafts.every(({ urgent }) => urgent);
  const upload = before
    ? NOWHERE
    : await store.upload(
        drafts.reduce((sum, draft) => sum + filesBytes(draft), 0),
        {
          isUrgent,
          onlySends,
          caller,
        },
      );
  try {
    const files: PostedFile[] = [];
    const put = async (named: Attachment): Promise<Attachment> => {
      const octets = Buffer.from(contents.get(named) as string, 'base64');
      exchange.connections.memory.streamed(octets.length);
      const file = await upload.begin(named);
      await file.write(octets);
      const attachment = await file.finish();
      files.push({ attachment, sum: key === null ? '' : createHash('sha256').update(octets).digest('hex') });
      return attachment;
    };
    const stored: Draft[] = [];
    for (const draft of drafts) {
      const attachments: Attachment[] = [];
      for (const named of draft.attachments) attachments.push(await put(named));
      stored.push({ ...draft, attachments });
    }
    if (before) return replayOf(before, stored, files);
    return { drafts: stored, ...(await accept(stored, files)) };
  } finally {
    await upload.discard();
  }
}

/** The files of one message, whose contents are added to `contents`. Throws too-large if they are too many. */
function readFiles(
  given: unknown,
  contents: Contents,
  max: number,
  report: FaultReport,
): readonly Attachment[] {
  if (!isGiven(given)) return NO_ATTACHMENTS;
  if (!Array.isArray(given)) {
    report('attachments', 'must be an array of files, like [{"name":"a.txt","content":"SGkh"}]');
    return NO_ATTACHMENTS;
  }
  if (given.length > max)
    throw tooLarge(`A message has more than ${counted(max, 'file')} (FIELDPOST_MAX_ATTACHMENTS)`);
  return given.map((file: unknown, index) =>
    readFile(file, contents, (member, detail) => report('attachments', detail, [index, member])),
  );
}

function readFile(given: unknown, contents: Contents, report: FaultReport): Attachment {
  const file = isJsonObject(given) ? given : {};
  const [name, type, cid, content] = MEMBERS.map((member) => textOf(file, member, report)) as [
    string,
    string,
    string,
    string,
  ];
  if (file !== given) report('', 'must be an object, a file');
  else {
    if (!isSet(file.name)) report('name', 'is required and must not be empty');
    if (!isGiven(file.content)) report('content', 'is required, the file as base64');
  }
  if (!isBase64(content)) report('content', BASE64_FAULT);
  for (const member of Object.keys(file))
    if (!(MEMBERS as readonly string[]).includes(member) && !isEmpty(file[member]))
      report(member, 'is no member of a file, which has name, type, content and content_id');
  const named = namedFile({ name, type, cid }, (detail, member) => report(member, detail));
  const size = Buffer.byteLength(content, 'base64');
  const attachment = { ...named, name: named.name || UNNAMED, id: '', size, crc: 0 };
  contents.set(attachment, content);
  return attachment;
}

/** True if there is one way only to read it. */
function isBase64(text: string): boolean {
  const last = text.slice(-4);
  if (text.length % 4 > 0 || /[^A-Za-z\d+/]/.test(text.slice(0, -4))) return false;
  return Buffer.from(last, 'base64').toString('base64') === last;
}

function filesBytes({ attachments }: Draft): number {
  return attachments.reduce((sum, { size }) => sum + size, 0);
}

function checkSize(draft: Draft, maxBytes: number): void {
  const { content } = draft;
  const texts = 'html' in content ? content.subject + content.plain + content.html : '';
  if (draft.attachments.length > 0 && filesBytes(draft) + Buffer.byteLength(texts) > maxBytes)
    throw tooLargeMessage(maxBytes);
}
