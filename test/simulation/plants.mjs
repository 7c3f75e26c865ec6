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

/** What reaches the real outside, and says nothing of it. */
const OUTSIDE = Object.fromEntries(
  Object.entries({
    'real-timer': 'setTimeout(() => undefined, 1)',
    'real-file': "process.getBuiltinModule('node:fs').readdirSync('/')",
    'real-socket': "process.getBuiltinModule('node:net').connect(9)",
  }).map(([name, code]) => {
    const from = '  const mails = new Mails(';
    const cut = ['src/daemon.ts', from, `  try { ${code}; } catch {}\n${from}`];
    return [name, { why: `a world is not alone: ${code}`, cuts: [cut] }];
  }),
);

export const PLANTS = { ...MAIL, ...BOOK, ...OUTSIDE };

/** A plugin of rolldown that plants the fault of that name. Throws where it does not fit. */
export function planter(name) {
  return cutter(name, [...PLANTS[name].cuts, ['test/simulation/planted.ts', ' = null', ` = '${name}'`]]);
}

/** A plugin of rolldown that makes these cuts. Throws where one does not fit, or its file is not compiled. */
export function cutter(name, cuts) {
  const planted = new Set();
  return {
    name: 'planter',
    transform(code, id) {
      let planting = code;
      for (const cut of cuts) {
        const [file, from, to] = cut;
        if (!id.endsWith(`/${file}`)) continue;
        if (planting.split(from).length !== 2) throw new Error(`${name} does not fit ${file}: ${from}`);
        planting = planting.replace(from, () => to);
        planted.add(cut);
      }
      return planting === code ? null : { code: planting, map: null };
    },
    buildEnd(error) {
      if (error === undefined && planted.size < cuts.length)
        throw new Error(`${name} is not planted: a file of it is not compiled`);
    },
  };
}
