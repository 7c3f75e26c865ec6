/**
 * The merge against the table at mergeOne(), over every combination of what base, local, remote and a lost PUT can say
 * of one entry; then what concerns more than one.
 */
import t from 'tap';
import { alterations, type Merged, merge, type Sides, sameDocument } from '../../src/device/book/merge.js';
import type { Entry } from '../../src/mail/book/destination.js';

type Value = Readonly<Record<string, unknown>> | undefined;

const uid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const BEFORE: Entry = {
  uid: uid(1),
  type: 1,
  destination: 'john@example.com',
  lang: 'en',
  name: 'John',
  hours: 'Mo-Fr 07:00-18:00',
  room: 'B2',
};
const NAMES = ['type', 'destination', 'lang', 'name', 'hours', 'after_min', 'room', 'extra'];
const without = ({ room: _, ...rest }: Entry): Entry => rest;

/** What a side may have made of BEFORE. Each member is changed to another value on each side, but for `alike`. */
function statesOf(side: string): Record<string, Value> {
  return {
    absent: undefined,
    unchanged: BEFORE,
    name: { ...BEFORE, name: `John of ${side}` },
    lang: { ...BEFORE, lang: side === 'local' ? 'nl' : 'fr' },
    both: { ...BEFORE, name: `John of ${side}`, lang: side === 'local' ? 'nl' : 'fr' },
    destination: { ...BEFORE, destination: `${side}@example.com` },
    rules: { ...BEFORE, hours: side === 'local' ? 'Sa-Su' : '22:00-06:00', after_min: 60 },
    unknown: { ...BEFORE, room: `${side} 5` },
    'unknown gone': without(BEFORE),
    'unknown new': { ...BEFORE, extra: { [side]: [1, null] } },
    alike: { ...BEFORE, name: 'Johnny', lang: 'pl' },
  };
}

function run(sides: Partial<Sides>): Merged {
  return merge({
    trust: 'full',
    base: [],
    given: sides.base ?? [],
    attempted: [],
    local: [],
    hidden: [],
    remote: [],
    ...sides,
  });
}

/** The one entry that a merge of one entry gives. */
function mergeOne(base: Value, local: Value, remote: Value, attempted: readonly Value[] = []): Value {
  const { document } = run({
    base: listOf(base),
    attempted: attempted.map(listOf),
    local: listOf(local) as Entry[],
    remote: listOf(remote),
  });
  t.ok(document.length <= 1);
  return document[0] as Value;
}

function listOf(value: Value): Value[] {
  return value === undefined ? [] : [value];
}

const isSame = (a: Value, b: Value) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
const sorted = (value: Value) => value && Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));

type Change = 'unchanged' | 'edited' | 'deleted' | 'absent on both';

interface Row {
  readonly name: string;
  matches(local: Change, remote: Change): boolean;
  result(base: Value, local: Value, remote: Value): Value;
}

const TABLE: readonly Row[] = [
  {
    name: 'local unchanged: remote’s',
    matches: (local) => local === 'unchanged' || local === 'absent on both',
    result: (_, __, remote) => remote,
  },
  {
    name: 'remote unchanged: local’s',
    matches: (local, remote) =>
      (local === 'edited' || local === 'deleted') && (remote === 'unchanged' || remote === 'absent on both'),
    result: (_, local) => local,
  },
  {
    name: 'both edited: field by field, local’s where both',
    matches: (local, remote) => local === 'edited' && remote === 'edited',
    result: (base, local, remote) => {
      const of = (value: Value, name: string) => value?.[name];
      const alike = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
      const members = NAMES.map((name) => {
        const [was, ours, theirs] = [of(base, name), of(local, name), of(remote, name)];
        // Created on both sides: nothing is known to be deleted, so a member of one side stays.
        if (base === undefined) return [name, ours ?? theirs];
        return [name, alike(ours, was) ? theirs : ours];
      });
      return Object.fromEntries([['uid', BEFORE.uid], ...members.filter(([, value]) => value !== undefined)]);
    },
  },
  {
    name: 'deleted and edited: the edit',
    matches: (local, remote) =>
      (local === 'deleted' && remote === 'edited') || (local === 'edited' && remote === 'deleted'),
    result: (_, local, remote) => local ?? remote,
  },
  {
    name: 'both deleted: gone',
    matches: (local, remote) => local === 'deleted' && remote === 'deleted',
    result: () => undefined,
  },
];

function changeOf(base: Value, side: Value): Change {
  if (base === undefined && side === undefined) return 'absent on both';
  if (side === undefined) return 'deleted';
  return isSame(base, side) ? 'unchanged' : 'edited';
}

function expected(base: Value, local: Value, remote: Value): { rows: Row[]; value: Value } {
  const [here, there] = [changeOf(base, local), changeOf(base, remote)];
  const rows = TABLE.filter((row) => row.matches(here, there));
  return { rows, value: rows[0]?.result(base, local, remote) };
}

