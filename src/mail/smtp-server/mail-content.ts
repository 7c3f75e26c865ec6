/**
 * Finds the end of a mail after DATA, and takes out the stuffed dots (RFC 5321 §4.5.2). Pure.
 *
 * Only CR LF `.` CR LF ends a mail. A server that also takes `LF . LF`, `LF . CR LF`, `CR . CR` or the like sees two mails
 * where its neighbour sees one (SMTP smuggling). Here they are text of the mail, which real clients send by mistake: the
 * intake leaves no bare CR or LF (mime/ready-made.ts), and the way out stuffs dots again. A dot behind a bare LF is a
 * stuffed one, as Postfix has it: Python's smtplib and others stuff it there.
 */

const CR = 0x0d;
const LF = 0x0a;
const DOT = 0x2e;
const HELD_CR = Buffer.from('\r');

/** What the last octet was: within a line, a CR, a bare LF, the LF of a CR LF, the dot behind it, the CR behind that. */
type After = 'text' | 'cr' | 'lf' | 'crlf' | 'dot' | 'dot-cr';

/** The content of one mail. The chunks may end anywhere. */
export class MailContent {
  #after: After = 'crlf';

  /**
   * Adds the octets of the mail that are in `chunk` to `pieces`. Gives where in `chunk` the next command begins; null:
   * the mail goes on.
   */
  push(chunk: Buffer, pieces: Buffer[]): number | null {
    let from = 0;
    const emit = (to: number) => {
      if (to > from) pieces.push(chunk.subarray(from, to));
    };
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      if (this.#after === 'dot-cr') {
        if (byte === LF) return at + 1;
        // The CR was no part of an end. It is text, and may begin a line break.
        pieces.push(HELD_CR);
        from = at;
        this.#after = 'cr';
      }
      if ((this.#after === 'crlf' || this.#after === 'lf') && byte === DOT) {
        emit(at);
        from = at + 1;
        this.#after = this.#after === 'crlf' ? 'dot' : 'text';
      } else if (this.#after === 'dot' && byte === CR) {
        from = at + 1;
        this.#after = 'dot-cr';
      } else if (byte === CR) this.#after = 'cr';
      else if (byte === LF) this.#after = this.#after === 'cr' ? 'crlf' : 'lf';
      else {
        const next = chunk.indexOf(LF, at + 1);
        at = (next < 0 ? chunk.length : next) - 1;
        this.#after = chunk[at] === CR ? 'cr' : 'text';
      }
    }
    emit(chunk.length);
    return null;
  }
}
