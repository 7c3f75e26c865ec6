/**
 * The messages: those that need a look first, then the newest; tabs, pages, and for each what became of it and what can be
 * done.
 */
import type { DaemonState } from '../../base/state-lines.js';
import { bytesInWords, counted } from '../../base/text.js';
import { STATUSES, type Status } from '../../base/views.js';
import { button, byId, factList, html, openable, paperclip, showList } from '../dom.js';
import type { Live } from '../live.js';
import { clockTime, exactTime, TYPES } from '../words.js';

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
  /** Of a message that a newer one has replaced. */
  readonly replacedBy?: string | null;
}

interface Page {
  readonly messages: readonly Shown[];
  readonly next: string | null;
}

const PATH = '/api/internal/messages';
/** So many rows at first, and so many more each time, up to the most; those before them are on further pages. */
const FEW = 5;
const MORE = 20;
const MOST = 100;
const MOODS: Readonly<Record<string, string>> = {
  sent: 'good',
  deferred: 'uneasy',
  failed: 'bad',
  expired: 'bad',
};

/** The tabs in their order; all others stand behind them. */
const FIRST: readonly Status[] = ['queued', 'deferred', 'failed', 'sent'];
const TABS = ['', ...FIRST, ...STATUSES.filter((one) => one !== 'sending' && !FIRST.includes(one))] as const;
type Tab = (typeof TABS)[number];

/** The part of the page about messages. */
export function createMessages(live: Live) {
  const [newest, more] = [byId<HTMLButtonElement>('newest'), byId<HTMLButtonElement>('more')];
  let tab: Tab = '';
  let after: string | null = null;
  let next: string | null = null;
  let limit = FEW;
  const goTo = (id: string | null) => {
    after = id;
    live.refresh();
  };
  const tabs = createTabs((chosen) => {
    tab = chosen;
    limit = FEW;
    goTo(null);
  });
  newest.addEventListener('click', () => goTo(null));
  more.addEventListener('click', () => {
    if (limit === MOST) return goTo(next);
    limit = Math.min(MOST, limit === FEW ? MORE : limit + MORE);
    live.refresh();
  });

  const list = async (status: string, most: number, before: string | null = null): Promise<Page> => {
    const query = new URLSearchParams({ limit: String(most) });
    if (status !== '') query.set('status', status);
    if (before !== null) query.set('after', before);
    return (await live.call('GET', `${PATH}?${query}`)).body;
  };

  return {
    /** Of all messages those that need a look stand first. */
    async read(queue: DaemonState['queue']): Promise<Page> {
      const bad = tab === '' && after === null ? (['failed', 'deferred'] as const) : [];
      const urgent = bad.filter((status) => (queue?.[status] ?? 0) > 0).map((status) => list(status, FEW));
      const [page, ...first] = await Promise.all([list(tab, limit, after), ...urgent]);
      const front = first.flatMap(({ messages }) => messages);
      const rest = page.messages.filter(({ id }) => !front.some((one) => one.id === id));
      return { ...page, messages: [...front, ...rest] };
    },
    show(page: Page, queue: DaemonState['queue']) {
      next = page.next;
      newest.hidden = after === null;
      more.hidden = next === null;
      more.textContent = limit === MOST ? 'Older' : 'Show more';
      tabs.show(tab, queue);
      const item = (message: Shown, before: Element | undefined) => itemOf(message, before, live);
      showList(byId('messages'), page.messages, ({ id }) => id, item, 'None.');
    },
  };
}

/** The buttons that choose which messages are listed, with their numbers as far as they are known. */
function createTabs(choose: (tab: Tab) => void) {
  const buttons = TABS.map((tab) => [tab, button(NAMES[tab] ?? tab, () => choose(tab))] as const);
  byId('tabs').append(...buttons.map(([, its]) => its));
  return {
    show(chosen: Tab, queue: DaemonState['queue']) {
      const { queued = 0, sending = 0, deferred = 0, failed = 0 } = queue ?? {};
      const counts: Partial<Record<Tab, number>> = { queued: queued + sending, deferred, failed };
      for (const [tab, its] of buttons) {
        const count = counts[tab] ? ` ${counts[tab]}` : '';
        its.setAttribute('aria-pressed', String(tab === chosen));
        its.textContent = `${NAMES[tab] ?? tab}${count}`;
      }
    },
  };
}

const NAMES: Readonly<Record<string, string>> = {
  '': 'All',
  queued: 'Waiting',
  deferred: 'Deferred',
  failed: 'Failed',
  sent: 'Sent',
  expired: 'Expired',
  cancelled: 'Cancelled',
  replaced: 'Replaced',
};

function itemOf(message: Shown, before: Element | undefined, live: Live): HTMLElement {
  const { destination, subject, status, priority, acceptedAt } = message;
  const what = subject || (message.type === 1 ? 'no subject' : (TYPES[message.type - 1] ?? ''));
  const summary = [
    html('strong', { class: MOODS[status] ?? 'soft' }, status),
    html('span', {}, `${destination}: ${what}`),
    ...(message.attachments.length > 0 ? [paperclip()] : []),
    ...(priority === 'high' ? [html('span', { class: 'uneasy' }, 'urgent')] : []),
    html('time', { datetime: acceptedAt, class: 'soft' }, clockTime(acceptedAt, Date.now())),
  ];
  return openable(summary, [detailsOf(message), buttonsOf(message, live)], before);
}

function detailsOf(message: Shown): HTMLElement {
  const { id, type, size, acceptedAt, sentAt, attempts, lastReply, nextAttemptAt, attachments } = message;
  const files = attachments.map((file) => `${file.name} (${bytesInWords(file.size)})`).join(', ');
  return factList([
    ['Id', id],
    ['Kind', `${TYPES[type - 1] ?? type}${size === undefined ? '' : `, ${bytesInWords(size)}`}`],
    ['Accepted', exactTime(acceptedAt)],
    ['Sent', sentAt ? exactTime(sentAt) : null],
    ['Attempts', attempts === 0 ? 'none yet' : counted(attempts, 'attempt')],
    ['Last answer', lastReply],
    ['Next attempt', nextAttemptAt && exactTime(nextAttemptAt)],
    ['Files', files || null],
    ['Replaced by', message.replacedBy ?? null],
  ]);
}

function buttonsOf({ id, status, final }: Shown, { call, act }: Live): HTMLElement {
  const retry = () => void act(() => call('POST', `${PATH}/${id}/retry`), `${id} is due now.`);
  const remove = (question: string, done: string) => () => {
    if (confirm(question)) void act(() => call('DELETE', `${PATH}/${id}`), done);
  };
  const cancel = remove('Cancel this message? It will not be sent.', `${id} is cancelled.`);
  const clear = remove('Delete the content for good?', `The content of ${id} is deleted.`);
  return html(
    'div',
    { class: 'buttons' },
    ...(!final || status === 'failed' ? [button('Retry now', retry)] : []),
    ...(!final ? [button('Cancel it', cancel)] : []),
    ...(status === 'failed' ? [button('Delete its content', clear)] : []),
  );
}
