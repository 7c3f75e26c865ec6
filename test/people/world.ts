/**
 * A world of people: devices that call a cloud of one machine, or of three over one etcd, and what people get from it. The
 * machines die, their disks and etcd with them or not. All of it follows from the plan.
 */
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { type Cloud, createCloud } from '../../src/cloud/cloud.js';
import type { CloudConfig } from '../../src/cloud/settings.js';
import type { ShortAnswer, ShortMessage } from '../../src/mail/message/message.js';
import { Chance } from '../simulation/chance.js';
import { Machine } from '../simulation/machine.js';
import { MachineClock, Timeline } from '../simulation/timeline.js';
import type { Answer, Request } from '../simulation/wire.js';
import { drained } from '../simulation/world.js';
import { FakeEtcd } from '../support/fake-etcd.js';
import { configOf } from '../support/system.js';
import { Device } from './device.js';
import type { History, Message, Trouble } from './history.js';
import type { Deed, Edit, Entry, Paper, Plan } from './plan.js';
import { read } from './reading.js';

/** A request that has no answer by then gets none. */
const HANGS_MS = 20 * SECOND_MS;
const START_AGAIN_MS = 5 * SECOND_MS;
/** systemd kills what does not stop. */
const STOP_MS = 40 * SECOND_MS;
/** Who waits for a crash at a write that does not come waits for so long. */
const NO_WRITE_MS = 2 * MINUTE_MS;
const OPERATOR = { Authorization: 'Bearer boss', 'Content-Type': 'application/json' };
/** The pause between two tries of an edit. */
const EDIT_AGAIN_MS = 20 * SECOND_MS;

export class World {
  readonly plan: Plan;
  readonly chance: Chance;
  readonly timeline = new Timeline();
  readonly history: History;
  readonly devices = new Map<string, Device>();
  readonly machines = new Map<string, Machine<Cloud>>();
  /** What cannot be, whatever people were told. */
  readonly found: string[] = [];
  readonly #etcd: FakeEtcd | null;
  readonly #onLine: (line: string) => void;
  /** By machine: ends the requests that wait for it. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #clients = new Map<string, string>();
  readonly #seen = new Set<string>();
  #jammedUntilMs = 0;

  constructor(plan: Plan, onLine: (line: string) => void) {
    this.plan = plan;
    this.#onLine = onLine;
    this.chance = new Chance(plan.seed);
    const { timeline } = this;
    const clock = new MachineClock(timeline, { boot: 1, upMs: MINUTE_MS, wallMs: plan.wallMs });
    this.#etcd = plan.isShared ? new FakeEtcd(clock, this.chance.fork().random) : null;
    for (const name of plan.machines) this.machines.set(name, this.#machine(name));
    for (const { id } of plan.devices) this.devices.set(id, new Device(id, this, this.chance.fork()));
    const devices = new Map([...this.devices].map(([id, { history }]) => [id, history]));
    this.history = { plan, devices, messages: [], troubles: [], endMs: 0 };
  }

  #machine(name: string): Machine<Cloud> {
    const { plan, chance, timeline } = this;
    const config = cloudConfig(plan);
    const machine: Machine<Cloud> = new Machine(
      {
        ...{ name, timeline, chance: chance.fork(), wallMs: plan.wallMs },
        onLog: (line) => this.tell(line),
        outside: () => ({}),
      },
      (system) => {
        const { life } = machine;
        const client = `${name}#${life}`;
        this.#clients.set(name, client);
        const send = async (message: ShortMessage) => this.#take(machine, life, name, message);
        return createCloud(config, system, send, this.#etcd?.client(client));
      },
    );
    return machine;
  }

  /** A person gets a message. */
  #take(machine: Machine<Cloud>, life: number, name: string, message: ShortMessage): ShortAnswer {
    if (machine.life !== life || this.timeline.nowMs < this.#jammedUntilMs)
      return { kind: 'later', reply: 'not now', retryAfterMs: null, isReached: false };
    const { id, destination: person } = message;
    const title = 'title' in message ? (message.title ?? '') : '';
    const key = `${name} ${id}`;
    // Sent again, because the cloud has died before it knew that it was taken: the provider knows its id.
    if (!this.#seen.has(key)) {
      this.#seen.add(key);
      const words = `${title}: ${message.message}`;
      this.tell(`${name} tells ${person}: ${words.replaceAll('\n', ' / ')}`);
      this.#note({ machine: name, id, person, title, body: message.message });
    }
    return { kind: 'taken', reply: 'taken' };
  }

