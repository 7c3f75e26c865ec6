/**
 * The operator's page of the reference cloud in a browser, as people use it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { DAY_MS } from '../../src/base/limits.js';
import { startIn } from '../support/daemon.js';
import { until } from '../support/delivery.js';
import { fakeRelay } from '../support/relay.js';
import { serve } from '../support/serve.js';
import {
  barriersOf,
  CHROMIUM,
  HARMFUL,
  isTooWide,
  keepPicture,
  LOOKS,
  open,
  openBrowser,
  type Seen,
} from './browser.js';
import { skipWithout } from './peers.js';

const options = { skip: skipWithout(CHROMIUM), timeout: 180_000 };

/** `fieldpost cloud` that calls devices offline after 1 s; without keys any key opens it. */
async function startCloud(t: Test, keys?: string, more: Readonly<Record<string, string>> = {}) {
  const directory = t.testdir();
  const path = join(directory, 'keys');
  if (keys !== undefined) writeFileSync(path, keys);
  const env = {
    FIELDPOST_STATE_DIR: join(directory, 'state'),
    FIELDPOST_CLOUD_SERVER_DELAY: '1s',
    ...(keys !== undefined && { FIELDPOST_CLOUD_SERVER_KEYS_FILE: path }),
    ...more,
  };
  const daemon = await startIn(t, env, ['cloud']);
  const url = `http://127.0.0.1:${daemon.port}/`;
  const put = async (what: string, body: object, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${url}devices/${what}`, {
      method: 'PUT',
      headers: { Authorization: 'Bearer boss', 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    await answer.text();
    t.ok(answer.ok, `${what}: ${answer.status}`);
  };
  return {
    ...daemon,
    url,
    beat: (id: string, intervalMs: number, state = 'running', more: object = {}) =>
      put(`${id}/heartbeat`, { state, intervalMs, ...more }),
    store: (id: string, document: object) => put(`${id}/destinations`, document, { 'If-None-Match': '*' }),
  };
}

const person = (uid: number, type: number, destination: string, name: string) => ({
  uid: `7c9e6679-7425-40de-944b-${String(uid).padStart(12, '0')}`,
  ...{ type, destination, name, lang: 'nl' },
});

function assertQuiet(t: Test, { complaints, strays }: Seen): void {
  t.strictSame(complaints, [], 'the console is empty');
  t.strictSame(strays, [], 'no request leaves the origin');
}

const devices = (page: Page) => page.getByRole('region', { name: 'All devices' });
const device = (page: Page, id: string) =>
  devices(page)
    .getByRole('listitem')
    .filter({ has: page.getByText(id, { exact: true }) });

t.test('the devices and whom the cloud would tell, at each width, dark and light', options, async (t) => {
  const keys = ['pump-1', 'pump-2', 'pump-3', 'pump-4'].map((id) => `${id} key-of-${id}\n`).join('');
  const cloud = await startCloud(t, `${keys}* boss\n`);
  await cloud.store('pump-1', {
    name: HARMFUL,
    site: 'Sluis',
    destinations: [
      person(1, 1, 'ann@example.com', HARMFUL),
      person(2, 2, '+31612345678', 'Jan'),
      { type: 99 },
    ],
  });
  await cloud.store('pump-4', { destinations: [] });
  // With this interval it stays online for the whole test.
  await cloud.beat('pump-1', DAY_MS);
  await cloud.beat('pump-2', 0);
  await cloud.beat('pump-3', 0, 'moved');
  const browser = await openBrowser(t);
  for (const look of LOOKS) {
    const seen = await open(browser, cloud.url, look);
    const { page } = seen;
    const dialog = page.getByRole('dialog', { name: "This cloud asks for the operator's key" });
    await dialog.waitFor();
    t.strictSame(await barriersOf(page), []);
    await keepPicture(page, 'fleet-key', look);
    await dialog.getByLabel('Key').fill('boss');
    await dialog.getByLabel('Key').press('Enter');
    await page.getByText('1 of 4 devices is offline').waitFor();
    t.match(
      await devices(page).getByRole('listitem').first().textContent(),
      /^offlinepump-2last heard\d\d:\d\d$/,
    );
    t.match(await device(page, 'pump-3').textContent(), 'moved');
    t.match(await device(page, 'pump-4').textContent(), 'unheard');
    await device(page, 'pump-1').locator('summary').focus();
    await page.keyboard.press('Enter');
    const opened = device(page, 'pump-1');
    await opened.getByText(`${HARMFUL}: ann@example.com`).waitFor();
    await opened.getByText('Email, nl').waitFor();
    await opened.getByText('Jan: +31612345678').waitFor();
    await opened.getByRole('definition').filter({ hasText: 'Sluis' }).waitFor();
    await opened.getByText(/cannot be read here: 1/).waitFor();
    await opened.getByText('online since').waitFor();
    await device(page, 'pump-4').locator('summary').click();
    await device(page, 'pump-4').getByText('nobody would be told').waitFor();
    await device(page, 'pump-2').locator('summary').click();
    await device(page, 'pump-2').getByText('no address book').waitFor();
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'fleet', look);
    t.equal(await page.title(), '! Devices: 1 of 4 devices is offline');
    assertQuiet(t, seen);
    await seen.context.close();
  }
});

t.test('a wrong key opens nothing; the cloud may go and come back', options, async (t) => {
  const cloud = await startCloud(t, 'pump-1 one\n* boss\n');
  const { page, strays } = await open(await openBrowser(t), cloud.url);
  const dialog = page.getByRole('dialog');
  for (const key of ['one', 'wrong']) {
    await dialog.getByLabel('Key').fill(key);
    await dialog.getByRole('button', { name: 'Show the devices' }).click();
    await dialog.getByText("This is not the operator's key.").waitFor();
  }
  await page.keyboard.press('Escape');
  t.ok(await dialog.isVisible(), 'without a key there is nothing to see');
  await dialog.getByLabel('Key').fill('boss');
  await dialog.getByRole('button', { name: 'Show the devices' }).click();
  await page.getByText('no device has called yet').waitFor();
  t.equal(
    await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])'),
    '[{},{},""]',
    'the key is in memory only',
  );
  t.strictSame(strays, []);
  t.equal(await cloud.end('SIGTERM'), 0);
  await page
    .getByRole('alert')
    .getByText(/^the cloud does not answer, since .* every 5 s/)
    .waitFor();
});

t.test(
  'a device that needs a person is marked and found; a new one gets its key; CSV',
  options,
  async (t) => {
    const cloud = await startCloud(t, 'pump-1 one\npump-2 two\npump-10 ten\n* boss\n');
    const queue = { queued: 3, deferred: 2, failed: 1 };
    await cloud.beat('pump-1', DAY_MS, 'running', {
      version: '1.2.3',
      queue,
      relay: 'failing',
      link: 'unsteady',
    });
    await cloud.beat('pump-2', DAY_MS, 'running', { relay: 'ok' });
    await cloud.beat('pump-10', DAY_MS, 'running', { queue: { queued: 0, deferred: 0, failed: 12 } });
    await cloud.store('pump-10', { name: 'Gemaal Sluis', destinations: [] });
    const browser = await openBrowser(t);
    for (const look of LOOKS) {
      const seen = await open(browser, cloud.url, look);
      const { page } = seen;
      await page.getByRole('dialog').getByLabel('Key').fill('boss');
      await page.getByRole('dialog').getByLabel('Key').press('Enter');
      await device(page, 'pump-2').waitFor();
      await device(page, 'pump-1').getByText('relay failing, 1 message failed').waitFor();
      await page.locator('#headline.uneasy').getByText('need attention').waitFor();
      t.match(await page.title(), /^! Devices: .*; 2 need attention$/);
      const order = await devices(page)
        .getByRole('listitem')
        .evaluateAll((all) => all.map((one) => one.dataset.key));
      t.strictSame(order.slice(0, 2), ['pump-1', 'pump-10'], 'what needs attention comes first');
      await keepPicture(page, 'fleet-order', look);
      await page.getByLabel('Id, name, site or tag').fill('gemaal');
      await device(page, 'pump-2').waitFor({ state: 'detached' });
      await device(page, 'pump-10').getByText('Gemaal Sluis', { exact: true }).waitFor();
      await page.getByLabel('Id, name, site or tag').fill('');
      await device(page, 'pump-2').waitFor();
      await page.getByLabel('State').selectOption('needs attention');
      await device(page, 'pump-2').waitFor({ state: 'detached' });
      await device(page, 'pump-1').locator('summary').click();
      for (const words of ['1.2.3', '3 queued, 2 deferred, 1 failed', 'unsteady']) {
        await device(page, 'pump-1').getByText(words, { exact: true }).waitFor();
      }
      t.strictSame(await barriersOf(page), []);
      t.notOk(await isTooWide(page), `${look.width} px`);
      await keepPicture(page, 'fleet-attention', look);

      const id = `new-${look.width}-${look.scheme}`;
      await page.getByLabel('Id of the new device').fill(id);
      await page.getByRole('button', { name: 'Make its key' }).click();
      const dialog = page.getByRole('dialog', { name: `Key of ${id}` });
      await dialog.getByText(`FIELDPOST_DEVICE_ID=${id}`).waitFor();
      await dialog.getByText('/etc/credstore/fieldpost.cloud-key').waitFor();
      const key = (await dialog.locator('#key-text').textContent()) ?? '';
      t.match(key, /^[\w-]{43}$/);
      t.strictSame(await barriersOf(page), []);
      t.notOk(await isTooWide(page), `${look.width} px with a key`);
      await keepPicture(page, 'fleet-new-key', look);
      await dialog.getByRole('button', { name: 'Copy the key' }).click();
      await dialog.getByText(/^The key is (copied|selected)/).waitFor();
      await dialog.getByRole('button', { name: 'Close' }).click();
      // The dialog tells that it was closed in a task of its own.
      await page.locator('#key-text:empty').waitFor({ state: 'attached' });
      t.notMatch(await page.content(), key, 'the page forgets it');
      const answer = await fetch(`${cloud.url}devices/${id}/heartbeat`, {
        method: 'PUT',
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ state: 'running', intervalMs: DAY_MS }),
      });
      t.equal(answer.status, 200);

      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Save as CSV' }).click(),
      ]);
      const csv = readFileSync(await download.path(), 'utf8');
      t.match(
        csv,
        /^id,state,.*\r\nnew-.*\r\npump-1,online,.*,1.2.3,3,2,1,failing,unsteady,,,,,,,\r\npump-2,.*\r\npump-10,.*,Gemaal Sluis,,,,,\r\n/s,
      );
      assertQuiet(t, seen);
      await seen.context.close();
    }
  },
);

t.test('quiet begins and ends, and people confirm a drill, at each width', options, async (t) => {
  const tool = await serve((request, response) => void request.resume().on('end', () => response.end()));
  t.teardown(() => tool[Symbol.asyncDispose]());
  const more = { FIELDPOST_CLOUD_SERVER_WEBHOOK: tool.url };
  const cloud = await startCloud(t, 'pump-1 one\npump-2 two\n* boss\n', more);
  const destinations = [{ ...person(1, 2, '+31612345678', 'Jan'), confirmedAt: '2026-11-20T09:00:00.000Z' }];
  await cloud.store('pump-2', { site: 'North', tags: ['pump', 'old'], destinations });
  await cloud.beat('pump-1', DAY_MS);
  await cloud.beat('pump-2', DAY_MS, 'running', { late: ['plc-reader'] });
  const browser = await openBrowser(t);
  for (const look of LOOKS) {
    const seen = await open(browser, cloud.url, look);
    const { page } = seen;
    await page.getByRole('dialog').getByLabel('Key').fill('boss');
    await page.getByRole('dialog').getByLabel('Key').press('Enter');
    await page.getByText('2 devices, all online; 1 needs attention').waitFor();
    await page.getByLabel('Id, name, site or tag').fill('north');
    await device(page, 'pump-1').waitFor({ state: 'detached' });
    await page.getByLabel('Id, name, site or tag').fill('OLD');
    const pump = device(page, 'pump-2');
    await pump.getByText('plc-reader late').waitFor();
    await pump.locator('summary').first().click();
    await pump.getByText('pump, old').waitFor();
    await pump.getByText(/^confirmed a drill \d+ Nov 2026/).waitFor();
    await pump.getByRole('button', { name: 'Quiet for pump-2' }).click();
    const dialog = page.getByRole('dialog', { name: 'Quiet for pump-2' });
    await dialog.getByLabel('For').selectOption('2 hours');
    await dialog.getByLabel('Reason').fill('battery swap');
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px with the dialog`);
    await keepPicture(page, 'fleet-quiet-dialog', look);
    await dialog.getByRole('button', { name: 'Make it quiet' }).click();
    await page.getByText(/^pump-2 is quiet until \d\d:\d\d\.$/).waitFor();
    await page.getByLabel('Id, name, site or tag').fill('');
    await device(page, 'pump-1').waitFor();
    t.match(
      await devices(page).getByRole('listitem').first().textContent(),
      /pump-2.*quiet until .*battery swap/,
    );
    await page.getByText('1 is quiet').waitFor();
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'fleet-quiet', look);
    await pump.getByRole('button', { name: 'End the quiet of pump-2' }).click();
    await page.getByText('pump-2 is no longer quiet.').waitFor();
    page.on('dialog', (asked) => void asked.accept());
    await pump.getByRole('button', { name: 'Drill for pump-2' }).click();
    await page.getByText('The people of pump-2 get a test message now.').waitFor();
    await device(page, 'pump-1').locator('summary').first().click();
    await device(page, 'pump-1').getByRole('button', { name: 'Drill for pump-1' }).click();
    await page.getByText('Nobody in its address book can be reached').waitFor();
    assertQuiet(t, seen);
    await seen.context.close();
  }
});

