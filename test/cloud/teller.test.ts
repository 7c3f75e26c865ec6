/** The teller over a store that refuses some messages: who is told when, and what is kept of it. */
import t from 'tap';
import { FieldpostError } from '../../src/base/errors.js';
import { HOUR_MS } from '../../src/base/limits.js';
import { People, peopleOf } from '../../src/cloud/document.js';
import type { DeviceNews } from '../../src/cloud/fleet-store.js';
import type { ToldNews } from '../../src/cloud/outages.js';
import { Teller } from '../../src/cloud/telling.js';
import { FakeClock } from '../support/clock.js';
import { JAN } from '../support/reference-cloud.js';
import { openQuietly } from '../support/store.js';
import { keptLog } from '../support/system.js';

/** Each device has these people, by their types. `refuses` says which texts the outbox refuses now. */
async function bench(people: readonly [type: number, destination: string][], takesShort = true) {
  const { store } = await openQuietly(new FakeClock());
  const destinations = people.map(([type, destination], n) => ({
    ...{ ...JAN, lang: 'en', type, destination },
    uid: `${JAN.uid.slice(0, -1)}${n}`,
  }));
  const counts = new People();
  const offered: string[] = [];
  const texts: string[] = [];
  const recorded: ToldNews[] = [];
  const { log, lines } = keptLog();
  const state = { refuses: (_to: string) => false, isFull: false, reads: 0 };
  const teller = new Teller({
    store: {
      async accept(draft, keyed) {
        const { destination } = draft;
        offered.push(`${destination} ${'subject' in draft.content ? draft.content.subject : ''}`.trim());
        if ('plain' in draft.content) texts.push(draft.content.plain);
        if (state.refuses(String(destination))) throw new FieldpostError('queue-full', 'no room');
        return await store.accept([draft], keyed);
      },
      recall: (key) => store.recall(key),
      mayTakeMore: () => !state.isFull,
    },
    documents: {
      async read(id) {
        state.reads++;
        counts.set(id, peopleOf({ destinations }));
        return { document: { destinations }, text: '', etag: '' };
      },
    },
    outages: { record: async (all) => void recorded.push(...all) },
    ...{ people: counts, texts: { timeZone: 'UTC', publicUrl: null }, takesMail: true, takesShort, log },
  });
  const toldOf = (id: string) =>
    recorded.filter(({ news }) => news.id === id).flatMap(({ told }) => told.map((one) => one.destination));
  return { teller, state, offered, texts, lines, toldOf, close: () => store.close() };
}

const silent = (device: string, sinceMs = 0): DeviceNews => ({
  id: `silent ${device}`,
  device,
  kind: 'silent',
  sinceMs,
});
const back = (device: string): DeviceNews => ({
  ...{ id: `back ${device}`, device, kind: 'back' },
  ...{ sinceMs: 0, lastedMs: 1 },
});

t.test('the news of one device are told in order: one that is refused holds back the next', async (t) => {
  const { teller, state, offered, close } = await bench([[1, 'jan@example.com']]);
  state.refuses = () => true;
  const batch = { id: 'b', news: [silent('p'), back('p')] };
  t.match(await teller.tell(batch, false), { told: new Set(), refusal: { code: 'queue-full' } });
  t.strictSame(offered.splice(0), ['jan@example.com p is offline']);
  state.refuses = () => false;
  t.same((await teller.tell(batch, false)).told, new Set(['silent p', 'back p']));
  t.strictSame(offered, ['jan@example.com p is offline', 'jan@example.com p is back online']);
  await close();
});

t.test('a full outbox is not offered a whole fleet', async (t) => {
  // Of each device it is another person.
  const { teller, state, offered, close } = await bench([[4, 'OWNER']]);
  Object.assign(state, { refuses: () => true, isFull: true });
  const news = Array.from({ length: 1000 }, (_, n) => silent(`p${n}`));
  for (const isClosed of [false, true]) {
    const { told, refusal } = await teller.tell({ id: 'b', news }, isClosed);
    t.match(refusal, { code: 'queue-full' });
    t.equal(told.size, 0);
    t.ok(offered.splice(0).length < 200);
    if (!isClosed) t.ok(state.reads < 200, `${state.reads} documents were read`);
  }
  Object.assign(state, { refuses: () => false, isFull: false });
  t.equal((await teller.tell({ id: 'b', news }, true)).told.size, 1000);
  t.equal(offered.length, 1000, 'no digest');
  await close();
});

t.test(
  'while SMS are refused, mails are told; who was told is kept once, by open and closed batches',
  async (t) => {
    for (const isClosed of [false, true]) {
      const { teller, state, lines, toldOf, close } = await bench([
        [2, '+31612345678'],
        [1, 'jan@example.com'],
      ]);
      state.refuses = (to) => to.startsWith('+');
      const batch = { id: 'b', news: [silent('p')] };
      t.match(await teller.tell(batch, isClosed), { told: new Set(), refusal: { code: 'queue-full' } });
      state.refuses = () => false;
      t.match(await teller.tell(batch, isClosed), { told: new Set(['silent p']), refusal: null });
      t.strictSame(toldOf('silent p').sort(), ['+31612345678', 'jan@example.com'], `${isClosed}`);
      const ids = [...lines.join('').matchAll(/ ids=(\S+)/g)].flatMap(([, of]) => of?.split(',') ?? []);
      t.equal(ids.length, 2);
      await close();
    }
  },
);

t.test('destinations without a way are counted once, while the batch is open', async (t) => {
  const { teller, state, lines, close } = await bench(
    [
      [1, 'jan@example.com'],
      [2, '+31612345678'],
    ],
    false,
  );
  const news = Array.from({ length: 21 }, (_, n) => silent(`p${n}`));
  await teller.tell({ id: 'b', news: news.slice(0, 1) }, false);
  await teller.tell({ id: 'b', news }, false);
  t.equal(state.reads, 21, 'each is looked at once');
  await teller.tell({ id: 'b', news }, true);
  t.equal(lines.join('').match(/unreachable=1/g)?.length, 21);
  await close();
});

t.test('a digest has the moment of its first news, and is logged once; its SMS stops no mail', async (t) => {
  const { teller, state, texts, offered, lines, close } = await bench([
    [2, '+31612345678'],
    [1, 'jan@example.com'],
    [4, 'OWNER'],
  ]);
  state.refuses = (to) => to.startsWith('+');
  const news = [9, 3, 11, 4, 5, 6, ...Array(100).keys()].map((hour, n) =>
    silent(`p${n}`, (hour + 3) * HOUR_MS),
  );
  t.match(await teller.tell({ id: 'b', news }, true), { refusal: { code: 'queue-full' } });
  t.equal(offered.length, 1 + 1 + news.length);
  t.match(texts.join('\n'), 'Since: 1 January 1970, 03:00 (UTC)');
  const [jan = ''] = lines.filter((line) => line.includes('devices='));
  const [, id = 'none'] = / ids=(\S+)/.exec(jan) ?? [];
  t.equal(lines.filter((line) => line.includes(id)).length, 1);
  await close();
});
