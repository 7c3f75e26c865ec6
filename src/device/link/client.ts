/**
 * The cloud's contract, one method per call. A call is made once: its caller decides when to retry. An answer that
 * breaks the contract is a failed call, whatever its status: a captive portal answers 200 with a page of its own.
 */
import { assert } from '../../base/errors.js';
import { problemWords, REFUSALS, retryAfterMsOf, STRONG_ETAG } from '../../base/http/answer.js';
import { type JsonObject, objectIn } from '../../base/json.js';
import {
  CLOUD_ANSWER_BYTES_MAX,
  CLOUD_CALL_TIMEOUT_MS,
  CLOUD_DOCUMENT_BYTES_MAX,
  SECOND_MS,
} from '../../base/limits.js';
import { CloudError } from '../../base/retry/call-error.js';
import type { Clock } from '../../base/system/clock.js';
import type { HttpAnswer, HttpRequest, SendRequest } from '../../base/system/https.js';
import { oneLine } from '../../base/text.js';
import type { LinkMode, RelayView } from '../../base/views.js';
import { ZONE_CHARS_MAX } from '../../mail/book/hours.js';
import type { System } from '../../mail/engine.js';
import type { CloudMail, ShortAnswer, ShortMessage } from '../../mail/message/message.js';
import type { DeviceConfig, LinkConfig } from '../settings.js';

/** A heartbeat without an answer fails after this long. */
export const HEARTBEAT_TIMEOUT_MS = 15 * SECOND_MS;

// A weak ETag (`W/"…"`) cannot tell two edits apart.
const STRONG = new RegExp(`^${STRONG_ETAG}$`);
// RFC 3339, as Date.parse reads it.
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const WORDS: Readonly<Record<number, string>> = {
  401: "refuses this device's key",
  403: 'does not let this device in',
  404: 'does not know this device, or the URL in FIELDPOST_CLOUD is wrong',
  408: 'gave up waiting for our request',
  429: 'asks this device to slow down',
  501: 'does not do this',
};

/** Statuses that come from something between device and cloud. */
const FOREIGN: Readonly<Record<number, string>> = {
  304: 'perhaps a cache on the way; no 304 was asked for',
  407: 'a proxy on the way wants a login',
  511: 'the network of this device wants a login first; open its login page',
};

/** The body of a heartbeat. */
export interface HeartbeatReport {
  /** The same as long as the device has not booted anew. */
  readonly bootId: string;
  /** Counts the heartbeats since the daemon started, from 1. */
  readonly sequence: number;
  /** Since the device booted. Orders the heartbeats of one boot; `sequence` begins anew with each start. */
  readonly uptimeMs: number;
  /** `stopping`: a planned stop; nobody is notified. `moved`: the device goes to another cloud, or to none. */
  readonly state: 'running' | 'stopping' | 'moved';
  readonly intervalMs: number;
  readonly queue: { readonly queued: number; readonly deferred: number; readonly failed: number };
  readonly version: string;
  /** The state of the relays. Clouds of earlier versions ignore it, and `link`. */
  readonly relay?: RelayView['state'];
  /** The state of the link before this heartbeat. */
  readonly link?: LinkMode;
  /** For how long this device will be quiet from now on; 0: no longer. Said until the cloud has heard it. */
  readonly quietMs?: number;
  /** Why. */
  readonly why?: string;
  /** The last word: the cloud tells it to people at once. */
  readonly last?: string;
  /** The names of programs that gave no sign in time. */
  readonly late?: readonly string[];
}

/** The answer to a heartbeat; members that the cloud does not send are left out. */
export interface HeartbeatAnswer {
  /** The ETag of the destinations document, as its header has it. */
  readonly destinations?: string;
  /** The interval of heartbeats that the cloud wants. */
  readonly heartbeatMs?: number;
  /** Its wall clock. */
  readonly serverTimeMs?: number;
  readonly retryAfterMs?: number;
  /** The time zone in which it tells people; left out: UTC, or it does not tell. */
  readonly zone?: string;
}

