/**
 * Heartbeats at a given rate: the next one does not wait for the answers to those before, as devices do not wait for each
 * other. A latency counts from the moment at which the heartbeat was due, so a server that stalls cannot hide it.
 */
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { SECOND_MS } from '../../src/base/limits.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import { systemClock } from '../../src/base/system/clock.js';
import type { HttpRequest } from '../../src/base/system/https.js';
import { CloudClient, type HeartbeatReport } from '../../src/device/link/client.js';
import { ConnectionPool } from './connection-pool.js';
import { fleetId } from './fleet-load.js';

export interface OpenLoad {
  /** The servers, in turn. */
  readonly urls: readonly string[];
  readonly devices: number;
  /** Heartbeats a second, of all devices together. */
  readonly rate: number;
  /** What is due before this is sent, but not counted. */
  readonly warmMs: number;
  readonly ms: number;
  /** The most connections to one server. */
  readonly connections: number;
  readonly random: () => number;
}

/** What was due in the time that counts. */
export interface OpenFigures {
  readonly due: number;
  /** Answers by status; what was not answered by the code of the error. */
  readonly counts: Readonly<Record<string, number>>;
  /** Of those answered 200; null: there was none. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly maxMs: number | null;
}

const PACE_MS = 1;

/** Sends the heartbeats; resolves when the last one is answered or given up. */
export async function runOpenLoad(load: OpenLoad): Promise<OpenFigures> {
  const { rate, warmMs, ms, random } = load;
  const pool = new ConnectionPool(load);
  const devices = new Devices(load, pool);
  const latencies: number[] = [];
  const counts: Record<string, number> = {};
  let due = 0;
  const underWay = new Set<Promise<void>>();
  const begunMs = performance.now();
  const beat = (dueMs: number) => {
    const counted = dueMs >= begunMs + warmMs;
    if (counted) due++;
    const beating = devices.beat().then((what) => {
      underWay.delete(beating);
      if (!counted) return;
      counts[what] = (counts[what] ?? 0) + 1;
      if (what === '200') latencies.push(performance.now() - dueMs);
    });
    underWay.add(beating);
  };
  // Devices do not know of each other: their heartbeats arrive as a Poisson process.
  const gapMs = () => (-Math.log(1 - random()) * SECOND_MS) / rate;
  for (let dueMs = begunMs + gapMs(); dueMs < begunMs + warmMs + ms; ) {
    for (; dueMs <= performance.now(); dueMs += gapMs()) if (dueMs < begunMs + warmMs + ms) beat(dueMs);
    await pause(PACE_MS);
  }
  await Promise.all(underWay);
  pool.close();
  latencies.sort((a, b) => a - b);
  const share = (part: number) => latencies[Math.ceil(latencies.length * part) - 1] ?? null;
  return { due, counts, p50Ms: share(0.5), p99Ms: share(0.99), maxMs: share(1) };
}

const BASE = 'http://cloud.invalid';

/** The devices, of which one after the other sends a heartbeat. */
class Devices {
  readonly #load: OpenLoad;
  readonly #pool: ConnectionPool;
  readonly #clock = systemClock();
  readonly #signal = new AbortController().signal;
  #sent = 0;

  constructor(load: OpenLoad, pool: ConnectionPool) {
    this.#load = load;
    this.#pool = pool;
    setMaxListeners(0, this.#signal);
  }

  /** Resolves with the status of the answer, or the code of the error. An answer 200 is a right one. */
  async beat(): Promise<string> {
    const { urls, devices } = this.#load;
    const index = this.#sent % devices;
    const round = Math.floor(this.#sent / devices);
    const url = urls[this.#sent % urls.length] as string;
    this.#sent++;
    let what = '';
    const send = async (request: HttpRequest) => {
      try {
        const answer = await this.#pool.send({ ...request, url: `${url}${request.url.slice(BASE.length)}` });
        what = String(answer.status);
        return answer;
      } catch (error) {
        what = (error as { code?: string }).code ?? '';
        throw error;
      }
    };
    const options = { send, clock: this.#clock, version: '0.1.0' };
    // A client is light: of many devices none is kept.
    const client = new CloudClient({ url: BASE, deviceId: fleetId(index), key: 'any' }, options);
    try {
      await client.heartbeat(this.#report(index, round), this.#signal);
    } catch (error) {
      if (!(error instanceof CloudError)) throw error;
      if (what === '200') what = 'not the contract';
    }
    return what;
  }

  #report(index: number, round: number): HeartbeatReport {
    return {
      bootId: (index + 1).toString(16).padStart(8, '0'),
      sequence: round + 1,
      uptimeMs: this.#clock.bootMs(),
      state: 'running',
      // The same at each rate: the cloud writes a change of it to the disk.
      intervalMs: 30 * SECOND_MS,
      queue: { queued: 0, deferred: 0, failed: 0 },
      version: '0.1.0',
    };
  }
}
