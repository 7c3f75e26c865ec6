/**
 * The built cloud behind Debian's nginx, HAProxy and Caddy, each with its configuration of build/front as it is, on machines
 * of their own: TLS, the contract, many connections, and three instances that share the devices.
 */
// A process of its own: it needs network namespaces.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import t, { type Test } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { type DaemonProcess, startDaemon } from '../support/daemon.js';
import { openBridge } from './bridge.js';
import { type Machine, openMachine, patiently } from './machines.js';
import { skipWithout, startServer } from './peers.js';

const NAME = 'cloud.example.com';
const OPERATOR = 'the-key-of-the-operator';
const DEVICES = Array.from({ length: 24 }, (_, n) => `pump-${n}`);
const INSTANCES = ['a', 'b', 'c'];
const PATIENCE_MS = 30_000;
/** In the test's network namespace nothing else has them. */
const [CLOUD_PORT, DIRECT_PORT] = [43780, 43781];

/** A front: its configuration, where that belongs, and how Debian's unit starts it, in the foreground. */
interface Front {
  readonly file: string;
  readonly path: string;
  readonly command: readonly [string, ...string[]];
  /** True if it asks the instances how they are. */
  readonly asks: boolean;
  /** True if it repeats a call at another instance; else the device does. */
  readonly repeats: boolean;
}

const FRONTS: Readonly<Record<string, Front>> = {
  nginx: {
    file: 'nginx.conf',
    path: '/etc/nginx/conf.d/fieldpost-cloud.conf',
    command: ['/usr/sbin/nginx', '-g', 'daemon off;'],
    asks: false,
    repeats: true,
  },
  HAProxy: {
    file: 'haproxy.cfg',
    path: '/etc/haproxy/haproxy.cfg',
    command: ['/usr/sbin/haproxy', '-Ws', '-f', '/etc/haproxy/haproxy.cfg'],
    asks: true,
    repeats: true,
  },
  Caddy: {
    file: 'Caddyfile',
    path: '/etc/caddy/Caddyfile',
    command: ['/usr/bin/env', 'HOME=/root', '/usr/bin/caddy', 'run', '--config', '/etc/caddy/Caddyfile'],
    asks: true,
    repeats: false,
  },
};
const options = {
  skip: skipWithout('/usr/bin/nsenter', '/usr/sbin/nginx', '/usr/sbin/haproxy', '/usr/bin/caddy'),
  timeout: 180_000,
};