/** `none`: the cloud has never stored a document. `more`: its other members, which the device keeps as they are. */
type DestinationsAnswer =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'none' }
  | {
      readonly kind: 'document';
      readonly etag: string;
      readonly entries: readonly unknown[];
      readonly more?: JsonObject;
    };

/** `changed`: somebody else has replaced the document of that ETag. */
type PutAnswer = { readonly kind: 'stored'; readonly etag: string } | { readonly kind: 'changed' };

/** `begun`: so many people are told. `unknown`: this cloud has no drill. `refused`: not now, in its words. */
export type DrillAnswer =
  | { readonly kind: 'begun'; readonly people: number }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'refused'; readonly reply: string };

/** What a cloud of an earlier version answers to a call that it does not have. */
const NO_SUCH_CALL = [404, 405, 501];

/** What few calls have. */
type More = Partial<Pick<HttpRequest, 'headers' | 'upload' | 'timeoutMs' | 'answerBytesMax'>> & {
  readonly body?: unknown;
};

interface ClientOptions {
  readonly send: SendRequest;
  readonly clock: Clock;
  readonly version: string;
}

/** Every call but sendMessage and sendMail rejects with CloudError if it fails. */
export class CloudClient {
  readonly #options: ClientOptions;
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ url, deviceId, key }: Pick<LinkConfig, 'url' | 'deviceId' | 'key'>, options: ClientOptions) {
    this.#options = options;
    this.#base = `${url}/devices/${deviceId}`;
    this.#headers = {
      Authorization: `Bearer ${key}`,
      Accept: 'application/json',
      'User-Agent': `fieldpost/${options.version}`,
    };
  }

  async heartbeat(report: HeartbeatReport, signal: AbortSignal): Promise<HeartbeatAnswer> {
    const answer = await this.#call('PUT', 'heartbeat', signal, {
      body: report,
      timeoutMs: HEARTBEAT_TIMEOUT_MS,
    });
    if (answer.status !== 200) throw this.#failed(answer);
    const body = jsonOf(answer);
    const retryAfterMs = retryAfterMsOf(answer.headers, this.#wallMs);
    return {
      ...member(body, 'destinations', 'string'),
      ...member(body, 'heartbeatMs', 'number'),
      ...serverTimeOf(body),
      ...(retryAfterMs !== null && { retryAfterMs }),
      // It is for people alone: whatever else it is must not end the link.
      ...(typeof body.zone === 'string' && body.zone.length <= ZONE_CHARS_MAX && { zone: body.zone }),
    };
  }

  /** `etag`: of the document that is known already, or null. */
  async getDestinations(etag: string | null, signal: AbortSignal): Promise<DestinationsAnswer> {
    const answer = await this.#call('GET', 'destinations', signal, {
      headers: etag === null ? {} : { 'If-None-Match': etag },
      answerBytesMax: CLOUD_DOCUMENT_BYTES_MAX,
    });
    if (answer.status === 304 && etag !== null) return { kind: 'unchanged' };
    // A proxy on the way may answer 404 as well, but with a page of its own.
    if (answer.status === 404 && problemOf(answer) !== null) return { kind: 'none' };
    if (answer.status !== 200) throw this.#failed(answer);
    const document = jsonOf(answer);
    const { destinations: _, ...more } = document;
    const entries = arrayMember(document, 'destinations');
    const present = { etag: strongEtagOf(answer), entries };
    return { kind: 'document', ...present, ...(Object.keys(more).length > 0 && { more }) };
  }

  /** `ifMatch`: the ETag of the document that this one replaces; null: it is the first. */
  async putDestinations(
    entries: readonly unknown[],
    ifMatch: string | null,
    signal: AbortSignal,
    more?: JsonObject,
  ): Promise<PutAnswer> {
    const answer = await this.#call('PUT', 'destinations', signal, {
      headers: ifMatch === null ? { 'If-None-Match': '*' } : { 'If-Match': ifMatch },
      body: { ...more, destinations: entries },
      answerBytesMax: CLOUD_DOCUMENT_BYTES_MAX,
    });
    if (answer.status === 412) return { kind: 'changed' };
    if (answer.status !== 200 && answer.status !== 204) throw this.#failed(answer);
    if (answer.body.length > 0) jsonOf(answer);
    return { kind: 'stored', etag: strongEtagOf(answer) };
  }

  /** A drill: the cloud calls everybody in the address book, or only the person whose entry has this uid. */
  async drill(uid: string | null, signal: AbortSignal): Promise<DrillAnswer> {
    const answer = await this.#call('POST', 'drill', signal, { body: uid === null ? {} : { uid } });
    const { status } = answer;
    if (NO_SUCH_CALL.includes(status)) return { kind: 'unknown' };
    const problem = problemOf(answer);
    // The cloud has no entry with this uid.
    if (status === 422 && uid !== null && problem !== null) return { kind: 'begun', people: 0 };
    // Without a problem the answer is perhaps that of a proxy.
    if ([409, 422, 429].includes(status) && problem !== null) return { kind: 'refused', reply: problem };
    if (status !== 202) throw this.#failed(answer);
    const { people } = member(jsonOf(answer), 'people', 'number');
    if (people === undefined) throw wrongMember('people', 'a number');
    return { kind: 'begun', people };
  }

  /** Gives `later` instead of rejecting with CloudError. */
  sendMessage(message: ShortMessage, signal: AbortSignal): Promise<ShortAnswer> {
    return this.#offer('messages', message.id, signal, { body: message });
  }

  /** The same for a mail. */
  sendMail({ id, to, timeoutMs, ...upload }: CloudMail, signal: AbortSignal): Promise<ShortAnswer> {
    const query = to.map((one) => `to=${encodeURIComponent(one)}`).join('&');
    const headers = { 'Content-Type': 'message/rfc822' };
    return this.#offer(`mails?${query}`, id, signal, { headers, upload, timeoutMs });
  }

  async #offer(path: string, id: string, signal: AbortSignal, more: More): Promise<ShortAnswer> {
    let status: number | undefined;
    try {
      const headers = { ...more.headers, 'Idempotency-Key': id };
      const answer = await this.#call('POST', path, signal, { ...more, headers });
      status = answer.status;
      const problem = problemOf(answer);
      // Without a problem the answer is perhaps that of a proxy.
      if (REFUSALS.includes(status) && problem !== null) {
        return { kind: 'refused', reply: `${status} ${problem}` };
      }
      if (status < 200 || status >= 300) throw this.#failed(answer);
      if (jsonOf(answer).id === id) return { kind: 'taken', reply: `${status} taken` };
      const { retryAfterMs } = this.#failed(answer);
      throw new CloudError(`it answered ${status} with another id than the message's`, retryAfterMs);
    } catch (error) {
      if (!(error instanceof CloudError)) throw error;
      const { message: reply, retryAfterMs, isReached } = error;
      return { kind: 'later', reply, retryAfterMs, isReached, ...(status !== undefined && { status }) };
    }
  }

  get #wallMs(): number {
    return this.#options.clock.wallMs();
  }

  #failed(answer: HttpAnswer): CloudError {
    return failedCall(answer, this.#wallMs);
  }

  /** Rejects with CloudError if no whole answer came. */
  async #call(
    method: HttpRequest['method'],
    path: string,
    signal: AbortSignal,
    more: More,
  ): Promise<HttpAnswer> {
    const {
      body,
      headers,
      upload,
      timeoutMs = CLOUD_CALL_TIMEOUT_MS,
      answerBytesMax = CLOUD_ANSWER_BYTES_MAX,
    } = more;
    const json = body === undefined ? undefined : { 'Content-Type': 'application/json' };
    try {
      return await this.#options.send({
        method,
        url: `${this.#base}/${path}`,
        headers: { ...this.#headers, ...json, ...headers },
        body: body === undefined ? null : JSON.stringify(body),
        ...(upload && { upload }),
        timeoutMs,
        answerBytesMax,
        signal,
      });
    } catch (error) {
      throw CloudError.ofNetwork(error, new URL(this.#base).hostname, this.#wallMs);
    }
  }
}