t.test('every combination finds one row of the table, and is merged as it says', async (t) => {
  let count = 0;
  const wrong: string[] = [];
  for (const [baseName, base] of Object.entries({ present: BEFORE, absent: undefined })) {
    for (const [localName, local] of Object.entries(statesOf('local'))) {
      for (const [remoteName, remote] of Object.entries(statesOf('remote'))) {
        // Nothing was put; it arrived; something else was put.
        const others = [undefined, { ...BEFORE, lang: 'es' }];
        for (const attempted of [[], [remote], [local], [undefined], ...others.map((it) => [it, remote])]) {
          const arrived = attempted.some((put) => isSame(put, remote));
          // What this device has made, only its own PUT can have brought there.
          const made = remote && attempted.findLast((put) => put !== undefined);
          const before = arrived ? remote : (base ?? made);
          const { rows, value } = expected(before, local, remote);
          const found = mergeOne(base, local, remote, attempted);
          count++;
          if (rows.length !== 1 || !isSame(found, value)) {
            wrong.push(
              `base ${baseName}, local ${localName}, remote ${remoteName}: ${rows.map(({ name }) => name)}`,
            );
          }
        }
      }
    }
  }
  t.same(wrong, []);
  t.equal(count, 2 * 11 * 11 * 6);
});

t.test('every combination, from a document that is believed only in part', async (t) => {
  const both = TABLE.find(({ name }) => name.startsWith('both edited')) as Row;
  const wrong: string[] = [];
  for (const [localName, local] of Object.entries(statesOf('local'))) {
    for (const [remoteName, remote] of Object.entries(statesOf('remote'))) {
      const sides = { base: [BEFORE], local: listOf(local) as Entry[], remote: listOf(remote) };
      const three = expected(BEFORE, local, remote).value;
      const edits = run({ ...sides, trust: 'edits' }).document[0] as Value;
      // What is missing there was not deleted there.
      if (!isSame(edits, remote === undefined ? local : three))
        wrong.push(`edits: ${localName}, ${remoteName}`);
      const none = run({ ...sides, trust: 'none' }).document[0] as Value;
      // And of a field that both have ours counts; what was deleted here stays deleted.
      const joined =
        local && remote ? both.result(undefined, local, remote) : remote === undefined ? local : three;
      if (!isSame(none, joined)) wrong.push(`none: ${localName}, ${remoteName}`);
    }
  }
  t.same(wrong, []);
});

t.test('every combination, from a cloud that has changed what it was given', async (t) => {
  const kept = { ...BEFORE, name: 'JOHN', added: 1 };
  const mangled = (value: Value, side: Value = value): Value =>
    value && {
      ...value,
      ...(value.name === side?.name && value.name === BEFORE.name && { name: 'JOHN' }),
      added: 1,
    };
  const wrong: string[] = [];
  for (const [localName, local] of Object.entries(statesOf('local'))) {
    for (const [remoteName, plain] of Object.entries(statesOf('remote'))) {
      const remote = mangled(plain);
      const found = run({
        base: [kept],
        given: [BEFORE],
        local: listOf(local) as Entry[],
        remote: listOf(remote),
      }).document[0] as Value;
      const { value } = expected(BEFORE, local, plain);
      // As if the cloud had kept it; what it has added is its own.
      const right = value && remote ? { ...value, ...(local !== undefined && { added: 1 }) } : value;
      const isDeleted = local === undefined;
      if (!isDeleted && !isSame(found, right))
        wrong.push(`${localName}, ${remoteName}: ${JSON.stringify(found)}`);
    }
  }
  t.same(wrong, []);
  const gone = run({ base: [], given: [BEFORE], local: [BEFORE], remote: [] });
  t.same(gone.document, [BEFORE], 'who was dropped by the cloud is not dropped here');
  t.same(run({ base: [], given: [BEFORE], local: [], remote: [] }).document, [], 'and may be deleted here');
});

t.test('the differences between what a cloud stores and what it was sent', async (t) => {
  const given = [BEFORE, here(2), here(3), 'strange', 'stranger', { uid: uid(4), x: 1 }];
  const kept = [
    { ...BEFORE, name: 'JOHN', room: 'C4', added: 1 },
    without(here(2)),
    'strange',
    { uid: uid(4), x: 1 },
  ];
  t.same(
    [...alterations(given, kept)],
    [
      [uid(1), ['name']],
      [uid(2), ['room']],
      [uid(3), ['gone']],
      ['"stranger"', ['gone']],
    ],
  );
  t.equal(alterations(given, given).size, 0);
});

t.test('a type and a destination that do not go together', async (t) => {
  const base = { ...BEFORE, type: 4 as const };
  const merged = mergeOne(
    base,
    { ...base, type: 1, lang: 'nl' },
    { ...base, destination: 'OWNER', name: 'X' },
  );
  t.same(merged, { ...base, type: 1, lang: 'nl', name: 'X' }, 'are local’s, both');
});

