import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { endianness } from 'node:os';
import t from 'tap';
import { listenersIn, listenerUids, ownerIn, peerUid } from '../../src/base/system/peer.js';

t.test('the user at the other end of a real connection', async (t) => {
  for (const [listen, call] of [
    ['127.0.0.1', '127.0.0.1'],
    ['::', '127.0.0.1'],
    ['::1', '::1'],
  ] as const) {
    const server = createServer().listen(0, listen);
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, call);
    const [socket] = (await once(server, 'connection')) as [Socket];
    t.equal(await peerUid(socket), process.getuid?.(), `${listen} called as ${call}`);
    client.destroy();
    socket.destroy();
    server.close();
  }
});

t.test('the line of the other end counts, not ours', { skip: endianness() !== 'LE' }, async (t) => {
  // As proc_net_tcp(5) has them: both ends of one connection, port 43770 (AAFA) called from 50000 (C350).
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:AAFA 0100007F:C350 01 00000000:00000000 00:00000000 00000000   990        0 1 1
   1: 0100007F:C350 0100007F:AAFA 01 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 0100007F:C352 0100007F:AAFA 04 00000000:00000000 00:00000000 00000000     0        0 0 1
`;
  const ends = { remoteAddress: '127.0.0.1', remotePort: 50000, localPort: 43770 };
  t.equal(ownerIn(table, ends), 1000);
  t.equal(ownerIn(table, { ...ends, remotePort: 50001 }), null);
  t.equal(
    ownerIn(table, { ...ends, remotePort: 50002 }),
    null,
    'closed by its process, which may be of any user',
  );
  t.equal(ownerIn(table, { ...ends, remoteAddress: '192.0.2.1' }), null);
  t.equal(ownerIn(table, { ...ends, remoteAddress: 'fe80::1' }), null, 'another device');
});

t.test('the users that listen on a port', async (t) => {
  for (const [listen, call] of [
    ['127.0.0.1', '127.0.0.1'],
    ['0.0.0.0', '127.0.0.1'],
    ['::', '127.0.0.1'],
    ['::1', '::1'],
    ['127.0.0.1', 'localhost'],
  ] as const) {
    const server = createServer().listen(0, listen);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    t.same(await listenerUids(call, port), [process.getuid?.()], `${listen} called as ${call}`);
    server.close();
    await once(server, 'close');
    t.same(await listenerUids(call, port), []);
  }
});

t.test('the socket that the kernel would choose counts', { skip: endianness() !== 'LE' }, async (t) => {
  const rows = (...list: [local: string, state: string, uid: number][]) =>
    list.map(([at, state, uid]) => `  0: ${at} 0:0 ${state} 0:0 00:0 0 ${uid} 0 1`).join('\n');
  const loop6 = '00000000000000000000000001000000';
  const [any4, any6] = ['0'.repeat(8), '0'.repeat(32)];
  const v4 = rows(
    ['0100007F:AAFA', '01', 7],
    [`${any4}:AAFA`, '0A', 1],
    ['0100007F:AAFA', '0A', 2],
    ['0200007F:AAFA', '0A', 3],
    ['0100007F:AAFB', '0A', 4],
  );
  const v6 = rows([`${any6}:AAFA`, '0A', 5], [`${loop6}:AAFA`, '0A', 6]);
  t.same(listenersIn(v4, v6, '127.0.0.1', 43770), [2]);
  t.same(listenersIn(v4, v6, '127.0.0.9', 43770), [1], 'the address of all, of IPv4 first');
  t.same(listenersIn('', v6, '127.0.0.1', 43770), [5]);
  t.same(listenersIn(v4, v6, '::1', 43770), [6]);
  t.same(listenersIn(v4, rows([`${any6}:AAFA`, '0A', 5]), '::1', 43770), [5]);
  t.same(listenersIn(v4, v6, 'localhost', 43770), [1, 2, 3, 5, 6], 'a name may be any of them');
  t.same(listenersIn(v4, v6, '127.0.0.1', 1), []);
});
