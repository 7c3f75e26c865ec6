/** Since when all is well that a message needs on its way through a simulated world. */

export class Weather {
  /** Since when the device runs and its disk obeys; null: not at the moment. */
  deviceMs: number | null = null;
  /** Since when, besides, nobody holds the queue and a relay accepts all mail. */
  mailMs: number | null = null;
  /** Since when, besides, nobody holds the queue and the cloud can be reached. */
  shortMs: number | null = null;

  /** Called after every step of a world with what is well at that moment. */
  look({ device, mail, short }: Readonly<Record<'device' | 'mail' | 'short', boolean>>, nowMs: number): void {
    this.deviceMs = device ? (this.deviceMs ?? nowMs) : null;
    this.mailMs = device && mail ? (this.mailMs ?? nowMs) : null;
    this.shortMs = device && short ? (this.shortMs ?? nowMs) : null;
  }

  /** Something has happened that may be over by the next look. */
  upset(): void {
    this.deviceMs = this.mailMs = this.shortMs = null;
  }
}
