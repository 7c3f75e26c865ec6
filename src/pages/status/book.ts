/**
 * The address book: the people to tell when the device goes offline, and the dialog that adds or changes one. The daemon
 * judges the fields, and its words stand at each.
 */
import { LANGS } from '../../base/langs.js';
import { button, byId, html, showList } from '../dom.js';
import { type Live, Refusal, wordsOf } from '../live.js';
import { exactTime, type FieldFault, faultOf, TYPES } from '../words.js';

interface Person {
  readonly type: number;
  readonly destination: string;
  readonly lang: string;
  readonly name: string;
}

interface Entry extends Person {
  readonly id: number;
  readonly plan: string;
  readonly confirmedAt?: string;
}

const PATH = '/api/internal/offline_notification_destinations';

/** The part of the page about the address book. */
export function createBook(live: Live) {
  const { call, act } = live;
  const dialog = createEntryDialog();

  const add = () =>
    dialog.open('Add somebody', NOBODY, async (person) => {
      const { plan } = (await call('POST', PATH, { body: person })).body as Entry;
      live.tell(`${person.name} is in the address book, and ${plan}.`);
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
        const { plan } = (await call('PUT', `${PATH}/${id}`, { body: person, headers })).body as Entry;
        live.tell(`${person.name} is changed, and ${plan}.`);
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

  /** They wrap together. */
  const buttons = (entry: Entry) => [
    button('Change', () => void edit(entry.id), `Change ${entry.name}`),
    ' ',
    button('Remove', () => remove(entry), `Remove ${entry.name}`),
  ];

  const item = (entry: Entry): HTMLElement => {
    const { destination, name } = entry;
    return html(
      'li',
      { class: 'row' },
      html('span', {}, `${name}: ${destination}`),
      html('span', { class: 'soft' }, wordsOfEntry(entry)),
      html('span', {}, ...buttons(entry)),
    );
  };

  return {
    read: async (): Promise<readonly Entry[]> => (await call('GET', PATH)).body,
    show: (entries: readonly Entry[]) =>
      showList(byId('book'), entries, ({ id }) => String(id), item, 'Nobody yet.'),
  };
}

function wordsOfEntry({ type, lang, plan, confirmedAt }: Entry): string {
  const drill = confirmedAt === undefined ? '' : `; a drill was confirmed ${exactTime(confirmedAt)}`;
  return `${TYPES[type - 1] ?? type}, ${lang}; ${plan}${drill}`;
}

const NOBODY: Person = { name: '', type: 1, destination: '', lang: 'en' };
const LABELS = { name: 'Name', type: 'How to tell', destination: 'Address or number', lang: 'Language' };

const RULE_LABELS = {
  after_min: 'Only after so many minutes offline',
  hours: 'Only at these hours',
  zone: 'Time zone of the hours',
  night: 'News that is over before they begin',
  weekly: 'A report each Monday',
};
const KEYS = ['name', 'type', 'destination', 'lang'] as const;
const RULES = ['after_min', 'hours', 'zone', 'night', 'weekly'] as const;

/** The elements for each member. */
function createInputs() {
  const choice = (...values: readonly (readonly [value: string, words: string])[]) =>
    html('select', {}, ...values.map(([value, words]) => html('option', { value }, words)));
  const text = (placeholder = '') => html('input', { autocomplete: 'off', placeholder });
  return {
    name: text(),
    type: choice(...TYPES.map((words, index) => [String(index + 1), words] as const)),
    destination: text(),
    lang: choice(...LANGS.map((one) => [one, one] as const)),
    after_min: text('0'),
    hours: text('Mo-Fr 07:00-18:00, Sa 09:00-12:00'),
    zone: text("the cloud's, or Europe/Amsterdam"),
    night: choice(['', 'becomes one line'], ['drop', 'is dropped']),
    weekly: choice(['', 'No'], ['true', 'Yes']),
  };
}

/** The fields of the form, each with a place for its fault. Those that say when this person is told are folded away. */
function createFields() {
  const inputs = createInputs();
  const plan = html('p', { class: 'soft' });
  const when = html('details', {}, html('summary', {}, 'When'), plan);
  const places = ([...KEYS, ...RULES] as const).map((key) => {
    const id = `entry-${key}-fault`;
    const input = inputs[key];
    input.setAttribute('aria-describedby', id);
    const fault = html('p', { id, class: 'fault' });
    const isRule = key in RULE_LABELS;
    const label = { ...LABELS, ...RULE_LABELS }[key];
    (isRule ? when : byId('entry-fields')).append(html('label', {}, `${label} `, input), fault);
    return { key, input, fault, isRule };
  });
  byId('entry-fields').append(when);
  /** The rules as the form was opened with them. */
  let before: readonly string[] = [];
  return {
    person(): Person {
      const { name, type, destination, lang } = inputs;
      // A rule that this version does not understand is not shown. One that was not touched stays as it is.
      const changed = RULES.filter((key, index) => inputs[key].value !== before[index]);
      return {
        type: Number(type.value),
        destination: destination.value,
        lang: lang.value,
        name: name.value,
        ...Object.fromEntries(changed.map((key) => [key, ruleOf(key, inputs[key].value.trim())])),
      };
    },
    fill(person: Person & Partial<Entry>) {
      const values: Partial<Record<string, unknown>> = { ...person };
      for (const { key, input } of places) input.value = String(values[key] ?? '');
      before = RULES.map((key) => inputs[key].value);
      when.open = before.some((value) => value !== '');
      plan.textContent = person.plan ?? '';
    },
    /** Shows each fault at its field. True if all of them have one. */
    showFaults(faults: readonly FieldFault[]): boolean {
      for (const { key, input, fault, isRule } of places) {
        fault.textContent = faultOf(key, faults);
        const isFaulty = fault.textContent !== '';
        input.setAttribute('aria-invalid', String(isFaulty));
        if (isFaulty && isRule) when.open = true;
      }
      places.find(({ fault }) => fault.textContent !== '')?.input.focus();
      return faults.every((one) => places.some(({ key }) => faultOf(key, [one]) !== ''));
    },
  };
}

/** A rule as the API has it. The daemon judges what is no number. */
function ruleOf(key: (typeof RULES)[number], value: string): unknown {
  if (value === '') return null;
  if (key === 'weekly') return value === 'true';
  return key === 'after_min' && /^\d+$/.test(value) ? Number(value) : value;
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
    open(heading: string, person: Person & Partial<Entry>, store: (person: Person) => Promise<void>) {
      save = store;
      byId('h-entry').textContent = heading;
      fields.fill(person);
      fields.showFaults([]);
      above.textContent = '';
      dialog.showModal();
    },
  };
}