/** A client for the cloud of these settings. It follows a reload of the proxy. */
export function openClient(
  config: Pick<DeviceConfig, 'cloud' | 'cloudProxy'>,
  system: Required<Pick<System, 'clock' | 'connect' | 'version' | 'openHttps'>>,
): { readonly client: CloudClient; readonly close: () => void } {
  const { cloud } = config;
  assert(cloud !== null, 'the settings name a cloud');
  const https = system.openHttps({
    ...cloud,
    ...system,
    proxy: () => (config.cloudProxy === 'none' ? null : config.cloudProxy),
  });
  return { client: new CloudClient(cloud, { send: https.send, ...system }), close: () => https.close() };
}

/** The JSON object in the body of a success. */
function jsonOf(answer: HttpAnswer): JsonObject {
  const fields = objectIn(answer.body);
  if (fields !== null) return fields;
  const type = answer.headers['content-type'] ?? 'no type';
  throw new CloudError(
    `the answer (${answer.status}, ${oneLine(type)}) is not from the cloud's API: perhaps a login page of the network`,
  );
}

/** The problem text (RFC 9457) in an error answer; null if the body has none, for example the error page of a proxy. */
function problemOf({ body }: HttpAnswer): string | null {
  const words = problemWords(objectIn(body));
  return words === null ? null : oneLine(words);
}

