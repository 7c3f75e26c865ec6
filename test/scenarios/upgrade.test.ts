/**
 * The program is one file with its packages in it. It works without other files, and an upgrade that replaces it changes
 * nothing for a running daemon.
 */
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import t from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { MAIN, needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const ca = makeCertificate({ name: 'Test CA' });
const tls = makeCertificate({ name: 'localhost', hosts: ['localhost', '127.0.0.1'], issuer: ca });

t.test('after an upgrade forms, TLS, the link, a reload and all calls work', needsProgram, async (t) => {
  // Outside the tree, where no node_modules is found.
  const directory = mkdtempSync(join(tmpdir(), 'fieldpost-upgrade-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  writeFileSync(join(directory, 'ca.pem'), ca.cert);
  writeFileSync(join(directory, 'key'), 'secret\n');
  const dist = join(directory, 'dist');
  cpSync(dirname(MAIN), dist, { recursive: true });
  await using relay = await fakeRelay({}, { tls });
  const cloud = createServer({ key: tls.key, cert: tls.cert }, (_req, res) => res.writeHead(404).end());
  cloud.listen(0, '127.0.0.1');
  await once(cloud, 'listening');
  const { port: cloudPort } = cloud.address() as AddressInfo;
  // It listens again after the upgrade.
  await new Promise((resolve) => cloud.close(resolve));
  const settings = {
    FIELDPOST_STATE_DIR: join(directory, 'state'),
    FIELDPOST_RELAY_CA_FILE: join(directory, 'ca.pem'),
    FIELDPOST_CLOUD: `https://localhost:${cloudPort}`,
    FIELDPOST_CLOUD_CA_FILE: join(directory, 'ca.pem'),
    FIELDPOST_CLOUD_KEY_FILE: join(directory, 'key'),
    FIELDPOST_DEVICE_ID: 'pump-3',
    FIELDPOST_BACKOFF_MAX: '1s',
    FIELDPOST_LISTEN: '127.0.0.1:0',
  };
  const file = join(directory, 'fieldpost.env');
  const write = (more: Record<string, string>) =>
    writeFileSync(
      file,
      Object.entries({ ...settings, ...more })
        .map(([key, value]) => `${key}=${value}\n`)
        .join(''),
    );
  write({});
  const daemon = await startIn(t, {}, ['run', '--env-file', file], [], join(dist, basename(MAIN)));
  const url = (path: string) => `http://127.0.0.1:${daemon.port}${path}`;

  // The upgrade puts a file without exports in the place of each.
  for (const name of readdirSync(dist)) {
    rmSync(join(dist, name));
    writeFileSync(join(dist, name), 'module.exports = {};');
  }
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'Hello');
  form.set('file', new Blob(['some content']), 'a.txt');
  const posted = await fetch(url('/api/internal/messages'), { method: 'POST', body: form });
  if (!t.equal(posted.status, 202, 'a form')) return;
  for (const path of ['/openapi.json', '/metrics', '/healthz', '/api/internal/state']) {
    t.equal((await fetch(url(path))).status, 200, path);
  }

  write({ FIELDPOST_RELAY: `smtp://localhost:${relay.port}` });
  const asked = relay.arrived(1);
  daemon.child.kill('SIGHUP');
  await asked;
  t.match(relay.mails, [{ to: ['john@example.com'], secure: true }], 'the relay of the reloaded settings');
  t.match(String(relay.mails[0]?.content), Buffer.from('some content').toString('base64'), 'the attachment');

  const beat = once(cloud, 'request');
  cloud.listen(cloudPort, '127.0.0.1');
  const [request] = await beat;
  t.equal(request.url, '/devices/pump-3/heartbeat', 'the link');
  cloud.closeAllConnections();
  cloud.close();
  t.equal(await daemon.end('SIGTERM'), 0, 'the end');
  t.same(
    daemon.lines.filter((line) => / (?:error|request failed|stop failed) /.test(line)),
    [],
  );
});
