/**
 * Takes out of a text what a report must not show: secrets, and who writes to whom. An address, a host, a phone number
 * becomes a stand-in such as `address1`, the same one wherever it stands in the report.
 */
import { unbracket } from '../base/config/values.js';

/** In place of a text without a stand-in. */
export const HIDDEN = '(hidden)';
/** What is shorter stands in any text. */
const PRIVATE_CHARS_MIN = 3;
/** Stands for the device's id until all patterns are through: to them an id may look like a number, a host or a token. */
const ID_MARK = '\uE000';

/** A reply of a relay within a text: its code begins the text, or follows a colon. */
const REPLY = /(?:^|: |")[245]\d\d[ -]/;
const REPLY_CODES = /^[245]\d\d(?:[ -][245]\.\d{1,3}\.\d{1,3}(?!\S))?/;
const URL_LIKE = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)([^\s"'<>;,]+)/gi;
const CREDENTIALS =
  /\b(bearer|basic|plain|xoauth2) +\S+|\b(\w*(?:password|passwd|secret|token|key))=(?!value)\S+/gi;
const ADDRESS =
  /(?:"(?:[^"\\]|\\.){0,128}"|(?<![^\s<>()[\],;:"'=@])[^\s<>()[\],;:"'=@]+|(?<![^\s,<"'=]))@(?:\[[^\]\s]{0,64}\]|[^\s<>()[\],;:"'=@]+)/gu;
const HOST = /(?<![\p{L}\p{N}_@/.-])(?:[\p{L}\p{N}_-]+\.)+\p{L}[\p{L}\p{N}-]+/gu;
/** Names of files and units, which look like names of hosts. */
const FILE =
  /\.(?:cjs|conf|crt|damaged|env|gz|json|key|log|new|newer|pem|service|slice|sock|socket|target|tmp)$/;
const IPV4 = /(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)/g;
const IPV6 = /(?<![\w:])(?=[0-9a-f:]*::|(?:[0-9a-f]+:){4})[0-9a-f]*:[0-9a-f:]+/gi;
const PHONE = /\+\d[\d ()./-]{4,}\d|(?<![\w.:-])\d{9,}(?![\w.])/g;
/** Long enough for a key or token, and with a digit in it. */
const TOKEN = /(?<![A-Za-z0-9+_~=-])(?=[A-Za-z+_~=-]*\d)[A-Za-z0-9+_~=-]{24,}/g;
const HOME = /(\/home\/)[^\s/"']+/g;

/** One report's stand-ins. */
export class StandIns {
  readonly #byValue = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #kept: ReadonlySet<string>;
  /** Private texts, the longest first: a part must not be replaced within a longer one. */
  #private: (readonly [text: string, instead: string])[] = [];
  readonly #names = new Set<string>();
  readonly #id: string;
  /** The id where it stands alone: not within a longer word, an address or the name of a host. */
  readonly #idAlone: RegExp;

  /** `kept`: hosts that a report may show, those of the settings. `id`: the device's, which is shown, too; or empty. */
  constructor(kept: Iterable<string>, id = '') {
    this.#kept = new Set([...kept, id, 'localhost', '127.0.0.1', '::1', '0.0.0.0', '::'].map(lower));
    this.#id = id;
    const word = id.replaceAll('.', '\\.');
    this.#idAlone = new RegExp(`(?<![\\p{L}\\p{N}_.-])${word}(?![\\p{L}\\p{N}_-]|\\.[\\p{L}\\p{N}])`, 'gu');
    // A short number stands in many a phone number.
    if (/\p{L}|\d{9}/u.test(id)) this.#private = [[id, ID_MARK]];
  }

  /** From now on these texts are hidden wherever they stand. */
  learn(texts: Iterable<string>): void {
    this.#learn([...texts].filter((text) => text !== this.#id).map((text) => [text, HIDDEN]));
  }

  /** The same for names of several words. An ordinary word may be a part of one: alone it stays. */
  learnNames(names: Iterable<string>): void {
    this.learn([...names].filter((name) => wordsIn(name).length > 1));
  }

  /** The same for names of people, and for each word of one that stands alone and is not usual in a report. */
  learnPeople(names: readonly string[]): void {
    this.learnNames(names);
    for (const word of names.flatMap(wordsIn))
      if (word.length >= PRIVATE_CHARS_MIN && !isReplyWord(word)) this.#names.add(word);
  }

  /** From now on these destinations are replaced with their stand-ins wherever they stand. */
  learnRecipients(destinations: Iterable<string>): void {
    this.#learn([...destinations].map((destination) => [destination, this.recipient(destination)]));
  }

  #learn(found: readonly (readonly [text: string, instead: string])[]): void {
    const all = new Map([...this.#private, ...found.filter(([{ length }]) => length >= PRIVATE_CHARS_MIN)]);
    this.#private = [...all].sort(([a], [b]) => b.length - a.length);
  }

  /** The stand-in of a message's destination. */
  recipient(destination: string): string {
    if (destination.includes('@')) return this.#standIn('address', lower(destination));
    const digits = destination.replace(/\D/g, '');
    return digits === '' ? HIDDEN : this.#standIn('number', digits);
  }

  /** A text of ours, with text of strangers in it perhaps. */
  text(text: string): string {
    const at = REPLY.exec(text);
    if (at === null) return this.#patterns(text);
    const from = at.index + at[0].search(/\d/);
    return this.#patterns(text.slice(0, from)) + this.reply(text.slice(from));
  }

  /** What a relay or cloud says of a message: only its codes, and words that many of them use. */
  reply(text: string): string {
    const codes = REPLY_CODES.exec(text)?.[0] ?? '';
    const words = text.slice(codes.length).split(/\s+/);
    const shown = words.map((word) => {
      const bare = word.replace(/^[^\p{L}\p{N}]+|(?<![^\p{L}\p{N}])[^\p{L}\p{N}]+$/gu, '');
      return bare === '' || isReplyWord(bare) ? word.replace(/[^\w\s.,:;'()-]/g, '') : '…';
    });
    return `${codes} ${shown.join(' ')}`
      .replace(/(?:…\s*)+/g, '… ')
      .replace(/\s+/g, ' ')
      .trim();
  }

  /** A line of the log: its words, and its fields each on its own. */
  line(line: string): string {
    const FIELD = /(?<![^\s])([A-Za-z]\w*)=("(?:[^"\\]|\\.)*"|\S+)/g;
    let shown = '';
    let at = 0;
    for (const { 0: whole, 1: key = '', 2: value = '', index } of line.matchAll(FIELD)) {
      shown += `${this.text(line.slice(at, index))}${key}=${this.#field(key, value)}`;
      at = index + whole.length;
    }
    return shown + this.text(line.slice(at));
  }

  /** The host of a recipient and the like. */
  #host(name: string): string {
    const isKept = this.#kept.has(lower(name)) || FILE.test(name);
    return isKept ? name : this.#standIn('host', lower(name));
  }

  #field(key: string, value: string): string {
    // Users of this device, and names that its owner has chosen.
    if (['by', 'name', 'from', 'to'].includes(key)) return value === 'root' ? value : HIDDEN;
    if (/password|passwd|secret|token|key/i.test(key)) return HIDDEN;
    if (!value.startsWith('"')) return this.text(value);
    return JSON.stringify(this.text(unquoted(value)));
  }

  #patterns(text: string): string {
    return this.#withoutPrivate(text)
      .replace(URL_LIKE, (_, scheme: string, rest: string) => scheme + this.#urlRest(rest))
      .replace(CREDENTIALS, (_, login?: string, key?: string) =>
        login === undefined ? `${key}=${HIDDEN}` : `${login} ${HIDDEN}`,
      )
      .replace(ADDRESS, (found) =>
        found.startsWith('@') ? `@${HIDDEN}` : this.#standIn('address', lower(found)),
      )
      .replace(HOST, (found) => this.#host(found))
      .replace(IPV4, (found) => (this.#kept.has(found) ? found : this.#standIn('ip', found)))
      .replace(IPV6, (found) => (this.#kept.has(lower(found)) ? found : this.#standIn('ip', lower(found))))
      .replace(PHONE, (found) => this.#standIn('number', found.replace(/\D/g, '')))
      .replace(TOKEN, HIDDEN)
      .replace(HOME, `$1${HIDDEN}`)
      .replaceAll(ID_MARK, this.#id);
  }

  /** The part of a URL behind its scheme: without a login, and without a path, which may be a secret, too. */
  #urlRest(rest: string): string {
    const [, login = '', place = '', path = ''] = /^(.*@)?([^/?#@]*)(.*)$/.exec(rest) ?? [];
    const [, host = '', port = ''] = /^(\[.*\]|[^:]*)(.*)$/s.exec(place) ?? [];
    const bare = unbracket(host);
    const shownHost = this.#kept.has(lower(bare)) || bare === '' ? host : this.#standIn('host', lower(bare));
    const isPlain = path === '' || path === '/' || path === '?tls=never';
    return `${login === '' ? '' : `${HIDDEN}@`}${shownHost}${port}${isPlain ? path : `/${HIDDEN}`}`;
  }

  #withoutPrivate(text: string): string {
    let shown = text;
    for (const [one, instead] of this.#private)
      if (shown.includes(one))
        shown = shown.replaceAll(one === this.#id ? this.#idAlone : one, () => instead);
    return shown.replace(/[\p{L}\p{N}]+(?:[.-][\p{L}\p{N}]+)*/gu, (text) =>
      this.#kept.has(lower(text))
        ? text
        : text.replace(/[\p{L}\p{N}]+/gu, (word) => (this.#names.has(word) ? HIDDEN : word)),
    );
  }

  #standIn(kind: string, value: string): string {
    const known = this.#byValue.get(`${kind} ${value}`);
    if (known !== undefined) return known;
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    this.#byValue.set(`${kind} ${value}`, `${kind}${count}`);
    return `${kind}${count}`;
  }
}

function wordsIn(name: string): string[] {
  return name.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
}

function lower(text: string): string {
  return text.toLowerCase();
}

function unquoted(value: string): string {
  try {
    return String(JSON.parse(value));
  } catch {
    return value;
  }
}

/**
 * Words that relays, clouds and the daemon itself use when a message cannot be sent. A report shows no other word of what
 * they say, because a reply may repeat an address, a name, or a part of the message.
 */
const WORDS = `
a about above accept accepted access account action active address again all allowed already an and another answer answers
any are as at attachment attempt attempts auth authenticated authentication authorized bad banned be because been before
bind blacklist blacklisted block blocked bounce broke broken but by bytes cannot certificate channel check closed cloud code
command commands complete completed configured connect connection content could credentials daemon data day days deferred
delayed deliver delivered delivery denied device disabled disk dkim dmarc dns does domain down during error exceed exceeded
exceeds exist exists expired failed failing fails failure fault fieldpost file files firewall for forbidden found from full gave
gateway get give given go goes greylist greylisted greylisting had has have header headers helo hold host hours id if in
incoming incorrect insufficient internal invalid ip is issue it its key known large last later leads less limit limited
limits line link list listed listens local lock login long lookup lost mail mailbox malformed many matches maximum may
message messages minute minutes missing more must name named network never no none not nothing now number octets of off
offline ok on one only open or other out over overloaded own parameter parameters parse party password perhaps permanent
permission permitted place please plain policy poor port problem protocol push queue queued quota rate reach reached read
reason receive received recipient recipients record refused refuses reject rejected rejects relay relaying release reply
reputation request required requires reset resolved resources restart retry retries reverse route router rule sasl scan
second seconds security see seen send sender sending sent sequence server service session several side sign size slow sms
smtp so some spam spf spool start starttls state still stop stopped storage store syntax system table take taken takes
temporarily temporary terminated than that the there they this time timed timeout timeouts tls to token too transaction
transfer transmission transient tried trouble try trying type unable unavailable unknown unreachable unrecognized
unsolicited until unverified up use used user users valid verification verified verify version via virus wait waiting wants
was way well were when which will with within without work working wrong yet you your
`;

const KNOWN: ReadonlySet<string> = new Set(WORDS.trim().split(/\s+/));

/** True for such a word, in any case. */
function isReplyWord(word: string): boolean {
  return KNOWN.has(word.toLowerCase());
}
