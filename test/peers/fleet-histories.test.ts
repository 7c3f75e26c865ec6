/**
 * Histories of one document, which eight clients replace through three instances while instances and members of etcd fail,
 * are linearizable. The checker itself is tried on planted violations.
 */
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { type DocumentCall, faultsOfHistory } from './document-history.js';
import { ETCD } from './etcd.js';
import { callAs, type Fleet, nowMs, startFleet } from './fleet.js';
import { skipWithout } from './peers.js';

const skip = skipWithout(ETCD, '/usr/bin/etcdctl', '/usr/sbin/nft');
const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const LONG = process.env.FIELDPOST_TEST_LONG === '1';
const CLIENTS = 8;
const DEVICES = ['pump-1', 'pump-2', 'pump-3'];
const ROUNDS = LONG ? 4 : 1;
/** Answered calls between two faults. */
const CALLS = 60;
/** A client gives up after this: then nobody knows whether its PUT has happened. */
const TIMEOUT_MS = 3000;
/** Some faults last longer than a lease. */
const FAULT_MS = 15_000;

const put = (
  startMs: number,
  endMs: number,
  replaces: string | null,
  value: string,
  result: DocumentCall['result'] = 'done',
): DocumentCall => ({
  ...{ method: 'PUT', startMs, endMs, replaces, value, result },
  etag: result === 'done' ? `e-${value}` : null,
});
const get = (startMs: number, endMs: number, value: string | null): DocumentCall => ({
  ...{ method: 'GET', startMs, endMs, value, result: 'done', etag: value && `e-${value}` },
});

t.test('the checker', async (t) => {
  const first = put(0, 1, null, 'a');
  for (const [name, calls] of Object.entries({
    'one after another': [get(-2, -1, null), first, get(2, 3, 'a'), put(4, 5, 'e-a', 'b'), get(6, 7, 'b')],
    'reads during a PUT': [first, put(2, 9, 'e-a', 'b'), get(3, 4, 'a'), get(5, 6, 'b')],
    'the slower of two loses': [first, put(2, 9, 'e-a', 'b'), put(2, 9, 'e-a', 'c', 'failed')],
    'an unanswered PUT that nobody sees': [first, put(2, 3, 'e-a', 'b', 'unknown'), get(5, 6, 'a')],
    'an unanswered PUT that happens late': [
      ...[first, put(2, 3, 'e-a', 'b', 'unknown'), get(5, 6, 'a'), get(7, 8, 'b')],
      put(9, 10, 'e-a', 'c', 'failed'),
    ],
    'an unanswered PUT that the next one replaces': [
      ...[first, put(2, 3, 'e-a', 'b', 'unknown'), put(4, 5, 'e-a', 'x', 'failed'), get(5, 6, 'b')],
      put(7, 8, 'e-b', 'c'),
    ],
    'an unanswered PUT that another notices': [
      ...[first, put(2, 3, 'e-a', 'b', 'unknown'), put(5, 6, 'e-a', 'c', 'failed')],
    ],
  })) {
    t.strictSame(faultsOfHistory(calls), [], name);
  }
  for (const [name, calls] of Object.entries({
    'a stale read': [first, put(2, 3, 'e-a', 'b'), get(4, 5, 'a')],
    'a read that goes back': [first, put(2, 9, 'e-a', 'b'), get(3, 4, 'b'), get(5, 6, 'a')],
    'a lost write': [first, put(2, 3, 'e-a', 'b'), put(4, 5, 'e-a', 'c'), get(6, 7, 'c')],
    'a write that is gone': [first, put(2, 3, 'e-a', 'b'), get(6, 7, null)],
    'two first PUTs': [first, put(2, 3, null, 'b')],
    'a read before the PUT': [get(-2, -1, 'a'), first],
    'a failure without a reason': [first, put(2, 3, 'e-a', 'b', 'failed'), get(4, 5, 'a')],
    'a failure before its reason': [first, put(2, 3, 'e-a', 'b', 'failed'), put(4, 5, 'e-a', 'c')],
    'a failed PUT that happened': [first, put(2, 3, 'e-a', 'b', 'failed'), get(4, 5, 'b')],
    'another ETag': [first, { ...get(2, 3, 'a'), etag: 'e-x' }],
  })) {
    t.not(faultsOfHistory(calls).length, 0, name);
  }
});

