/** Versions of the format: the store of version 0.1.0 is read whole, and a newer one is kept for its version. */
import { Buffer } from 'node:buffer';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { crc32, hex8 } from '../../src/base/crc.js';
import { type Disk, systemDisk } from '../../src/base/system/disk.js';
import { type Attachment, isUnderstood } from '../../src/mail/message/message.js';
import { FORMAT } from '../../src/mail/store/format.js';
import { storedKey } from '../../src/mail/store/keys.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo, messagesOf, whole } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import { type Bench, bookOf, openOn, statusesOf } from '../support/store.js';

// Made by version 0.1.0 and killed: on hold, three messages and a cancelled one, a file, two destinations and two keys.
// The second segment holds what happened behind the snapshot. The zeros behind the records are left out.
const FIXTURE = 'test/store/fixtures/format-1.0';
// The same snapshot, written by format 2.0. The journal of that time did not name its format.
const NEWER_SNAPSHOT = 'test/store/fixtures/format-2.0/store.json';
const TEXTS: Readonly<Record<string, string>> = {
  anna: 'Woda!',
  john: 'Water!',
  eve: 'See the file.',
  max: 'The last one.',
};

const openAt = (directory: string, disk: Disk = systemDisk()): Promise<Bench> =>
  openOn(disk as FaultyDisk, 1, { directory });

function copyOfFixture(t: Test, format: '1.0' | '2.0' = '1.0'): string {
  const directory = t.testdir();
  cpSync(FIXTURE, directory, { recursive: true });
  if (format === '2.0') cpSync(NEWER_SNAPSHOT, join(directory, 'store.json'));
  return directory;
}

/** Rewrites the snapshot, and gives what it was made into. */
function changeSnapshot(directory: string, change: (text: string) => string): string {
  const path = join(directory, 'store.json');
  const summed = change(readFileSync(path, 'utf8')).slice('{"crc":"xxxxxxxx",'.length);
  const text = `{"crc":"${hex8(crc32(Buffer.from(summed)))}",${summed}`;
  writeFileSync(path, text);
  return text;
}

/** Rewrites the lines of a segment, and gives what it was made into. */
function changeSegment(directory: string, segment: number, change: (payload: string) => string): string {
  const path = join(directory, `journal/0000000${segment}.log`);
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const text = lines
    .map((line) => change(line.slice(9)))
    .map((payload) => `${hex8(crc32(Buffer.from(payload), segment))} ${payload}\n`)
    .join('');
  writeFileSync(path, text);
  return text;
}

const versionOf = (major: number, minor: number) => `"format":{"major":${major},"minor":${minor}}`;
const snapshotOf = (version: string) => (text: string) => text.replace('"state":{', `"state":{${version},`);
const segmentOf = (version: string) => (payload: string) =>
  payload.replace('{"store"', `{${version},"store"`);

async function textsOf(store: Store): Promise<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, message] of messagesOf(store)) {
    if (message.place === null || !isUnderstood(message)) continue;
    const content = await store.content(message);
    texts[name] = 'plain' in content ? content.plain : 'message' in content ? content.message : '';
  }
  return texts;
}

for (const format of ['1.0', '2.0'] as const)
  t.test(`a store of format ${format} is read whole`, (t) => isReadWhole(t, copyOfFixture(t, format)));

async function isReadWhole(t: Test, directory: string): Promise<void> {
  for (const start of ['first start', 'after a stop']) {
    const bench = await openAt(directory);
    const { store } = bench;
    const waiting = { anna: 'queued', john: 'queued', eve: 'queued', max: 'queued' };
    t.same(statusesOf(store), { ...waiting, nobody: 'cancelled' }, start);
    t.same(await textsOf(store), TEXTS);
    const [file] = messagesOf(store).get('eve')?.attachments ?? [];
    t.match(file, { name: 'log.txt', type: 'text/plain', size: 10 });
    t.equal(String(await whole(store.openAttachment(file as Attachment))), 'level 3 m\n');
    t.equal(store.recall('first')?.ids.length, 2);
    t.equal(store.recall('second')?.ids.length, 1);
    // That version did not know which caller it was. A repeat finds its first try.
    for (const [key, count] of Object.entries({ first: 2, second: 1 }))
      t.equal(store.recall(storedKey(key, true))?.ids.length, count, `${key} of one who may only send`);
    t.equal(store.held, true);
    t.match(bookOf(store).list(), [
      { id: 1, destination: 'john@example.com' },
      { id: 2, destination: '+4915112345678' },
    ]);
    t.equal(store.storage().damaged, 0);
    t.notMatch(bench.lines.join('\n'), /newer|damaged/);
    await store.close();
  }
  const now = `"format":${JSON.stringify(FORMAT)},`;
  t.ok(readFileSync(join(directory, 'store.json'), 'utf8').includes(`"state":{${now}`));
  const heads = readdirSync(join(directory, 'journal')).map((name) =>
    readFileSync(join(directory, 'journal', name), 'utf8').split('\n', 1),
  );
  t.ok(heads.join('\n').includes(` {${now}"store"`));
}

