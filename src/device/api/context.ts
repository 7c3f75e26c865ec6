/**
 * What the calls of the API share: the functions and settings that the composition root gives them, and who calls. The api
 * knows the other modules only by these functions.
 */
import type { MemoryListeners } from '../../base/http/connections.js';
import type { Exchange } from '../../base/http/exchange.js';
import type { Patience } from '../../base/http/http.js';
import type { RefusedTotals } from '../../base/http/problem.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { Ends } from '../../base/system/peer.js';
import type { LinkView, Outcomes, RelayView, SettingsFault, SyncView, TriedRelay } from '../../base/views.js';
import type { Address } from '../../mail/message/address.js';
import type { EmailDraft } from '../../mail/message/message.js';
import type { Store } from '../../mail/store/store.js';
import type { Alive } from '../alive.js';
import type { AddressBook } from '../book/address-book.js';
import type { ShownRow } from '../history/history.js';
import type { Step } from '../history/rows.js';
import type { DrillAnswer } from '../link/client.js';
import type { Quiet } from '../quiet.js';
import type { DeviceConfig } from '../settings.js';

/** The callers of a route: everybody, senders and operators, or operators alone. */
export type Access = 'anybody' | 'senders' | 'operators';

/** The clients that read events. */
interface EventReaders {
  /** The id of the last event. */
  readonly latest: number;
  /** Writes to the client until the signal aborts, or it falls behind. `after`: the id of the last event that it has. */
  read(exchange: Exchange, after: number, signal: AbortSignal): Promise<void>;
  /** Ends the work for good. */
  end(): void;
}

/** What this device says to people by way of the cloud. */
interface Telling {
  readonly quiet: Pick<Quiet, 'view' | 'begin' | 'end'>;
  /** See Link.sayNow. */
  sayNow(word: string): Promise<string | null>;
  /** See CloudClient.drill. */
  drill(uid: string | null, signal: AbortSignal): Promise<DrillAnswer>;
}

/** What the root hands over. The handlers share it. */
export interface ApiContext extends MemoryListeners {
  readonly store: Store;
  readonly book: AddressBook;
  readonly settings: Pick<
    DeviceConfig,
    | 'cloud'
    | 'maxBodyBytes'
    | 'maxBatch'
    | 'maxAttachments'
    | 'maxMessageBytes'
    | 'allowedHosts'
    | 'apiToken'
    | 'sendToken'
    | 'fromHeader'
    | 'urgentHeaders'
    | 'minFreeBytes'
    | 'maxShare'
  >;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** The start of the daemon, on the boot's clock. */
  readonly startedBootMs: number;
  /** Messages accepted since the start, by any door. */
  readonly accepted: { total: number };
  /** Messages refused since the start, by any door. */
  readonly refused: RefusedTotals;
  /** Tells delivery that a message may be due. `lifeMs`: the shortest life that one of them gave itself. */
  nudge(lifeMs?: number): void;
  /** An operator wants delivery now: try failing relays and the cloud at once. */
  wake(): void;
  /** The address book was edited. */
  edited(): void;
  /** Null: no cloud is configured. */
  syncState(): SyncView | null;
  relayState(): RelayView;
  /** See Delivery.tryRelays. */
  tryRelays(signal: AbortSignal): Promise<readonly TriedRelay[]>;
  /** True if a message may have this sender. */
  mayBeFrom(address: Address): boolean;
  /** True for the address of a user of this device, such as root@localhost. */
  isOfThisDevice(address: Address): boolean;
  /** Where mail to this address goes: that to a user of this device goes to its readers. Empty: nobody reads it. */
  homesOf(address: Address): readonly Address[];
  /** The device's present name. */
  hostname(): string;
  /** Size of the largest mail that any relay accepts; null if unknown. */
  mailLimitBytes(): number | null;
  /** Size of the mail of this draft. */
  mailBytes(draft: EmailDraft): number;
  /** Null: no cloud is configured. */
  linkState(): LinkView | null;
  /** The same. */
  readonly telling: Telling | null;
  /** The programs that must give signs. */
  readonly alive: Pick<Alive, 'open' | 'view'>;
  outcomes(): Outcomes;
  history(step: Step): Promise<readonly ShownRow[]>;
  /** True unless the wall clock is known to be wrong. */
  clockTrusted(): boolean;
  /** Null: the daemon follows the latest settings. */
  settingsFault(): SettingsFault | null;
  /** The user at the other end of a TCP connection from this device; null if unknown. */
  peerUid(ends: Ends): Promise<number | null>;
  /** Memory limit of the process in bytes; undefined means no limit. */
  readonly memoryBytes?: number | undefined;
  /** How many files the process may open for its clients; undefined means no limit. */
  readonly descriptors?: number | undefined;
  /** Made for the first reader of events. */
  events?: EventReaders;
  /** Time limits for slow HTTP clients; tests use shorter ones. */
  readonly patience?: Patience;
}

/**
 * Who calls: `unix:/run/fieldpost/api.sock`, `uid 1000`, or what `unknown` says if the user is unknown; else the address.
 * Looks the user up once a connection.
 */
export async function callerOf(
  { req: { socket }, connection }: Exchange,
  { peerUid }: Pick<ApiContext, 'peerUid'>,
  unknown = addressOf(socket),
): Promise<string> {
  if (connection.kind !== 'tcp') return `unix:${connection.path}`;
  if (connection.uid === undefined) connection.uid = await peerUid(socket);
  return connection.uid === null ? unknown : `uid ${connection.uid}`;
}

/** The same as the name of the caller's share of the queue. Whoever brings a token from elsewhere counts as one caller. */
export function sharerOf(exchange: Exchange, context: ApiContext): Promise<string> {
  const token = exchange.onlySends ? 'send token' : 'token';
  return callerOf(exchange, context, context.settings.apiToken === null ? undefined : token);
}

/** The same of a client of the SMTP server. */
export async function smtpSharerOf(ends: Ends, peerUid: ApiContext['peerUid']): Promise<string> {
  const uid = await peerUid(ends);
  return uid === null ? `smtp ${addressOf(ends)}` : `uid ${uid}`;
}

function addressOf({ remoteAddress = 'unknown' }: Ends): string {
  return remoteAddress.replace(/^::ffff:/, '');
}
