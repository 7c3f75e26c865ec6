/**
 * No regular expression of the source takes quadratic time: one that does, on what a peer sent, stops the service for all
 * others.
 */
// A process of its own: it measures CPU time.
import t from 'tap';
import { STRONG_ETAG } from '../src/base/http/answer.js';
import { type HostileText, hostile, hostileTexts } from './support/hostile-texts.js';
import { parse, patternsOf, readTree } from './support/source.js';

const TAG = `(?:W/)?${STRONG_ETAG}`;
const WORD = String.raw`=\?([^?*\s]+)(?:\*[^?\s]*)?\?([BbQq])\?([^?\s]*)\?=`;

/** Run lengths to try in turn, so that one that takes cubic or exponential time is found at a short one. */
const LENGTHS = [22, 256, 1024, 4096];
/** A run that takes longer is looked at more closely. Those in linear time take some 10 µs. */
const SLOW_MS = 0.4;
/** Four times the length: 4 is linear, 16 quadratic. */
const RATIO_MAX = 9;
const ROUNDS = 4;

/** What `new RegExp` is given, and what it builds. */
const BUILT: Readonly<Record<string, RegExp>> = {
  "`^(?:${DEVICE_KEYS.join('|')})$`": /^(?:FIELDPOST_CLOUD|FIELDPOST_CLOUD_KEY|FIELDPOST_DEVICE_NAME)$/,
  '`^[!-~]{1,${IDEMPOTENCY_KEY_CHARS_MAX}}$`': /^[!-~]{1,255}$/,
  '`^${STRONG_ETAG}$`': new RegExp(`^${STRONG_ETAG}$`),
  '`-----BEGIN [A-Z ]*\\\\b${what}-----`': /-----BEGIN [A-Z ]*\bPRIVATE KEY-----/,
  "[MAILBOX, A_DAY, A_WHILE, IN_ALL, /quota|sending/].map(({ source }) => source).join('|')":
    /mailbox|inbox|\buser\b|\b(?:daily|days?|24.?h\w*)\b|\b(?:hour\w*|minutes?)\b|\b(?:total|months?|account)\b|quota/i,
  '`${WORD.source}(?:[ \\\\t]+${WORD.source})*`': new RegExp(`${WORD}(?:[ \\t]+${WORD})*`, 'g'),
  WORD: new RegExp(WORD, 'g'),
  '`(?<![\\\\p{L}\\\\p{N}_.-])${word}(?![\\\\p{L}\\\\p{N}_-]|\\\\.[\\\\p{L}\\\\p{N}])`':
    /(?<![\p{L}\p{N}_.-])pump-3(?![\p{L}\p{N}_-]|\.[\p{L}\p{N}])/gu,
  '`^\\\\s*(?:\\\\*|${TAG}(?:\\\\s*,\\\\s*${TAG})*)\\\\s*$`': new RegExp(
    `^\\s*(?:\\*|${TAG}(?:\\s*,\\s*${TAG})*)\\s*$`,
  ),
  TAG: new RegExp(TAG, 'g'),
  "`^${route.path.replaceAll(/\\{\\w+\\}/g, '([^/]+)')}$`":
    /^\/api\/v1\/messages\/([^/]+)\/attachments\/([^/]+)$/,
  '`^[!-9;-~]{1,${HEADER_NAME_CHARS_MAX}}$`': /^[!-9;-~]{1,76}$/,
  '`^<([!-;=?-~]{1,${MESSAGE_ID_CHARS_MAX}})>$`': /^<([!-;=?-~]{1,250})>$/,
};

/** What takes longer, and why nobody can make it do so. */
const BOUNDED: Readonly<Record<string, string>> = {
  'src/base/fleet-lines.ts /\\/+$/':
    "a lookbehind fails the page in an older browser; the text is the page's own address",
};

