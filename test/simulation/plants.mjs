/**
 * Faults that are planted in the source, one at a time, when the simulation is compiled: a simulation that finds none of
 * them proves nothing. A fault has one `cut`, or several `cuts`: `[file, from, to]`. `from` must stand in its file exactly
 * once: a plant that no longer fits the source is an error.
 */

import { readFileSync } from 'node:fs';

/** The way of a message. */
export const MAIL = {
  'claim-of-the-leaving': {
    why: 'a message that is being cancelled may be sent',
    cuts: [
      ['src/mail/store/store.ts', 'if (this.#leaving.has(id) || (this.held', 'if ((this.held'],
      ['src/mail/store/store.ts', ' && !this.#leaving.has(message.id)) yield', ') yield'],
      [
        'src/mail/store/store.ts',
        'this.#leaving.has(id) ? undefined : messages.known(id)',
        'messages.known(id)',
      ],
    ],
  },
  'no-sync': {
    why: 'a 202 is answered before its record is on the device',
    cut: [
      'src/mail/store/journal.ts',
      'this.#put(segment, bytes, durable)',
      'this.#put(segment, bytes, false)',
    ],
  },
  'no-key': {
    why: 'an Idempotency-Key is not in the record of its messages',
    cut: ['src/mail/store/store.ts', 'messages, ...keyed, ...full }', 'messages }'],
  },
  'message-id': {
    why: 'the Message-ID is made anew in each boot',
    cut: [
      'src/mail/delivery/smtp/rendering.ts',
      'messageIdOf(message, store.storeId) as string;',
      'clock.boot + messageIdOf(message, store.storeId);',
    ],
  },
  'message-id-for-each': {
    why: 'each recipient of a mail gets a Message-ID of its own',
    cut: [
      'src/mail/message/message.ts',
      'newMessageId(extras?.mail ?? id, storeId, from)',
      'newMessageId(id, storeId, from)',
    ],
  },
  'file-of-the-first': {
    why: 'a file goes with the first of the recipients that share it',
    cut: ['src/mail/store/state.ts', '=== 0) state.released', '=== 0 || place === null) state.released'],
  },
  'content-of-the-next': {
    why: 'a start looks for the content of a second recipient behind that of the first',
    cut: ['src/mail/store/state.ts', 'if (shares && place !== null) return place;', 'void shares;'],
  },
  'one-sms': {
    why: 'after the first SMS, call or push no other of its type is sent',
    cut: [
      'src/mail/delivery/cloud-transport.ts',
      '    this.#session ??= new AbortController();',
      '    if (this.#session !== null) return await new Promise(() => undefined);\n    this.#session = new AbortController();',
    ],
  },
  'deaf-wake': {
    why: 'the pause after a failure is never over by itself',
    cut: ['src/base/retry/backoff.ts', ': nowMs + pauseMs(', ': nowMs + 1e9 + pauseMs('],
  },
  'sms-behind-the-cancelled': {
    why: 'an SMS, call or push that is cancelled while it waits keeps back those behind it',
    cut: [
      'src/mail/delivery/ready-queue.ts',
      'return [message, sinceMs];\n      this.#requeued.delete(id);',
      'return [message, sinceMs];\n      break;',
    ],
  },
  'claim-on-hold': {
    why: 'what is held is sent',
    cuts: [
      ['src/mail/store/store.ts', "(this.held && purpose === 'send')", 'false'],
      ['src/mail/delivery/queue.ts', "=== 'running' && !store.held &&", "=== 'running' &&"],
    ],
  },
  'loss-is-success': {
    why: 'a mail counts as sent where the connection was lost',
    cut: [
      'src/mail/delivery/queue.ts',
      "if (kind !== 'deferred') return { kind, reply };",
      "if (kind !== 'deferred' || suspect === 'either') return { kind: kind === 'failed' ? kind : 'sent', reply };",
    ],
  },
  'told-too-soon': {
    why: 'an SMS, call or push is recorded as sent before the cloud has answered',
    cut: [
      'src/mail/delivery/cloud-transport.ts',
      'return outcomeOf(await this.#way.send(short, this.#session.signal));',
      "void this.#way.send(short, this.#session.signal).catch(() => 0); return outcomeOf({ kind: 'taken', reply: '202' });",
    ],
  },
  'no-timer': {
    why: 'delivery forgets to go on by itself',
    cut: [
      'src/mail/delivery/queue.ts',
      'new Alarm(options.clock, () => this.#pump())',
      'new Alarm(options.clock, () => undefined)',
    ],
  },
  'timeless-sms': {
    why: 'an SMS, call or push that cannot be sent does not expire by itself',
    cut: ['src/mail/delivery/expiry.ts', 'this.#alarm.at(this.#dueMs);', ''],
  },
  'no-pause': {
    why: 'a relay that fails is called again at once',
    cut: [
      'src/base/retry/backoff.ts',
      'const ms = Math.ceil(Math.max(grownMs, floorMs) * (1 - random * (1 - leastShare)));',
      'const ms = floorMs === 0 ? 1 : Math.ceil(Math.max(grownMs, floorMs) * (1 - random * (1 - leastShare)));',
    ],
  },
  'no-spacing': {
    why: 'a message that was put off for trouble of its own is offered again at once',
    cut: [
      'src/mail/delivery/blame.ts',
      'Math.min(Math.max(ageMs, minMs), maxMs)',
      'Math.min(0, ageMs, minMs, maxMs)',
    ],
  },
  '4xx-is-final': {
    why: 'a recipient who is refused for the moment is refused for good',
    cut: [
      'src/mail/delivery/smtp/failure-classification.ts',
      "['rcpt', (said) => isClass(said, 4) || said.code === 552, MESSAGE],",
      "['rcpt', (said) => said.code === 552, MESSAGE], ['rcpt', null, FAILED],",
    ],
  },
  'urgent-last': {
    why: 'urgent messages are sent after all others',
    cuts: [
      [
        'src/mail/delivery/ready-queue.ts',
        'this.#urgent.pickFresh() ?? this.#normal.pickFresh()',
        'this.#normal.pickFresh() ?? this.#urgent.pickFresh()',
      ],
      [
        'src/mail/delivery/ready-queue.ts',
        'return this.#urgent.pick() ?? this.#normal.pick();',
        'return this.#normal.pick() ?? this.#urgent.pick();',
      ],
    ],
  },
  'youngest-first': {
    why: 'the order is turned',
    cut: ['src/mail/delivery/ready-queue.ts', 'this.#handful = found.reverse();', 'this.#handful = found;'],
  },
  'keys-lost-in-the-snapshot': {
    why: 'a start forgets the keys that stand in the snapshot',
    cut: ['src/mail/store/document.ts', 'insertKey(state, key, entry);', 'void key;'],
  },
  'keys-under-way': {
    why: 'a request with a key is under way for ever: one entry leaks with each',
    cut: ['src/mail/store/store.ts', '      this.#inProgress.delete(key);\n', ''],
  },
  'room-leaks': {
    why: 'room that was reserved is not given back',
    cut: ['src/mail/store/quota.ts', 'this.#quota.change(negative(this.#left), this.asker);', ''],
  },
  'handles-leak': {
    why: 'an attachment that was sent stays open',
    cut: ['src/mail/store/spool.ts', '      await file.close().catch(() => undefined);\n', ''],
  },
  'sessions-leak': {
    why: 'idle connections to relays are kept for ever',
    cut: ['src/mail/delivery/smtp/smtp-transport.ts', 'await session?.close();', 'void session;'],
  },
  'files-leak': {
    why: 'the files of what was sent are not removed',
    cut: ['src/mail/store/ledger.ts', 'if (files.length > 0) void this.spool.remove(files);', 'void files;'],
  },
  'wrong-weight': {
    why: 'what a message weighs is not taken away when it is forgotten',
    cut: [
      'src/mail/store/state.ts',
      '  state.weights.messages -= weight;\n  state.weights.finished -= weight;',
      '  state.weights.finished -= weight;',
    ],
  },
  'never-given-back': {
    why: 'an SMS, call or push that the cloud puts off stays claimed',
    cut: [
      'src/mail/delivery/queue.ts',
      'this.#options.store.giveBack(message.id);',
      'if (message.type === 1) this.#options.store.giveBack(message.id);',
    ],
  },
  'segments-kept': {
    why: 'segments that are done with stay until as much again was appended, also where a checkpoint failed',
    cut: ['src/mail/store/ledger.ts', 'if (this.#checkpoints.isMuchDone) await this.checkpoint();', ''],
  },
};

