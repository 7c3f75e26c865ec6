/**
 * A fleet's heartbeats at three instances over three members of etcd, while one of these after the other is killed, stopped,
 * cut off or started again. Meanwhile devices fall silent, return, and say that they stop. Fails if a person is told without
 * cause, is not told, or is told twice without a fault of the teller in between.
 */
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { inLanes } from '../../src/base/turns.js';
import { FleetLoad, fleetId, type LoadDevice } from '../support/fleet-load.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { ETCD } from './etcd.js';
import { callAs, clock, type Fleet, type Instance, KEY, nowMs, startFleet } from './fleet.js';
import { faultsOfTelling, NO_QUORUM, notificationsIn, recordOf, type Trouble } from './fleet-judge.js';
import { skipWithout } from './peers.js';

const skip = skipWithout(ETCD, '/usr/bin/etcdctl', '/usr/sbin/nft');
const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const LONG = process.env.FIELDPOST_TEST_LONG === '1';
const SIZE = LONG
  ? {
      devices: 20_000,
      heartbeatMs: 30 * SECOND_MS,
      forMs: 10 * MINUTE_MS,
      silent: 200,
      others: 40,
      quorumMs: MINUTE_MS,
    }
  : {
      devices: 2000,
      heartbeatMs: 10 * SECOND_MS,
      forMs: 2 * MINUTE_MS,
      silent: 100,
      others: 15,
      quorumMs: 20 * SECOND_MS,
    };
const DELAY_MS = Math.max(30 * SECOND_MS, 2.5 * SIZE.heartbeatMs);
const STOP_DELAY_MS = 90 * SECOND_MS;
const IN_DIGEST = 30;
const DIGEST_PERSON = '+13035550100';
/** A device that had outages may be silent for eight delays before people are told (presence.ts). */
const QUIET_MS = 8 * DELAY_MS + MINUTE_MS;
const PUT_LANES = 32;

const personOf = (index: number) => `+1202${5_000_000 + index}`;
const secondOf = (index: number) => `+1303${6_000_000 + index}`;
const isDigest = (index: number) => index < IN_DIGEST;
const hasSecond = (index: number) => index % 10 === 3;
const peopleOf = (index: number) =>
  isDigest(index) ? [DIGEST_PERSON] : [personOf(index), ...(hasSecond(index) ? [secondOf(index)] : [])];