t.test('a segment of a newer major version is put aside, and nothing is sent by itself', async (t) => {
  const directory = copyOfFixture(t);
  const text = changeSegment(directory, 2, (payload) =>
    segmentOf(versionOf(FORMAT.major + 1, 0))(payload).replace('"events":[', '"happenings":['),
  );
  const bench = await openAt(directory);
  t.equal(readFileSync(join(directory, 'journal/00000002.log.newer'), 'utf8'), text);
  const failed = { anna: 'failed', john: 'failed', nobody: 'cancelled' };
  t.same(statusesOf(bench.store), failed);
  const [message] = bench.store.list({ status: 'failed', limit: 1, after: null }).messages;
  t.equal(message?.lastReply, 'outcome unknown: a newer version has used the store since');
  t.match(bench.lines.join('\n'), /put aside name=00000002.log as=00000002.log.newer/);
  t.match(bench.lines.join('\n'), /newer store put aside heldBack=2/);
  t.notMatch(bench.lines.join('\n'), /store damaged/);
  t.equal(bench.store.storage().damaged, 1);
  await bench.store.accept([draftTo('new')], null);
  // Killed.
  const again = await openAt(directory);
  const isNew = { ...failed, new: 'queued' };
  t.match(statusesOf(again.store), isNew, 'what came later is trusted');
  t.notMatch(again.lines.join('\n'), /newer store put aside/, 'said once');
  t.equal(again.store.storage().damaged, 1, 'and counted while it is there');
  t.same(again.store.storage().newer, ['00000002.log.newer'], 'by its name');
  await again.store.close();
  const third = await openAt(directory);
  t.match(statusesOf(third.store), isNew);
  await third.store.close();
  t.equal(readFileSync(join(directory, 'journal/00000002.log.newer'), 'utf8'), text);
  t.equal(readdirSync(join(directory, 'spool')).length, 1, 'its attachment too');
});

t.test('a snapshot and journal of a newer major version', async (t) => {
  const directory = copyOfFixture(t);
  const text = changeSnapshot(directory, snapshotOf(versionOf(FORMAT.major + 1, 0)));
  changeSegment(directory, 1, segmentOf(versionOf(FORMAT.major + 1, 0)));
  changeSegment(directory, 2, segmentOf(versionOf(FORMAT.major + 1, 0)));
  const bench = await openAt(directory);
  t.same(statusesOf(bench.store), {});
  t.equal(bench.store.storeId, JSON.parse(readFileSync(`${FIXTURE}/store.json`, 'utf8')).state.storeId);
  t.equal(bench.store.storage().damaged, 3);
  await bench.store.accept([draftTo('new')], null);
  await bench.store.close();
  const again = await openAt(directory);
  t.same(statusesOf(again.store), { new: 'queued' });
  await again.store.close();
  t.equal(readFileSync(join(directory, 'store.json.newer'), 'utf8'), text);
  t.same(readdirSync(join(directory, 'spool')).length, 1);
});

/** A disk that fails after so many changes. */
function killedAfter(changes: number): Disk {
  let left = changes;
  const disk = systemDisk();
  const CHANGING = new Set(['rename', 'remove', 'open', 'syncDirectory', 'makeDirectory']);
  return new Proxy(disk, {
    get(target, name) {
      const method = Reflect.get(target, name);
      if (typeof method !== 'function') return method;
      return async (...given: unknown[]) => {
        if (CHANGING.has(String(name)) && left-- <= 0) throw new Error('killed');
        return await method.apply(target, given);
      };
    },
  });
}

