/**
 * Texts on which a regular expression takes longest: what it takes up to an unbounded repetition, then a long run, then
 * what makes it fail.
 */

/** A text of any length: `length` is that of the run in its middle, about. */
export interface HostileText {
  readonly start: string;
  readonly run: string;
  readonly end: string;
}

/** The hostile text with a run of about this many characters. */
export function hostile({ start, run, end }: HostileText, length: number): string {
  return start + run.repeat(Math.ceil(length / run.length)) + end;
}

type Node =
  | { readonly kind: 'one'; readonly source: string }
  | { readonly kind: 'nothing' }
  | { readonly kind: 'sequence'; readonly nodes: readonly Node[] }
  | { readonly kind: 'choice'; readonly nodes: readonly Node[] }
  | { readonly kind: 'repeat'; readonly node: Node; readonly min: number; readonly max: number };

/** A repetition of more than this counts as unbounded. */
const BOUND_MAX = 1000;
/** Characters to try for a class, the usual ones first. */
const CHARACTERS = [...'a0 .,"\t=-/:;<>@%+?_\\()[]{}!\'#$&*^`|~\nZ', '\r', 'é', '\u0301', '\0', '\ufeff'];
const ASCII = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code));
const RUNS = [
  ...CHARACTERS.slice(0, 24),
  ...[
    '\n',
    '\r\n',
    'a.',
    'a@',
    'a,',
    'a=',
    'a:',
    'a ',
    '"a',
    '\\"',
    ' "',
    '.0',
    '0 ',
    '+0',
    '=?',
    ' \t',
    '\r\n ',
  ],
];
const ENDS = ['', 'x', '"x', '\n', '\0', ' !', '=x'];

/** The texts to try on this expression. */
export function hostileTexts(pattern: RegExp): HostileText[] {
  const tree = new PatternReader(pattern.source).read();
  const sample = new Sampler(pattern.flags);
  const points: { start: string; runs: readonly string[] }[] = [
    { start: '', runs: RUNS },
    { start: 'x', runs: RUNS },
  ];
  const whole = [sample.of(tree, 1), sample.of(tree, 0)];
  // What it takes, but for its end: an expression without an anchor begins again at each.
  const parts = whole.flatMap((text) => [text, text.slice(0, -1), text.slice(0, Math.ceil(text.length / 2))]);
  points.push({ start: '', runs: parts.filter((text) => text !== '') });
  for (const times of [0, 1]) sample.points(tree, '', times, points);
  const texts = points.flatMap(({ start, runs }) =>
    runs.flatMap((run) => ENDS.map((end) => ({ start, run, end }))),
  );
  return [...new Map(texts.map((text) => [JSON.stringify(text), text])).values()];
}

/** Reads the source of a regular expression. */
class PatternReader {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  read(): Node {
    const options: Node[] = [];
    let nodes: Node[] = [];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ')') {
      if (this.#take(/\|/y) !== null) {
        options.push({ kind: 'sequence', nodes });
        nodes = [];
      } else nodes.push(this.#repeated(this.#atom()));
    }
    return { kind: 'choice', nodes: [...options, { kind: 'sequence', nodes }] };
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }

  #atom(): Node {
    if (this.#take(/\^|\$|\\[bB]/y) !== null) return { kind: 'nothing' };
    const group = this.#take(/\((\?(?:[:=!]|<[=!]|<\w+>))?/y);
    if (group !== null) {
      const node = this.read();
      this.#at++;
      // What must stand before or after is taken by what is beside it.
      return ['?=', '?!', '?<=', '?<!'].includes(group[1] ?? '') ? { kind: 'nothing' } : node;
    }
    const one = this.#take(
      /\[(?:[^\]\\]|\\[\s\S])*\]|\\(?:[pP]\{[^}]*\}|u[0-9a-f]{4}|x[0-9a-f]{2}|[\s\S])|[\s\S]/iy,
    );
    return { kind: 'one', source: one?.[0] ?? '' };
  }

  #repeated(node: Node): Node {
    const found = this.#take(/(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/y);
    if (found === null) return node;
    const [, sign, least = '0', comma, most = ''] = found;
    const min = sign === '+' ? 1 : Number(least);
    const max =
      sign === '?'
        ? 1
        : sign !== undefined || (comma === ',' && most === '')
          ? Infinity
          : Number(most || least);
    return { kind: 'repeat', node, min, max };
  }
}

/** Writes what an expression takes. */
class Sampler {
  readonly #flags: string;
  readonly #known = new Map<string, readonly string[]>();

  constructor(flags: string) {
    this.#flags = flags.replace(/[gy]/g, '');
  }

  /** The shortest text, with what may be left out `times` times. */
  of(node: Node, times: number): string {
    if (node.kind === 'one') return this.#characters(node.source)[0] ?? '';
    if (node.kind === 'sequence') return node.nodes.map((one) => this.of(one, times)).join('');
    if (node.kind === 'choice') return this.of(node.nodes[0] as Node, times);
    if (node.kind === 'nothing') return '';
    return this.of(node.node, times).repeat(Math.max(node.min, Math.min(times, node.max)));
  }

  /** Adds each unbounded repetition, with what comes before it and what it takes. */
  points(
    node: Node,
    start: string,
    times: number,
    found: { start: string; runs: readonly string[] }[],
  ): void {
    if (node.kind === 'choice') for (const one of node.nodes) this.points(one, start, times, found);
    if (node.kind === 'repeat') {
      if (node.max > BOUND_MAX) found.push({ start, runs: this.#runs(node.node) });
      this.points(node.node, start, times, found);
    }
    if (node.kind !== 'sequence') return;
    let before = start;
    for (const one of node.nodes) {
      this.points(one, before, times, found);
      before += this.of(one, times);
    }
  }

  #runs(node: Node): readonly string[] {
    if (node.kind === 'one') return this.#characters(node.source);
    if (node.kind === 'choice') return [...new Set(node.nodes.flatMap((one) => this.#runs(one)))];
    return [this.of(node, 1), this.of(node, 0)].filter((text) => text !== '');
  }

  #characters(source: string): readonly string[] {
    const known = this.#known.get(source);
    if (known !== undefined) return known;
    const one = new RegExp(`^(?:${source})$`, this.#flags);
    const usual = CHARACTERS.filter((character) => one.test(character));
    const found = usual.length > 0 ? usual : ASCII.filter((character) => one.test(character)).slice(0, 1);
    this.#known.set(source, found);
    return found;
  }
}
