/**
 * Faults that are planted in the source when the simulation is compiled, one at a time: a simulation that finds none of
 * them proves nothing. A fault is one cut or several, `[file, from, to]`; `from` must stand in its file once, so that no
 * plant goes stale in silence. Used by compile.mjs.
 */

/** The way of a message. */
const MAIL = {
  'claim-of-the-leaving': {
    why: 'a message that is being cancelled may be sent',
    cuts: [
      ['src/store/journaled-store.ts', 'if (this.#leaving.has(id) || (this.held', 'if ((this.held'],
      ['src/store/journaled-store.ts', 'if (message && !this.#leaving.has(id)) yield', 'if (message) yield'],
    ],
  },
  'no-sync': {
    why: 'a 202 is answered before its record is on the device',
    cuts: [['src/store/journal.ts', 'if (durable) await current.segment.file.sync();', '']],
  },
  'no-key': {
    why: 'an Idempotency-Key is not in the record of its messages',
    cuts: [['src/store/acceptance.ts', 'messages, ...keyed }', 'messages }']],
  },
  'message-id': {
    why: 'the Message-ID is made anew in each boot',
    cuts: [
      [
        'src/daemon/mails.ts',
        'content }, message, { from',
        'content }, { id: message.id + this.#clock.boot }, { from',
      ],
    ],
  },
  'one-sms': {
    why: 'after the first SMS, call or push no other of its type is sent',
    cuts: [['src/delivery/carrier.ts', '        this.#working = null;\n', '']],
  },
  'deaf-wake': {
    why: 'the pause after a failure is never over by itself',
    cuts: [['src/retry/backoff.ts', ': nowMs + backoffMs(', ': nowMs + 1e9 + backoffMs(']],
  },
};

/** The address book, the link and the cloud. */
const BOOK = {};

export const PLANTS = { ...MAIL, ...BOOK };

/** A plugin of rolldown that plants the fault of that name. Throws where there is none, or it does not fit. */
export function planter(name) {
  const plant = PLANTS[name];
  if (plant === undefined) throw new Error(`no plant is called ${name}: ${Object.keys(PLANTS).join(', ')}`);
  const planted = new Set();
  return {
    name: 'planter',
    transform(code, id) {
      let planting = code;
      for (const cut of plant.cuts) {
        const [file, from, to] = cut;
        if (!id.endsWith(`/${file}`)) continue;
        if (planting.split(from).length !== 2) throw new Error(`${name} does not fit ${file}: ${from}`);
        planting = planting.replace(from, () => to);
        planted.add(cut);
      }
      return planting === code ? null : { code: planting, map: null };
    },
    buildEnd(error) {
      if (error === undefined && planted.size < plant.cuts.length)
        throw new Error(`${name} is not planted: a file of it is not compiled`);
    },
  };
}
