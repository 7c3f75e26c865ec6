/**
 * Keeps a page fresh: asks every 2 s while somebody can see it, asks for a token where one is set, and says when the
 * service is gone.
 */
import { span } from '../base/sizes.js';
import { type Ask, createAsk, Gone, Refusal } from './calls.js';
import { byId } from './dom.js';
import { clockTime } from './times.js';

const REFRESH_MS = 2000;

/** What the parts of a page need. */
export interface Live {
  readonly call: Ask;
  /** Refreshes now. */
  refresh(): void;
  /** Does what a button says, shows `done` or why not, and refreshes. */
  act(work: () => Promise<unknown>, done: string): Promise<void>;
  /** Tells the person something. */
  tell(words: string): void;
}

type Read = (call: Ask) => Promise<void>;

interface FreshOptions {
  readonly everyMs?: number;
  /** What calls take where none is set. */
  readonly token?: string;
}

/**
 * Calls `read` again and again. `service` is its name in a sentence. The page has #gone and #told, and #token if calls may
 * need one.
 */
export function keepFresh(service: string, read: Read, options: FreshOptions = {}): Live {
  const { everyMs = REFRESH_MS } = options;
  const needsToken = 'token' in document.documentElement.dataset;
  let token = needsToken ? null : (options.token ?? null);
  let goneMs = 0;
  let isReading = false;
  const call = createAsk(() => token);
  const gone = byId('gone');
  const asked = createTokenDialog((given) => {
    token = given;
    void refresh();
  });

  async function refresh(): Promise<void> {
    if (isReading || document.hidden || asked.isOpen()) return;
    isReading = true;
    try {
      await read(call);
      goneMs = 0;
      gone.hidden = true;
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        asked.open(token === null ? '' : asked.wrong);
        token = null;
      } else {
        goneMs ||= Date.now();
        const why = error instanceof Gone ? `${service} does not answer` : wordsOf(error);
        gone.textContent = `${why}, since ${clockTime(new Date(goneMs).toISOString(), Date.now())}. The page tries again every ${span(everyMs)}.`;
        gone.hidden = false;
      }
    } finally {
      isReading = false;
    }
  }

  const tell = (words: string) => {
    byId('told').textContent = words;
  };
  setInterval(() => void refresh(), everyMs);
  document.addEventListener('visibilitychange', () => void refresh());
  if (needsToken) asked.open('');
  queueMicrotask(() => void refresh());
  return {
    call,
    refresh: () => void refresh(),
    tell,
    async act(work, done) {
      tell('');
      try {
        await work();
        tell(done);
      } catch (error) {
        tell(error instanceof Gone ? `${service} does not answer: nothing is done.` : wordsOf(error));
      }
      await refresh();
    },
  };
}

/** What an error says, and the faults of the fields. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Refusal)) return error instanceof Error ? error.message : String(error);
  return [error.message, ...error.faults.map(({ pointer, detail }) => `${pointer}: ${detail}`)].join('. ');
}

/** The dialog that asks for the token. The page keeps the token in memory only. */
function createTokenDialog(take: (token: string) => void) {
  const dialog = document.querySelector<HTMLDialogElement>('#token');
  if (dialog === null) return { wrong: '', isOpen: () => false, open: () => undefined };
  const input = dialog.querySelector('input') as HTMLInputElement;
  dialog.querySelector('form')?.addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close();
    take(input.value.trim());
    input.value = '';
  });
  // Without a token the page can show nothing.
  dialog.addEventListener('cancel', (event) => event.preventDefault());
  return {
    /** Said of a token that opens nothing. */
    wrong: dialog.dataset.wrong ?? 'This token is not the right one.',
    isOpen: () => dialog.open,
    open(fault: string) {
      byId('token-fault').textContent = fault;
      dialog.showModal();
    },
  };
}