t.test(
  'the page of a drill works without scripts on a phone, and confirms by its button alone',
  options,
  async (t) => {
    const sent: string[] = [];
    const tool = await serve(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += chunk;
      sent.push(JSON.parse(text).message);
      response.end();
    });
    t.teardown(() => tool[Symbol.asyncDispose]());
    const cloud = await startCloud(t, 'pump-1 one\n* boss\n', {
      ...{
        FIELDPOST_CLOUD_SERVER_WEBHOOK: tool.url,
        FIELDPOST_CLOUD_SERVER_PUBLIC_URL: 'https://cloud.example/',
      },
    });
    const destinations = [person(1, 2, '+31612345678', 'Jan')];
    await cloud.store('pump-1', { name: `${'Gemaal'.repeat(20)} ${HARMFUL}`, destinations });
    await cloud.beat('pump-1', DAY_MS);
    const headers = { Authorization: 'Bearer boss', 'Content-Type': 'application/json' };
    const drilled = await fetch(`${cloud.url}devices/pump-1/drill`, { method: 'POST', headers, body: '{}' });
    t.equal(drilled.status, 202);
    await until(() => sent.length > 0);
    const [, path = ''] = /https:\/\/cloud\.example\/(\S+)/.exec(sent[0] ?? '') ?? [];
    const confirmed = async () => {
      const answer = await fetch(`${cloud.url}devices/pump-1/destinations`, { headers });
      const { destinations: entries } = (await answer.json()) as { destinations: { confirmedAt?: string }[] };
      return entries[0]?.confirmedAt;
    };
    const browser = await openBrowser(t);
    for (const look of LOOKS) {
      const seen = await open(browser, `${cloud.url}${path}`, look);
      const { page } = seen;
      const seenIt = page.getByRole('button', { name: 'Ik heb het gezien' });
      await seenIt.waitFor();
      t.strictSame(await barriersOf(page), []);
      t.notOk(await isTooWide(page), `${look.width} px`);
      await keepPicture(page, 'drill', look);
      if (look === LOOKS[0]) t.equal(await confirmed(), undefined, 'it was only opened');
      await seenIt.click();
      await page.getByText('De test is bevestigd.').waitFor();
      t.match(await confirmed(), /Z$/);
      assertQuiet(t, seen);
      await seen.context.close();
    }
  },
);

