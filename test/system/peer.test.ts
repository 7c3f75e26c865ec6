import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { endianness } from 'node:os';
import t from 'tap';
import { ownerIn, peerUid } from '../../src/system/peer.js';

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
`;
  const ends = { remoteAddress: '127.0.0.1', remotePort: 50000, localPort: 43770 };
  t.equal(ownerIn(table, ends), 1000);
  t.equal(ownerIn(table, { ...ends, remotePort: 50001 }), null);
  t.equal(ownerIn(table, { ...ends, remoteAddress: '192.0.2.1' }), null);
  t.equal(ownerIn(table, { ...ends, remoteAddress: 'fe80::1' }), null, 'another device');
});