/** What took longer once, and what else must be found. */
const PLANTED: readonly RegExp[] = [
  // The charset of a JSON body, the header of a part of a form, the name in a header (cubic).
  /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i,
  /^([!#$%&'*+.^`|~\w-]+):[ \t]*(.*?)[ \t]*$/s,
  /^\s*"?([^"<]*?)"?\s*<([^<>]*)>/,
  // The command of an SMTP client, its login, the name of a file.
  /^([A-Za-z]+)(?:( +)(.*))?$/,
  /=+$/,
  /^[.\s]+|[.\s]+$/g,
  // A list, the relays among the settings.
  /\s*,\s*/,
  /\s*,\s*(?=[a-z]+:\/\/|,|$)/i,
  // What a report hides: URLs, addresses, tokens, and the words of a relay.
  /\b([a-z][a-z0-9+.-]*:\/\/)([^\s"'<>;,]+)/gi,
  /(?:"(?:[^"\\]|\\.)*"|[^\s<>()[\],;:"'=@]+|(?<![^\s,<"'=]))@(?:\[[^\]\s]*\]|[^\s<>()[\],;:"'=@]+)/gu,
  /(?=[A-Za-z+_~=-]*\d)[A-Za-z0-9+_~=-]{24,}/g,
  /^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu,
  // Exponential, and one that begins again at each of its beginnings.
  /^(?:a+)+$/,
  /^(?:\w|\d)*;/,
  /<!--.*-->/s,
];

function run(pattern: RegExp, text: string): void {
  pattern.lastIndex = 0;
  // As replaceAll, matchAll and split do: each match, and each place without one.
  if (pattern.global) text.replace(pattern, '');
  else pattern.test(text);
}

function cpuMs(pattern: RegExp, text: string): number {
  const before = process.cpuUsage();
  run(pattern, text);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function leastMs(pattern: RegExp, text: string): number {
  return Math.min(...Array.from({ length: ROUNDS }, () => cpuMs(pattern, text)));
}

/** How the time grows with the length of a text, if it grows faster than the length; null: it does not. */
function growth(pattern: RegExp, text: HostileText): string | null {
  for (const length of LENGTHS) {
    const long = hostile(text, length);
    if (cpuMs(pattern, long) < SLOW_MS || leastMs(pattern, long) < SLOW_MS) continue;
    const short = hostile(text, length / 4);
    const isSteep = () => leastMs(pattern, long) / leastMs(pattern, short) > RATIO_MAX;
    // Again and again: a collection or the compiler of patterns may run at the wrong moment.
    if (Array.from({ length: ROUNDS }, isSteep).every(Boolean))
      return `${JSON.stringify(text)}: ${leastMs(pattern, long).toFixed(1)} ms for ${length} characters`;
  }
  return null;
}

/** The first text on which the time grows faster than the length. */
function faultOf(pattern: RegExp): string | null {
  for (const text of hostileTexts(pattern)) {
    const found = growth(pattern, text);
    if (found !== null) return found;
  }
  return null;
}

for (const pattern of PLANTED)
  t.test(`found to take longer: ${pattern}`, async (t) => {
    t.not(faultOf(pattern), null);
  });

t.test('what takes linear time is let pass', async (t) => {
  for (const pattern of [/(?<!=)=+$/, /^([A-Za-z]+)(?: +(?! )(.*))?$/, /"((?:[^"\\]|\\.)*)"/y])
    t.equal(faultOf(pattern), null, String(pattern));
});

t.test('every pattern of the source takes linear time, whatever the text', async (t) => {
  const built = new Set<string>();
  const bounded = new Set<string>();
  let count = 0;
  for (const [path, text] of readTree(['src'], ['.ts'])) {
    for (const { place, pattern: literal, from } of patternsOf(parse(path, text))) {
      built.add(from);
      const pattern = literal ?? BUILT[from];
      if (pattern === undefined) t.fail(`${place}: what it builds of ${from} is not in the table`);
      const fault = pattern === undefined ? null : faultOf(pattern);
      const isBounded = `${path} ${pattern}` in BOUNDED;
      if (isBounded) bounded.add(`${path} ${pattern}`);
      if (fault !== null && !isBounded) t.fail(`${place}: ${pattern} takes longer: ${fault}`);
      count++;
    }
  }
  t.ok(count > 300, `${count} patterns`);
  t.same(
    Object.keys(BUILT).filter((from) => !built.has(from)),
    [],
    'the table has no more than the source',
  );
  t.same(
    Object.keys(BOUNDED).filter((one) => !bounded.has(one)),
    [],
    'nor has the list of exceptions',
  );
});