const here = (n: number, change: object = {}): Entry => ({ ...BEFORE, uid: uid(n), ...change });

t.test('two entries with one destination become one', async (t) => {
  const change = { name: 'Ours', destination: 'john@EXAMPLE.com', mark: 1 };
  const united = run({
    base: [],
    local: [here(1, change)],
    remote: [here(2, { name: 'Theirs', room: 'C3', own: 2 })],
  });
  t.same(united.document, [here(2, { ...change, own: 2 })], 'remote’s uid, local’s fields');
  t.same([...united.heirs], [[uid(2), uid(1)]], 'and the id of the local one');

  const [one, two] = [here(1), here(2, { destination: 'jane@example.com' })];
  const movedTwo = { ...two, destination: one.destination };
  const collided = run({ base: [one, two], local: [{ ...one, name: 'Ours' }, two], remote: [one, movedTwo] });
  t.same(collided.document, [{ ...one, name: 'Ours' }], 'of two that are shown, the one edited here');
  t.same([...collided.heirs], []);
  const other = run({
    base: [one, two],
    local: [
      { ...one, destination: 'jane@example.com' },
      { ...two, name: 'Two' },
    ],
    remote: [one, two],
  });
  t.same(other.document.length, 1);

  const late = run({ base: [two], local: [two, here(3, { name: 'New' })], remote: [movedTwo] });
  t.same(late.document, [{ ...movedTwo, name: 'New' }]);
  t.same([...late.heirs], [], 'what is shown keeps its own id');

  const twins = run({ remote: [here(5), here(6, { name: 'Twin' })] });
  t.same(twins.document, [here(5)], 'two of the cloud’s own: the first');
  const apart = run({ local: [here(1)], remote: [here(2, { type: 4 })] });
  t.equal(apart.document.length, 2, 'an email and a push message are two things');
});

t.test('entries that cannot be shown are kept', async (t) => {
  const strange = [
    null,
    'x',
    5,
    [],
    {},
    { uid: 'x', type: 1 },
    here(8, { lang: 'sv' }),
    { ...here(9), type: 7 },
  ];
  const first = run({ remote: [...strange, here(1)] });
  t.same(first.document, [...strange, here(1)]);
  t.same(first.shown, [here(1)]);
  t.same(first.hidden, strange);
  const later = run({
    base: first.document,
    local: [here(1, { name: 'Ours' })],
    hidden: strange,
    remote: first.document,
  });
  t.same(later.hidden, strange, 'it is not taken for deleted because it is not shown');
  t.same(
    run({ local: [here(1)], hidden: strange, remote: [] }).document,
    [here(1), ...strange],
    'a cloud that has forgotten all gets it back',
  );
  t.same(
    run({ base: first.document, local: [here(1)], hidden: strange, remote: [here(1)] }).document,
    [here(1)],
    'the cloud may delete it',
  );
  const cured = run({
    base: [here(8, { lang: 'sv' })],
    hidden: [here(8, { lang: 'sv' })],
    remote: [here(8)],
  });
  t.same([cured.shown, cured.hidden], [[here(8)], []]);
  const twice = run({ remote: [here(1), here(1, { name: 'Again' })] });
  t.same([twice.shown, twice.hidden], [[here(1)], [here(1, { name: 'Again' })]], 'one uid, one entry');
  t.same(
    run({ base: twice.document, local: twice.shown, hidden: twice.hidden, remote: twice.document }).document,
    twice.document,
  );
});

t.test('a member called __proto__ is a member', async (t) => {
  const odd = JSON.parse(`{"__proto__":{"x":1},${JSON.stringify(BEFORE).slice(1)}`);
  const merged = mergeOne(odd, { ...odd, name: 'Ours' }, { ...odd, lang: 'nl' });
  t.same(JSON.stringify(merged), JSON.stringify({ ...odd, name: 'Ours', lang: 'nl' }));
});

t.test('documents with the same meaning are the same', async (t) => {
  const turned = {
    name: 'John',
    hours: BEFORE.hours,
    room: 'B2',
    lang: 'en',
    destination: 'john@example.com',
    type: 1,
    uid: uid(1),
  };
  t.ok(sameDocument([BEFORE, here(2)], [here(2), turned]), 'order says nothing');
  t.notOk(sameDocument([BEFORE], [BEFORE, here(2)]));
  t.notOk(sameDocument([BEFORE, here(2)], [BEFORE]));
  t.notOk(sameDocument([BEFORE], [{ ...BEFORE, room: 'B3' }]));
  t.notOk(sameDocument([{ ...BEFORE, x: [1, 2] }], [{ ...BEFORE, x: [2, 1] }]));
});
