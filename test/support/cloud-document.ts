/**
 * The cloud's destinations document as the contract has it (cloud.md), with a screen on which people edit, and a
 * network in front that loses requests and answers, or brings them late. Used by the tests of the sync.
 */
import { type CloudClient, CloudError } from '../../src/cloud/client.js';

/**
 * What becomes of a call. `error`: the cloud fails. `stray`: a GET is answered that there is no document, though there is
 * one.
 */
export type Fate = 'ok' | 'lost request' | 'lost answer' | 'error' | 'stray';

type Entries = readonly unknown[];
type More = Readonly<Record<string, unknown>>;
type Call = 'get' | 'put';

const LOST = 'no answer came';

export class CloudDocument implements Pick<CloudClient, 'getDestinations' | 'putDestinations'> {
  /** The document's entries; null before the first PUT and after a loss. */
  entries: Entries | null = null;
  /** The members of the document besides. */
  more: More = {};
  /** How this cloud changes a document that is put to it; by default not at all. */
  keep: (entries: Entries, more: More) => readonly [Entries, More] = (entries, more) => [entries, more];
  /** What becomes of the next call; a test may also wait, edit or throw here. */
  onCall: (call: Call) => Fate | Promise<Fate> = () => 'ok';
  /** Every call that was made, for a test to look at. */
  readonly calls: Call[] = [];
  readonly #name: string;
  #version = 0;

  /** ETags begin with `name`: those of another cloud's document are others. */
  constructor(name = 'v') {
    this.#name = name;
  }

  get etag(): string {
    return `"${this.#name}${this.#version}"`;
  }

  /** Somebody edits on the cloud's own screen. */
  edit(how: (entries: Entries) => Entries): void {
    this.#store(how(this.entries ?? []), this.more);
  }

  /** The document is gone, as after a failed restore. */
  forget(): void {
    this.entries = null;
    this.more = {};
  }

  /** A backup of the document as it is now; what it gives puts that one back. */
  backUp(): () => void {
    const { entries, more } = this;
    return () => {
      if (entries === null) this.forget();
      else this.#store(entries, more);
    };
  }

  /** The same document has another ETag, as from a cloud whose ETags flap. */
  flap(): void {
    this.#version++;
  }

  async getDestinations(etag: string | null, signal: AbortSignal) {
    return await this.#call('get', signal, (fate) => {
      if (this.entries === null || fate === 'stray') return { kind: 'none' } as const;
      if (etag === this.etag) return { kind: 'unchanged' } as const;
      return {
        kind: 'document',
        etag: this.etag,
        ...copyOf({ entries: this.entries, more: this.more }),
      } as const;
    });
  }

  async putDestinations(entries: Entries, ifMatch: string | null, signal: AbortSignal, more: More = {}) {
    const sent = copyOf({ entries, more });
    return await this.#call('put', signal, () => {
      const isExpected =
        ifMatch === null ? this.entries === null : this.entries !== null && ifMatch === this.etag;
      if (!isExpected) return { kind: 'changed' } as const;
      this.#store(...this.keep(sent.entries, sent.more));
      return { kind: 'stored', etag: this.etag } as const;
    });
  }

  async #call<Answer>(call: Call, signal: AbortSignal, arrive: (fate: Fate) => Answer): Promise<Answer> {
    this.calls.push(call);
    const fate = await this.onCall(call);
    if (signal.aborted) throw new CloudError('the call was given up');
    if (fate === 'error') throw new CloudError('the cloud is in trouble (500)', null);
    if (fate === 'lost request') throw new CloudError(LOST);
    const answer = arrive(fate);
    if (fate === 'lost answer') throw new CloudError(LOST);
    return answer;
  }

  #store(entries: Entries, more: More): void {
    ({ entries: this.entries, more: this.more } = copyOf({ entries, more }));
    this.#version++;
  }
}

function copyOf<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}
