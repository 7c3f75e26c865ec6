/**
 * The link over a real network with faults: the daemon in a network namespace, the cloud outside. It must report the
 * state in the promised time, give the reason in words, and reconnect at once.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { DEVICE, type FakeCloud, fakeCloud, HTML, KEY } from '../support/cloud.js';
import { type Network, openNetwork } from './network.js';
import { type Fieldpost, sharedDirectory, skipWithout, startFieldpost } from './peers.js';

const SECOND_MS = 1000;
// The next heartbeat is at most 5.5 s away, its deadline 15 s; 30 s later the link is offline. The rest is for a busy
// machine.
const OFFLINE_MS = 70 * SECOND_MS;
// The back-off is at most one second here; the rest is for retransmissions of TCP.
const ONLINE_MS = 30 * SECOND_MS;
// Two looks at the network, and the pause for further changes.
const LOOK_MS = 15 * SECOND_MS;

const ca = makeCertificate({ name: 'Test CA' });
const server = makeCertificate({ name: 'cloud', hosts: ['cloud.test'], issuer: ca });

interface World {
  readonly network: Network;
  readonly cloud: FakeCloud;
  /** Starts a daemon whose cloud has this name. */
  start(
    name?: string,
    through?: readonly string[],
    env?: Readonly<Record<string, string>>,
  ): Promise<Fieldpost>;
}

async function world(t: Test): Promise<World> {
  const network = openNetwork(t);
  network.names('cloud.test', 'other.test');
  const cloud = await fakeCloud({ key: server.key, cert: server.cert }, network.address);
  t.teardown(() => cloud[Symbol.asyncDispose]());
  cloud.answer = ({ path }) =>
    path === 'heartbeat' ? { status: 200, body: { serverTime: new Date().toISOString() } } : undefined;
  const directory = sharedDirectory(t);
  writeFileSync(join(directory, 'ca.pem'), ca.cert);
  const port = new URL(cloud.url).port;
  return {
    network,
    cloud,
    start: (name = 'cloud.test', through = [], env = {}) =>
      startFieldpost(
        t,
        {
          FIELDPOST_CLOUD: `https://${name}:${port}`,
          FIELDPOST_DEVICE_ID: DEVICE,
          FIELDPOST_CLOUD_KEY: KEY,
          FIELDPOST_CLOUD_CA_FILE: join(directory, 'ca.pem'),
          FIELDPOST_HEARTBEAT: '5s',
          ...env,
        },
        [...network.through, ...through],
      ),
  };
}

const skip = skipWithout('/usr/sbin/nft', '/usr/bin/faketime');
const timeout = 600 * SECOND_MS;

t.test('the link reports each fault of the network, and recovers', { skip, timeout }, async (t) => {
  const { network, cloud, start } = await world(t);
  const daemon = await start();
  await daemon.said(/link online/, 0, ONLINE_MS);
  const honest = cloud.answer;
  const faults: [name: string, fault: () => void, reason: RegExp][] = [
    ['a black hole', () => network.filter('drop'), /no (?:answer|connection) within 15 s/],
    ['connections reset', () => network.filter('reset'), /refused|lost/],
    ['no route to the host', () => network.filter('unreachable'), /EHOSTUNREACH|within 15 s/],
    ['the cable is out', () => network.cable('down'), /ENETUNREACH|EHOSTUNREACH|within 15 s/],
    [
      'no DNS',
      () => {
        network.names();
        // An open connection needs no name.
        cloud.hangUp();
      },
      /the name cloud\.test cannot be resolved \(E\w+\)/,
    ],
    [
      'a captive portal',
      () => {
        cloud.answer = () => HTML;
      },
      /\(200, text\/html\) is not from the cloud's API: perhaps a login page/,
    ],
  ];
  for (const [name, fault, reason] of faults) {
    const from = daemon.lines.length;
    fault();
    const line = await daemon.said(/link offline/, from, OFFLINE_MS);
    t.match(line, reason, name);
    t.match((await daemon.state()).link, { state: 'offline', reason }, name);
    const back = daemon.lines.length;
    network.heal();
    network.names('cloud.test');
    cloud.answer = honest;
    await daemon.said(/link online/, back, ONLINE_MS);
    t.match((await daemon.state()).link, { state: 'online', reason: null }, `${name}: back`);
  }
});

