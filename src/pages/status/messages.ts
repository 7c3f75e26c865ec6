/**
 * The messages, newest first: a filter, pages, for each what became of it and what can be done; and the test mail.
 */

import { bytesInWords, counted } from '../../base/text.js';
import { STATUSES } from '../../base/views.js';
import { button, byId, factList, html, openable, showList } from '../dom.js';
import { type Live, wordsOf } from '../live.js';
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
}

interface Page {
  readonly messages: readonly Shown[];
  readonly next: string | null;
}

const PATH = '/api/internal/messages';
const PER_PAGE = 20;
/** About a test mail the daemon answers when it is final, or after this long. */
const WAIT_S = 20;
const ANSWER_MS = 40_000;
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
    async read(): Promise<Page> {
      const query = new URLSearchParams({ limit: String(PER_PAGE) });
      if (filter.value !== '') query.set('status', filter.value);
      if (after !== null) query.set('after', after);
      return (await live.call('GET', `${PATH}?${query}`)).body;
    },
    show(page: Page) {
      next = page.next;
      newest.hidden = after === null;
      older.hidden = next === null;
      const item = (message: Shown, before: Element | undefined) => itemOf(message, before, live);
      showList(byId('messages'), page.messages, ({ id }) => id, item, 'None.');
    },
  };
}

function itemOf(message: Shown, before: Element | undefined, live: Live): HTMLElement {
  const { destination, subject, status, priority, acceptedAt } = message;
  const what = subject || (message.type === 1 ? 'no subject' : (TYPES[message.type - 1] ?? ''));
  const summary = [
    html('strong', { class: MOODS[status] ?? 'soft' }, status),
    html('span', {}, `${destination}: ${what}`),
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

/** The part of the page that sends a test mail. */
export function createTrial({ call, refresh }: Live): void {
  const form = byId<HTMLFormElement>('trial');
  const steps = byId('trial-steps');
  const step = (words: string, mood = '') =>
    steps.append(html('li', { class: mood }, `${exactTime(new Date().toISOString())}: ${words}`));
  /** Each test has a number: a new one ends the report on the one before. */
  let latest = 0;

  async function follow(to: string): Promise<void> {
    const test = ++latest;
    steps.replaceChildren();
    const body = [
      {
        type: 1,
        destination: to,
        subject: 'Test from Fieldpost',
        plain: 'This is a test mail. Somebody has asked for it on the status page of this device.',
      },
    ];
    const accepted = (await call('POST', PATH, { body })).body[0];
    step(`accepted as ${accepted.id}`);
    refresh();
    for (let told = ''; test === latest; ) {
      const { body: message } = await call('GET', `${PATH}/${accepted.id}?wait=${WAIT_S}`, {
        withinMs: ANSWER_MS,
      });
      const words = `${message.status}${message.lastReply ? `: ${message.lastReply}` : ''}`;
      if (words !== told) step(words, message.status === 'sent' ? 'good' : 'uneasy');
      told = words;
      refresh();
      if (message.final) return;
    }
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      await follow(String(new FormData(form).get('to')));
    } catch (error) {
      step(wordsOf(error), 'bad');
    }
  });
}
