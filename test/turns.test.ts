/** Pieces of work that wait for each other. */
import t from 'tap';
import { inLanes, Turns } from '../src/base/turns.js';
import { settled } from './support/clock.js';

/** Work that ends when it is told to, and says in `log` when it begins. */
function start() {
  const turns = new Turns();
  const log: string[] = [];
  const hand = (name: string) => {
    let resolve: (result: string) => void = () => {};
    let reject: (error: Error) => void = () => {};
    const ended = new Promise<string>((...settle) => {
      [resolve, reject] = settle;
    });
    const done = turns.do(() => {
      log.push(name);
      return ended;
    });
    return { resolve, reject, done };
  };
  return { turns, log, hand };
}

t.test('one piece of work at a time, in order', async (t) => {
  const { log, hand } = start();
  const first = hand('first');
  const second = hand('second');
  t.strictSame(log, [], 'none begins within the call');
  await Promise.resolve();
  t.strictSame(log, ['first'], 'the second waits');
  first.resolve('first result');
  // Later work waits behind the second, which waits already.
  t.equal(await first.done, 'first result');
  const third = hand('third');
  second.resolve('second result');
  t.equal(await second.done, 'second result');
  third.resolve('third result');
  t.equal(await third.done, 'third result');
  t.strictSame(log, ['first', 'second', 'third']);
});

t.test('a failure is its own caller’s, and stops no later work', async (t) => {
  const { turns, hand } = start();
  const failing = hand('failing');
  const throwing = turns.do(() => {
    throw new Error('thrown');
  });
  const later = hand('later');
  failing.reject(new Error('rejected'));
  later.resolve('result');
  await t.rejects(failing.done, { message: 'rejected' });
  await t.rejects(throwing, { message: 'thrown' });
  t.equal(await later.done, 'result');
});

t.test('turns are free when all work has ended', async (t) => {
  const { turns, hand } = start();
  t.ok(turns.isFree);
  await turns.idle();
  const first = hand('first');
  t.notOk(turns.isFree, 'from the call on');
  const second = hand('second');
  first.reject(new Error('rejected'));
  await first.done.catch(() => t.notOk(turns.isFree, 'another waits'));
  let isIdle = false;
  const idle = turns.idle().then(() => {
    isIdle = true;
  });
  second.resolve('');
  await second.done;
  t.ok(turns.isFree, 'before the caller goes on');
  await idle;
  t.ok(isIdle);
});

t.test('idle waits also for what is handed over meanwhile', async (t) => {
  const { turns, log, hand } = start();
  const first = hand('first');
  const idle = turns.idle().then(() => log.push('idle'));
  const second = hand('second');
  first.resolve('');
  await first.done;
  second.resolve('');
  await idle;
  t.strictSame(log, ['first', 'second', 'idle']);
});

t.test('each item once, in order, and not more at a time than there are lanes', async (t) => {
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const work = inLanes(2, [1, 2, 3, 4, 5], (item) => {
    begun.push(item);
    return new Promise((resolve) => void ends.push(resolve));
  });
  t.strictSame(begun, [1, 2]);
  for (let done = 1; done <= 5; done++) {
    ends[done - 1]?.();
    await settled();
    t.strictSame(begun, [1, 2, 3, 4, 5].slice(0, done + 2));
  }
  await work;
});

t.test('what is added meanwhile is done, too', async (t) => {
  const items = new Set(['a']);
  const done: string[] = [];
  await inLanes(3, items, async (item) => {
    done.push(item);
    if (item === 'a') items.add('b');
  });
  t.strictSame(done, ['a', 'b']);
});

t.test('rejects with what an item rejects with', async (t) => {
  await t.rejects(
    inLanes(2, [1, 2, 3], async (item) => {
      if (item === 2) throw new Error('two');
    }),
    { message: 'two' },
  );
});
