/** Since when all is well that a message needs on its way through a simulated world. Used by watch.ts and actions.ts. */

/** What is well at a moment. */
export interface Look {
  /** The device runs, and its disk does what it is asked. */
  readonly device: boolean;
  /** Nobody holds the queue, and a relay takes whatever it is given. */
  readonly mail: boolean;
  /** The same, and the cloud can be reached. */
  readonly short: boolean;
}

export class Weather {
  /** Null: not just now. */
  deviceMs: number | null = null;
  mailMs: number | null = null;
  shortMs: number | null = null;

  /** It is looked at after every step of a world. */
  look({ device, mail, short }: Look, nowMs: number): void {
    this.deviceMs = device ? (this.deviceMs ?? nowMs) : null;
    this.mailMs = device && mail ? (this.mailMs ?? nowMs) : null;
    this.shortMs = device && short ? (this.shortMs ?? nowMs) : null;
  }

  /** Something has happened that is perhaps over by the next look. */
  upset(): void {
    this.deviceMs = this.mailMs = this.shortMs = null;
  }
}
