/**
 * The hash by which two requests with one idempotency key are compared.
 */
import { createHash } from 'node:crypto';
import type { Draft } from '../../mail/message/message.js';
import type { FormFile } from './form.js';

/** SHA-256 of the parsed values: white space between JSON tokens, the order of fields and unknown fields make no difference. */
export function hashOf(drafts: readonly Draft[], files: readonly FormFile[]): string {
  const canonical = drafts.map(({ type, destination, content, ...rest }) => [
    type,
    destination,
    ...('message' in content
      ? [content.message, content.title, content.auto_open, content.app_data]
      : 'missing' in content
        ? [content.subject, content.missing]
        : [content.subject, content.plain, content.html]),
    ...files.map(({ attachment: { name, type }, sum }) => [name, type, sum]),
    // Left out where nothing is given: the journal of an older version has such hashes.
    ...given({
      others: 'others' in rest ? rest.others : undefined,
      from: 'from' in rest ? rest.from : undefined,
      head: 'head' in content ? content.head : undefined,
      urgent: rest.urgent,
      lifeMs: rest.lifeMs,
    }),
  ]);
  return createHash('sha256').update(JSON.stringify(canonical)).digest('hex');
}

/** The parts as one element; none if all are undefined. */
function given(parts: Readonly<Record<string, unknown>>): readonly object[] {
  return Object.values(parts).every((part) => part === undefined) ? [] : [parts];
}
