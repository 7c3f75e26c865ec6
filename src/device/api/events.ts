/**
 * `GET /api/internal/events`: tells each change as it happens, as `text/event-stream` (the HTML standard, "Server-sent
 * events"). The events of the last minutes stay in a ring, so that a client that comes again misses nothing. Nothing is
 * computed unless somebody reads, or has read within the last minute. A slow reader costs no more than READER_BYTES: the
 * rest of what it has not read is in the ring, and it is closed once the ring has lost its place.
 */
import { FieldpostError } from '../../base/errors.js';
import { etagOf } from '../../base/http/etag.js';
import type { Exchange } from '../../base/http/exchange.js';
import { KIB, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Message } from '../../mail/message/message.js';
import type { ApiContext } from './context.js';
import { viewOf } from './messages.js';
import { stateOf } from './state.js';

const TYPE = 'text/event-stream';
/** Events that are kept for slow readers and for those that come again, */
export const RING_EVENTS = 256;
/** and their characters. */
const RING_CHARS = 256 * KIB;
/** Octets on their way to one reader. */
const READER_BYTES = 64 * KIB;
/** The ring is filled for this long after the last reader has left. */
export const RING_KEPT_MS = MINUTE_MS;
/** The state is looked at so often: relays, link and disk have their own moments of change. */
export const LOOK_MS = SECOND_MS;
/** A comment shows a reader that the daemon is still there. */
export const COMMENT_MS = 30 * SECOND_MS;
/** The ids of two runs of the daemon differ, also with a clock that stood still: they begin at a time of both clocks. */
const IDS_A_SECOND = 2 ** 20;
const IDS_A_MS = 1021;
/** Members of the state that change by themselves. */
const RESTLESS = ['now', 'uptimeMs', 'oldestAgeMs', 'freeBytes'];

/** `GET /api/internal/events` */
export async function getEvents(exchange: Exchange, context: ApiContext): Promise<void> {
  if (exchange.connections.streams.isFull && exchange.req.method !== 'HEAD')
    throw new FieldpostError('busy', 'Too many read the events already', {
      hint: 'close a status page or a fieldpost events, or try again',
    });
  context.events ??= new Events(context);
  const events = context.events;
  const after = Number(exchange.req.headers['last-event-id'] ?? Number.NaN);
  if (await exchange.stream(TYPE, (signal) => events.read(exchange, after, signal))) return;
  // A client that has ended its side, or sent its next request, gets the state alone.
  await context.store.look();
  exchange.send(200, TYPE, frame(events.latest, 'state', stateOf(context)), { 'Cache-Control': 'no-store' });
}

/** A client that reads. */
interface Reader {
  readonly exchange: Exchange;
  /** The id of the next event for it; infinite until it has the first state. */
  next: number;
  readonly end: () => void;
}

/** The events of a daemon, and who reads them; see EventReaders. */
export class Events {
  readonly #context: ApiContext;
  readonly #readers = new Set<Reader>();
  /** The events up to `latest`. */
  readonly #ring: string[] = [];
  #ringChars = 0;
  latest: number;
  readonly #alarm: Alarm;
  #isOn = false;
  #state = '';
  #etag = '';
  #leftMs = 0;
  #commentMs = 0;

  constructor(context: ApiContext) {
    const { clock } = context;
    this.#context = context;
    const second = Math.floor(clock.wallMs() / SECOND_MS);
    this.latest = second * IDS_A_SECOND + ((clock.bootMs() * IDS_A_MS) % IDS_A_SECOND);
    this.#alarm = new Alarm(clock, () => void this.#tick());
  }

