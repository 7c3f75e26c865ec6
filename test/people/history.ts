/**
 * What truly happened in a world of people, as the devices, their people and the machines of the cloud have seen it. Moments
 * are milliseconds since the world began.
 */
import type { Paper, Plan } from './plan.js';
import type { Told } from './reading.js';

/** A heartbeat that a device has sent. */
export interface Heard {
  readonly atMs: number;
  /** False: there was no answer, or its home could not learn of it. The cloud may know of it. */
  readonly isCertain: boolean;
  readonly said: 'running' | 'stopping' | 'moved';
  readonly last: string | null;
  /** True: its mails do not leave. */
  readonly isStuck: boolean;
  readonly boot: number;
  /** The machine that was called. */
  readonly machine: string;
}

/** Quiet as it was asked for; `untilMs` of `atMs`: it ended. */
export interface Quiet {
  readonly atMs: number;
  /** When it was first asked for: the cloud may have taken that without an answer. */
  readonly askedMs: number;
  readonly untilMs: number;
  /** Null: nobody knows whether the cloud has taken it. */
  readonly isCertain: boolean;
}

/** A message that a person got. */
export interface Message {
  readonly atMs: number;
  readonly machine: string;
  readonly id: string;
  readonly person: string;
  readonly told: Told;
  readonly words: string;
}

/** A machine was down or cut off, etcd had no quorum, or nobody took messages. */
export interface Trouble {
  readonly kind: 'down' | 'cut' | 'quorum' | 'jam';
  /** '': of all. */
  readonly machine: string;
  readonly fromMs: number;
  toMs: number;
}

/** A document from a moment on. `askedMs`: when the change was first sent. */
export interface Version {
  readonly askedMs: number;
  readonly fromMs: number;
  readonly paper: Paper;
}

export interface DeviceHistory {
  readonly heard: Heard[];
  readonly quiets: Quiet[];
  readonly versions: Version[];
  readonly drills: number[];
}

export interface History {
  readonly plan: Plan;
  readonly devices: ReadonlyMap<string, DeviceHistory>;
  readonly messages: Message[];
  readonly troubles: Trouble[];
  endMs: number;
}
