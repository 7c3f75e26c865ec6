/**
 * Which messages the list shows. Pure.
 */

/** A line of the list, as the inbox tells it. */
export interface InboxLine {
  readonly id: string;
  readonly type: number;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly at: string | null;
  readonly bytes: number;
  readonly hasFiles: boolean;
}

/** The lines of this type (0: of any) in which each word of `words` stands somewhere, in any case. */
export function found(lines: readonly InboxLine[], words: string, kind = 0): readonly InboxLine[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0 && kind === 0) return lines;
  return lines.filter(({ type, from, to, subject }) => {
    if (kind !== 0 && type !== kind) return false;
    const text = `${from}\n${to}\n${subject}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** The name in the first mailbox of a header (`Pump 3 <pump@example.com>`), or else its address. */
export function nameIn(header: string): string {
  const [, name = '', address = ''] = /^([^<]*)<([^<>]*)>/.exec(header) ?? [];
  return name.trim().replace(/^"|"$/g, '').trim() || address || header;
}

/** Tells which messages nobody has opened: those that came while the page was open. */
export class Unopened {
  #known: ReadonlySet<string> | null = null;
  readonly #unread = new Set<string>();

  /** All ids of the list now. Those of the first call do not count as new. */
  update(ids: readonly string[]): void {
    const now = new Set(ids);
    for (const id of ids) if (this.#known !== null && !this.#known.has(id)) this.#unread.add(id);
    for (const id of this.#unread) if (!now.has(id)) this.#unread.delete(id);
    this.#known = now;
  }

  opened(id: string): void {
    this.#unread.delete(id);
  }

  has(id: string): boolean {
    return this.#unread.has(id);
  }

  get count(): number {
    return this.#unread.size;
  }
}