t.test('a fleet under faults', { skip }, async (t) => {
  const random = seededRandom(seed);
  const ids = Array.from({ length: SIZE.devices }, (_, index) => fleetId(index));
  const fleet = await startFleet(t, [...ids, 'probe'], {
    FIELDPOST_CLOUD_SERVER_DELAY: '30s',
    FIELDPOST_CLOUD_SERVER_STOP_DELAY: `${STOP_DELAY_MS / SECOND_MS}s`,
  });
  const { sink, instances } = fleet;
  await putDocuments(fleet, ids);
  await using load = new FleetLoad({
    ...{ urls: fleet.urls, devices: SIZE.devices, heartbeatMs: SIZE.heartbeatMs, random, clock },
    keyOf: () => KEY,
  });
  load.start();
  // A heartbeat is answered up to a second before etcd has it. Nobody can miss a device that etcd has never seen.
  while ((await seenIn(fleet)) < SIZE.devices) await pause(200);
  const told = () => notificationsIn({ messages: sink.messages, instances });
  const isTold = (id: string) => sink.messages.some(({ device }) => device === id);
  const script = new Script(load.devices, random, told, isTold);
  const outage = watchOutages(load);
  script.begin(SIZE.forMs);
  const troubles = await makeTrouble(t, fleet, load, random);
  await script.ended();
  const missing = () => [...script.missing(), ...missingOfDigest(sink.messages)];
  const isComplete = await sink
    .until('all notifications', () => missing().length === 0, QUIET_MS)
    .then(() => true)
    .catch(() => false);
  for (const line of missing().slice(0, 5)) await explain(t, fleet, line);
  t.strictSame(missing(), [], 'nobody is left untold');
  if (isComplete) {
    // What comes late would be there before this.
    const canary = load.devices.at(-1) as LoadDevice;
    script.silence(canary, SIZE.devices - 1);
    await sink.until('the last notification', () => script.missing().length === 0, QUIET_MS);
  }

  const { faults, duplicates } = faultsOfTelling({
    ...{ devices: load.devices, troubles, messages: sink.messages, instances },
    ...{ delayMs: DELAY_MS, stopDelayMs: STOP_DELAY_MS },
  });
  t.strictSame(faults.slice(0, 20), [], `${faults.length} faults`);
  const triesOf = (id: string) => load.devices.find((device) => device.id === id)?.tries ?? [];
  const spoken = load.devices.filter(({ silentMs }) => silentMs === null);
  const gapMs = spoken.reduce((max, { gapMs }) => Math.max(max, gapMs), 0);
  const counts = [...load.counts].map(([what, count]) => `${what}: ${count}`).join(', ');
  t.comment(`figures: heartbeats ${counts}`);
  t.comment(
    `figures: longest time without an answer to any device ${outage.end()} ms, to one device ${Math.round(gapMs)} ms`,
  );
  const kept = spoken.filter(({ gapMs }) => gapMs >= DELAY_MS).length;
  t.comment(`figures: ${kept} devices had no answer for ${DELAY_MS} ms or more`);
  const apart = told().filter(({ device, kind }) => kind !== 'back' && !script.concerns(device));
  t.comment(`figures: people were told of ${apart.length} other devices, because they could not be heard`);
  for (const one of apart) {
    const record = recordOf(triesOf(one.device), one).replaceAll('\n', ';');
    t.comment(`figures: ${one.device} by ${one.instance} at ${Math.round(one.acceptedMs)}:${record}`);
  }
  for (const { what, instance, fromMs, toMs } of apart.length > 0 ? troubles : [])
    t.comment(`figures: ${Math.round(fromMs)} to ${Math.round(toMs)}: ${what} ${instance ?? ''}`);
  t.comment(
    `figures: ${sink.messages.length} notifications, ${sink.repeated} repeated requests, ${duplicates} duplicates`,
  );
  const moves = instances.flatMap(({ lines }) =>
    lines.filter(({ text }) => / fleet shared /.test(text)),
  ).length;
  t.comment(`figures: ${troubles.length} faults, ${moves} changes of who leads`);
});

/** How many devices have a heartbeat in etcd. */
async function seenIn({ cluster }: Fleet): Promise<number> {
  // The count is that of all keys, not only of those that are printed.
  const answer = await cluster.etcdctl(...'get fieldpost/at/ --prefix --limit 1 -w json'.split(' '));
  return (JSON.parse(answer) as { count?: number }).count ?? 0;
}

/** Prints what etcd and the instances know of the device that a line of `missing` begins with. */
async function explain(t: Test, { cluster, instances }: Fleet, line: string): Promise<void> {
  const [id = ''] = line.split(' ');
  for (const key of [`at/${id}`, 'news/', 'cut/', 'instance/']) {
    t.comment(`etcd: ${await cluster.etcdctl('get', `fieldpost/${key}`, '--prefix', '-w', 'json')}`);
  }
  for (const { name, lines } of instances)
    for (const { text } of lines) if (text.includes(id)) t.comment(`${name}: ${text}`);
}

async function putDocuments({ urls }: Fleet, ids: readonly string[]): Promise<void> {
  await inLanes(PUT_LANES, ids.entries(), async ([index, id]) => {
    const destinations = peopleOf(index).map((destination, n) => {
      const uid = `00000000-0000-4000-8000-${String(2 * index + n).padStart(12, '0')}`;
      return { uid, type: 2, destination, lang: 'en', name: 'Jan' };
    });
    const url = `${urls[index % urls.length]}/devices/${id}/destinations`;
    const answer = await callAs(url, 'PUT', { body: { destinations }, headers: { 'If-None-Match': '*' } });
    if (answer?.status !== 204) throw new Error(`PUT: ${answer?.status} ${answer?.text}`);
  });
}

