/**
 * Texts for SMS: each fits one SMS, whatever the names are.
 */
import type { Lang } from '../base/langs.js';
import { folded, isOneSms } from './gsm.js';
import { SMS_PHRASES } from './sms-phrases.js';
import { shortMomentIn, spanIn } from './spans.js';
import type { About, Happening } from './texts.js';

/**
 * The SMS about a device. The site, the contact, the time zone and the length of an outage are left out, in this order,
 * while it is too long. Then the device's name is cut.
 */
export function smsOf(lang: Lang, about: About, happening: Happening, timeZone: string): string {
  const words = SMS_PHRASES[lang];
  const { kind, sinceMs } = happening;
  const device = folded(about.device);
  const lastedMs = kind === 'back' ? happening.lastedMs : null;
  const lasted = lastedMs === null ? '' : sentence(words.lasted, spanIn(lang, lastedMs));
  const site = sentence(words.site, about.site);
  const contact = sentence(words.contact, about.contact);
  const [at, atInZone] = [false, true].map((withZone) =>
    sinceMs === null ? '' : `${words.moment[kind]}${shortMomentIn(lang, sinceMs, timeZone, withZone)}`,
  ) as [string, string];
  const head = (name: string, moment: string) => folded(`${words[kind](name)}${moment}.`);
  const attempts = [
    () => `${head(device, atInZone)}${lasted}${site}${contact}`,
    () => `${head(device, atInZone)}${lasted}${contact}`,
    () => `${head(device, atInZone)}${lasted}${site}`,
    () => `${head(device, atInZone)}${lasted}`,
    () => `${head(device, at)}${lasted}`,
  ];
  for (const attempt of attempts) {
    const text = attempt();
    if (isOneSms(text)) return text;
  }
  return cutToFit(device, (name) => head(name, at));
}

/** The most letters of a name in a list. */
const LISTED_CHARS_MAX = 40;

/** The SMS with as many of `names` as fit: `37 devices are offline: Pump 1, Pump 2 and 35 more.` */
export function smsList(
  head: string,
  colon: string,
  names: readonly string[],
  more: (named: number) => string,
): string {
  const shown = names.map((name) => shortened(folded(name), LISTED_CHARS_MAX));
  for (let named = shown.length; named > 0; named--) {
    const text = folded(`${head}${colon}${shown.slice(0, named).join(', ')}${more(named)}.`);
    if (isOneSms(text)) return text;
  }
  return folded(`${head}.`);
}

/** The longest beginning of `name` with which the text fits. */
function cutToFit(name: string, textWith: (name: string) => string): string {
  const longest = [...name].length;
  for (let chars = longest; chars > 0; chars--) {
    const text = textWith(shortened(name, chars));
    if (isOneSms(text)) return text;
  }
  return textWith('...');
}

/** The first `charsMax` characters, and three dots for the others. */
function shortened(text: string, charsMax: number): string {
  const characters = [...text];
  return characters.length <= charsMax ? text : `${characters.slice(0, charsMax).join('').trimEnd()}...`;
}

/** One more sentence of a text; '' without a fact. */
function sentence(label: string, fact: string | null): string {
  return fact === null ? '' : folded(` ${label}${fact}${fact.endsWith('.') ? '' : '.'}`);
}