/** The configuration for a fleet: what its comments say. */
function forFleet(text: string): string {
  const lines = text.split('\n').filter((line) => !line.includes('127.0.0.1:43780'));
  return lines
    .map((line) => (/^\s*# .*cloud-[abc]:43780/.test(line) ? line.replace('# ', '') : line))
    .join('\n');
}

/** A machine with a front on it, and the way to it. */
async function openFront(t: Test, { file, path, command }: Front, change = (text: string) => text) {
  const bridge = openBridge(t);
  const machine = await openMachine(t, bridge.space(10), 'front');
  const ca = makeCertificate({ name: 'Field CA' });
  const { key, cert } = makeCertificate({ name: NAME, hosts: [NAME], issuer: ca });
  machine.write(`/etc/ssl/certs/${NAME}.pem`, cert);
  machine.write(`/etc/ssl/private/${NAME}.key`, key, 0o600);
  machine.write(`/etc/haproxy/${NAME}.pem`, `${cert}${key}`, 0o600);
  const names = INSTANCES.map((name, n) => `127.0.1.${n + 1} cloud-${name}\n`);
  machine.write('/etc/hosts', `127.0.0.1 localhost\n${names.join('')}`);
  machine.write(path, change(readFileSync(`build/front/${file}`, 'utf8')));
  const start = async () => {
    const server = await startServer('/usr/bin/env', [...machine.through, ...command], 443, machine.host);
    t.teardown(() => server.stop());
  };
  const agent = new Agent({ keepAlive: true, ca: ca.cert, servername: NAME });
  t.teardown(() => agent.destroy());
  const call = async (
    method: string,
    path: string,
    { body, headers, own = false, key = OPERATOR }: Call = {},
  ) => {
    const outgoing = request({
      ...{ host: machine.host, port: 443, method, path, ca: ca.cert, servername: NAME },
      headers: {
        Host: NAME,
        Authorization: `Bearer ${key}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      agent: own ? false : agent,
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    outgoing.end(body);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of answer.setEncoding('utf8')) text += chunk;
    return { status: answer.statusCode, headers: answer.headers, text, isReused: outgoing.reusedSocket };
  };
  return { machine, start, call };
}

interface Call {
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** With a connection of its own. */
  readonly own?: boolean;
  readonly key?: string;
}

/** Starts a cloud on this machine of tests. */
async function startCloud(
  t: Test,
  machine: Machine,
  n: number | null,
  more: Readonly<Record<string, string>> = {},
) {
  const { host } = machine;
  const listen =
    n === null ? `127.0.0.1:${CLOUD_PORT}` : `127.0.1.${n + 1}:${CLOUD_PORT},${host}:${DIRECT_PORT + n}`;
  machine.write(
    '/etc/fieldpost-cloud/keys',
    ['*', ...DEVICES].map((name) => `${name} ${OPERATOR}\n`).join(''),
    0o600,
  );
  const env = {
    FIELDPOST_CLOUD_SERVER_LISTEN: listen,
    FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/etc/fieldpost-cloud/keys',
    FIELDPOST_STATE_DIR: `/var/lib/fieldpost-cloud-${n}`,
    ...more,
  };
  const cloud = await startDaemon(env, ['cloud'], machine.through);
  t.teardown(
    () => cloud.child.exitCode === null && cloud.child.signalCode === null && void cloud.end('SIGKILL'),
  );
  return cloud;
}

const BEAT = { body: '{"state":"running"}' };
const DOCUMENT = '/devices/pump-0/destinations';

/** A document of so many bytes. */
function documentOf(bytes: number): string {
  const empty = JSON.stringify({ name: 'Pump', destinations: [], note: '' });
  return empty.replace('"note":"', `"note":"${'x'.repeat(bytes - empty.length)}`);
}

for (const [name, front] of Object.entries(FRONTS)) {
  t.test(`${name} in front of one cloud`, options, async (t) => {
    const { machine, start, call } = await openFront(t, front);
    let cloud = await startCloud(t, machine, null);
    await start();

    const beats = [];
    for (let n = 0; n < 3; n++) beats.push(await call('PUT', '/devices/pump-0/heartbeat', BEAT));
    t.strictSame(
      beats.map(({ status, isReused }) => [status, isReused]),
      [
        [200, false],
        [200, true],
        [200, true],
      ],
      'a device keeps its connection',
    );
    const stranger = await call('PUT', '/devices/pump-0/heartbeat', { ...BEAT, key: 'wrong' });
    t.match(
      [stranger.status, stranger.headers['content-type'], stranger.text],
      [401, 'application/problem+json', /unauthorized/],
    );

    const first = await call('PUT', DOCUMENT, {
      body: documentOf(1 << 20),
      headers: { 'If-None-Match': '*' },
    });
    t.equal(first.status, 204, 'the largest document');
    const { etag = '' } = first.headers;
    t.match(etag, /^"/, 'a strong ETag');
    const got = await call('GET', DOCUMENT, { headers: { 'Accept-Encoding': 'gzip' } });
    t.strictSame([got.status, got.headers.etag, got.text.length], [200, etag, 1 << 20]);
    t.equal((await call('GET', DOCUMENT, { headers: { 'If-None-Match': etag } })).status, 304);
    const body = documentOf(100);
    t.equal((await call('PUT', DOCUMENT, { body, headers: { 'If-Match': etag } })).status, 204);
    t.equal((await call('PUT', DOCUMENT, { body, headers: { 'If-Match': etag } })).status, 412);
    const large = await call('PUT', DOCUMENT, {
      body: documentOf(2 << 20),
      headers: { 'If-None-Match': '*' },
    });
    t.match(
      [large.status, large.headers['content-type']],
      [413, 'application/problem+json'],
      "the cloud's own words",
    );
    for (const path of ['/', '/metrics', '/devices', '/healthz'])
      t.equal((await call('GET', path)).status, 200, path);

    const many = await Promise.all(
      Array.from({ length: 400 }, (_, n) =>
        call('PUT', `/devices/pump-${n % 24}/heartbeat`, { ...BEAT, own: n % 2 === 0 }),
      ),
    );
    t.strictSame(
      [...new Set(many.map(({ status }) => status))],
      [200],
      'more connections than the cloud has places',
    );

    await cloud.end('SIGTERM');
    cloud = await startCloud(t, machine, null, { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '' });
    for (const Host of [NAME, 'localhost', `127.0.0.1:${CLOUD_PORT}`]) {
      for (const headers of [
        { Host },
        { Host, 'X-Forwarded-For': '', Connection: 'close, X-Forwarded-For' },
      ]) {
        const { text } = await call('PUT', '/devices/pump-0/heartbeat', { ...BEAT, headers, own: true });
        if (Host === NAME)
          t.match(text, 'not-local', `without keys nobody is let in as ${JSON.stringify(headers)}`);
        t.notMatch(text, 'heartbeatMs');
      }
    }
  });

  t.test(`${name} in front of three instances`, options, async (t) => {
    const { machine, start, call } = await openFront(t, front, forFleet);
    const clouds: DaemonProcess[] = [];
    for (const n of INSTANCES.keys()) clouds.push(await startCloud(t, machine, n));
    await start();
    const [, , third] = clouds;
    const beat = async (device: string) => (await call('PUT', `/devices/${device}/heartbeat`, BEAT)).status;
    const beatAll = async () => new Set(await Promise.all(DEVICES.map(beat)));
    /** The devices that each instance has heard. */
    const heard = async (n: number) => {
      const headers = { Authorization: `Bearer ${OPERATOR}` };
      const answer = await fetch(`http://${machine.host}:${DIRECT_PORT + n}/devices?state=online`, {
        headers,
      });
      const { devices } = (await answer.json()) as {
        devices: readonly { id: string; destinations: number | null }[];
      };
      return devices;
    };
    const ids = async (n: number) => (await heard(n)).map(({ id }) => id);

    t.strictSame(await beatAll(), new Set([200]));
    for (const device of DEVICES) {
      const path = `/devices/${device}/destinations`;
      const put = await call('PUT', path, {
        body: documentOf(100),
        headers: { 'If-None-Match': '*' },
        own: true,
      });
      t.equal(put.status, 204);
      t.equal(
        (await call('GET', `${path}?x=1`, { own: true })).status,
        200,
        'the document is where it was put',
      );
    }
    t.strictSame(await beatAll(), new Set([200]));
    const before = await Promise.all([...INSTANCES.keys()].map(heard));
    t.strictSame(
      before
        .flat()
        .map(({ id }) => id)
        .sort(),
      [...DEVICES].sort(),
      'one instance hears each device',
    );
    t.ok(
      before.every((devices) => devices.length > 0),
      'each instance hears some',
    );
    t.ok(
      before.flat().every(({ destinations }) => destinations === 0),
      'their documents are there, too',
    );

    await third?.end('SIGKILL');
    const statuses = await Promise.all(DEVICES.map(beat));
    const failed = DEVICES.filter((_, n) => statuses[n] !== 200);
    if (front.repeats) t.strictSame(failed, [], 'another instance takes over at once');
    for (const device of failed)
      t.equal(await beat(device), 200, 'another instance takes over after one retry');
    const after = [...(await ids(0)), ...(await ids(1))];
    t.strictSame(after.sort(), [...DEVICES].sort(), 'one of the others hears each device');
    for (const n of [0, 1]) {
      const stayed = before[n]?.map(({ id }) => id) ?? [];
      t.strictSame(
        (await ids(n)).filter((id) => stayed.includes(id)),
        stayed,
        'no other device has moved',
      );
    }

    // It is not well: its disk has too little room.
    const unwell = await startCloud(t, machine, 2, { FIELDPOST_MIN_FREE: '1024GiB' });
    if (front.asks) {
      await patiently(async () => {
        const count = async () => (await fetchMetrics(machine, 2)).match(/heartbeats_total (\d+)/)?.[1];
        const earlier = await count();
        t.strictSame(await beatAll(), new Set([200]));
        if (earlier !== (await count())) throw new Error('it is used');
      });
    }
    for (const cloud of clouds.slice(0, 2)) await cloud.end('SIGKILL');
    await patiently(async () => {
      const statuses = await beatAll();
      if (statuses.size > 1 || !statuses.has(200)) throw new Error(`answers: ${[...statuses]}`);
    });
    t.equal(unwell.child.exitCode, null, 'an instance that is not well is better than none');
  });
}

async function fetchMetrics({ host }: Machine, n: number): Promise<string> {
  const headers = { Authorization: `Bearer ${OPERATOR}` };
  return (await fetch(`http://${host}:${DIRECT_PORT + n}/metrics`, { headers })).text();
}