type ToldNow = () => ReturnType<typeof notificationsIn>;

/** What the devices do on purpose, and whom that concerns. */
class Script {
  readonly #devices: readonly LoadDevice[];
  readonly #random: () => number;
  readonly #told: ToldNow;
  readonly #isTold: (id: string) => boolean;
  /** What a person must have been told last. What kind of offline it is depends on what the cloud has heard of a goodbye. */
  readonly #due: { readonly index: number; readonly what: 'offline' | 'back' }[] = [];
  readonly #doing: Promise<void>[] = [];

  constructor(
    devices: readonly LoadDevice[],
    random: () => number,
    told: ToldNow,
    isTold: (id: string) => boolean,
  ) {
    this.#isTold = isTold;
    this.#devices = devices;
    this.#random = random;
    this.#told = told;
  }

  /** Each at a random moment within this time. */
  begin(forMs: number): void {
    let next = IN_DIGEST;
    const some = (count: number, act: (device: LoadDevice, index: number) => void | Promise<void>) => {
      for (let n = 0; n < count; n++) {
        const index = next++;
        const device = this.#devices[index] as LoadDevice;
        this.#doing.push(pause(this.#random() * forMs).then(() => act(device, index)));
      }
    };
    some(SIZE.silent, (device, index) => this.silence(device, index));
    some(SIZE.others, (device, index) => this.#return(device, index));
    some(SIZE.others, (device, index) => this.#stop(device, index));
    some(SIZE.others, (device) => this.#restart(device));
    const together = () => {
      for (const device of this.#devices.slice(0, IN_DIGEST)) device.silence();
    };
    this.#doing.push(pause(forMs / 2).then(together));
  }

  async ended(): Promise<void> {
    await Promise.all(this.#doing);
  }

  silence(device: LoadDevice, index: number): void {
    device.silence();
    this.#due.push({ index, what: 'offline' });
  }

  /** True if people must be told of the device. */
  concerns(id: string): boolean {
    return this.#due.some(({ index }) => fleetId(index) === id);
  }

  /** Who was not told last what is due. */
  missing(): string[] {
    const last = new Map(this.#told().map((one) => [`${one.device} ${one.destination}`, one.kind]));
    return this.#due.flatMap(({ index, what }) =>
      peopleOf(index)
        .map((person) => `${fleetId(index)} ${person}`)
        .filter((key) => !last.has(key) || (last.get(key) === 'back') !== (what === 'back'))
        .map((key) => `${key}: ${last.get(key)} in place of ${what}`),
    );
  }

  /** Returns once its first person was told. */
  async #return(device: LoadDevice, index: number): Promise<void> {
    device.silence();
    while (!this.#isTold(device.id)) await pause(500);
    device.resume();
    this.#due.push({ index, what: 'back' });
  }

  async #stop(device: LoadDevice, index: number): Promise<void> {
    await device.goodbye();
    this.#due.push({ index, what: 'offline' });
  }

  /** A planned stop that ends soon concerns nobody. */
  async #restart(device: LoadDevice): Promise<void> {
    await device.goodbye();
    await pause(this.#random() * DELAY_MS * 0.3);
    device.resume();
  }
}

function missingOfDigest(messages: Fleet['sink']['messages']): string[] {
  const own = messages.filter(({ destination }) => destination === DIGEST_PERSON);
  const count = own.reduce((sum, { text }) => sum + Number(/^(\d+) devices /.exec(text)?.[1] ?? 1), 0);
  return count >= IN_DIGEST ? [] : [`${DIGEST_PERSON}: told of ${count} devices`];
}

/** Measures the longest time in which no device was answered. */
function watchOutages(load: FleetLoad): { end(): number } {
  let [count, sinceMs, longestMs] = [0, nowMs(), 0];
  const timer = setInterval(() => {
    const now = load.counts.get('200') ?? 0;
    longestMs = Math.max(longestMs, nowMs() - sinceMs);
    if (now !== count) [count, sinceMs] = [now, nowMs()];
  }, 50);
  return {
    end() {
      clearInterval(timer);
      return Math.round(longestMs);
    },
  };
}

/** One fault after another, for a time, and each kind at least once. Resolves when all are over. */
async function makeTrouble(t: Test, fleet: Fleet, load: FleetLoad, random: () => number): Promise<Trouble[]> {
  const { cluster, instances } = fleet;
  const troubles: Trouble[] = [];
  const someTime = () => pause((5 + 20 * random()) * SECOND_MS);
  const of =
    (what: string, begin: (one: Instance) => unknown, end: (one: Instance) => unknown) => async () => {
      const instance = pick(random, instances);
      const trouble: Trouble = {
        what,
        instance: instance.name,
        fromMs: nowMs(),
        toMs: Number.POSITIVE_INFINITY,
      };
      troubles.push(trouble);
      await begin(instance);
      await someTime();
      await end(instance);
      await served(instance);
      trouble.toMs = nowMs();
    };
  const ofMember =
    (what: string, name: 'kill' | 'stop' | 'cut', end: 'start' | 'continue' | 'heal') => async () => {
      const member = pick(random, cluster.members);
      const trouble: Trouble = { what, instance: null, fromMs: nowMs(), toMs: Number.POSITIVE_INFINITY };
      troubles.push(trouble);
      await member[name]();
      await someTime();
      member[end]();
      await cluster.ready();
      trouble.toMs = nowMs();
    };
  /** Two members of three are killed: nothing can be decided, and every heartbeat is answered all the same. */
  const quorum = async () => {
    const trouble: Trouble = {
      what: NO_QUORUM,
      instance: null,
      fromMs: nowMs(),
      toMs: Number.POSITIVE_INFINITY,
    };
    troubles.push(trouble);
    const refused = load.counts.get('503') ?? 0;
    const pair = cluster.members.slice(0, 2);
    for (const member of pair) await member.kill();
    await pause(SIZE.quorumMs);
    t.equal((load.counts.get('503') ?? 0) - refused, 0, 'without a quorum no heartbeat is refused');
    for (const member of pair) member.start();
    await cluster.ready();
    trouble.toMs = nowMs();
  };
  const kinds = [
    quorum,
    of(
      'kill',
      (one) => one.kill(),
      (one) => one.start(),
    ),
    of(
      'stop',
      (one) => one.stop(),
      (one) => one.start(),
    ),
    of(
      'pause',
      (one) => one.pause(),
      (one) => one.continue(),
    ),
    of(
      'cut',
      (one) => one.cut(),
      (one) => one.heal(),
    ),
    ofMember('member killed', 'kill', 'start'),
    ofMember('member stopped', 'stop', 'continue'),
    ofMember('member cut', 'cut', 'heal'),
  ];
  for (const endMs = nowMs() + SIZE.forMs; nowMs() < endMs || troubles.length < kinds.length; ) {
    const round = [...kinds];
    while (round.length > 0 && (nowMs() < endMs || troubles.length < kinds.length)) {
      const [fault] = round.splice(Math.floor(random() * round.length), 1);
      await fault?.();
    }
  }
  const names = troubles.map(({ what, instance }) => `${what}${instance === null ? '' : ` ${instance}`}`);
  t.comment(`figures: ${names.join(', ')}`);
  return troubles;
}

/** Resolves when it answers heartbeats, so the next fault is again the only one. */
async function served({ url }: Instance): Promise<void> {
  const queue = { queued: 0, deferred: 0, failed: 0 };
  const body = { bootId: 'c0fefe00', sequence: 1, uptimeMs: 1000, state: 'moved', intervalMs: 30_000, queue };
  while ((await callAs(`${url}/devices/probe/heartbeat`, 'PUT', { body, timeoutMs: 5000 }))?.status !== 200) {
    await pause(200);
  }
}