  #note(one: { machine: string; id: string; person: string; title: string; body: string }): void {
    const { machine, id, person, title, body } = one;
    const { nowMs: atMs } = this.timeline;
    try {
      const told = read(title, body);
      const message: Message = { atMs, machine, id, person, told, words: `${title}: ${body}` };
      this.history.messages.push(message);
    } catch (error) {
      this.found.push((error as Error).message);
    }
  }

  /** Starts the cloud, and everything that speaks. */
  async begin(): Promise<void> {
    let starting = this.machines.size;
    for (const name of this.machines.keys()) void this.#start(name).then(() => starting--);
    while (starting > 0 && this.found.length === 0) await this.pass(SECOND_MS);
    for (const { id, paper } of this.plan.devices) this.#put(id, paper);
    await this.pass(SECOND_MS);
    // Those of a site call at the same moments: only so do they fall silent as one.
    for (const { id, paper } of this.plan.devices)
      this.#deviceOf(id).speak(paper.site === undefined ? this.chance.random() : 0.5);
  }

  async pass(ms: number): Promise<void> {
    const untilMs = Math.round(this.timeline.nowMs + ms);
    await drained();
    while (this.found.length === 0 && this.timeline.next(untilMs)) await drained();
  }

  /** Asks a machine; null if no whole answer comes in time. */
  async ask(name: string, request: Request): Promise<Answer | null> {
    const machine = this.machines.get(name);
    if (machine === undefined || !machine.isUp) return null;
    const waiting = this.#waiting.get(name) ?? new Set();
    this.#waiting.set(name, waiting);
    return await new Promise((resolve) => {
      const give = (answer: Answer | null) => {
        timer.stop();
        waiting.delete(giveUp);
        resolve(answer);
      };
      const giveUp = () => give(null);
      const timer = this.timeline.after(HANGS_MS, giveUp);
      waiting.add(giveUp);
      void machine.ask(request).then(give);
    });
  }

  /** The machines that take requests. */
  get up(): string[] {
    return [...this.machines].flatMap(([name, { isUp }]) => (isUp ? [name] : []));
  }

  /** Does what a step says. */
  act(deed: Deed): void {
    if (deed.do === 'silence') this.#deviceOf(deed.device).silence(deed);
    else if (deed.do === 'quiet') this.#quiet(deed);
    else if (deed.do === 'stuck') this.#deviceOf(deed.device).stick(deed.forMs);
    else if (deed.do === 'edit') this.#edit(deed.edit);
    else if (deed.do === 'drill') this.#drill(deed.device);
    else if (deed.do === 'crash') this.#crash(deed);
    else if (deed.do === 'cut') this.#cut(deed.machine, deed.forMs);
    else if (deed.do === 'quorum') this.#quorum(deed.forMs);
    else {
      this.#jammedUntilMs = Math.max(this.#jammedUntilMs, this.timeline.nowMs + deed.forMs);
      this.#trouble('jam', '', deed.forMs);
    }
  }

  #deviceOf(id: string): Device {
    return this.devices.get(id) as Device;
  }

  #quiet({ device, forMs, why, by }: Deed & { do: 'quiet' }): void {
    const one = this.#deviceOf(device);
    if (by === 'device') one.quiet(forMs, why);
    else this.#asOperator('PUT', `/devices/${device}/quiet`, { quietMs: forMs, why }, one.quieted(forMs));
  }

  #drill(device: string): void {
    const { drills } = this.#deviceOf(device).history;
    this.#asOperator('POST', `/devices/${device}/drill`, {}, () => drills.push(this.timeline.nowMs));
  }

  /** Changes the document, again and again until the cloud has it. */
  #edit({ device, delay, person, entry }: Edit): void {
    const paper = this.#deviceOf(device).history.versions.at(-1)?.paper as Paper;
    const others = paper.destinations.filter(({ destination }) => destination !== person);
    const destinations = entry ? [...others, entry] : others;
    this.#put(device, { ...paper, ...(delay && { delay }), ...(person && { destinations }) });
  }

  #put(id: string, paper: Paper): void {
    const { versions } = this.#deviceOf(id).history;
    const askedMs = this.timeline.nowMs;
    const place = versions.length;
    // It may hold from now on; later ones are changes of this one.
    versions.push({ askedMs, fromMs: Number.POSITIVE_INFINITY, paper });
    const body = { ...paper, destinations: paper.destinations.map(entryOf) };
    this.#asOperator('PUT', `/devices/${id}/destinations`, body, () => {
      versions[place] = { askedMs, fromMs: this.timeline.nowMs, paper };
    });
  }

  /** Asks any machine until one has done it, then calls `then`. Edits of one document do not overtake each other. */
  #asOperator(method: string, path: string, body: object, then: () => void): void {
    const before = this.#turns.get(path) ?? Promise.resolve();
    this.#turns.set(path, before.then(() => this.#insist(method, path, body)).then(then));
  }
  readonly #turns = new Map<string, Promise<void>>();

  async #insist(method: string, path: string, body: object): Promise<void> {
    for (let tries = 0; ; tries++) {
      const { up } = this;
      const isDocument = path.endsWith('/destinations');
      const condition = tries % 2 === 0 ? { 'If-Match': '*' } : { 'If-None-Match': '*' };
      const headers = { ...OPERATOR, ...(isDocument && condition) };
      const answer =
        up.length === 0
          ? null
          : await this.ask(this.chance.one(up), { method, path, headers, body: JSON.stringify(body) });
      if (answer !== null && answer.status < 300) {
        const text = answer.body.toString();
        if (text.includes('misunderstood')) this.found.push(`the cloud misunderstands ${path}: ${text}`);
        return;
      }
      if (answer !== null && answer.status < 500 && ![409, 412, 428].includes(answer.status)) {
        this.found.push(`${method} ${path} is answered ${answer.status}: ${answer.body}`);
        return;
      }
      const pauseMs = tries % 2 === 0 && isDocument ? 1 : EDIT_AGAIN_MS;
      await new Promise<void>((resolve) => this.timeline.after(pauseMs, resolve));
    }
  }

  #trouble(kind: Trouble['kind'], machine: string, forMs: number): Trouble {
    const { nowMs: fromMs } = this.timeline;
    const trouble = { kind, machine, fromMs, toMs: fromMs + forMs };
    this.history.troubles.push(trouble);
    return trouble;
  }

  #crash({ machine: name, how, forMs, atWrite }: Deed & { do: 'crash' }): void {
    const machine = this.machines.get(name) as Machine<Cloud>;
    const { program, life } = machine;
    if (program === null) return;
    const isSame = () => machine.life === life && machine.program === program;
    const die = () => {
      if (isSame()) this.#die(name, how === 'power cut' ? how : 'kill', forMs);
    };
    if (how === 'stop') {
      this.timeline.after(STOP_MS, die);
      const trouble = this.#trouble('down', name, STOP_MS);
      void program.stop().then(
        () => {
          trouble.toMs = this.timeline.nowMs;
          die();
        },
        (error) => this.tell(`a stop failed: ${error}`),
      );
    } else if (atWrite === 0) die();
    else {
      let left = atWrite;
      machine.disk.onOperation = () => {
        if (--left > 0) return 'ok';
        die();
        return 'power-cut-before';
      };
      this.timeline.after(NO_WRITE_MS, die);
    }
  }

  #die(name: string, how: 'kill' | 'power cut', forMs: number): void {
    const machine = this.machines.get(name) as Machine<Cloud>;
    this.tell(`${name} dies: ${how}`);
    const trouble = this.#trouble('down', name, forMs);
    machine.die(how);
    this.#etcd?.cut(this.#clients.get(name) ?? '');
    for (const giveUp of this.#waiting.get(name) ?? []) giveUp();
    this.timeline.after(forMs, () => {
      machine.renew({ isBoot: how === 'power cut' });
      void this.#start(name).then(() => {
        trouble.toMs = this.timeline.nowMs;
      });
    });
  }

  async #start(name: string): Promise<void> {
    const machine = this.machines.get(name) as Machine<Cloud>;
    for (;;) {
      // NTP has set it: only then is it known how long an outage over a boot has lasted.
      machine.clock.confirm();
      const starting = machine.start();
      let fault: Error | null = null;
      let isOver = false;
      const life = machine.life;
      void starting.then(
        () => {
          isOver = true;
        },
        (error) => {
          fault = error;
          isOver = true;
        },
      );
      while (!isOver) {
        await drained();
        if (!isOver) await new Promise<void>((resolve) => this.timeline.after(100, resolve));
      }
      if (machine.life !== life) return;
      this.tell(fault === null ? `${name} runs` : `${name} does not start: ${fault}`);
      if (fault === null) return;
      machine.die('kill');
      machine.renew({ isBoot: false });
      if (this.#etcd === null) {
        this.found.push(`the cloud does not start: ${fault}`);
        return;
      }
      await new Promise<void>((resolve) => this.timeline.after(START_AGAIN_MS, resolve));
    }
  }

  #cut(name: string, forMs: number): void {
    const client = this.#clients.get(name) ?? '';
    this.#trouble('cut', name, forMs);
    this.#etcd?.cut(client);
    this.timeline.after(forMs, () => {
      if (this.#clients.get(name) === client && this.machines.get(name)?.program) this.#etcd?.heal(client);
    });
  }

  #quorum(forMs: number): void {
    const etcd = this.#etcd;
    if (etcd === null) return;
    this.#trouble('quorum', '', forMs);
    etcd.quorum = false;
    const untilMs = this.timeline.nowMs + forMs;
    this.#noQuorumUntilMs = Math.max(this.#noQuorumUntilMs, untilMs);
    this.timeline.after(forMs, () => {
      if (this.timeline.nowMs >= this.#noQuorumUntilMs) etcd.quorum = true;
    });
  }
  #noQuorumUntilMs = 0;

  tell(line: string): void {
    this.#onLine(`${this.clockText} ${line}`);
  }

  /** The moment, for readers. */
  get clockText(): string {
    const { nowMs } = this.timeline;
    return `${(nowMs / SECOND_MS).toFixed(3)} ${new Date(this.plan.wallMs + nowMs).toISOString().slice(5, 19)}`;
  }
}

