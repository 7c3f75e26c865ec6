/**
 * The address book: the people to tell when the device goes offline, and the dialog that adds or changes one. The daemon
 * judges the fields, and its words stand at each.
 */
import { LANGS } from '../../base/langs.js';
import { button, byId, html, showList } from '../dom.js';
import { type Live, Refusal, wordsOf } from '../live.js';
import { type FieldFault, faultOf, TYPES } from '../words.js';

interface Person {
  readonly type: number;
  readonly destination: string;
  readonly lang: string;
  readonly name: string;
}

interface Entry extends Person {
  readonly id: number;
}

const PATH = '/api/internal/offline_notification_destinations';

/** The part of the page about the address book. */
export function createBook(live: Live) {
  const { call, act } = live;
  const dialog = createEntryDialog();

  const add = () =>
    dialog.open('Add somebody', NOBODY, async (person) => {
      await call('POST', PATH, { body: person });
      live.tell(`${person.name} is in the address book.`);
      live.refresh();
    });
  byId('add').addEventListener('click', add);

  /** The entry as it is now, and a header that lets an edit through only while it stays so. */
  async function present(id: number) {
    const { body, etag } = await call('GET', `${PATH}/${id}`);
    return { entry: body as Entry, headers: etag === null ? {} : { 'If-Match': etag } };
  }

  const edit = (id: number) =>
    act(async () => {
      const { entry, headers } = await present(id);
      dialog.open(`Change ${entry.name}`, entry, async (person) => {
        await call('PUT', `${PATH}/${id}`, { body: person, headers });
        live.tell(`${person.name} is changed.`);
        live.refresh();
      });
    }, '');

  const remove = ({ id, name }: Entry) => {
    if (!confirm(`Remove ${name}? Nobody tells ${name} then.`)) return;
    void act(async () => {
      const { headers } = await present(id);
      await call('DELETE', `${PATH}/${id}`, { headers });
    }, `${name} is removed.`);
  };

  const item = (entry: Entry): HTMLElement => {
    const { id, type, destination, lang, name } = entry;
    return html(
      'li',
      { class: 'row' },
      html('span', {}, `${name}: ${destination}`),
      html('span', { class: 'soft' }, `${TYPES[type - 1] ?? type}, ${lang}`),
      button('Change', () => void edit(id), `Change ${name}`),
      button('Remove', () => remove(entry), `Remove ${name}`),
    );
  };

  return {
    read: async (): Promise<readonly Entry[]> => (await call('GET', PATH)).body,
    show: (entries: readonly Entry[]) =>
      showList(byId('book'), entries, ({ id }) => String(id), item, 'Nobody yet.'),
  };
}

const NOBODY: Person = { name: '', type: 1, destination: '', lang: 'en' };
const LABELS = { name: 'Name', type: 'How to tell', destination: 'Address or number', lang: 'Language' };

/** The fields of the form, each with a place for its fault. */
function createFields() {
  const inputs = {
    name: html('input', { autocomplete: 'off' }),
    type: html('select', {}, ...TYPES.map((words, index) => html('option', { value: index + 1 }, words))),
    destination: html('input', { autocomplete: 'off' }),
    lang: html('select', {}, ...LANGS.map((one) => html('option', {}, one))),
  };
  const places = (['name', 'type', 'destination', 'lang'] as const).map((key) => {
    const id = `entry-${key}-fault`;
    const input = inputs[key];
    input.setAttribute('aria-describedby', id);
    const fault = html('p', { id, class: 'fault' });
    byId('entry-fields').append(html('label', {}, `${LABELS[key]} `, input), fault);
    return { key, input, fault };
  });
  return {
    person(): Person {
      const { name, type, destination, lang } = inputs;
      return { type: Number(type.value), destination: destination.value, lang: lang.value, name: name.value };
    },
    fill(person: Person) {
      for (const { key, input } of places) input.value = String(person[key]);
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

function createEntryDialog() {
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
    /** Opens with this person; `store` stores what was entered, and throws what the daemon answers. */
    open(heading: string, person: Person, store: (person: Person) => Promise<void>) {
      save = store;
      byId('h-entry').textContent = heading;
      fields.fill(person);
      fields.showFaults([]);
      above.textContent = '';
      dialog.showModal();
    },
  };
}
