/** A Map that forgets its oldest entries, and octets that come in chunks. */
import t from 'tap';
import { forgetOldest, Octets, Recent } from '../src/base/collections.js';

t.test('octets come out as they came in, however they were cut', (t) => {
  const octets = new Octets();
  t.same(octets.take(), Buffer.alloc(0), 'none');
  for (const size of [1, 2, 7, 64, 1000]) {
    const whole = Buffer.from(Array.from({ length: 1000 }, (_, at) => at % 251));
    for (let at = 0; at < whole.length; at += size) octets.push(whole.subarray(at, at + size));
    t.equal(octets.length, 1000);
    t.same(octets.take(), whole, `in chunks of ${size}`);
    t.equal(octets.length, 0, 'and it begins anew');
  }
  t.end();
});

t.test('what was taken, and what was pushed, is no longer changed', (t) => {
  const octets = new Octets();
  const chunk = Buffer.from('ab');
  octets.push(chunk);
  chunk.fill('x');
  octets.push(Buffer.from('c'));
  const taken = octets.take();
  octets.push(Buffer.from('def'));
  t.equal(taken.toString(), 'abc');
  t.equal(octets.take().toString(), 'def');
  t.end();
});

t.test('of chunks of any sizes, together or apart, no octet is lost', (t) => {
  const octets = new Octets();
  const sizes = [1, 0, 16_384, 3, 20_000, 16_383, 1, 40_000, 5];
  const chunks = sizes.map((size, at) => Buffer.alloc(size, at + 1));
  const whole = Buffer.concat(chunks);
  for (const chunk of chunks) octets.push(chunk);
  t.equal(octets.length, whole.length);
  t.same(octets.take(), whole);
  t.end();
});

t.test('chunks take little more memory than their octets', (t) => {
  const textBytes = 1024 * 1024;
  for (const size of [1, 1000, 20_000, 65_536]) {
    const chunk = Buffer.alloc(size);
    const octets = new Octets();
    const { arrayBuffers: before } = process.memoryUsage();
    // A large chunk is kept as it is, so it counts itself.
    for (let at = 0; at < textBytes; at += size) octets.push(size < 16_384 ? chunk : Buffer.from(chunk));
    const { arrayBuffers: after } = process.memoryUsage();
    const times = (after - before) / octets.length;
    t.ok(times < 1.1, `in chunks of ${size}: ${times.toFixed(2)} times as much`);
  }
  t.end();
});

t.test('the youngest are remembered', async (t) => {
  const recent = new Recent<string, number>(2);
  recent.set('a', 1).set('b', 2).set('c', 3);
  t.same([...recent].flat(), ['b', 2, 'c', 3]);
});

t.test('an entry that is set again is the youngest', async (t) => {
  const recent = new Recent<string, number>(2);
  recent.set('a', 1).set('b', 2).set('a', 3).set('c', 4);
  t.same([...recent].flat(), ['a', 3, 'c', 4]);
});

t.test('a list that begins with too many entries forgets the first', async (t) => {
  const recent = new Recent(2, Object.entries({ a: 1, b: 2, c: 3 }));
  t.same([...recent.keys()], ['b', 'c']);
});

t.test('a list of size 0 remembers nothing', async (t) => {
  t.equal(new Recent<string, number>(0).set('a', 1).size, 0);
});

t.test('the oldest keys are forgotten while keys take too much', async (t) => {
  const weights = new Map(Object.entries({ a: 5, b: 1, c: 3 }));
  const total = () => [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  const forgotten: string[] = [];
  const forget = (key: string) => {
    forgotten.push(key);
    weights.delete(key);
  };
  forgetOldest(weights.keys(), () => total() > 4, forget);
  t.same(forgotten, ['a']);
  forgetOldest(weights.keys(), () => true, forget);
  t.same(forgotten, ['a', 'b', 'c'], 'all, and no more');
});
