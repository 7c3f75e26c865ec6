/**
 * The program of the status page (GET / of the local API): reads state, messages and address book again and again, and
 * hands them to the parts of the page.
 */
import { type DaemonState, headline, stateLines } from '../../base/state-lines.js';
import { span } from '../../base/text.js';
import { byId, html, sayHeadline, show } from '../dom.js';
import { keepFresh } from '../live.js';
import { clockTime } from '../words.js';
import { createBook } from './book.js';
import { createLink } from './link.js';
import { createMessages, createTrial } from './messages.js';
import { createQueue } from './queue.js';

/** Which lines of the state stand in which part of the page. */
const LINES: Readonly<Record<string, readonly string[]>> = {
  'link-lines': ['relay', 'cloud'],
  'queue-lines': ['queue'],
  'book-lines': ['address book'],
  'storage-lines': ['storage', 'clock', 'settings'],
};

function main(): void {
  const live = keepFresh('the daemon', read);
  const [messages, book, queue] = [createMessages(live), createBook(live), createQueue(live)];
  const link = createLink();
  const showVersion = createVersion();
  createTrial(live);

  async function read(): Promise<void> {
    // Alone: a wrong token is refused once.
    const state: DaemonState = (await live.call('GET', '/api/internal/state')).body;
    const [page, entries] = await Promise.all([messages.read(), book.read()]);
    const nowMs = Date.now();
    showVersion(state);
    sayHeadline('Fieldpost', ...(headline(state, (iso) => clockTime(iso, nowMs)) ?? (['good', ''] as const)));
    showLines(state, nowMs);
    link.show(state.link, nowMs);
    queue.show(state.queue, nowMs);
    messages.show(page);
    book.show(entries);
  }
}

function showLines(state: DaemonState, nowMs: number): void {
  // A line without a topic belongs to the topic before it.
  let topic = '';
  const lines = stateLines(state, (iso) => clockTime(iso, nowMs)).map(([of, mood, words]) => {
    topic = of || topic;
    return { topic, of, mood, words };
  });
  for (const [id, topics] of Object.entries(LINES)) {
    const own = lines.filter((one) => topics.includes(one.topic));
    show(byId(id), own, () =>
      own.flatMap(({ of, mood, words }) => [
        ...(of === '' ? [] : [html('dt', {}, of)]),
        html('dd', { class: mood }, words),
      ]),
    );
  }
}

/** Shows the version, and a hint when the daemon was upgraded under the page. */
function createVersion() {
  let first: string | undefined;
  return ({ version, uptimeMs }: DaemonState) => {
    first ??= version;
    const words = `${version ?? ''}, up ${span(uptimeMs ?? 0)}`;
    byId('version').textContent = first === version ? words : `${words}. It was upgraded: reload this page.`;
  };
}

main();