/** An entry as a document has it: of type 4, which an address makes a person of its own. */
function entryOf(entry: Entry): object {
  const place = Number(/\d+/.exec(entry.destination)?.[0] ?? 0);
  const uid = `7c9e6679-7425-40de-944b-e07fc1f9${String(place).padStart(4, '0')}`;
  return { uid, type: 4, lang: 'en', name: entry.destination, ...entry };
}

function cloudConfig({ isShared, zone, steps, devices }: Plan): CloudConfig {
  const isJammed = steps.some(({ deed }) => deed.do === 'jam');
  const keys = ['* boss', ...devices.map(({ id }) => `${id} key`)].join('\n');
  const env = {
    FIELDPOST_STATE_DIR: '/var/lib/cloud',
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/etc/keys',
    FIELDPOST_CLOUD_SERVER_DELAY: '20m',
    FIELDPOST_CLOUD_SERVER_STOP_DELAY: '50m',
    FIELDPOST_CLOUD_SERVER_TIME_ZONE: zone,
    FIELDPOST_MIN_FREE: '4MiB',
    FIELDPOST_BACKOFF_MAX: '20s',
    FIELDPOST_RETRY_MAX: '1m',
    // In a small outbox a few messages that wait leave no room for others.
    FIELDPOST_MAX_QUEUE: isJammed ? '40' : '1000',
    ...(isShared && { FIELDPOST_CLOUD_SERVER_STORE: 'etcd:http://127.0.0.1:2379' }),
  };
  return configOf(env, () => `${keys}\n`);
}
