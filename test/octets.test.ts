import t from 'tap';
import { Octets } from '../src/octets.js';

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

t.test('chunks of one octet take no more than twice their octets', (t) => {
  const octets = new Octets();
  for (let i = 0; i < 100_000; i++) octets.push(Buffer.from('x'));
  t.ok(octets.take().buffer.byteLength <= 200_000);
  t.end();
});
