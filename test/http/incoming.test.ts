/** Small chunks of a body reach their reader together, whenever it begins to read. */
import { once } from 'node:events';
import { Socket } from 'node:net';
import t from 'tap';
import { IncomingRequest } from '../../src/base/http/body.js';

const OCTETS = 5000;

/** A request with a body in chunks of one octet. Like Node's parser it lets microtasks run after each. */
async function inOctets(): Promise<IncomingRequest> {
  const request = new IncomingRequest(new Socket());
  for (let n = 0; n < OCTETS; n++) {
    request.push(Buffer.from('x'));
    await null;
  }
  return request;
}

async function chunksOf(request: IncomingRequest): Promise<number[]> {
  const lengths: number[] = [];
  request.on('data', ({ length }: Buffer) => lengths.push(length));
  request.push(null);
  await once(request, 'end');
  return lengths;
}

t.test('octets that come before anybody reads are one chunk', async (t) => {
  const request = await inOctets();
  t.equal(request.readableLength, 0, 'Node keeps no Buffer for each');
  t.same(await chunksOf(request), [OCTETS]);
});

t.test('octets that come while the reader pauses are one chunk', async (t) => {
  const request = new IncomingRequest(new Socket());
  const lengths: number[] = [];
  request.on('data', ({ length }: Buffer) => {
    lengths.push(length);
    request.pause();
  });
  request.push(Buffer.from('first'));
  await once(request, 'pause');
  for (let n = 0; n < OCTETS; n++) {
    request.push(Buffer.from('x'));
    await null;
  }
  request.resume();
  await once(request, 'pause');
  t.same(lengths, ['first'.length, OCTETS]);
});

t.test('a body that ends before anybody reads is whole', async (t) => {
  const request = await inOctets();
  request.push(Buffer.alloc(2000));
  t.same(await chunksOf(request), [OCTETS, 2000]);
});
