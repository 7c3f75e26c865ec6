import t from 'tap';
import { found, type InboxLine, nameIn, Unopened } from '../../src/pages/inbox/find.js';

const line = (id: string, from: string, to: string, subject: string): InboxLine => ({
  ...{ id, type: 1, from, to, subject },
  at: null,
  bytes: 1,
  hasFiles: false,
});

t.test('inbox: a search finds each of its words, in any case and any place', async (t) => {
  const lines = [
    line('3', 'Pump <pump@example.com>', 'jan@example.com', 'Leak'),
    line('2', 'pump@example.com', 'ewa@example.com', 'Żółty alarm'),
    line('1', 'a@x', 'b@x', '(.*'),
  ];
  const ids = (words: string) => found(lines, words).map(({ id }) => id);
  t.same(ids(''), ['3', '2', '1']);
  t.same(ids('  '), ['3', '2', '1']);
  t.same(ids('PUMP'), ['3', '2']);
  t.same(ids('alarm  pump'), ['2']);
  t.same(ids('żółty'), ['2']);
  t.same(ids('(.*'), ['1'], 'words are no pattern');
  t.same(ids('jan ewa'), []);
  const mixed = [...lines, { ...line('s1', '', '+316', 'Leak'), type: 2 }];
  const ofKind = (words: string, kind: number) => found(mixed, words, kind).map(({ id }) => id);
  t.same(ofKind('', 2), ['s1'], 'of one kind');
  t.same(ofKind('leak', 1), ['3']);
  t.same(ofKind('', 4), []);
  t.same(ofKind('leak', 0), ['3', 's1'], 'of any kind');
});

t.test('inbox: new is what came while the page was open, until it is opened or deleted', async (t) => {
  const unopened = new Unopened();
  unopened.update(['1', '2']);
  t.equal(unopened.count, 0, 'what was there before is not new');
  unopened.update(['1', '2', '3', '4', '5']);
  unopened.update(['1', '2', '3', '4', '5']);
  t.equal(unopened.count, 3);
  unopened.opened('3');
  unopened.opened('1');
  unopened.update(['1', '3', '4']);
  t.same(
    ['1', '2', '3', '4', '5'].map((id) => unopened.has(id)),
    [false, false, false, true, false],
  );
  t.equal(unopened.count, 1);
});

t.test('inbox: the name of a sender, or else the address', async (t) => {
  for (const [header, name] of [
    ['Pump 3 <pump@example.com>', 'Pump 3'],
    ['"Pump, 3" <pump@example.com>', 'Pump, 3'],
    ['<pump@example.com>', 'pump@example.com'],
    ['pump@example.com', 'pump@example.com'],
    ['', ''],
    ['<', '<'],
    ['a <b', 'a <b'],
  ] as const) {
    t.equal(nameIn(header), name, header);
  }
});