/** The address book, the link and the cloud: looked for in worlds about these. */
export const BOOK = {
  'forgotten-wish': {
    why: 'a wish during a call that hangs is forgotten when the call fails',
    cut: ['src/base/retry/backoff.ts', 'this.#isWanted = true;', ''],
  },
  'forgotten-link-wish': {
    why: 'a wish during a heartbeat that hangs is forgotten when it fails',
    cut: ['src/device/link/link.ts', 'if (this.#isWanted) this.wake();', ''],
  },
  'starved-sync': {
    why: 'the sync waits for a pause of whoever edits, for ever',
    cut: [
      'src/device/link/sync.ts',
      'Math.min(nowMs + SYNC_QUIET_MS, this.#editedMs + SYNC_EDITS_MS_MAX)',
      'nowMs + SYNC_QUIET_MS',
    ],
  },
  'retry-after-ignored': {
    why: 'a Retry-After for documents and messages counts for nothing',
    cut: ['src/base/retry/backoff.ts', 'nowMs + patienceMs(retryAfterMs, random())', 'nowMs'],
  },
  'retry-after-exact': {
    why: 'a whole fleet comes back in the second that Retry-After names',
    cut: ['src/base/retry/backoff.ts', 'askedMs * (1 + SPREAD * random)', 'askedMs + 0 * random'],
  },
  'field-of-the-cloud': {
    why: "of a field that both sides have edited the cloud's is kept",
    cut: [
      'src/device/book/merge.ts',
      '!same(ours, was) || same(theirs, wasTheirs)',
      'same(theirs, wasTheirs)',
    ],
  },
  'deleted-wins': {
    why: 'what one side has edited is gone where the other has deleted it',
    cut: ['src/device/book/merge.ts', 'return here ?? there;', 'return undefined;'],
  },
  'union-deletes': {
    why: 'a document that is not believed deletes by what it lacks',
    cuts: [
      ['src/device/book/merge.ts', "if (trust !== 'full' && there === undefined) return NOTHING;", ''],
      ['src/device/book/merge.ts', "if (trust === 'none' && here !== undefined) return NOTHING;", ''],
    ],
  },
  'wipe-believed': {
    why: 'a cloud that has lost its document is taken at its word',
    cuts: [
      [
        'src/device/book/ancestry.ts',
        'agreeOnNew(book, draw)',
        "agreeWith(book, { etag: '*', document: [], more: book.base?.more ?? {} }, draw)",
      ],
      [
        'src/device/link/client.ts',
        "ifMatch === null ? { 'If-None-Match'",
        "ifMatch === null || ifMatch === '*' ? { 'If-None-Match'",
      ],
    ],
  },
  'loss-unnoticed': {
    why: 'nobody asks why a heartbeat names no document any more',
    cut: ['src/device/link/sync.ts', "if (known !== null && this.#untold === 'never')", 'if (false)'],
  },
  'lineage-ignored': {
    why: 'a document made anew is taken for a descendant of the one that is known',
    cut: [
      'src/device/book/ancestry.ts',
      "if (known?.lineage !== mark.lineage) return { ...unknown, estranged: 'other' };",
      'if (known?.lineage !== mark.lineage) return direct;',
    ],
  },
  'backup-believed': {
    why: 'a document from a backup is taken for a newer one',
    cut: [
      'src/device/book/ancestry.ts',
      "return { ...unknown, estranged: 'older', lineage: null };",
      'return direct;',
    ],
  },
  'nonce-ignored': {
    why: 'a PUT that arrived without an answer comes back as an edit of somebody else',
    cut: [
      'src/device/book/ancestry.ts',
      'attempts.find((attempt) => attempt.mark.nonce === mark.nonce)',
      'attempts.find(() => false)',
    ],
  },
  'attempt-forgotten': {
    why: 'what was put is forgotten when the answer is lost',
    cuts: [
      ['src/mail/book/book.ts', ': [event.attempt];', ': [];'],
      ['src/mail/book/book.ts', '.slice(-SYNC_ATTEMPTS_MAX)', '.slice(0, 0)'],
    ],
  },
  'backup-by-counter': {
    why: 'a document with a higher counter counts as a descendant, whoever has put it',
    cut: ['src/device/book/ancestry.ts', "return { ...unknown, estranged: 'ahead' };", 'return direct;'],
  },
  'no-if-match': {
    why: 'a document is put whatever is there',
    cut: ['src/device/link/client.ts', "{ 'If-Match': ifMatch }", "{ 'If-Match': '*' }"],
  },
  'base-of-the-url': {
    why: 'another spelling of the URL makes the device forget what was agreed',
    cut: [
      'src/mail/book/book.ts',
      'book.base = book.base && { ...book.base, etag: null };',
      'book.base = null;',
    ],
  },
  'ids-anew': {
    why: 'an entry that comes back has another id',
    cut: ['src/mail/book/book.ts', 'book.removed.set(uid, id);', 'book.removed.delete(uid);'],
  },
  'hidden-dropped': {
    why: 'what the device does not understand is not kept',
    cut: ['src/device/book/merge.ts', 'document.filter((value) => !entries.has(value))', '[]'],
  },
  'told-twice': {
    why: 'a cloud that restarts tells the same outage again',
    cut: ['src/cloud/files/ledger.ts', '...{ state, said,', "...{ state: state && 'online', said,"],
  },
  'return-untold': {
    why: 'people are not told that a device is back that was stopped as planned',
    cut: [
      'src/cloud/watch.ts',
      'device.heard = now;',
      "device.heard = now; if (before.said === 'stopping') device.told = 'online';",
    ],
  },
  'late-undoes-moved': {
    why: 'a heartbeat that was held up on its way undoes the goodbye after it',
    cut: ['src/cloud/watch.ts', 'if (isOvertaken(presence, nowMs, report.sent)) return;', ''],
  },
  'impatient-cloud': {
    why: 'a device that comes seldom is said to be offline between two heartbeats',
    cut: [
      'src/cloud/presence.ts',
      'Math.max(delayMs, HEARTBEATS_PER_DELAY * everyMs)',
      'delayMs + 0 * everyMs',
    ],
  },
  'link-says-well': {
    why: 'the link is said to be online however long no heartbeat came through',
    cut: [
      'src/device/link/link.ts',
      "const mode = isOffline ? 'offline' :",
      "const mode = state.mode === 'online' ? 'online' :",
    ],
  },
};

