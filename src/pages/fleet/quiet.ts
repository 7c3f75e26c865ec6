/**
 * What the operator asks of the people of a device: a while without being told, which a dialog begins, or a drill.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../base/limits.js';
import { byId, html } from '../dom.js';
import { type Live, wordsOf } from '../live.js';
import { clockTime } from '../words.js';

const LENGTHS = [
  [30 * MINUTE_MS, '30 minutes'],
  [2 * HOUR_MS, '2 hours'],
  [8 * HOUR_MS, '8 hours'],
  [DAY_MS, '1 day'],
] as const;

/** The buttons of a device, by its id. */
export interface QuietActs {
  begin(id: string): void;
  end(id: string): void;
  drill(id: string): void;
}

/** The page has the dialog #quiet. */
export function createQuiet({ call, act, tell, refresh }: Live): QuietActs {
  const put = async (id: string, body: object) =>
    (await call('PUT', `/devices/${encodeURIComponent(id)}/quiet`, { body })).body;
  const open = createDialog(async (id, quietMs, why) => {
    const { until } = await put(id, { quietMs, ...(why !== '' && { why }) });
    tell(`${id} is quiet until ${clockTime(until, Date.now())}.`);
    refresh();
  });
  return {
    begin: open,
    end: (id) => void act(() => put(id, { quietMs: 0 }), `${id} is no longer quiet.`),
    drill(id) {
      if (!confirm(`Everybody in the address book of ${id} gets a test message now, at any hour. Go on?`))
        return;
      const ask = async () => {
        const { body } = await call('POST', `/devices/${encodeURIComponent(id)}/drill`, { body: {} });
        if (body.people === 0) throw new Error('Nobody in its address book can be reached by this cloud.');
      };
      void act(ask, `The people of ${id} get a test message now.`);
    },
  };
}

/** Gives what opens the dialog for a device. `begin` begins its quiet, and throws what the cloud answers. */
function createDialog(
  begin: (id: string, quietMs: number, why: string) => Promise<void>,
): (id: string) => void {
  const dialog = byId<HTMLDialogElement>('quiet');
  const form = dialog.querySelector('form') as HTMLFormElement;
  const submit = form.querySelector<HTMLButtonElement>('[type=submit]') as HTMLButtonElement;
  const fault = byId('quiet-fault');
  let device = '';
  byId('quiet-for').append(...LENGTHS.map(([value, words]) => html('option', { value }, words)));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const fields = new FormData(form);
    submit.disabled = true;
    try {
      await begin(device, Number(fields.get('for')), String(fields.get('why')).trim());
      dialog.close();
    } catch (error) {
      fault.textContent = wordsOf(error);
    }
    submit.disabled = false;
  });
  byId('quiet-cancel').addEventListener('click', () => dialog.close());
  return (id) => {
    device = id;
    form.reset();
    fault.textContent = '';
    byId('quiet-device').textContent = id;
    dialog.showModal();
  };
}
