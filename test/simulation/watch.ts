/**
 * Checks the promises after every step of a simulated world.
 */
import type { Call, LinkWatcher } from './link.js';
import { digestOf, readMail, tokenOf } from './mail.js';
import { Offers } from './offers.js';
import type { Taken } from './relay.js';
import { Weather } from './weather.js';
import type { Answer } from './wire.js';
import type { World } from './world.js';

/** Open files of the device: segments in use and prepared, files that are sent or received. */
const HANDLES_MAX = 24;
/** Besides its lines, the device has one session that tries relays which fail. */
const TRYING = 1;
/** Timers of the device. */
const TIMERS_MAX = 60;
/** How many late messages are looked up after one step. */
const SUSPECTS_MAX = 5;

export class Watch implements LinkWatcher {
  readonly weather = new Weather();
  readonly offers: Offers;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
    this.offers = new Offers(world);
  }

  /** See LinkWatcher. */
  answered({ kind, body }: Call, { status }: Answer): void {
    if (kind !== 'messages' || status >= 300) return;
    const { message } = JSON.parse(String(body)) as { message: string };
    this.offers.handed(message.split(' ')[0] ?? '');
  }

  /** A relay has a mail. */
  taken({ relay, envelope, mail, sinceMs, isUntold }: Taken): void {
    const { model, timeline } = this.#world;
    const { token: written, messageId, digest } = readMail(mail);
    // A copy bears the token of its mail, and its own in its address.
    const token = tokenOf(envelope.to);
    const posted = model.messages.get(token);
    if (posted !== undefined && (posted.mail ?? token) !== written)
      model.violation(`${token} has arrived with the text of ${written}`);
    this.#world.tell(`${relay} takes ${token}${isUntold ? ' and cannot say so' : ''}`);
    model.arrived(token, digest, { atMs: timeline.nowMs, sinceMs, messageId });
    this.#world.rate.taken(relay);
    if (isUntold) model.pardon(token);
  }

  /** A provider has an SMS, a call or a push message. */
  short(message: string): void {
    const { model, timeline } = this.#world;
    const [token = ''] = message.split(' ');
    this.#world.tell(`the provider takes ${token}`);
    if (!token.startsWith('T')) return;
    model.arrived(token, digestOf(message, []), { atMs: timeline.nowMs, sinceMs: 0, messageId: null });
  }

  /** The device's process has ended. */
  processEnded(): void {
    const { relays } = this.#world;
    this.offers.ended();
    this.weather.upset();
    for (const relay of relays) relay.open = 0;
  }

  /** After every step. */
  async look(): Promise<void> {
    const { model, device, relays, programs, live } = this.#world;
    this.#lookOut();
    if (!device.isUp) return;
    for (const relay of relays)
      if (relay.open > live.relayConnections + TRYING)
        model.violation(`${relay.open} sessions are open at a relay`);
    if (device.disk.handles > HANDLES_MAX) model.violation(`${device.disk.handles} files are open`);
    if (device.clock.waiting > TIMERS_MAX) model.violation(`${device.clock.waiting} timers are set`);
    // A message that is late only because no client has asked for its status breaks no promise.
    const suspects = this.offers.late().slice(0, SUSPECTS_MAX);
    for (const posted of suspects) await this.#world.awaited(programs.look(posted));
    this.#lookOut();
    const still = this.offers.late();
    const first = suspects.find((posted) => still.includes(posted));
    if (first !== undefined)
      model.violation(`${first.token} (${first.id}) is not offered although all is well`);
  }

  #lookOut(): void {
    const { timeline, model, device, relays, link, cloud, diskTrouble, route, isAway } = this.#world;
    this.weather.look(
      {
        device: device.isUp && diskTrouble === 'none',
        mail: model.isHeld === false && route.some((i) => relays[i]?.mood === 'well'),
        short: model.isHeld === false && link.isGood && cloud.isUp && !isAway,
      },
      timeline.nowMs,
    );
  }
}
