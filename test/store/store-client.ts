/**
 * Uses a store, keeps its answers in the model of the world, and compares a recovered store with them. It knows each
 * message by the name in its address, which is unique in a test.
 */
import { isFinal, type Status } from '../../src/base/views.js';
import {
  type Attachment,
  type Draft,
  type Message,
  recipientsOf,
  type Verdict,
} from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';
import { Model, type Posted } from '../simulation/model.js';
import { digestOf, messagesOf, nameOf, whole } from '../support/drafts.js';
import { addFile } from '../support/spool.js';
import { BookClient } from './book-client.js';
import { Doubt, onlyStorage } from './doubt.js';

interface Keyed {
  readonly key: string;
  readonly hash: string;
}

export class StoreClient {
  /** True if the budget is so small that new messages displace the content of failed ones. */
  mayDrop = false;
  /** The same for the address book. */
  destinations = new BookClient();
  #model = new Model();
  #statuses = new Map<string, Doubt<Status>>();
  #held = new Doubt([false]);

  /** What is known now, for a later comparison. */
  copy(): StoreClient {
    const copy = new StoreClient();
    copy.mayDrop = this.mayDrop;
    copy.destinations = this.destinations.copy();
    copy.#model = this.#model.copy();
    copy.#statuses = new Map([...this.#statuses].map(([name, status]) => [name, status.copy()]));
    copy.#held = this.#held.copy();
    return copy;
  }

  /** Messages promised so far. */
  get promised(): number {
    return [...this.#model.messages.keys()].filter((name) => this.isPromised(name)).length;
  }

  isPromised(name: string): boolean {
    return this.#model.messages.get(name)?.request.standing === 'promised';
  }

  /** Hands over one batch. Rejections are kept, not thrown. */
  async accept(
    store: Store,
    drafts: readonly Draft[],
    keyed: Keyed | null = null,
    files: readonly Buffer[] = [],
  ): Promise<void> {
    const posted = drafts.flatMap((draft) =>
      recipientsOf(draft).map((destination) => ({
        ...{ token: nameOf({ destination }), type: draft.type, destination },
        digest: digestOf(draft.content, files),
      })),
    );
    const request = this.#model.asked(keyed?.key ?? null, keyed?.hash ?? '', posted, 0);
    for (const { token } of posted) this.#statuses.set(token, new Doubt<Status>(['queued']));
    const outcomes = this.#doubts();
    try {
      const { ids, replayed } = await store.accept(drafts, keyed);
      this.#model.promised(request, ids, replayed, 0);
      for (const outcome of outcomes) outcome.synced();
    } catch (error) {
      const { code = '' } = error as { code?: string };
      // Only after storage-failed is the outcome unknown.
      const isCertain = ['queue-full', 'storage-full', 'stopping'].includes(code);
      if (!isCertain) onlyStorage(error);
      this.#model.refused(request, isCertain);
    }
  }

  /** Uploads the files, hands over one message that has them, and ends the upload. */
  async acceptFiles(
    store: Store,
    draft: Draft,
    files: readonly Buffer[],
    keyed: Keyed | null = null,
  ): Promise<void> {
    const upload = await store.upload(0).catch(onlyRefusal);
    if (!upload) return;
    const attachments: Attachment[] = [];
    for (const [i, bytes] of files.entries()) {
      const added = await addFile(upload, [bytes], { name: `${i}.bin`, type: 'image/png' }).catch(
        onlyRefusal,
      );
      if (added) attachments.push(added);
    }
    // A refused file refuses the request.
    if (attachments.length === files.length)
      await this.accept(store, [{ ...draft, attachments }], keyed, files);
    await upload.discard();
  }

  /** Takes a message and settles it. The outcome is written at once and may be lost until the next sync. */
  async settle(store: Store, name: string, verdict: Verdict): Promise<void> {
    const [id, status] = this.#of(name);
    // On hold as well: what is settled then was claimed before.
    store.claim(id, 'expire');
    await status.become(verdict.kind, () => store.settle(id, verdict), 'written');
  }

  /** Does something that is synced before it is answered: `becomes` is what it makes of the message. */
  async change(store: Store, name: string, how: 'cancel' | 'retry', becomes: Status): Promise<void> {
    const [id, status] = this.#of(name);
    const outcomes = this.#doubts();
    const work = async () => {
      await store[how](id);
      for (const outcome of outcomes) outcome.synced();
    };
    await status.become(becomes, work, 'synced');
  }

  async setHeld(store: Store, held: boolean): Promise<void> {
    await this.#held.become(held, () => (held ? store.hold() : store.release()), 'synced');
  }

  /** All that was written is synced by now: a second has passed, or the store was closed. */
  synced(): void {
    for (const outcome of this.#doubts()) outcome.synced();
  }

  /** From now on a recovered store is right: it decides what was in doubt. */
  reconcile(store: Store): void {
    const found = messagesOf(store);
    this.#model.decided(found);
    for (const [name, { status }] of found) this.#statuses.get(name)?.set(status);
    this.#held.set(store.held);
    this.destinations.reconcile(store);
  }

  /** What `store` breaks of the promises, in words; nothing if it keeps them. */
  async violations(store: Store): Promise<string[]> {
    const messages = messagesOf(store);
    const found = [...this.destinations.violations(store), ...this.#model.broken(messages)];
    for (const [name, message] of messages) {
      const [posted, status] = [this.#model.messages.get(name), this.#statuses.get(name)];
      if (!posted || !status) continue;
      if (!status.allows(message.status)) found.push(`${name} is ${message.status}, not ${status}`);
      if (isFinal(message.status) && message.status !== 'failed') continue;
      if (this.mayDrop && message.status === 'failed' && !message.place) continue;
      found.push(...(await lost(store, message, posted)));
    }
    if (!this.#held.allows(store.held)) found.push(`held is ${store.held}`);
    if (store.storage().damaged > 0) found.push('damage is reported where there is none');
    for (const { key, content: hash, posted } of this.#model.remembered) {
      const ids = posted.map(({ id }) => id).join();
      const answer = await store.accept([], { key: key ?? '', hash }).catch(() => null);
      if (!answer?.replayed || answer.ids.join() !== ids) found.push(`key ${key} is forgotten`);
    }
    return [...this.#model.found, ...found];
  }

  /** Outcomes that may still be lost. */
  #doubts(): Doubt<Status>[] {
    return [...this.#statuses.values()].filter(({ isOver }) => !isOver);
  }

  #of(name: string): [id: string, status: Doubt<Status>] {
    const id = this.#model.messages.get(name)?.id;
    const status = this.#statuses.get(name);
    if (!id || !status) throw new Error(`${name} was never promised`);
    return [id, status];
  }
}

/** What a message has lost of its content and files, in words. */
async function lost(store: Store, message: Message, { token, digest }: Posted): Promise<string[]> {
  try {
    const content = await store.content(message);
    const files: Buffer[] = [];
    for (const attachment of message.attachments) files.push(await whole(store.openAttachment(attachment)));
    return digestOf(content, files) === digest ? [] : [`${token} has another content`];
  } catch (error) {
    return [`${token} has lost its content: ${(error as Error).message}`];
  }
}

/** Throws all errors but those that refuse a file. */
function onlyRefusal(error: unknown): null {
  if ((error as { code?: string }).code !== 'queue-full') onlyStorage(error);
  return null;
}
