/**
 * The open message: who, to whom, when, its files, and its views (HTML, text, headers), of which a tab shows one.
 */

import { bytesInWords } from '../../base/text.js';
import { button, byId, factList, html } from '../dom.js';
import { type Live, Refusal, wordsOf } from '../live.js';
import { exactTime } from '../words.js';
import type { InboxLine } from './find.js';

/** A message as the inbox tells it. */
interface Message extends InboxLine {
  readonly text: string | null;
  readonly isCut: boolean;
  readonly hasHtml: boolean;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly envelope: { readonly from: string; readonly to: readonly string[] } | null;
  readonly files: readonly {
    readonly name: string;
    readonly type: string;
    readonly bytes: number;
    readonly isPicture: boolean;
  }[];
}

const CLOSED = 'No message is open';
const HINT = 'Messages appear in the list as they arrive. Nothing leaves this machine.';
const GONE = 'This message is gone';

/** The part of the page with the open message. */
export function createReader(live: Live) {
  const heading = byId('h-open');
  const place = byId('opened');
  let open = '';
  let isGone = false;
  /** The view that the person chose last. */
  let preferred = '';

  function empty(words: string, hint: string): void {
    heading.textContent = words;
    byId('hint').textContent = hint;
    byId('hint').hidden = false;
    place.replaceChildren(...(open === '' ? [] : [backButton()]));
  }

  async function load(id: string, isAsked: boolean): Promise<void> {
    try {
      const { body } = await live.call('GET', `/messages/${encodeURIComponent(id)}`);
      if (id !== open) return;
      const message: Message = body;
      heading.textContent = message.subject || 'no subject';
      byId('hint').hidden = true;
      const tabs = tabsOf(viewsOf(message), preferred, (name) => {
        preferred = name;
      });
      place.replaceChildren(
        backButton(),
        factsOf(message),
        buttonsOf(message, live),
        ...tabs,
        ...picturesOf(message),
      );
    } catch (error) {
      if (id !== open) return;
      const isMissing = error instanceof Refusal && error.status === 404;
      isGone = isMissing;
      empty(isMissing ? GONE : 'This message cannot be shown', isMissing ? '' : wordsOf(error));
    }
    if (isAsked) heading.focus();
  }

  return {
    /** Opens the message. `isThere`: the list has it; `isAsked`: the person has just asked for it. */
    async open(id: string, isThere: boolean, isAsked: boolean): Promise<void> {
      if (id !== open) {
        open = id;
        isGone = id !== '' && !isThere;
        if (isGone) empty(GONE, '');
        else if (id === '') empty(CLOSED, HINT);
        else await load(id, isAsked);
      } else if (id !== '' && !isThere && !isGone) {
        // Somebody has deleted it meanwhile.
        isGone = true;
        empty(GONE, '');
      }
    },
  };
}

function backButton(): HTMLElement {
  const back = button('Back to the list', () => {
    const link = document.querySelector<HTMLElement>('[aria-current]');
    location.hash = '';
    document.body.classList.remove('reading');
    (link ?? byId('search')).focus();
  });
  back.id = 'back';
  return back;
}

function factsOf({ id, type, from, to, at, bytes, headers, envelope, files }: Message): HTMLElement {
  const headerOf = (wanted: string) => headers.find(([name]) => name.toLowerCase() === wanted)?.[1] ?? '';
  const isMail = type === 1;
  const sent = envelope === null ? null : `${envelope.from || '<>'} → ${envelope.to.join(', ')}`;
  return factList([
    ['From', isMail ? headerOf('from') || from || 'nobody' : null],
    ['To', (isMail && headerOf('to')) || to || null],
    ['Cc', (isMail && headerOf('cc')) || null],
    ['Envelope', sent],
    ['Came', at === null ? null : exactTime(at)],
    ['Size', bytesInWords(bytes)],
    ['Files', files.length === 0 ? null : filesOf(id, files)],
  ]);
}