/** The error of an answer with an unexpected status. */
function failedCall(answer: HttpAnswer, wallMs: number): CloudError {
  const { status, headers } = answer;
  const retryAfterMs = retryAfterMsOf(headers, wallMs);
  const foreign = FOREIGN[status];
  if (foreign !== undefined) return new CloudError(`the answer was ${status}: ${foreign}`, retryAfterMs);
  if (status >= 300 && status < 400) {
    const to = oneLine(headers.location ?? 'elsewhere');
    const words = `the answer was ${status}, a redirect to ${to}, which is not followed: perhaps a login page of the network`;
    return new CloudError(words, retryAfterMs);
  }
  const what = WORDS[status] ?? (status >= 500 ? 'failed' : 'gave an unexpected answer');
  const detail = problemOf(answer);
  const words = `the cloud ${what} (${status}${detail === null ? '' : `: ${detail}`})`;
  return new CloudError(oneLine(words), retryAfterMs);
}

/** The strong ETag of the document. */
function strongEtagOf({ headers }: HttpAnswer): string {
  const { etag } = headers;
  if (etag !== undefined && STRONG.test(etag)) return etag;
  const what = etag === undefined ? 'no ETag' : `an ETag that is not a strong one (${oneLine(etag)})`;
  throw new CloudError(`the cloud breaks its contract: its document has ${what}`);
}

interface Types {
  string: string;
  number: number;
}

/** `{[name]: value}` if the answer has this member, else `{}`. Throws CloudError if it is no string, or no number from 0 on. */
function member<Name extends string, Type extends keyof Types>(fields: JsonObject, name: Name, type: Type) {
  const value = fields[name] ?? undefined;
  const isNegative = typeof value === 'number' && value < 0;
  if (value !== undefined && (typeof value !== type || isNegative)) throw wrongMember(name, `a ${type}`);
  return (value === undefined ? {} : { [name]: value }) as { [Key in Name]?: Types[Type] };
}

/** `{serverTimeMs}`, the cloud's wall clock, if the answer has it, else `{}`. */
function serverTimeOf(fields: JsonObject): { serverTimeMs?: number } {
  const { serverTime } = member(fields, 'serverTime', 'string');
  if (serverTime === undefined) return {};
  const serverTimeMs = MOMENT.test(serverTime) ? Date.parse(serverTime) : Number.NaN;
  if (Number.isNaN(serverTimeMs)) throw wrongMember('serverTime', 'a moment such as 2026-11-20T09:00:00Z');
  return { serverTimeMs };
}

/** The array of that name. */
function arrayMember(fields: JsonObject, name: string): readonly unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) throw wrongMember(name, 'an array');
  return value;
}

function wrongMember(name: string, kind: string): CloudError {
  return new CloudError(`the cloud breaks its contract: ${name} in its answer is not ${kind}`);
}
