import { writeFileSync } from 'node:fs';
import t from 'tap';
import { lookAtNetwork } from '../../src/base/system/network-watch.js';

const HEAD = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n';
const ROUTE = 'eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n';
const ROUTE6 =
  '00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n';

t.test('every change of routes and addresses counts; counters do not', async (t) => {
  const directory = t.testdir({
    net: { route: HEAD, ipv6_route: '', fib_trie: 'Main:\n', if_inet6: '' },
    links: { eth0: { operstate: 'down\n' }, lo: { operstate: 'unknown\n' } },
  });
  const look = () => lookAtNetwork({ net: `${directory}/net`, links: `${directory}/links` });
  const isNew = async (path: string, text: string) => {
    const before = await look();
    writeFileSync(`${directory}/${path}`, text);
    return (await look()) !== before;
  };
  t.ok(await isNew('links/eth0/operstate', 'up\n'), 'a carrier');
  t.ok(await isNew('net/route', `${HEAD}${ROUTE}`), 'a default route');
  t.ok(await isNew('net/route', `${HEAD}${ROUTE.replace('eth0', 'wwan0')}`), 'over another link');
  t.ok(await isNew('net/fib_trie', 'Main:\n |-- 192.168.0.7\n'), 'an address');
  t.ok(await isNew('net/if_inet6', 'fe80 02 40 20 80 eth0\n'), 'an IPv6 address');
  t.ok(await isNew('net/ipv6_route', ROUTE6), 'an IPv6 route');
  t.notOk(
    await isNew('net/ipv6_route', ROUTE6.replace('00000001 00000000 0', '00000009 0000abcd 0')),
    'its counters',
  );
  t.notOk(
    await isNew('net/route', `${HEAD}${ROUTE.replace('eth0', 'wwan0').replace('0003\t0\t0', '0003\t7\t9')}`),
  );
});

t.test('a look at this device, and at one without the files of the kernel', async (t) => {
  t.equal(await lookAtNetwork(), await lookAtNetwork());
  t.equal((await lookAtNetwork({ net: '/nowhere', links: '/nowhere' })).trim(), '');
});