t.test('without keys it asks for none; a device is removed', options, async (t) => {
  const cloud = await startCloud(t);
  await cloud.beat('pump-1', DAY_MS);
  await cloud.beat('pump-2', DAY_MS);
  const seen = await open(await openBrowser(t), cloud.url);
  const { page } = seen;
  await page.getByText('2 devices, all online').waitFor();
  t.equal(await page.getByRole('dialog').count(), 0);
  await page.getByText('This cloud accepts any key, so it makes none').waitFor();
  t.notOk(await page.getByLabel('Id of the new device').isVisible(), 'a key would mean nothing');
  const questions: string[] = [];
  page.on('dialog', (dialog) => {
    questions.push(dialog.message());
    void (questions.length === 1 ? dialog.dismiss() : dialog.accept());
  });
  await device(page, 'pump-2').locator('summary').click();
  const remove = page.getByRole('button', { name: 'Remove pump-2' });
  await remove.waitFor();
  t.equal(await page.getByRole('button', { name: 'New key' }).count(), 0);
  await remove.click();
  t.match(questions[0], 'Remove pump-2 and its address book?');
  await remove.click();
  await page.getByText('pump-2 is removed.').waitFor();
  await page.getByText('1 device, online').waitFor();
  await device(page, 'pump-2').waitFor({ state: 'detached' });
  assertQuiet(t, seen);
});