t.test('documents', { skip }, async (t) => {
  const random = seededRandom(seed);
  const fleet = await startFleet(t, DEVICES);
  const histories = new Map(DEVICES.map((device) => [device, [] as DocumentCall[]]));
  let answered = 0;
  let isOver = false;
  const client = async (name: number) => {
    const etags = new Map<string, string | null>();
    for (let n = 0; !isOver; n++) {
      const device = pick(random, DEVICES);
      const url = `${pick(random, fleet.urls)}/devices/${device}/destinations`;
      const known = etags.get(device) ?? null;
      const call = random() < 0.5 ? await getAt(url) : await putAt(url, known, `${name}-${n}`);
      if (call === null) continue;
      // A client often replaces what others replace, too: it reads only now and then.
      if (call.result === 'done') etags.set(device, call.etag);
      const seen = call.result === 'failed' ? await getAt(url) : null;
      if (seen !== null) etags.set(device, seen.etag);
      if (call.result !== 'unknown') answered++;
      // What was read is part of the history: nobody else may have seen the value of a PUT without an answer.
      histories.get(device)?.push(call, ...(seen === null ? [] : [seen]));
    }
  };
  const clients = Array.from({ length: CLIENTS }, (_, name) => client(name));
  const more = async (calls: number) => {
    const until = answered + calls;
    await pause(random() * FAULT_MS);
    while (answered < until) await pause(20);
  };
  try {
    for (let round = 0; round < ROUNDS; round++) await disturb(fleet, random, more);
  } finally {
    isOver = true;
    await Promise.all(clients);
  }
  for (const [device, calls] of histories) {
    const last = await getAt(`${fleet.urls[0]}/devices/${device}/destinations`);
    if (last !== null) calls.push(last);
    t.strictSame(faultsOfHistory(calls), [], device);
    const count = (result: string) =>
      calls.filter((call) => call.method === 'PUT' && call.result === result).length;
    const puts = `${count('done')} done, ${count('failed')} lost, ${count('unknown')} unknown`;
    t.comment(`figures: ${device}: ${calls.length} calls; PUTs: ${puts}`);
    t.ok(count('done') > 0 && count('failed') > 0, 'PUTs succeed and lose');
  }
});

/** Each kind of fault once, in any order. `more` resolves after so many further answers. */
async function disturb(
  { cluster, instances }: Fleet,
  random: () => number,
  more: (calls: number) => Promise<void>,
): Promise<void> {
  const faults = [
    async () => {
      const member = await cluster.leader();
      await member.kill();
      await more(CALLS);
      member.start();
    },
    async () => {
      const member = pick(random, cluster.members);
      await member.stop();
      await more(CALLS);
      member.continue();
    },
    async () => {
      const member = await cluster.leader();
      member.cut();
      await more(CALLS);
      member.heal();
    },
    async () => {
      const instance = pick(random, instances);
      await instance.pause();
      await more(CALLS);
      instance.continue();
    },
    async () => {
      const instance = pick(random, instances);
      instance.cut();
      await more(CALLS);
      instance.heal();
    },
    async () => {
      const instance = pick(random, instances);
      await instance.kill();
      await more(CALLS);
      await instance.start();
    },
  ];
  while (faults.length > 0) {
    const [fault] = faults.splice(Math.floor(random() * faults.length), 1);
    await more(CALLS);
    await fault?.();
    await cluster.ready();
  }
}

/** Null: no answer, which says nothing. */
async function getAt(url: string): Promise<DocumentCall | null> {
  const startMs = nowMs();
  const answer = await callAs(url, 'GET', { timeoutMs: TIMEOUT_MS });
  if (answer === null || answer.status >= 500) return null;
  if (answer.status !== 200 && answer.status !== 404) throw new Error(`GET: ${answer.status} ${answer.text}`);
  const value = answer.status === 200 ? (JSON.parse(answer.text).value as string) : null;
  return { method: 'GET', startMs, endMs: nowMs(), value, result: 'done', etag: answer.etag };
}

async function putAt(url: string, replaces: string | null, value: string): Promise<DocumentCall> {
  const startMs = nowMs();
  const headers = replaces === null ? { 'If-None-Match': '*' } : { 'If-Match': replaces };
  const body = { destinations: [], value };
  const answer = await callAs(url, 'PUT', { body, headers, timeoutMs: TIMEOUT_MS });
  const status = answer?.status ?? 599;
  const result = status === 204 ? 'done' : status === 412 ? 'failed' : 'unknown';
  if (result === 'unknown' && status < 500) throw new Error(`PUT: ${status} ${answer?.text}`);
  const etag = result === 'done' ? (answer?.etag ?? '') : null;
  return { method: 'PUT', startMs, endMs: nowMs(), replaces, value, result, etag };
}
