/**
 * The program of the status page (GET / of the local API): reads state, messages and address book again and again, and
 * hands them to the parts of the page.
 */
import { type DaemonState, headline, stateLines } from '../../base/state-lines.js';
import { span } from '../../base/text.js';
import { byId, html, say, sayHeadline, show } from '../dom.js';
import { keepFresh } from '../live.js';
import { clockTime } from '../words.js';
import { createBook } from './book.js';
import { createHistory } from './history.js';
import { createLink } from './link.js';
import { createMessages } from './messages.js';
import { createQueue } from './queue.js';
import { createQuiet } from './quiet.js';
import { createRelayTrial, createTestMail } from './trial.js';

/** Which lines of the state stand in which part of the page. */
const LINES: Readonly<Record<string, readonly string[]>> = {
  'quiet-lines': ['quiet'],
  'link-lines': ['relay', 'cloud'],
  'queue-lines': ['queue'],
  'book-lines': ['address book'],
  'storage-lines': ['programs', 'storage', 'clock', 'settings'],
};

function main(): void {
  /** The state that the stream has told since the last read. */
  let told: DaemonState | null = null;
  // Before the page is read again: what was told to nobody is old.
  document.addEventListener('visibilitychange', () => {
    told = null;
  });
  const live = keepFresh('the daemon', read, {
    keepsToken: 'fieldpost-token',
    events: {
      path: '/api/internal/events',
      heard({ event, data }) {
        if (event === 'state') told = JSON.parse(data);
      },
    },
  });
  const [messages, book, queue] = [createMessages(live), createBook(live), createQueue(live)];
  const [link, history, quiet] = [createLink(), createHistory(live), createQuiet(live)];
  const showDevice = createDevice();
  createRelayTrial(live);
  createTestMail(live);

  async function read(): Promise<void> {
    // Alone: a wrong token is refused once.
    const state: DaemonState = told ?? (await live.call('GET', '/api/internal/state')).body;
    told = null;
    const [page, entries, isNewHistory] = await Promise.all([
      messages.read(state.queue),
      book.read(),
      history.read(),
    ]);
    const nowMs = Date.now();
    const name = state.device?.hostname ?? 'Fieldpost';
    showDevice(state);
    sayHeadline(name, ...(headline(state, (iso) => clockTime(iso, nowMs)) ?? (['good', ''] as const)));
    showLines(state, nowMs);
    quiet.show(state);
    link.show(state.link, nowMs);
    queue.show(state.queue);
    messages.show(page, state.queue);
    book.show(entries);
    if (isNewHistory) history.draw();
  }
}

function showLines(state: DaemonState, nowMs: number): void {
  // A line without a topic belongs to the topic before it.
  let topic = '';
  const lines = stateLines(state, (iso) => clockTime(iso, nowMs), true).map(([of, mood, words]) => {
    topic = of || topic;
    return { topic, of, mood, words };
  });
  for (const [id, topics] of Object.entries(LINES)) {
    const own = lines.filter((one) => topics.includes(one.topic));
    // The heading of a part with one topic says it.
    const isAlone = topics.length === 1;
    show(byId(id), own, () =>
      own.flatMap(({ of, mood, words }) => [
        ...(of === '' || isAlone ? [] : [html('dt', {}, of)]),
        html(isAlone ? 'p' : 'dd', { class: mood }, words),
      ]),
    );
  }
}

/** Shows which device this is, its version, and a hint when the daemon was upgraded under the page. */
function createDevice() {
  let first: string | undefined;
  return ({ device, version, uptimeMs }: DaemonState) => {
    first ??= version;
    const id = device?.id ? `device ${device.id}, ` : '';
    const words = `${id}Fieldpost ${version ?? ''}, up ${span(uptimeMs ?? 0)}`;
    say('device', device?.hostname ?? 'Fieldpost');
    byId('version').textContent = first === version ? words : `${words}. It was upgraded: reload this page.`;
  };
}

main();
