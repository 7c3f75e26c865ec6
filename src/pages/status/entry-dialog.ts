/**
 * The dialog that adds or changes a person of the address book. The daemon judges the fields, and its words stand at each.
 */
import { LANGS } from '../../base/langs.js';
import { Refusal } from '../calls.js';
import { byId, html } from '../dom.js';
import { type FieldFault, faultOf } from '../faults.js';
import { wordsOf } from '../live.js';
import { TYPES } from '../types.js';

/** What a person of the address book is. */
export interface Person {
  readonly type: number;
  readonly destination: string;
  readonly lang: string;
  readonly name: string;
}

/** The fields of the form, each with a place for its fault. */
function createFields() {
  const name = html('input', { autocomplete: 'off' });
  const type = html(
    'select',
    {},
    ...TYPES.map((words, index) => html('option', { value: index + 1 }, words)),
  );
  const destination = html('input', { autocomplete: 'off' });
  const lang = html('select', {}, ...LANGS.map((one) => html('option', {}, one)));
  const labelled = [
    ['name', 'Name', name],
    ['type', 'How to tell', type],
    ['destination', 'Address or number', destination],
    ['lang', 'Language', lang],
  ] as const;
  const places = labelled.map(([key, label, input]) => {
    const id = `entry-${key}-fault`;
    input.setAttribute('aria-describedby', id);
    const fault = html('p', { id, class: 'fault' });
    byId('entry-fields').append(html('label', {}, `${label} `, input), fault);
    return { key, input, fault };
  });
  return {
    person: (): Person => ({
      type: Number(type.value),
      destination: destination.value,
      lang: lang.value,
      name: name.value,
    }),
    fill(person: Person | null) {
      name.value = person?.name ?? '';
      type.value = String(person?.type ?? 1);
      destination.value = person?.destination ?? '';
      lang.value = person?.lang ?? 'en';
    },
    /** Shows each fault at its field. True if all of them have one. */
    showFaults(faults: readonly FieldFault[]): boolean {
      for (const { key, input, fault } of places) {
        fault.textContent = faultOf(key, faults);
        input.setAttribute('aria-invalid', String(fault.textContent !== ''));
      }
      places.find(({ fault }) => fault.textContent !== '')?.input.focus();
      return faults.every((one) => places.some(({ key }) => faultOf(key, [one]) !== ''));
    },
  };
}

/** The dialog. */
export function createEntryDialog() {
  const dialog = byId<HTMLDialogElement>('entry');
  const fields = createFields();
  const above = byId('entry-fault');
  let save: (person: Person) => Promise<void> = async () => undefined;
  dialog.querySelector('form')?.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      await save(fields.person());
      dialog.close();
    } catch (error) {
      const faults = error instanceof Refusal ? error.faults : [];
      above.textContent = fields.showFaults(faults) && faults.length > 0 ? '' : wordsOf(error);
    }
  });
  byId('entry-cancel').addEventListener('click', () => dialog.close());
  return {
    /** Opens with this person, or empty; `store` stores what was entered, and throws what the daemon answers. */
    open(heading: string, person: Person | null, store: (person: Person) => Promise<void>) {
      save = store;
      byId('h-entry').textContent = heading;
      fields.fill(person);
      fields.showFaults([]);
      above.textContent = '';
      dialog.showModal();
    },
  };
}