t.test('whenever the first start is killed, the next holds the same messages back', async (t) => {
  for (const what of ['segment', 'snapshot']) {
    let changes = 0;
    for (let isDone = false; !isDone && changes < 100; changes++) {
      const directory = copyOfFixture(t);
      cpSync(join(directory, 'store.json'), join(directory, 'store.json.1'));
      if (what === 'segment') changeSegment(directory, 2, segmentOf(versionOf(FORMAT.major + 1, 0)));
      else changeSnapshot(directory, snapshotOf(versionOf(FORMAT.major + 1, 0)));
      const lines = await openAt(directory, killedAfter(changes)).then(
        ({ lines }) => lines.join('\n'),
        () => 'killed',
      );
      isDone = !/killed/.test(lines);
      const bench = await openAt(directory);
      const queued = bench.store.counts().queued;
      if (queued > 0) t.fail(`${what}: ${queued} may be sent again after ${changes} changes`);
      const kept = what === 'segment' ? 'journal/00000002.log.newer' : 'store.json.newer';
      if (!existsSync(join(directory, kept))) t.fail(`${what}: nothing is kept after ${changes} changes`);
      await bench.store.close();
    }
    t.ok(changes > 5 && changes < 100, `${what}: ${changes} changes`);
  }
});

t.test('additions of a newer minor version are kept and written back', async (t) => {
  const directory = copyOfFixture(t, '2.0');
  const newer = versionOf(FORMAT.major, 99);
  changeSnapshot(directory, (text) =>
    text
      .replace(versionOf(2, 0), newer)
      .replace('"counter":', '"moods":["calm"],"counter":')
      .replace('"keys":[{', '"keys":[{"tenant":3,')
      .replace(
        '"book":{"nextId":2,"entries":[[1,{',
        '"book":{"colour":"blue","nextId":2,"entries":[[1,{"rank":4,',
      )
      .replace('"kinds":[', '"kinds":[{"type":9,"status":"queued","boot":"45c164ab"},')
      .replace(/(\["\w+"),(\d)/g, (_, id, kind) => `${id},${Number(kind) + 1}`)
      .replace(/(anna@example.com[^\]]*)/, '$1,{"priority":7}')
      .replace('1,"john@example.com"', '0,"john@example.com"'),
  );
  changeSegment(directory, 2, (payload) =>
    segmentOf(newer)(payload)
      .replace('"events":[{"e":"destination"', '"events":[{"e":"mood","mood":"bright"},{"e":"destination"')
      .replace('"destination":"max@example.com"', '"destination":"max@example.com","priority":8')
      .replace('"entry":{"type":2', '"entry":{"rank":5,"type":2'),
  );
  for (const start of ['first start', 'after a stop']) {
    const bench = await openAt(directory);
    t.match(statusesOf(bench.store), { anna: 'queued', john: 'failed', max: 'queued' });
    const { john: _, ...texts } = TEXTS;
    t.match(await textsOf(bench.store), texts, start);
    t.equal(bookOf(bench.store).list().length, 2);
    t.equal(bench.store.storage().damaged, 0);
    t.match(bench.lines.join('\n'), /store of a newer version .*unknownEvents=1/);
    if (start === 'first start') t.match(bench.lines.join('\n'), /format=\d\.99 .*notUnderstood=1/);
    const [message] = bench.store.list({ status: 'failed', limit: 1, after: null }).messages;
    t.equal(message?.lastReply, 'of a newer version: this one does not know such messages');
    await t.rejects(bench.store.retry(message?.id ?? ''), { code: 'conflict' }, 'it would wait for ever');
    await bench.store.accept([draftTo('new')], null);
    await bench.store.close();
    const { state } = JSON.parse(readFileSync(join(directory, 'store.json'), 'utf8'));
    t.same(state.moods, ['calm']);
    t.same(state.unknownEvents, [{ e: 'mood', mood: 'bright' }]);
    t.equal(state.keys[0].tenant, 3);
    t.equal(state.book.colour, 'blue');
    t.same(
      state.book.entries.map(([, { rank }]: [number, { rank: number }]) => rank),
      [4, 5],
    );
    const priorities = state.messages.flat().map(([, , to, , , , , , , , own]: unknown[]) => [to, own]);
    t.match(new Map(priorities), new Map([['anna@example.com', { priority: 7 }]]));
    t.match(
      new Map(priorities),
      new Map([['max@example.com', { priority: 8 }]]),
      'each of its message alone',
    );
    t.notMatch(JSON.stringify(priorities), /john[^[]*priority/);
    t.ok(state.kinds.some(({ type }: { type: number }) => type === 9));
  }
});