  async read(exchange: Exchange, after: number, signal: AbortSignal): Promise<void> {
    const { store, log, clock } = this.#context;
    let over: () => void = () => undefined;
    const isOver = new Promise<void>((resolve) => (over = resolve));
    const end = () => {
      this.#readers.delete(reader);
      this.#leftMs = clock.bootMs();
      over();
    };
    const reader: Reader = { exchange, next: Number.POSITIVE_INFINITY, end };
    signal.addEventListener('abort', end);
    this.#readers.add(reader);
    this.#begin();
    await store.look();
    if (signal.aborted) return;
    const state = stateOf(this.#context);
    this.#state ||= steadyText(state);
    const isKnown = Number.isInteger(after) && after <= this.latest;
    if (isKnown && after >= this.latest - this.#ring.length) reader.next = after + 1;
    else {
      exchange.res.write(frame(this.latest, 'state', state));
      reader.next = this.latest + 1;
    }
    this.#write(reader);
    await isOver;
    if (signal.aborted) return;
    log.debug('reader closed', { reason: 'it is too many events behind' });
    exchange.res.write(': closed, because this reader is too many events behind\n\n');
  }

  end(): void {
    this.#alarm.end();
    this.#rest();
  }

  #begin(): void {
    if (this.#isOn) return;
    this.#isOn = true;
    // What has happened until now had no id: a client that had the last one has missed it.
    this.latest++;
    const { store, clock, book } = this.#context;
    this.#etag = etagOf(JSON.stringify(book.list()));
    store.watch((changed) => (changed === 'book' ? this.#bookChanged() : this.#messageChanged(changed)));
    this.#commentMs = clock.bootMs() + COMMENT_MS;
    this.#alarm.in(LOOK_MS);
  }

  #rest(): void {
    this.#isOn = false;
    this.#context.store.watch(null);
    this.#ring.length = 0;
    this.#ringChars = 0;
    this.#state = '';
  }

  #messageChanged(message: Message): void {
    this.#emit('message', viewOf(message, this.#context));
  }

  #bookChanged(): void {
    const { book } = this.#context;
    const etag = etagOf(JSON.stringify(book.list()));
    if (etag === this.#etag) return;
    this.#etag = etag;
    this.#emit('destinations', { count: book.counts.count, etag });
  }

  async #tick(): Promise<void> {
    const { clock } = this.#context;
    if (this.#readers.size === 0 && clock.bootMs() - this.#leftMs >= RING_KEPT_MS) return this.#rest();
    await this.#look();
    this.#alarm.in(LOOK_MS);
    if (clock.bootMs() < this.#commentMs) return;
    this.#commentMs = clock.bootMs() + COMMENT_MS;
    for (const { exchange } of this.#readers)
      if (exchange.res.headersSent && !exchange.res.writableNeedDrain) exchange.res.write(':\n\n');
  }

  /** Tells the state if it has changed, but for what changes by itself. */
  async #look(): Promise<void> {
    await this.#context.store.look();
    if (!this.#isOn) return;
    const state = stateOf(this.#context);
    const known = this.#state;
    this.#state = steadyText(state);
    if (known !== '' && known !== this.#state) this.#emit('state', state);
  }

  #emit(event: string, data: object): void {
    const text = frame(++this.latest, event, data);
    this.#ring.push(text);
    this.#ringChars += text.length;
    for (const reader of this.#readers) this.#write(reader);
    while (this.#ring.length > RING_EVENTS || (this.#ringChars > RING_CHARS && this.#ring.length > 1))
      this.#ringChars -= this.#ring.shift()?.length ?? 0;
    const first = this.latest - this.#ring.length + 1;
    for (const { next, end } of this.#readers) if (next < first) end();
  }

  /** Writes what the reader has not got, as far as its connection takes it. */
  #write(reader: Reader): void {
    const { res } = reader.exchange;
    const first = this.latest - this.#ring.length + 1;
    while (reader.next >= first && reader.next <= this.latest && res.writableLength < READER_BYTES) {
      res.write(this.#ring[reader.next - first]);
      reader.next++;
    }
    if (reader.next <= this.latest && res.listenerCount('drain') === 0)
      res.once('drain', () => this.#readers.has(reader) && this.#write(reader));
  }
}

function frame(id: number, event: string, data: object): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Without what changes by itself. A time of the boot's clock varies by 1 ms on the wall's. */
function steadyText(state: object): string {
  return JSON.stringify(state, (key, value) => {
    if (RESTLESS.includes(key)) return undefined;
    const isTime = typeof value === 'string' && /^\d{4}-\d\d-\d\dT.*Z$/.test(value);
    return isTime ? Math.round(Date.parse(value) / SECOND_MS) : value;
  });
}
