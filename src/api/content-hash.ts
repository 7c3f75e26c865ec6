/**
 * The hash by which two requests with one idempotency key are compared. Used by post.ts and take-form.ts.
 */
import { createHash } from 'node:crypto';
import type { Draft } from '../message/message.js';
import type { FormFile } from './form.js';

/** SHA-256 of the parsed values: white space between JSON tokens, the order of fields and unknown fields make no difference. */
export function hashOf(drafts: readonly Draft[], files: readonly FormFile[]): string {
  const canonical = drafts.map(({ type, destination, content }) => [
    type,
    destination,
    ...('message' in content
      ? [content.message, content.title, content.auto_open, content.app_data]
      : 'missing' in content
        ? [content.subject, content.missing]
        : [content.subject, content.plain, content.html]),
    ...files.map(({ attachment: { name, type }, sum }) => [name, type, sum]),
  ]);
  return createHash('sha256').update(JSON.stringify(canonical)).digest('hex');
}
