/**
 * The messages, newest first: a filter, pages, and for each what became of it and what can be done.
 */

import { bytesInWords, counted } from '../../base/sizes.js';
import { STATUSES } from '../../base/views.js';
import type { Ask } from '../calls.js';
import { byId, factList, html, showList } from '../dom.js';
import type { Live } from '../live.js';
import { clockTime, exactTime } from '../times.js';
import { TYPES } from '../types.js';

/** A message, as the API tells it. A daemon of another version may leave out members. */
interface Shown {
  readonly id: string;
  readonly type: number;
  readonly destination: string;
  readonly subject?: string | null;
  readonly size?: number;
  readonly priority?: string;
  readonly status: string;
  readonly final: boolean;
  readonly acceptedAt: string;
  readonly sentAt?: string | null;
  readonly attempts: number;
  readonly lastReply: string | null;
  readonly nextAttemptAt: string | null;
  readonly attachments: readonly { readonly name: string; readonly size: number }[];
}

interface Page {
  readonly messages: readonly Shown[];
  readonly next: string | null;
}

const PATH = '/api/internal/messages';
const PER_PAGE = 20;
const MOODS: Readonly<Record<string, string>> = {
  sent: 'good',
  deferred: 'uneasy',
  failed: 'bad',
  expired: 'bad',
};

/** The part of the page about messages. */
export function createMessages(live: Live) {
  const filter = byId<HTMLSelectElement>('filter');
  const [newest, older] = [byId<HTMLButtonElement>('newest'), byId<HTMLButtonElement>('older')];
  let after: string | null = null;
  let next: string | null = null;
  filter.append(html('option', { value: '' }, 'all'), ...STATUSES.map((one) => html('option', {}, one)));
  const goTo = (id: string | null) => {
    after = id;
    live.refresh();
  };
  filter.addEventListener('change', () => goTo(null));
  newest.addEventListener('click', () => goTo(null));
  older.addEventListener('click', () => goTo(next));
  return {
    async read(call: Ask): Promise<Page> {
      const query = new URLSearchParams({ limit: String(PER_PAGE) });
      if (filter.value !== '') query.set('status', filter.value);
      if (after !== null) query.set('after', after);
      return (await call('GET', `${PATH}?${query}`)).body;
    },
    show(page: Page) {
      next = page.next;
      newest.hidden = after === null;
      older.hidden = next === null;
      const list = byId('messages');
      showList(
        list,
        page.messages,
        ({ id }) => id,
        (message, before) => itemOf(message, before, live),
      );
      if (page.messages.length === 0) list.replaceChildren(html('li', { class: 'soft' }, 'None.'));
    },
  };
}

function itemOf(message: Shown, before: Element | undefined, live: Live): HTMLElement {
  const { destination, subject, status, priority, acceptedAt } = message;
  const isOpen = before?.querySelector('details')?.open ?? false;
  const what = subject || (message.type === 1 ? 'no subject' : (TYPES[message.type - 1] ?? ''));
  return html(
    'li',
    {},
    html(
      'details',
      { open: isOpen },
      html(
        'summary',
        {},
        html('strong', { class: MOODS[status] ?? 'soft' }, status),
        html('span', {}, `${destination}: ${what}`),
        ...(priority === 'high' ? [html('span', { class: 'uneasy' }, 'urgent')] : []),
        html('time', { datetime: acceptedAt, class: 'soft' }, clockTime(acceptedAt, Date.now())),
      ),
      detailsOf(message),
      buttonsOf(message, live),
    ),
  );
}

function detailsOf(message: Shown): HTMLElement {
  const { id, type, size, acceptedAt, sentAt, attempts, lastReply, nextAttemptAt, attachments } = message;
  const files = attachments.map((file) => `${file.name} (${bytesInWords(file.size)})`).join(', ');
  const facts: readonly (readonly [string, string | null])[] = [
    ['Id', id],
    ['Kind', `${TYPES[type - 1] ?? type}${size === undefined ? '' : `, ${bytesInWords(size)}`}`],
    ['Accepted', exactTime(acceptedAt)],
    ['Sent', sentAt ? exactTime(sentAt) : null],
    ['Attempts', attempts === 0 ? 'none yet' : counted(attempts, 'attempt')],
    ['Last answer', lastReply],
    ['Next attempt', nextAttemptAt && exactTime(nextAttemptAt)],
    ['Files', files || null],
  ];
  return factList(facts);
}

function buttonsOf({ id, status, final }: Shown, { call, act }: Live): HTMLElement {
  const retry = () => void act(() => call('POST', `${PATH}/${id}/retry`), `${id} is due now.`);
  const remove = (question: string, done: string) => () => {
    if (confirm(question)) void act(() => call('DELETE', `${PATH}/${id}`), done);
  };
  const button = (words: string, click: () => void) => html('button', { type: 'button', click }, words);
  const buttons = [
    ...(!final || status === 'failed' ? [button('Retry now', retry)] : []),
    ...(!final
      ? [button('Cancel it', remove('Cancel this message? It will not be sent.', `${id} is cancelled.`))]
      : []),
    ...(status === 'failed'
      ? [
          button(
            'Delete its content',
            remove('Delete the content for good?', `The content of ${id} is deleted.`),
          ),
        ]
      : []),
  ];
  return html('div', { class: 'buttons' }, ...buttons);
}