/** What reaches the real outside, and says nothing of it. */
const OUTSIDE = Object.fromEntries(
  Object.entries({
    'real-timer': 'setTimeout(() => undefined, 1)',
    'real-file': "process.getBuiltinModule('node:fs').readdirSync('/')",
    'real-socket': "process.getBuiltinModule('node:net').connect(9)",
  }).map(([name, code]) => {
    const from = '  const delivery = new Delivery(';
    const cut = ['src/device/daemon.ts', from, `  try { ${code}; } catch {}\n${from}`];
    return [name, { why: `a world is not alone: ${code}`, cut }];
  }),
);

export const PLANTS = { ...MAIL, ...BOOK, ...OUTSIDE };

const cutsOf = ({ cut, cuts = [cut] }) => cuts;

/** A plugin of rolldown that plants the fault of that name. Throws where it does not fit. */
export function planter(name) {
  return cutter(name, [...cutsOf(PLANTS[name]), ['test/simulation/planted.ts', ' = null', ` = '${name}'`]]);
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

/** What is wrong with the plants, without compiling any: each must fit the source. */
export function misfits() {
  return misfitsOf(Object.entries(PLANTS).map(([name, plant]) => [name, cutsOf(plant)]));
}

/** The same of any plants, each a name with its cuts. */
export function misfitsOf(plants) {
  return plants.flatMap(([name, cuts]) => {
    const { transform } = cutter(name, cuts);
    try {
      for (const file of new Set(cuts.map(([file]) => file)))
        transform(readFileSync(file, 'utf8'), `/${file}`);
    } catch (error) {
      return [error.message];
    }
    return [];
  });
}
