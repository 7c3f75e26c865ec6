import t from 'tap';
import { writtenOf } from '../../src/cloud-server/written.js';

const HEARD = { boot: 'b', bootMs: 5, wallMs: 7, confirmed: true };
const NOW = { state: 'offline', said: 'running', everyMs: 30_000, heard: HEARD, news: [] } as const;

t.test("today's form is read as it is, and the one before as far as it goes", async (t) => {
  t.same(writtenOf(NOW), NOW);
  const before = { state: 'online', stopping: true, heardMs: 1_700_000_000_000, news: [{ kind: 'back' }] };
  t.same(writtenOf(before), {
    state: 'online',
    said: 'stopping',
    everyMs: 0,
    heard: { boot: '', bootMs: 0, wallMs: 1_700_000_000_000, confirmed: false },
    news: [],
  });
});

t.test('a shape that no version has written is none', async (t) => {
  for (const value of [
    null,
    1,
    'x',
    [],
    {},
    { ...NOW, state: 'lost' },
    { ...NOW, news: {} },
    { ...NOW, heard: null },
  ])
    t.equal(writtenOf(value), null, JSON.stringify(value));
});
