/**
 * Formats caught messages for a terminal. No text of a message can control the terminal.
 */

import { counted } from '../base/sizes.js';
import { cut, visible } from '../base/text.js';
import type { ShortMessage } from '../mail/message/message.js';
import type { CaughtMail } from './catcher.js';
import { readMail } from './reader.js';

const TEXT_CHARS_MAX = 4000;

/** The mail for a terminal: its envelope, subject, text and attachments, and its file. */
export function showMail(mail: CaughtMail, path: string): string {
  const { subject, plain, html, attachments } = readMail(mail.raw);
  const lines = [
    `── ${inLine(path)}`,
    `From: ${inLine(mail.from || '<>')}`,
    `To: ${inLine(mail.to.join(', '))}`,
    `Subject: ${inLine(subject)}`,
  ];
  const text = plain || html;
  if (text) lines.push('', inText(text));
  if (plain && html) lines.push('', '[and the same as HTML]');
  if (attachments.length > 0) lines.push('');
  for (const { name, type, octets } of attachments) {
    const size = counted(octets.length, 'octet');
    lines.push(`[attached: ${inLine(name || 'without a name')}, ${inLine(type)}, ${size}]`);
  }
  return `${lines.join('\n')}\n\n`;
}

const SHORT_NAMES = { 2: 'SMS', 3: 'Phone call', 4: 'Push message' } as const;

/** An SMS, a phone call or a push message for a terminal. */
export function showShort({ type, destination, message, title = '' }: Omit<ShortMessage, 'id'>): string {
  const lines = [`── ${SHORT_NAMES[type]}`, `To: ${inLine(destination)}`];
  if (title !== '') lines.push(`Title: ${inLine(title)}`);
  return `${[...lines, '', inText(message)].join('\n')}\n\n`;
}

function inText(text: string): string {
  const shown = cut(text, TEXT_CHARS_MAX).replace(/\r\n?/g, '\n').trimEnd();
  return `${visible(shown, '\n\t')}${text.length > TEXT_CHARS_MAX ? '\n[and more]' : ''}`;
}

function inLine(text: string): string {
  return visible(text.replace(/[\n\t]/g, ' '));
}
