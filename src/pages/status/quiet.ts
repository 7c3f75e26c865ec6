/**
 * The quiet of the device, with a dialog that begins it, and the drill.
 */
import type { DaemonState } from '../../base/state-lines.js';
import { byId, html } from '../dom.js';
import { type Live, Refusal, wordsOf } from '../live.js';
import { clockTime, faultOf } from '../words.js';

const PATH = '/api/internal/quiet';
/** The daemon asks the cloud, for 15 s at most. */
const ANSWER_MS = 25_000;
const LENGTHS = [
  [30 * 60, '30 minutes'],
  [2 * 3600, '2 hours'],
  [8 * 3600, '8 hours'],
] as const;

/** What is answered when a quiet begins or ends. */
interface Told {
  readonly known_to_cloud: boolean;
  readonly reason: string | null;
}

/** The parts of the page about the quiet, and the button of the drill. */
export function createQuiet(live: Live) {
  const { call, tell } = live;
  const open = createDialog(async (forS, why) => {
    const body = { for_s: forS, ...(why !== '' && { why }) };
    const answer = await call('PUT', PATH, { body, withinMs: ANSWER_MS });
    tell(wordsFor(`Quiet until ${clockTime(answer.body.until, Date.now())}.`, answer.body));
    live.refresh();
  });

  /** Tells what came of it. */
  async function act(work: () => Promise<string>): Promise<void> {
    tell('Asking the cloud …');
    try {
      tell(await work());
    } catch (error) {
      tell(wordsOf(error));
    }
    live.refresh();
  }
  byId('quiet-begin').addEventListener('click', open);
  byId('quiet-end').addEventListener(
    'click',
    () =>
      void act(async () => {
        const { body } = await call('DELETE', PATH, { withinMs: ANSWER_MS });
        return wordsFor('The quiet is over.', body);
      }),
  );
  byId('drill').addEventListener('click', () => {
    if (!confirm('Everybody in the address book gets a test message now, at any hour. Go on?')) return;
    void act(async () => {
      const { people } = (await call('POST', '/api/internal/drill', { withinMs: ANSWER_MS })).body;
      return people === 0 ? 'Nobody is told.' : `People that the cloud tells now: ${people}.`;
    });
  });

  return {
    /** Without a cloud nobody is told anyway. */
    show({ quiet, link }: DaemonState) {
      const isOffered = quiet !== undefined && link?.state !== 'disabled';
      byId('drill').hidden = !isOffered;
      byId('quiet-begin').hidden = !isOffered;
      byId('quiet').hidden = !isOffered || (quiet.until === null && quiet.known_to_cloud);
    },
  };
}

function wordsFor(done: string, { known_to_cloud: isKnown, reason }: Told): string {
  if (isKnown) return `${done} The cloud knows it.`;
  return `${done} The cloud does not know it yet${reason === null ? '' : `: ${reason}`}. It is told as soon as the link is back.`;
}

/** Gives what opens the dialog. `begin` begins a quiet, and throws what the daemon answers. */
function createDialog(begin: (forS: number, why: string) => Promise<void>): () => void {
  const dialog = byId<HTMLDialogElement>('quiet-dialog');
  const form = dialog.querySelector('form') as HTMLFormElement;
  const submit = dialog.querySelector<HTMLButtonElement>('[type=submit]') as HTMLButtonElement;
  const fault = byId('quiet-fault');
  byId('quiet-for').append(...LENGTHS.map(([value, words]) => html('option', { value }, words)));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const fields = new FormData(form);
    submit.disabled = true;
    fault.textContent = '';
    try {
      await begin(Number(fields.get('for')), String(fields.get('why')).trim());
      dialog.close();
    } catch (error) {
      const ofWhy = error instanceof Refusal ? faultOf('why', error.faults) : '';
      fault.textContent = ofWhy === '' ? wordsOf(error) : `The reason ${ofWhy}.`;
    }
    submit.disabled = false;
  });
  byId('quiet-cancel').addEventListener('click', () => dialog.close());
  return () => {
    fault.textContent = '';
    dialog.showModal();
  };
}
