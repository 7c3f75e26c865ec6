import t from 'tap';
import type { FieldpostError } from '../../src/base/errors.js';
import { LANGS } from '../../src/base/langs.js';
import { faultsOf, isEntry, parseFields, targetOf, uidOf } from '../../src/mail/book/destination.js';

const JOHN = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const UID = '3f2c8a10-5b1e-4c7d-9a4b-0123456789ab';

/** The pointers of all faults; none if the body is good. */
function pointersOf(body: unknown, id: number | null = null): string[] {
  try {
    parseFields(body, id);
    return [];
  } catch (error) {
    const { code, faults } = error as FieldpostError;
    return code === 'invalid' ? faults.map(({ pointer }) => pointer) : [code];
  }
}

t.test('a destination is accepted, and each fault of another value is named', async (t) => {
  const good: Record<string, unknown>[] = [
    {},
    { type: 2, destination: '+4915112345678' },
    { type: 3, destination: '+1' },
    { type: 3, destination: '+123456789012345' },
    { type: 4, destination: 'OWNER' },
    { type: 4, destination: 'A_1' },
    { type: 4, destination: 'john@example.com' },
    { destination: 'żółw@żółw.example' },
    { name: 'x'.repeat(200) },
    { name: '🐢'.repeat(200) },
    ...LANGS.map((lang) => ({ lang })),
  ];
  for (const change of good) t.same(pointersOf({ ...JOHN, ...change }), [], JSON.stringify(change));
  t.equal(LANGS.length, 7);

  const bad: [change: Record<string, unknown>, pointers: string[]][] = [
    [{ type: 0 }, ['/type']],
    [{ type: 5 }, ['/type']],
    [{ type: '1' }, ['/type']],
    [{ type: 1.5 }, ['/type']],
    [{ type: undefined, destination: 5 }, ['/type', '/destination']],
    [{ destination: 'nobody' }, ['/destination']],
    [{ destination: 'a@b.example, c@d.example' }, ['/destination']],
    [{ destination: null }, ['/destination']],
    [{ destination: '' }, ['/destination']],
    [{ destination: 'OWNER' }, ['/destination']],
    [{ type: 2 }, ['/destination']],
    [{ type: 2, destination: '+0123' }, ['/destination']],
    [{ type: 2, destination: '4915112345678' }, ['/destination']],
    [{ type: 3, destination: '+1234567890123456' }, ['/destination']],
    [{ type: 3, destination: '+49 151 1234' }, ['/destination']],
    [{ type: 4, destination: 'owner' }, ['/destination']],
    [{ type: 4, destination: '+4915112345678' }, ['/destination']],
    [{ lang: 'sv' }, ['/lang']],
    [{ lang: 'EN' }, ['/lang']],
    [{ lang: undefined }, ['/lang']],
    [{ lang: ['en'] }, ['/lang']],
    [{ name: '' }, ['/name']],
    [{ name: 5 }, ['/name']],
    [{ name: 'x'.repeat(201) }, ['/name']],
    [{ name: 'John\nBcc: x' }, ['/name']],
    [{ name: '\ud800' }, ['/name']],
    [{ type: 7, destination: {}, lang: 'xx', name: null }, ['/type', '/destination', '/lang', '/name']],
  ];
  for (const [change, pointers] of bad) {
    t.same(pointersOf({ ...JOHN, ...change }), pointers, JSON.stringify(change));
  }
  t.same(pointersOf({}), ['/type', '/destination', '/lang', '/name'], 'all four are required');
  for (const body of [null, [], [JOHN], 'x', 5, true]) {
    t.same(pointersOf(body), ['malformed-request'], JSON.stringify(body));
  }
});

t.test('the id of a body, and members that are not known', async (t) => {
  t.same(parseFields({ ...JOHN, id: 7 }, 7), { fields: JOHN, ignored: [] });
  t.same(parseFields({ ...JOHN, id: null }, 7), { fields: JOHN, ignored: [] }, 'null counts as absent');
  t.same(pointersOf({ ...JOHN, id: 8 }, 7), ['/id']);
  t.same(pointersOf({ ...JOHN, id: '7', name: '' }, 7), ['/id', '/name']);
  t.same(parseFields({ id: 9, uid: UID, ...JOHN, room: 'B2' }, null).ignored, ['id', 'uid', 'room']);
  const { fields } = parseFields(JSON.parse(`{"__proto__":{"x":1},${JSON.stringify(JOHN).slice(1)}`), null);
  t.equal((fields as { x?: unknown }).x, undefined);
});

t.test('the rules of a body', async (t) => {
  const rules = { after_min: 60, hours: 'Mo-Fr 07:00-18:00', zone: 'UTC', night: 'drop', weekly: true };
  t.same(parseFields({ ...JOHN, ...rules }, null), { fields: { ...JOHN, ...rules }, ignored: [] });
  t.same(parseFields(JOHN, 7).fields, JOHN, 'one that is left out is not made up');
  const none = { after_min: null, hours: null, zone: null, night: null, weekly: null };
  t.same(parseFields({ ...JOHN, ...none }, 7).fields, { ...JOHN, ...none }, 'null is kept: it removes one');
  const bad = { name: '', weekly: 1, after_min: 'x', hours: '', zone: 'x', night: 'x' };
  t.same(pointersOf({ ...JOHN, ...bad }), ['/name', '/after_min', '/hours', '/zone', '/night', '/weekly']);
  const answered = { confirmedAt: '2026-11-20T09:41:00.000Z', plan: 'told at once' };
  t.same(parseFields({ ...JOHN, id: 7, ...answered }, 7), { fields: JOHN, ignored: [] }, 'of an answer');
  t.same(parseFields({ ...JOHN, ...answered }, null), { fields: JOHN, ignored: ['confirmedAt', 'plan'] });
  t.ok(isEntry({ uid: UID, ...JOHN, ...bad, name: 'x' }), 'a faulty rule silences nobody');
});

t.test('the entries of a document', async (t) => {
  t.ok(isEntry({ uid: UID, ...JOHN, room: 'B2' }));
  t.ok(isEntry({ uid: UID.toUpperCase(), ...JOHN }));
  for (const value of [
    JOHN,
    { uid: 'john', ...JOHN },
    { uid: 5, ...JOHN },
    { uid: UID, ...JOHN, lang: 'sv' },
    null,
    [],
    'x',
  ]) {
    t.notOk(isEntry(value), JSON.stringify(value));
  }
  t.equal(uidOf({ uid: UID, type: 9 }), UID, 'also of one that is not shown');
  t.same(faultsOf({ ...JOHN, uid: 5 }), [], 'only the required fields are looked at');
});

t.test('which entries are the same', async (t) => {
  const target = (type: 1 | 2 | 3 | 4, destination: string) => targetOf({ type, destination });
  t.equal(target(1, 'john@Example.COM'), target(1, 'john@example.com'));
  t.not(target(1, 'John@example.com'), target(1, 'john@example.com'), 'the local part is the host’s affair');
  t.not(target(2, '+491'), target(3, '+491'));
  t.equal(target(4, 'a@EXAMPLE.com'), target(4, 'a@example.com'));
  t.not(target(1, 'a@example.com'), target(4, 'a@example.com'));
  t.not(target(4, 'OWNER'), target(4, 'OWNERS'));
});
