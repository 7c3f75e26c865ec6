/**
 * The message that tells a person something: about one device, about many, or about a site. Pure, but for the hash of a link.
 */
import { createHash } from 'node:crypto';
import { isoOf } from '../base/text.js';
import type { Entry } from '../mail/book/destination.js';
import type { Rules } from '../mail/book/rules.js';
import type { Address } from '../mail/message/address.js';
import { type Draft, NO_ATTACHMENTS } from '../mail/message/message.js';
import type { DeviceNews } from './fleet-store.js';
import type { DeviceContent } from './outbox.js';
import { isEnd, type Was } from './rules.js';
import { type About, digestOf, siteOf, type Text, type TextOptions, textOf } from './texts/texts.js';
import type { Way } from './texts/words.js';
import type { HookEvent } from './webhook.js';

/** What a person is told of one device. */
export interface ToldOfDevice {
  readonly about: About;
  readonly ruling: { readonly news: DeviceNews; readonly was: Was | null };
}

/** What a person is told of many. `site`: they are most of a site, which has so many of this person's devices. */
export interface ToldOfMany {
  readonly site: { readonly site: string; readonly total: number } | null;
  readonly many: readonly ToldOfDevice[];
}

/** The operator's own program, as one more person of each device: it is told by the webhook of its own. */
export const HOOK: Entry = { type: 4, destination: 'hook', lang: 'en', name: 'hook', uid: '' };

/** True for HOOK. */
export const isHook = (entry: Entry): boolean => entry === HOOK;

const EVENTS: Partial<Record<DeviceNews['kind'], HookEvent['event']>> = {
  ...{ silent: 'offline', stopped: 'offline', back: 'online', quiet: 'quiet', word: 'word' },
  ...{ still: 'still', stuck: 'stuck', flows: 'flows' },
};

/** The text options of a person: their own zone, if they have one. */
export function textsFor(texts: TextOptions, { zone }: Pick<Rules, 'zone'>): TextOptions {
  return zone === null ? texts : { ...texts, timeZone: zone };
}

/** The message about one device. */
export function draftOfOne(entry: Entry, { about, ruling }: ToldOfDevice, texts: TextOptions): Draft {
  const { news, was } = ruling;
  // A call would read it aloud.
  const link = news.kind === 'drill' && entry.type !== 3 ? linkFor(news, entry, texts) : null;
  const text = textOf(entry.lang, about, was ?? news, { ...texts, link });
  return draftFor(entry, news.device, text, isHook(entry) ? eventOf(news, about) : null);
}

/** What one message says of many devices. */
export function wayOf({ news, was }: ToldOfDevice['ruling']): Way {
  if (was !== null) return 'was';
  const { kind } = news;
  if (kind === 'still' || kind === 'stuck' || kind === 'flows') return kind;
  return isEnd(news) ? 'back' : 'offline';
}

/** The message about many devices that go the same way. */
export function draftOfMany(entry: Entry, { site, many }: ToldOfMany, texts: TextOptions): Draft {
  const [{ ruling }] = many as [ToldOfDevice];
  const way = wayOf(ruling);
  const devices = many.map(({ about }) => about);
  const moments = many.flatMap(({ ruling: { news } }) => ('sinceMs' in news ? (news.sinceMs ?? []) : []));
  // Each of those that are over has moments of its own.
  const isVague = moments.length === 0 || way === 'was';
  const sinceMs = isVague ? null : moments.reduce((one, other) => Math.min(one, other));
  const text =
    site === null
      ? digestOf(entry.lang, { direction: way, devices, sinceMs }, texts)
      : siteOf(
          entry.lang,
          { ...site, direction: way === 'back' ? way : 'offline', devices, sinceMs, silent: many.length },
          texts,
        );
  return draftFor(entry, null, text, null);
}

/** A message to a person; `device`: null if it is about many. */
export function draftFor(entry: Entry, device: string | null, text: Text, hook: HookEvent | null): Draft {
  const { type, destination, lang } = entry;
  const { subject, plain, short, sms } = text;
  const rest = { attachments: NO_ATTACHMENTS, ignored: [] };
  if (type === 1) {
    const content = { subject, plain: plain.replaceAll('\n', '\r\n'), html: '' };
    return { type, destination: destination as Address, content, ...rest };
  }
  const content: DeviceContent = {
    ...(device !== null && { device }),
    lang,
    message: type === 2 ? sms() : short,
    ...(type === 4 && { title: subject }),
    ...(hook !== null && { hook }),
  };
  return { type, destination, content, ...rest };
}

function eventOf(news: DeviceNews, { device: name, site }: About): HookEvent | null {
  const { device } = news;
  const event = EVENTS[news.kind];
  if (event === undefined) return null;
  const sinceMs = 'sinceMs' in news ? (news.sinceMs ?? null) : news.atMs;
  const why = news.kind === 'quiet' ? news.why : 'word' in news ? news.word : null;
  const since = sinceMs === null ? null : isoOf(sinceMs);
  return { event, device, dedup: device, name, site, since, ...(why && { why }) };
}

/** The page on which this person confirms the drill; null: the cloud has no address for people. */
function linkFor(
  news: DeviceNews & { kind: 'drill' },
  entry: Entry,
  { publicUrl }: TextOptions,
): string | null {
  if (publicUrl === null) return null;
  const path = `/drill/${news.device}/${entry.uid}/${drillToken(news.key, entry.uid)}`;
  return new URL(path, publicUrl).href;
}

const TOKEN_BYTES = 12;

/** Proves that whoever has it got the message to the entry with this uid. `key`: the drill's secret. */
export function drillToken(key: string, uid: string): string {
  return createHash('sha256').update(`${key} ${uid}`).digest().subarray(0, TOKEN_BYTES).toString('base64url');
}