/** The pictures among the files. */
function picturesOf({ id, files }: Message): HTMLElement[] {
  return files.flatMap(({ name, isPicture }, index) =>
    isPicture
      ? [
          html(
            'figure',
            { class: 'picture' },
            html('img', { src: `/pictures/${id}.${index}`, alt: name, loading: 'lazy' }),
            html('figcaption', { class: 'soft' }, name),
          ),
        ]
      : [],
  );
}

function filesOf(id: string, files: Message['files']): HTMLElement {
  const items = files.map(({ name, type, bytes }, index) =>
    html(
      'li',
      {},
      html('a', { href: `/files/${id}.${index}`, download: name }, name),
      ` ${type}, ${bytesInWords(bytes)}`,
    ),
  );
  return html('ul', { class: 'rows' }, ...items);
}

function buttonsOf({ id, type, subject }: Message, live: Live): HTMLElement {
  const remove = () => {
    if (!confirm('Delete this message for good?')) return;
    location.hash = '';
    void live.act(() => live.call('DELETE', `/messages/${id}`), `${subject || 'The message'} is deleted.`);
  };
  const source = `/messages/${id}/source`;
  return html(
    'div',
    { class: 'buttons' },
    button('Delete', remove),
    ...(type === 1
      ? [
          html('a', { href: source, target: '_blank', rel: 'noopener' }, 'Source'),
          html('a', { href: source, download: `${id}.eml` }, 'Download as a file'),
        ]
      : []),
  );
}

function viewsOf({ id, text, isCut, hasHtml, headers }: Message): View[] {
  const frame = () =>
    html('iframe', {
      // No script, no form, no other window, and an origin of its own.
      sandbox: '',
      src: `/messages/${id}/html`,
      title: 'The HTML of the message',
      referrerpolicy: 'no-referrer',
    });
  const textView = () => [
    html('pre', {}, text ?? ''),
    ...(isCut ? [html('p', { class: 'uneasy' }, 'The text goes on: its source has all of it.')] : []),
  ];
  const headerList = () => factList(headers, { class: 'headers' });
  return [
    ...(hasHtml ? [{ name: 'HTML', make: () => [frame()] }] : []),
    ...(text !== null ? [{ name: 'Text', make: textView }] : []),
    { name: 'Headers', make: () => [headerList()] },
  ];
}

/** A view, which is made when it is shown first. */
interface View {
  readonly name: string;
  make(): readonly Node[];
}

/** The tabs and the place of the view. The view named `preferred` is shown first, else the first one. */
function tabsOf(
  views: readonly View[],
  preferred: string,
  chosen: (name: string) => void,
): readonly [HTMLElement, HTMLElement] {
  const panel = html('div', { role: 'tabpanel', id: 'view', tabindex: 0 });
  const tabs = views.map((view, index) =>
    html(
      'button',
      {
        type: 'button',
        role: 'tab',
        id: `tab-${index}`,
        'aria-controls': 'view',
        click: () => choose(index),
      },
      view.name,
    ),
  );

  function show(index: number): void {
    tabs.forEach((tab, at) => {
      tab.setAttribute('aria-selected', String(at === index));
      tab.tabIndex = at === index ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', `tab-${index}`);
    panel.replaceChildren(...(views[index]?.make() ?? []));
  }

  function choose(index: number): void {
    chosen(views[index]?.name ?? '');
    show(index);
    tabs[index]?.focus();
  }

  const move = (event: Event) => {
    const { key } = event as KeyboardEvent;
    const at = tabs.findIndex((tab) => tab.tabIndex === 0);
    const last = tabs.length - 1;
    const to = {
      ArrowLeft: at === 0 ? last : at - 1,
      ArrowRight: at === last ? 0 : at + 1,
      Home: 0,
      End: last,
    }[key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  };
  show(
    Math.max(
      0,
      views.findIndex(({ name }) => name === preferred),
    ),
  );
  return [html('div', { role: 'tablist', 'aria-label': 'Views', keydown: move }, ...tabs), panel];
}
