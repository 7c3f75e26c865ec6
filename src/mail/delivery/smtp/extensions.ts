/**
 * What a relay says it can do: the reply to EHLO (RFC 5321 §4.1.1.1). Pure.
 */

export interface Extensions {
  readonly pipelining: boolean;
  readonly starttls: boolean;
  readonly eightBitMime: boolean;
  readonly smtpUtf8: boolean;
  /** True if MAIL may carry SIZE=. */
  readonly size: boolean;
  /** The largest message it takes, in bytes; null if it names none. */
  readonly sizeLimit: number | null;
  /** Mechanisms, in upper case. */
  readonly auth: ReadonlySet<string>;
}

/** Reads the lines of a successful reply to EHLO; what it does not know it passes over. */
export function parseExtensions(lines: readonly string[]): Extensions {
  const offered = new Map<string, string[]>();
  // The first line is the relay's name.
  for (const line of lines.slice(1)) {
    // "AUTH=LOGIN" is how servers before RFC 2554 say it, often on a second line.
    const [keyword = '', ...words] = line
      .slice(4)
      .toUpperCase()
      .split(/[\s=]+/)
      .filter(Boolean);
    offered.set(keyword, [...(offered.get(keyword) ?? []), ...words]);
  }
  // RFC 1870: 0, or no number, is no fixed limit.
  const limit = Number(/^\d{1,15}$/.exec(offered.get('SIZE')?.[0] ?? '')?.[0] ?? 0);
  return {
    pipelining: offered.has('PIPELINING'),
    starttls: offered.has('STARTTLS'),
    eightBitMime: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    size: offered.has('SIZE'),
    sizeLimit: limit === 0 ? null : limit,
    auth: new Set(offered.get('AUTH')),
  };
}
