/** The commands say the headline, row by row. */
import t from 'tap';
import { HEADLINES, spoken } from '../support/headlines.js';
import { preparedDaemon } from './terminal.js';

const TIME = '2026-11-20 14:\\d\\d:00 UTC';

t.test('fieldpost status and fieldpost queue say each row', async (t) => {
  const body = { messages: [], next: null };
  const lists = ['sending', 'queued', 'deferred'].map((status) => [
    `GET /api/internal/messages?status=${status}&limit=1000`,
    { status: 200, body },
  ]);
  for (const [state, mood, words] of HEADLINES) {
    const answers = Object.fromEntries(lists);
    answers['GET /api/internal/state'] = { status: 200, body: { ...state, version: '1', uptimeMs: 0 } };
    await using daemon = await preparedDaemon(answers);
    const said = spoken(words, TIME);
    const { out } = await daemon.run(['status']);
    t.match(out.split('\n')[0]?.replace('Fieldpost 1, up 0 s: ', ''), said);
    const queue = (await daemon.run(['queue'])).out.split('\n');
    const [line = ''] = queue.slice(1);
    if (mood === 'good') t.same(queue, ['The queue is empty.', ''], words);
    else t.match(line.replace('; fieldpost queue release ends that', ''), said);
  }
});
