/**
 * Faults that are planted in the source when the simulation is compiled, one at a time: a simulation that finds none of
 * them proves nothing. `from` must stand in its file once, so that no plant goes stale in silence. Used by compile.mjs.
 */
export const PLANTS = {
  'claim-of-the-leaving': {
    why: 'a message that is being cancelled may be sent',
    file: 'src/store/journaled-store.ts',
    from: 'if (this.#leaving.has(id) || (this.held',
    to: 'if ((this.held',
  },
  'no-sync': {
    why: 'a 202 is answered before its record is on the device',
    file: 'src/store/journal.ts',
    from: 'if (durable) await current.segment.file.sync();',
    to: '',
  },
  'no-key': {
    why: 'an Idempotency-Key is not in the record of its messages',
    file: 'src/store/acceptance.ts',
    from: 'messages, ...keyed }',
    to: 'messages }',
  },
  'message-id': {
    why: 'the Message-ID is made anew in each boot',
    file: 'src/daemon/mails.ts',
    from: 'content }, message, { from',
    to: 'content }, { id: message.id + this.#clock.boot }, { from',
  },
  'one-sms': {
    why: 'after the first SMS, call or push no other of its type is sent',
    file: 'src/delivery/carrier.ts',
    from: '        this.#working = null;\n',
    to: '',
  },
  'deaf-wake': {
    why: 'the pause after a failure is never over by itself',
    file: 'src/retry/backoff.ts',
    from: ': nowMs + backoffMs(',
    to: ': nowMs + 1e9 + backoffMs(',
  },
};

/** A plugin of rolldown that plants the fault of that name. Throws where there is none, or it does not fit. */
export function planter(name) {
  const plant = PLANTS[name];
  if (plant === undefined) throw new Error(`no plant is called ${name}: ${Object.keys(PLANTS).join(', ')}`);
  return {
    name: 'planter',
    transform(code, id) {
      if (!id.endsWith(`/${plant.file}`)) return null;
      if (code.split(plant.from).length !== 2) throw new Error(`${name} does not fit ${plant.file}`);
      return { code: code.replace(plant.from, () => plant.to), map: null };
    },
  };
}
