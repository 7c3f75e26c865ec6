/**
 * What a draft becomes when it is accepted: the messages of its recipients, their content, and the quota they take.
 */
import { SUBJECT_KEPT_CHARS_MAX } from '../../base/limits.js';
import { cut } from '../../base/text.js';
import type { Address } from '../message/address.js';
import {
  type Attachment,
  type Content,
  type Draft,
  type Extras,
  newMessageId,
  recipientsOf,
} from '../message/message.js';
import type { Amounts } from './accounts.js';
import type { AcceptedMessage } from './event.js';
import { sumOf } from './record.js';
import { keyWeight, messageWeight, ownText } from './weight.js';

/** Who accepts a draft. */
interface Acceptor {
  readonly storeId: string;
  /** The device's sender. */
  readonly sender: () => Address;
  /** Makes the id of the next message. */
  readonly newId: () => string;
}

/** One for each recipient. They share content and files. */
export function messagesOf(draft: Draft, content: Buffer, acceptor: Acceptor): AcceptedMessage[] {
  const { type, attachments } = draft;
  const sum = sumOf(content);
  const subject = keptSubject(draft);
  const from = type === 1 ? (draft.from ?? acceptor.sender()) : undefined;
  const common = {
    type,
    ...(from !== undefined && { from }),
    ...(subject !== '' && { subject }),
    ...(attachments.length > 0 && { attachments: attachments.map(ownTexts) }),
  };
  const recipients = recipientsOf(draft);
  const ids = recipients.map(acceptor.newId);
  const extras = extrasOf(draft, ids, acceptor);
  return recipients.map((destination, i) => ({
    id: ids[i] as string,
    destination: ownText(destination),
    ...common,
    ...(extras && { extras }),
    ...sum,
    ...(i > 0 && { shares: true }),
  }));
}

/** Undefined for most. */
function extrasOf(
  draft: Draft,
  [mail = '', ...others]: readonly string[],
  { storeId, sender }: Acceptor,
): Extras | undefined {
  const { urgent, lifeMs, onlySends, caller, collapse, counts, notice, content } = draft;
  const isReadyMade = 'missing' in content;
  const hasOthers = others.length > 0;
  const terms = [lifeMs, caller, collapse, notice];
  const isPlain = !urgent && !onlySends && terms.every((term) => term === undefined);
  if (isPlain && !hasOthers && !isReadyMade) return undefined;
  const own = 'messageId' in draft && draft.messageId !== undefined ? ownText(draft.messageId) : undefined;
  return {
    ...(hasOthers && { mail }),
    // A new one is of the device, whoever is the envelope's sender: perhaps nobody.
    ...(isReadyMade && { isReadyMade, messageId: own ?? newMessageId(mail, storeId, sender()) }),
    ...(urgent && { urgent }),
    ...(lifeMs !== undefined && { lifeMs }),
    ...(onlySends && { onlySends }),
    ...(collapse !== undefined && { collapse: ownText(collapse), ...(counts && { counts }) }),
    ...(caller !== undefined && { caller }),
    ...(notice !== undefined && { notice }),
  };
}

/** The content with the name of the device's sender, where that is the sender. */
export function stampedContent({ content, ...draft }: Draft, fromName: string): Content {
  if (fromName === '' || 'message' in content) return content;
  if ('missing' in content) return content.missing.includes('from') ? { fromName, ...content } : content;
  if ('from' in draft && draft.from !== undefined) return content;
  return { ...content, head: { ...content.head, fromName } };
}

/** What the drafts and their key take of the quota. */
export function amountsOf(
  drafts: readonly Draft[],
  contents: readonly Buffer[],
  keyed: { readonly key: string; readonly hash: string } | null,
): Amounts {
  const bytes = contents.reduce((sum, { length }) => sum + length, 0);
  let [count, messages] = [0, 0];
  for (const draft of drafts) {
    const subject = keptSubject(draft);
    const { collapse, caller } = draft;
    const extras = {
      ...('messageId' in draft && { messageId: draft.messageId ?? '' }),
      ...(collapse !== undefined && { collapse }),
      ...(caller !== undefined && { caller }),
    };
    for (const destination of recipientsOf(draft)) {
      count++;
      messages += messageWeight({ destination, subject, attachments: draft.attachments, extras });
    }
  }
  const key = keyed ? keyWeight(keyed.key, { hash: keyed.hash, ids: Array(count).fill('') }) : 0;
  return { count, bytes, memoryBytes: messages + key };
}

function keptSubject({ content }: Draft): string {
  return 'subject' in content ? ownText(cut(content.subject, SUBJECT_KEPT_CHARS_MAX)) : '';
}

function ownTexts({ name, type, cid, ...rest }: Attachment): Attachment {
  const texts = { name: ownText(name), type: ownText(type), ...(cid !== undefined && { cid: ownText(cid) }) };
  return { ...rest, ...texts };
}
