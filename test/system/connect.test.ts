/** Which addresses are tried, when, and which of them wins; on fake sockets and a clock that stands still. */
import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as netConnect, Socket } from 'node:net';
import t from 'tap';
import { ADDRESS_STAGGER_MS, createConnect } from '../../src/base/system/connect.js';
import { FakeClock } from '../support/clock.js';

const at = (address: string): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 });

/** A host with these addresses. Nothing connects or fails before the test says so. */
function hostAt(...addresses: string[]) {
  const clock = new FakeClock();
  const sockets = new Map<string, Socket>();
  const opened: string[] = [];
  const connect = createConnect({
    clock,
    lookup: async () => addresses.map(at),
    open(address) {
      const socket = new Socket();
      opened.push(address);
      sockets.set(address, socket);
      return socket;
    },
  });
  const control = new AbortController();
  const go = () =>
    connect({ host: 'cloud.example', port: 443, signal: control.signal, resolved: () => undefined });
  const fail = (address: string, code: string) =>
    sockets.get(address)?.destroy(Object.assign(new Error(''), { code, address }));
  return {
    clock,
    addresses,
    sockets,
    opened,
    control,
    go,
    fail,
    win: (one: string) => sockets.get(one)?.emit('connect'),
  };
}

t.test('earlier attempts go on when the next starts, and the first that connects wins', async (t) => {
  const host = hostAt('192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4');
  const call = host.go();
  await host.clock.advance(ADDRESS_STAGGER_MS - 1);
  t.same(host.opened, ['192.0.2.1']);
  await host.clock.advance(1);
  t.same(host.opened, ['192.0.2.1', '192.0.2.2']);
  await host.clock.advance(ADDRESS_STAGGER_MS);
  t.equal(host.opened.length, 3);
  t.notOk(host.sockets.get('192.0.2.1')?.destroyed, 'a slow answer of the first still counts');
  host.win('192.0.2.1');
  t.equal(await call, host.sockets.get('192.0.2.1'));
  t.same(
    host.opened.map((address) => host.sockets.get(address)?.destroyed),
    [false, true, true],
    'the others are closed',
  );
  t.equal(host.clock.pending, 0);
});

t.test('an address that fails gives way at once; the errors of all are kept', async (t) => {
  const host = hostAt('192.0.2.1', '192.0.2.2');
  const call = host.go();
  await host.clock.advance(0);
  host.fail('192.0.2.1', 'ECONNREFUSED');
  await host.clock.advance(0);
  t.same(host.opened, ['192.0.2.1', '192.0.2.2']);
  const rejected = t.rejects(call, {
    code: 'ECONNREFUSED',
    errors: [{ code: 'ECONNREFUSED' }, { code: 'EHOSTUNREACH' }],
  });
  host.fail('192.0.2.2', 'EHOSTUNREACH');
  await rejected;
  t.equal(host.clock.pending, 0);
});

t.test('the families take turns, beginning with that of the first address', async (t) => {
  const host = hostAt('2001:db8::1', '2001:db8::2', '2001:db8::3', '192.0.2.1');
  const call = host.go();
  await host.clock.advance(3 * ADDRESS_STAGGER_MS);
  t.same(host.opened, ['2001:db8::1', '192.0.2.1', '2001:db8::2', '2001:db8::3']);
  host.win('192.0.2.1');
  await call;
});

t.test('the address that connected is the first of the next time, while the name still has it', async (t) => {
  const host = hostAt('192.0.2.1', '192.0.2.2', '192.0.2.3');
  const call = host.go();
  await host.clock.advance(2 * ADDRESS_STAGGER_MS);
  host.win('192.0.2.3');
  await call;
  host.opened.length = 0;
  const again = host.go();
  await host.clock.advance(ADDRESS_STAGGER_MS);
  t.same(host.opened, ['192.0.2.3', '192.0.2.1']);
  host.win('192.0.2.3');
  await again;
});

t.test(
  'addresses that connect and then say nothing come last the next time, one after another',
  async (t) => {
    const host = hostAt('192.0.2.1', '192.0.2.2', '192.0.2.3');
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.1']) {
      host.opened.length = 0;
      const call = host.go();
      await host.clock.advance(0);
      t.same(host.opened, [address]);
      host.win(address);
      const socket = await call;
      socket.destroy();
      await new Promise((done) => socket.once('close', done));
    }
  },
);

t.test('an address that the name has no longer is forgotten', async (t) => {
  const host = hostAt('192.0.2.1', '192.0.2.2');
  const call = host.go();
  await host.clock.advance(ADDRESS_STAGGER_MS);
  host.win('192.0.2.2');
  await call;
  host.addresses.splice(0, 2, '192.0.2.8', '192.0.2.9');
  host.opened.length = 0;
  const again = host.go();
  await host.clock.advance(ADDRESS_STAGGER_MS);
  t.same(host.opened, ['192.0.2.8', '192.0.2.9']);
  host.win('192.0.2.9');
  await again;
});

t.test('a connection that is given up leaves nothing behind', async (t) => {
  const host = hostAt('192.0.2.1', '192.0.2.2');
  const call = host.go();
  await host.clock.advance(ADDRESS_STAGGER_MS);
  const rejected = t.rejects(call, { code: 'ABORT_ERR' });
  host.control.abort();
  await rejected;
  t.ok([...host.sockets.values()].every(({ destroyed }) => destroyed));
  t.equal(host.clock.pending, 0);
});

t.test('a connection to itself counts as refused, and frees the port', async (t) => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  // The kernel draws any port for this end; here it draws that of the other end.
  const open = (host: string, port: number) =>
    netConnect({ host, port, localAddress: host, localPort: port });
  const connect = createConnect({ clock: new FakeClock(), open });
  const signal = new AbortController().signal;
  await t.rejects(connect({ host: '127.0.0.1', port, signal, resolved: () => undefined }), {
    code: 'ECONNREFUSED',
    message: /connected to itself/,
  });
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  server.close();
});
