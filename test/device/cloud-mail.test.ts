/** Mails from a device through the reference cloud to a relay: both whole, over real sockets. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import t, { type Test } from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { Environment } from '../../src/base/config/types.js';
import { MIB } from '../../src/base/limits.js';
import { systemClock } from '../../src/base/system/clock.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { openHttps } from '../../src/base/system/https.js';
import { createCloud } from '../../src/cloud/cloud.js';
import { createDaemon } from '../../src/device/daemon.js';
import { apiAt } from '../support/ask.js';
import { until } from '../support/delivery.js';
import { fakeRelay } from '../support/relay.js';
import { serve } from '../support/serve.js';
import { configOf, testSystem } from '../support/system.js';

const directory = mkdtempSync(join(tmpdir(), 'cloud-mail-'));
t.teardown(() => rmSync(directory, { recursive: true }));
const newDirectory = () => mkdtempSync(join(directory, 'state-'));

/** A reference cloud that sends by this relay. */
async function startCloud(t: Test, relay: string, env: Environment = {}, stateDir = newDirectory()) {
  const { system, lines } = testSystem({ disk: systemDisk(), clock: systemClock() });
  const settings = {
    FIELDPOST_STATE_DIR: stateDir,
    FIELDPOST_RELAY: relay,
    FIELDPOST_FROM: 'Operator <cloud@operator.example>',
    FIELDPOST_CLOUD_SERVER_MAILS: '100',
    ...env,
  };
  const cloud = await createCloud(configOf(settings), system);
  t.teardown(() => cloud.stop());
  return { url: `http://${cloud.addresses.map(addressOf).join()}`, lines, stop: () => cloud.stop() };
}

/** A device with the cloud as its relay. */
async function startDevice(t: Test, cloud: string, env: Environment = {}) {
  const { system, lines } = testSystem({ disk: systemDisk(), clock: systemClock(), openHttps });
  const settings = {
    FIELDPOST_STATE_DIR: newDirectory(),
    FIELDPOST_RELAY: 'cloud',
    FIELDPOST_FROM: 'Pump 3 <pump-3@customer.example>',
    FIELDPOST_CLOUD: cloud,
    FIELDPOST_DEVICE_ID: 'pump-3',
    FIELDPOST_CLOUD_KEY: 'right',
    FIELDPOST_BACKOFF_MIN: '100ms',
    ...env,
  };
  const daemon = await createDaemon(configOf(settings), system);
  t.teardown(() => daemon.stop());
  const at = daemon.addresses.map(addressOf).join();
  const api = apiAt(at);
  return {
    ...{ at, lines, api, daemon },
    state: async () => (await api('state')).json,
    said: (words: RegExp) => until(() => lines.some((line) => words.test(line))),
    async post(body: object) {
      const { json } = await api('messages', [body]);
      return json[0].id as string;
    },
  };
}

const MAIL = { type: 1, destination: 'ewa@example.com', subject: 'Zażółć gęślą jaźń', plain: 'Ciśnienie.\n' };

t.test('a mail in Polish goes through the cloud, from the operator to the person', async (t) => {
  await using relay = await fakeRelay();
  const cloud = await startCloud(t, relay.url);
  const device = await startDevice(t, cloud.url);
  const id = await device.post(MAIL);
  await until(() => relay.mails.length === 1);
  await device.said(new RegExp(`sent id=${id} relay=cloud`));
  const [mail] = relay.mails;
  t.match(mail, { from: 'cloud@operator.example', to: ['ewa@example.com'] });
  const read = await PostalMime.parse(mail?.content as Buffer);
  t.match(read, {
    subject: MAIL.subject,
    text: MAIL.plain,
    from: { name: 'Pump 3', address: 'cloud@operator.example' },
  });
  t.match(read.replyTo, [{ address: 'pump-3@customer.example' }]);
  const { relay: state } = await device.state();
  t.match(state, { state: 'ok', name: 'cloud', reason: null });
  t.match(device.daemon.status(), /relay ok, cloud /);
});