t.test('the link stays online over a bad network', { skip, timeout }, async (t) => {
  const { network, cloud, start } = await world(t);
  const daemon = await start();
  await daemon.said(/link online/, 0, ONLINE_MS);
  for (const [name, fault] of [
    ['every fifth packet is lost', () => network.filter('loss')],
    ['64 kbit/s', () => network.slow()],
  ] as const) {
    fault();
    cloud.hangUp();
    for (let n = 0; n < 5; n++) await nextCall(cloud);
    t.notOk(
      daemon.lines.find((line) => line.includes('link offline')),
      name,
    );
    network.heal();
  }
});

t.test('an announced network ends the back-off at once', { skip, timeout }, async (t) => {
  const { network, start } = await world(t);
  // The back-off is at least two and a half minutes.
  const daemon = await start(undefined, undefined, {
    FIELDPOST_BACKOFF_MIN: '5m',
    FIELDPOST_BACKOFF_MAX: '5m',
  });
  await daemon.said(/link online/, 0, ONLINE_MS);
  network.filter('reset');
  const from = daemon.lines.length;
  await daemon.said(/link offline/, from, OFFLINE_MS);
  network.heal();
  network.announce();
  await daemon.said(/link online/, from, ONLINE_MS);
});

t.test('a cable that is plugged in unannounced ends the back-off', { skip, timeout }, async (t) => {
  const { network, start } = await world(t);
  const daemon = await start(undefined, undefined, {
    FIELDPOST_BACKOFF_MIN: '5m',
    FIELDPOST_BACKOFF_MAX: '5m',
    FIELDPOST_LOG: 'debug',
  });
  await daemon.said(/link online/, 0, ONLINE_MS);
  const from = daemon.lines.length;
  network.cable('down');
  await daemon.said(/link offline/, from, OFFLINE_MS);
  // Once the daemon notices a new address, it has also looked at the network without its cable.
  for (let n = 1; !daemon.lines.slice(from).some((line) => line.includes('network changed')); n++) {
    network.addAddress(n);
    await daemon.said(/network changed/, from, LOOK_MS).catch(() => undefined);
  }
  network.cable('up');
  await daemon.said(/link online/, from, ONLINE_MS);
});

t.test('a certificate for another name keeps the link offline', { skip, timeout }, async (t) => {
  const { cloud, start } = await world(t);
  const daemon = await start('other.test');
  const line = await daemon.said(/link offline/, 0, OFFLINE_MS);
  t.match(line, /other\.test: .*does not match certificate's altnames/);
  t.equal(cloud.calls.length, 0, 'the cloud received no request');
});

t.test('a device that starts in 1970 says that its clock is wrong', { skip, timeout }, async (t) => {
  const { start } = await world(t);
  const file = join(sharedDirectory(t), 'now');
  writeFileSync(file, '@1970-01-02 00:00:00');
  // The environment of faketime, with the time in a file. The faketime command itself would not pass on signals.
  const preload = execFileSync('/usr/bin/faketime', ['-f', '+0', 'printenv', 'LD_PRELOAD']).toString().trim();
  const settings = [
    'FAKETIME_NO_CACHE=1',
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
    `FAKETIME_TIMESTAMP_FILE=${file}`,
  ];
  const daemon = await start('cloud.test', ['env', `LD_PRELOAD=${preload}`, ...settings]);
  const line = await daemon.said(/link offline/, 0, OFFLINE_MS);
  t.match(line, /certificate is not yet valid, but this device's clock is wrong \(1970-01-02\)/);
  t.match((await daemon.state()).clock, { trusted: false });
  writeFileSync(file, '+0');
  await daemon.said(/link online/, 0, ONLINE_MS);
  t.match((await daemon.state()).clock, { trusted: true });
});

/** Resolves with the next request that reaches the cloud. */
async function nextCall(cloud: FakeCloud): Promise<void> {
  const before = cloud.answer;
  await new Promise<void>((resolve) => {
    cloud.answer = (call) => {
      resolve();
      return before(call);
    };
  });
  cloud.answer = before;
}
