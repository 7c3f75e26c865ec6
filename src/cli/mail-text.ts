/**
 * The text that programs give to sendmail, turned into a mail (RFC 5322): without a mailbox's `From ` line, with an empty
 * line after the header, up to a line with a single dot. Line ends stay as they are. Used by sendmail-input.ts.
 */
import { Buffer } from 'node:buffer';

const NONE = Buffer.alloc(0);
const LINE_END = Buffer.from('\n');
const LF = 10;
/** Enough of a line to tell whether it is a header field: a name of RFC 5322 is shorter than a whole line. */
const JUDGED_OCTETS = 998;
const FIELD = /^[!-9;-~]+(?:[ \t]+)?:/;
const MAILBOX_LINE = /^>?From /;
const END = /^\.\r?\n?$/;

type Verdict = 'keep' | 'drop' | 'break' | 'end';

/** One mail on its way in. */
export class MailText {
  readonly #dotEnds: boolean;
  #isBody = false;
  #isFirst = true;
  /** The beginning of a line that cannot be judged yet. */
  #rest = NONE;
  /** What happens with the rest of a line whose beginning was judged; null at the beginning of a line. */
  #verdict: Verdict | null = null;
  /** True once the line with the dot has come: what follows is no part of the mail. */
  isOver = false;

  constructor(dotEnds: boolean) {
    this.#dotEnds = dotEnds;
  }

  /** Takes the next octets and gives those that belong to the mail. */
  *push(chunk: Uint8Array): Generator<Buffer, void, void> {
    let bytes = Buffer.concat([this.#rest, chunk]);
    this.#rest = NONE;
    while (bytes.length > 0 && !this.isOver) {
      if (this.#verdict === null && this.#isBody && !this.#dotEnds) return yield bytes;
      const lineEnd = bytes.indexOf(LF) + 1;
      const line = bytes.subarray(0, lineEnd || bytes.length);
      if (this.#verdict === null && lineEnd === 0 && !this.#canJudge(line)) {
        this.#rest = Buffer.from(line);
        return;
      }
      yield* this.#take(line);
      bytes = bytes.subarray(line.length);
    }
  }

  /** Gives what is left at the end of the input. */
  *end(): Generator<Buffer, void, void> {
    if (this.#rest.length > 0 && !this.isOver) yield* this.#take(this.#rest);
    this.#rest = NONE;
  }

  *#take(line: Buffer): Generator<Buffer, void, void> {
    const verdict = this.#verdict ?? this.#judge(line);
    this.#verdict = line.at(-1) === LF ? null : verdict === 'break' ? 'keep' : verdict;
    if (verdict === 'end') this.isOver = true;
    if (verdict === 'break') yield LINE_END;
    if (verdict === 'break' || verdict === 'keep') yield line;
  }

  /** True if the rest of the line cannot change the verdict. */
  #canJudge(beginning: Buffer): boolean {
    return this.#isBody ? !END.test(beginning.toString('latin1')) : beginning.length >= JUDGED_OCTETS;
  }

  #judge(line: Buffer): Verdict {
    const text = line.toString('latin1', 0, JUDGED_OCTETS);
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if (this.#dotEnds && END.test(text)) return 'end';
    if (this.#isBody) return 'keep';
    if (isFirst && MAILBOX_LINE.test(text)) return 'drop';
    if (FIELD.test(text) || (!isFirst && /^[ \t]/.test(text))) return 'keep';
    this.#isBody = true;
    return /^\r?\n?$/.test(text) ? 'keep' : 'break';
  }
}
