/**
 * The address book: the people to tell when the device goes offline.
 */
import type { Ask } from '../calls.js';
import { byId, html, showList } from '../dom.js';
import type { Live } from '../live.js';
import { TYPES } from '../types.js';
import { createEntryDialog, type Person } from './entry-dialog.js';

/** An entry of the address book. */
interface Entry extends Person {
  readonly id: number;
}

const PATH = '/api/internal/offline_notification_destinations';

/** The part of the page about the address book. */
export function createBook(live: Live) {
  const { call, act } = live;
  const dialog = createEntryDialog();

  const add = () =>
    dialog.open('Add somebody', null, async (person) => {
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
    const button = (words: string, click: () => void) =>
      html('button', { type: 'button', 'aria-label': `${words} ${name}`, click }, words);
    return html(
      'li',
      { class: 'row' },
      html('span', {}, `${name}: ${destination}`),
      html('span', { class: 'soft' }, `${TYPES[type - 1] ?? type}, ${lang}`),
      button('Change', () => void edit(id)),
      button('Remove', () => remove(entry)),
    );
  };

  return {
    read: async (call: Ask): Promise<readonly Entry[]> => (await call('GET', PATH)).body,
    show(entries: readonly Entry[]) {
      const list = byId('book');
      showList(list, entries, ({ id }) => String(id), item);
      if (entries.length === 0) list.replaceChildren(html('li', { class: 'soft' }, 'Nobody yet.'));
    },
  };
}
