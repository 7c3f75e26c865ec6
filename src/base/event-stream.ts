/**
 * The format of a stream of events (text/event-stream), as it arrives in pieces.
 */

/** One event; `data` is JSON. */
export interface StreamEvent {
  readonly event: string;
  readonly data: string;
  /** Empty if it has none. */
  readonly id: string;
}

/** Puts the pieces of a stream together. Pure but for what it keeps of the last piece. */
export class EventParser {
  #rest = '';

  /** The events that end in this piece. A comment is none. */
  push(piece: string): StreamEvent[] {
    const blocks = (this.#rest + piece).replaceAll('\r\n', '\n').split('\n\n');
    this.#rest = blocks.pop() ?? '';
    return blocks.map(parsed).filter(({ data }) => data !== '');
  }
}

function parsed(block: string): StreamEvent {
  const found = { event: 'message', data: '', id: '' };
  for (const line of block.split('\n')) {
    const [, name, value = ''] = /^(event|data|id): ?(.*)$/.exec(line) ?? [];
    if (name === 'data') found.data += found.data === '' ? value : `\n${value}`;
    else if (name === 'event' || name === 'id') found[name] = value;
  }
  return found;
}