t.test('the outages of a device: why, who was told, whether it went out, and CSV', options, async (t) => {
  await using relay = await fakeRelay({
    rcpt: ({ command }) => (/jan@/.test(command) ? '550 5.1.1 no such user' : undefined),
  });
  const cloud = await startCloud(t, undefined, {
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
  });
  await cloud.store('pump-1', {
    destinations: [person(1, 1, 'ann@example.com', HARMFUL), person(2, 1, 'jan@example.com', 'Jan')],
  });
  const boot = { bootId: '0b0072f1' };
  await cloud.beat('pump-1', 0, 'running', { ...boot, uptimeMs: 5_000 });
  await until(() => relay.mails.length === 1);
  await cloud.beat('pump-1', DAY_MS, 'running', { ...boot, uptimeMs: 60_000 });
  await until(() => relay.mails.length === 2);
  const browser = await openBrowser(t);
  for (const look of LOOKS) {
    const seen = await open(browser, cloud.url, look);
    const { page } = seen;
    const opened = device(page, 'pump-1');
    await opened.locator('summary').click();
    await opened.getByText('1 outage in the last year', { exact: true }).click();
    await opened.getByText(/silent; it ran throughout: the network was away$/).waitFor();
    t.equal(await opened.getByText(/ann@example\.com\), (?:offline|online)$/).count(), 2);
    t.equal(await opened.getByText('Email, sent').count(), 2);
    t.equal(await opened.getByText('failed', { exact: true }).count(), 2);
    // A heartbeat makes the list anew.
    await cloud.beat('pump-1', DAY_MS, 'running', {
      ...boot,
      uptimeMs: 120_000,
      version: `${look.width} ${look.scheme}`,
    });
    await opened.getByText(`${look.width} ${look.scheme}`).waitFor();
    t.ok(await opened.getByText('Email, sent').first().isVisible(), 'it stays open');
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'fleet-outages', look);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save outages as CSV: pump-1' }).click(),
    ]);
    t.equal(download.suggestedFilename(), 'outages-pump-1.csv');
    const lines = readFileSync(await download.path(), 'utf8').split('\r\n');
    t.equal(lines.length, 6);
    t.match(lines[1], /^silent,.*,ran,.*,offline,silent,1,.*,(?:sent|failed)$/);
    assertQuiet(t, seen);
    await seen.context.close();
  }
});

t.test('ten thousand devices', options, async (t) => {
  const cloud = await startCloud(t);
  const ids = Array.from({ length: 10_000 }, (_, n) => `device-${String(n).padStart(5, '0')}`);
  while (ids.length > 0) await Promise.all(ids.splice(0, 8).map((id) => cloud.beat(id, DAY_MS)));
  const seen = await open(await openBrowser(t), cloud.url);
  const { page } = seen;
  await page.getByText('10000 devices, all online').waitFor();
  await page.getByText('100 of 10000 devices shown').waitFor();
  t.equal(await devices(page).getByRole('listitem').count(), 100);
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('200 of 10000 devices shown').waitFor();
  await page.getByLabel('Id, name, site or tag').fill('-09999');
  await device(page, 'device-09999').waitFor();
  await page.getByText('1 of 1 device shown').waitFor();
  await page.getByLabel('State').selectOption('offline');
  await page.getByText('0 of 0 devices shown').waitFor();
  assertQuiet(t, seen);
});
