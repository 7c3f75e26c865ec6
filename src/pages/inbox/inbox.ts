/**
 * The program of the inbox of `fieldpost dev`: shows what was caught as it arrives. The fragment of the address names the
 * open message.
 */

import { bytesInWords, counted } from '../../base/text.js';
import { byId, html, paperclip, say, showList } from '../dom.js';
import { keepFresh } from '../live.js';
import { clockTime, TYPES } from '../words.js';
import { found, type InboxLine, nameIn, Unopened } from './find.js';
import { createReader } from './reader.js';

/** So many lines are shown at first, and so many more each time. */
const LINES = 100;

function main(): void {
  const live = keepFresh('fieldpost dev', read);
  const reader = createReader(live);
  const search = byId<HTMLInputElement>('search');
  const kind = byId<HTMLSelectElement>('kind');
  const kinds = ['All kinds', ...TYPES];
  kind.append(...kinds.map((words, type) => html('option', { value: type }, words)));
  const list = byId('list');
  const more = byId('more');
  const unread = new Unopened();
  let lines: readonly InboxLine[] = [];
  let limit = LINES;

  async function read(): Promise<void> {
    lines = (await live.call('GET', '/messages')).body.messages;
    unread.update(lines.map(({ id }) => id));
    await open(false);
  }

  /** Opens the message that the address names. */
  async function open(isAsked: boolean): Promise<void> {
    const id = location.hash.slice(1);
    unread.opened(id);
    document.body.classList.toggle('reading', id !== '');
    show(id);
    const isThere = lines.some((line) => line.id === id);
    await reader.open(id, isThere, isAsked);
  }

  function show(open: string): void {
    const wanted = found(lines, search.value, Number(kind.value));
    const shown = wanted.slice(0, limit).map((line) => ({
      ...line,
      isNew: unread.has(line.id),
      isOpen: line.id === open,
      when: line.at === null ? '' : clockTime(line.at, Date.now()),
    }));
    showList(list, shown, ({ id }) => id, itemOf);
    more.hidden = wanted.length <= limit;
    showCounts(lines.length, unread.count, wanted.length);
  }

  const showAgain = () => show(location.hash.slice(1));
  search.addEventListener('input', showAgain);
  kind.addEventListener('change', showAgain);
  more.addEventListener('click', () => {
    limit += LINES;
    showAgain();
  });
  byId('clear').addEventListener('click', () => {
    if (!confirm(`Delete all ${counted(lines.length, 'message')} for good?`)) return;
    location.hash = '';
    void live.act(() => live.call('DELETE', '/messages'), 'All messages are deleted.');
  });
  list.addEventListener('keydown', (event) => moveFocus(list, event as KeyboardEvent));
  window.addEventListener('hashchange', () => void open(true));
}

/** Shows how many messages there are: all, new ones, and those that the search finds. */
function showCounts(all: number, fresh: number, wanted: number): void {
  const empty = byId('empty');
  empty.hidden = wanted > 0;
  empty.textContent = all === 0 ? 'Nothing has arrived yet.' : 'No message is like that.';
  say('count', counted(all, 'message') + (fresh === 0 ? '' : `, ${fresh} new`));
  document.title = fresh === 0 ? 'Inbox' : `(${fresh}) Inbox`;
  byId('clear').hidden = all === 0;
}

/** The arrow keys go from message to message. */
function moveFocus(list: HTMLElement, event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  const links = [...list.querySelectorAll('a')];
  const next = links[links.indexOf(document.activeElement as HTMLAnchorElement) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

type Shown = InboxLine & { readonly isNew: boolean; readonly isOpen: boolean; readonly when: string };

function itemOf({
  id,
  type,
  from,
  to,
  subject,
  at,
  bytes,
  hasFiles,
  isNew,
  isOpen,
  when,
}: Shown): HTMLElement {
  const kind = TYPES[type - 1] ?? '';
  return html(
    'li',
    {},
    html(
      'a',
      { href: `#${id}`, 'aria-current': isOpen && 'true', class: isNew ? 'new' : '' },
      html('span', { class: 'soft' }, type === 1 ? `${nameIn(from) || 'nobody'} → ${to}` : `${kind} → ${to}`),
      html('time', { datetime: at ?? '', class: 'soft', title: bytesInWords(bytes) }, when),
      html(
        'span',
        { class: 'subject' },
        ...(isNew ? [html('span', { class: 'tag' }, 'new'), ' '] : []),
        ...(hasFiles ? [paperclip(), ' '] : []),
        subject || (type === 1 ? 'no subject' : kind),
      ),
    ),
  );
}

main();
