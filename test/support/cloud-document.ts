/**
 * The cloud's destinations document as the contract has it (cloud.md), with a screen on which people edit, and a
 * network in front that loses requests and answers, or brings them late. Used by the tests of the sync.
 */
import { type CloudClient, CloudError } from '../../src/cloud/client.js';

/**
 * What becomes of a call. `late`: the answer never comes, but the request arrives when `arriveLate` is called.
 * `error`: the cloud is in trouble.
 */
export type Fate = 'ok' | 'lost request' | 'lost answer' | 'late' | 'error';

type Entries = readonly unknown[];
type Call = 'get' | 'put';

const LOST = 'no answer came';

export class CloudDocument implements Pick<CloudClient, 'getDestinations' | 'putDestinations'> {
  /** What the cloud has; null while there was never anything, or when it has lost it. */
  entries: Entries | null = null;
  /** What becomes of the next call; a test may also wait, edit or throw here. */
  onCall: (call: Call) => Fate | Promise<Fate> = () => 'ok';
  /** Every call that was made, for a test to look at. */
  readonly calls: Call[] = [];
  readonly #name: string;
  #version = 0;
  #late: (() => void)[] = [];

  /** ETags begin with `name`: those of another cloud's document are others. */
  constructor(name = 'v') {
    this.#name = name;
  }

  get etag(): string {
    return `"${this.#name}${this.#version}"`;
  }

  /** Somebody edits on the cloud's own screen. */
  edit(how: (entries: Entries) => Entries): void {
    this.#store(how(this.entries ?? []));
  }

  /** The document is gone, as after a failed restore. */
  forget(): void {
    this.entries = null;
    this.#late = [];
  }

  /** What was underway reaches the cloud after all. */
  arriveLate(): void {
    for (const arrive of this.#late.splice(0)) arrive();
  }

  async getDestinations(etag: string | null, signal: AbortSignal) {
    return await this.#call('get', signal, () => {
      if (this.entries === null) return { kind: 'none' } as const;
      if (etag === this.etag) return { kind: 'unchanged' } as const;
      return { kind: 'document', etag: this.etag, entries: copyOf(this.entries) } as const;
    });
  }

  async putDestinations(entries: Entries, ifMatch: string | null, signal: AbortSignal) {
    const sent = copyOf(entries);
    return await this.#call('put', signal, () => {
      const isExpected =
        ifMatch === null ? this.entries === null : this.entries !== null && ifMatch === this.etag;
      if (!isExpected) return { kind: 'changed' } as const;
      this.#store(sent);
      return { kind: 'stored', etag: this.etag } as const;
    });
  }

  async #call<Answer>(call: Call, signal: AbortSignal, arrive: () => Answer): Promise<Answer> {
    this.calls.push(call);
    const fate = await this.onCall(call);
    if (signal.aborted) throw new CloudError('aborted', 'the call was given up');
    if (fate === 'error') throw new CloudError('status', 'the cloud is in trouble (500)', null);
    if (fate === 'late') this.#late.push(arrive);
    if (fate === 'lost request' || fate === 'late') throw new CloudError('network', LOST);
    const answer = arrive();
    if (fate === 'lost answer') throw new CloudError('network', LOST);
    return answer;
  }

  #store(entries: Entries): void {
    this.entries = copyOf(entries);
    this.#version++;
  }
}

function copyOf(entries: Entries): Entries {
  return JSON.parse(JSON.stringify(entries));
}