t.test('a mail with 5 MiB of files arrives as it was, over several slices', async (t) => {
  await using relay = await fakeRelay();
  const cloud = await startCloud(t, relay.url);
  const device = await startDevice(t, cloud.url);
  const files = [randomBytes(3 * MIB), randomBytes(2 * MIB)];
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...MAIL, type: '1' })) form.set(name, String(value));
  for (const [n, file] of files.entries()) form.append('file', new Blob([new Uint8Array(file)]), `f${n}.bin`);
  const posted = await fetch(`http://${device.at}/api/internal/messages`, { method: 'POST', body: form });
  t.equal(posted.status, 202, await posted.text());
  await until(() => relay.mails.length === 1);
  const { attachments } = await PostalMime.parse(relay.mails[0]?.content as Buffer);
  t.equal(attachments.length, 2);
  for (const [n, file] of files.entries())
    t.ok(file.equals(Buffer.from(attachments[n]?.content as ArrayBuffer)), `file ${n}`);
});

t.test('a mail whose answers are lost, while the cloud starts anew, is sent once', async (t) => {
  await using relay = await fakeRelay();
  const stateDir = newDirectory();
  let cloud = await startCloud(t, relay.url, {}, stateDir);
  let lost = 0;
  let to = cloud.url;
  await using way = await serve((req, res) => {
    const { method, url, headers } = req;
    const onward = request(`${to}${url}`, { method, headers }, (answer) => {
      if (url?.includes('/mails') && ++lost <= 2) {
        answer.resume();
        req.socket.resetAndDestroy();
      } else answer.pipe(res.writeHead(answer.statusCode ?? 0, answer.headers));
    });
    onward.on('error', () => res.destroy());
    req.pipe(onward);
  });
  const device = await startDevice(t, way.url, { FIELDPOST_RETRY_MIN: '1s' });
  const id = await device.post(MAIL);
  await until(() => lost >= 1);
  await cloud.stop();
  cloud = await startCloud(t, relay.url, {}, stateDir);
  to = cloud.url;
  await device.said(new RegExp(`sent id=${id} relay=cloud`));
  t.ok(lost >= 3, `${lost} answers`);
  t.equal(relay.mails.length, 1);
});

t.test('a cloud that takes no mails: they wait, and the reason says so everywhere', async (t) => {
  await using relay = await fakeRelay();
  await using spare = await fakeRelay();
  const cloud = await startCloud(t, relay.url, { FIELDPOST_CLOUD_SERVER_MAILS: '' });
  const device = await startDevice(t, cloud.url);
  const id = await device.post(MAIL);
  await device.said(/relay refusing relay=cloud/);
  const reason = /cloud: the cloud does not do this \(501: This cloud takes no mails of devices/;
  const { relay: state, queue } = await device.state();
  t.match(state, { state: 'refusing', reason, name: 'cloud' });
  t.match(queue, { queued: 1, failed: 0 });
  t.match(device.daemon.status(), /1 queued, relay refusing \(cloud: /);
  t.match((await device.api(`messages/${id}`)).json, { status: 'queued' });
  const { json } = await device.api('relay/trial', undefined, 'POST');
  t.match(json.relays, [{ relay: 'cloud', fault: { blame: 'settings', words: /501/ } }]);
  const metrics = await fetch(`http://${device.at}/metrics`);
  t.match(await metrics.text(), /fieldpost_relay.*refusing/s);
  const both = await startDevice(t, cloud.url, { FIELDPOST_RELAY: `cloud,${spare.url}` });
  await both.post(MAIL);
  await until(() => spare.mails.length === 1);
  t.equal(relay.mails.length, 0);
});

t.test('a trial of the cloud tells whether it takes mails, and sends none', async (t) => {
  await using relay = await fakeRelay();
  const cloud = await startCloud(t, relay.url);
  const device = await startDevice(t, cloud.url);
  const { json } = await device.api('relay/trial', undefined, 'POST');
  t.match(json.relays, [{ relay: 'cloud', fault: null, steps: [{ words: 'the cloud takes mails' }] }]);
  t.equal(relay.mails.length, 0, 'a trial sends nothing');
});
