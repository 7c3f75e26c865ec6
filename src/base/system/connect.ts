/**
 * Connects to a name that has several addresses, some of which may be dead. As in RFC 8305, the next address is tried
 * while the earlier ones are still connecting, and the first that connects wins.
 */
import type { LookupAddress } from 'node:dns';
import { lookup as systemLookup } from 'node:dns/promises';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { systemCodeOf } from '../errors.js';
import { Alarm } from '../retry/alarm.js';
import { refusalOfSelf } from '../retry/call-error.js';
import type { Clock } from './clock.js';

/** A name with several addresses: the pause before the next one is tried in parallel (RFC 8305). */
export const ADDRESS_STAGGER_MS = 500;

/** Where to connect. */
export interface ConnectRequest {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Ends all attempts; the promise then rejects with ABORT_ERR. */
  readonly signal: AbortSignal;
  /** Called when the name has been resolved. */
  readonly resolved: () => void;
}

/**
 * Gives a connected socket. Rejects with the error of the look-up or of the only attempt, or with an AggregateError of
 * all attempts and the `code` of the first.
 */
export type Connect = (request: ConnectRequest) => Promise<Socket>;

/** The clock, and what a test puts in place of the network. */
export interface ConnectOptions {
  readonly clock: Clock;
  readonly lookup?: (host: string) => Promise<readonly LookupAddress[]>;
  readonly open?: (address: string, port: number) => Socket;
}

/**
 * Makes a Connect. It first tries the address that worked last time. It tries an address last if it accepted a
 * connection but sent nothing: its server hangs, while its kernel answers.
 */
export function createConnect(options: ConnectOptions): Connect {
  const { clock, lookup = lookUpAll, open = openSocket } = options;
  const good = new Map<string, string>();
  const mute = new Map<string, readonly string[]>();
  return async ({ host, port, signal, resolved }) => {
    const found = isIP(host) === 0 ? interleaved(await lookup(host)) : [host];
    if (signal.aborted) throw givenUp();
    resolved();
    const first = found.filter((address) => address === good.get(host));
    const last = (mute.get(host) ?? []).filter((address) => found.includes(address));
    mute.set(host, last);
    const others = found.filter((address) => !last.includes(address));
    const addresses = [...new Set([...first, ...others, ...last])];
    const { address, socket } = await race(addresses, (one) => open(one, port), clock, signal);
    if (found.length > 1) {
      good.set(host, address);
      socket.once('close', () => {
        const isMute = socket.bytesRead === 0;
        if (isMute && good.get(host) === address) good.delete(host);
        const known = (mute.get(host) ?? []).filter((one) => one !== address);
        mute.set(host, isMute ? [...known, address] : known);
      });
    }
    return socket;
  };
}

interface Winner {
  readonly address: string;
  readonly socket: Socket;
}

/** Tries the addresses of one connection, and ends all attempts but the one that wins. */
function race(
  addresses: readonly string[],
  open: (address: string) => Socket,
  clock: Clock,
  signal: AbortSignal,
): Promise<Winner> {
  const waiting = [...addresses];
  const attempts = new Set<Socket>();
  const errors: Error[] = [];
  return new Promise((resolve, reject) => {
    const next = new Alarm(clock, begin);
    const giveUp = () => {
      end(null);
      reject(givenUp());
    };
    signal.addEventListener('abort', giveUp);
    begin();

    /** Tries the next address while earlier attempts go on. */
    function begin(): void {
      const address = waiting.shift();
      if (address === undefined) return;
      const socket = open(address);
      attempts.add(socket);
      socket.once('connect', () => {
        if (!attempts.has(socket)) return;
        const refusal = refusalOfSelf(socket);
        if (refusal !== null) {
          socket.destroy(refusal);
          return;
        }
        end(socket);
        resolve({ address, socket });
      });
      // The listener stays: an error of a loser must not end the process.
      socket.on('error', (error) => failed(socket, error));
      if (waiting.length > 0) next.in(ADDRESS_STAGGER_MS);
      else next.off();
    }

    function failed(socket: Socket, error: Error): void {
      if (!attempts.delete(socket)) return;
      errors.push(error);
      if (waiting.length > 0) begin();
      else if (attempts.size === 0) {
        end(null);
        reject(errorOf(errors));
      }
    }

    function end(winner: Socket | null): void {
      signal.removeEventListener('abort', giveUp);
      next.end();
      for (const socket of attempts) if (socket !== winner) socket.destroy();
      attempts.clear();
    }
  });
}

function lookUpAll(host: string): Promise<LookupAddress[]> {
  return systemLookup(host, { all: true });
}

function openSocket(address: string, port: number): Socket {
  return netConnect({ host: address, port, noDelay: true });
}

/** The resolver's order, but the families take turns: a dead family then delays only every other attempt. */
function interleaved(found: readonly LookupAddress[]): string[] {
  const mine = found.filter(({ family }) => family === found[0]?.family);
  const others = found.filter(({ family }) => family !== found[0]?.family);
  const addresses: string[] = [];
  for (let n = 0; n < Math.max(mine.length, others.length); n++) {
    for (const one of [mine[n], others[n]]) if (one !== undefined) addresses.push(one.address);
  }
  return [...new Set(addresses)];
}

function errorOf(errors: readonly Error[]): Error {
  const [first] = errors;
  if (first !== undefined && errors.length === 1) return first;
  return Object.assign(new AggregateError(errors), { code: systemCodeOf(first) });
}

function givenUp(): Error {
  return Object.assign(new Error('given up'), { code: 'ABORT_ERR' });
}
