/**
 * Accepts a ready-made mail (`message/rfc822`): its envelope stands in the query. Loaded with the first one.
 */
import { createHash, type Hash } from 'node:crypto';
import { type Fault, FieldpostError } from '../../base/errors.js';
import { checkNotEncoded, receiveBody } from '../../base/http/body.js';
import type { Exchange } from '../../base/http/exchange.js';
import { checkPercent } from '../../base/http/query.js';
import { cut, visible } from '../../base/text.js';
import { parseAddress } from '../../mail/message/address.js';
import { parseMailboxes } from '../../mail/message/mailbox.js';
import type { MailTerms, ReadyMadeDraft, Sender } from '../../mail/message/message.js';
import type { ApiContext } from './context.js';
import { NOWHERE, type Posted, replayOf, type Take } from './intake.js';
import { checkOctetsOf, qualifier, StoredMail } from './mail-door.js';

/** Characters of a bad sender that its fault quotes. */
const QUOTED_CHARS_MAX = 80;

/** The value of `to` that stands for the recipients in the headers of the mail. */
const HEADERS = 'headers';

/** Stores a mail as it comes. */
export const takeMail: Take = async (exchange, context, key, accept) => {
  checkNotEncoded(exchange);
  const terms = termsOf(exchange, context);
  // Before the first read: a refused body gets no 100 Continue.
  checkOctetsOf(terms.expectedBytes, context);
  const sum = key === null ? null : createHash('sha256');
  const before = key === null ? null : context.store.recall(key);
  const upload = before ? NOWHERE : await context.store.upload(terms.expectedBytes, terms);
  let posted: Posted | null = null;
  const mail = new StoredMail(terms, context, upload, async (draft) => {
    const file = { attachment: draft.attachments[0] as ReadyMadeDraft['attachments'][0], sum: hexOf(sum) };
    posted = before
      ? replayOf(before, [draft], [file])
      : { drafts: [draft], ...(await accept([draft], [file])) };
    return posted;
  });
  try {
    await receiveBody(exchange, (chunk) => {
      exchange.connections.memory.streamed(chunk.length);
      sum?.update(chunk);
      return mail.write(chunk);
    });
    await mail.finish();
    return posted as unknown as Posted;
  } finally {
    await mail.discard();
  }
};

function hexOf(sum: Hash | null): string {
  return sum?.digest('hex') ?? '';
}

/** Throws invalid with all faults of the query. */
function termsOf({ query, declaredBytes, onlySends }: Exchange, context: ApiContext): MailTerms {
  checkPercent(query);
  // A `+` belongs to an address: john+alarms@example.com.
  const given = new URLSearchParams(query.replaceAll('+', '%2B'));
  const faults: Fault[] = [];
  const report = (pointer: string, detail: string) => void faults.push({ pointer, detail });
  const from = senderIn(given.get('from'), report);
  const named = given.getAll('to');
  if (named.length === 0)
    report('to', 'is required: ?to=john@example.com, once for each recipient; or ?to=headers');
  const to = recipientsIn(
    named.filter((text) => text !== HEADERS),
    context,
    report,
  );
  const readsHeaders = named.includes(HEADERS);
  const priority = given.get('priority') ?? 'normal';
  if (!['high', 'normal'].includes(priority)) report('priority', 'must be high or normal');
  const repair = given.get('repair') ?? 'no';
  if (!['yes', 'no'].includes(repair)) report('repair', 'must be yes or no');
  if (faults.length > 0)
    throw new FieldpostError('invalid', 'The query is not right; see errors', { faults });
  return {
    ...{ from, to, readsHeaders, expectedBytes: declaredBytes },
    ...{ isUrgent: priority === 'high', isRepaired: repair === 'yes', onlySends },
  };
}

type Report = (pointer: string, detail: string) => void;

function senderIn(text: string | null, report: Report): Sender | null {
  if (text === null) return null;
  if (text === '' || text === '<>') return '';
  const address = parseAddress(text);
  if (address === null) {
    const quoted = JSON.stringify(visible(cut(text, QUOTED_CHARS_MAX)));
    report('from', `${quoted} is not one email address; <> is the null sender`);
  }
  return address;
}

function recipientsIn(texts: readonly string[], context: ApiContext, report: Report): MailTerms['to'] {
  return texts.flatMap((text) => {
    const { mailboxes, fault } = parseMailboxes(text, qualifier(context));
    if (fault !== null) report('to', fault);
    return mailboxes.map(({ address }) => address);
  });
}
