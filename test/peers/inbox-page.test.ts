/**
 * The inbox of `fieldpost dev` in a browser, as people use it.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startIn } from '../support/daemon.js';
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

/** `fieldpost dev`, with these mails of earlier runs. */
async function startDev(t: Test, mails: readonly string[] = []) {
  const state = t.testdir();
  mkdirSync(join(state, 'mail'));
  mails.forEach((mail, index) => {
    writeFileSync(join(state, 'mail', `${String(index + 1).padStart(6, '0')}.eml`), mail);
  });
  const env = {
    FIELDPOST_STATE_DIR: state,
    // Delays the mails about a device that is offline until after this test.
    FIELDPOST_CLOUD_SERVER_DELAY: '1h',
    FIELDPOST_CLOUD_SERVER_STOP_DELAY: '1h',
  };
  const daemon = await startIn(t, env, ['dev']);
  const address = () => /^ +inbox +(http:\S+)$/m.exec(daemon.lines.join('\n'))?.[1];
  while (address() === undefined) await daemon.nextLine();
  return {
    ...daemon,
    url: address() as string,
    async send(...messages: readonly object[]) {
      t.equal((await daemon.api('messages', messages)).status, 202);
    },
  };
}

const mail = (...lines: readonly string[]) => lines.join('\r\n');
const RICH = mail(
  'Date: Fri, 20 Nov 2026 09:00:00 +0000',
  'From: Pump 3 <pump@example.com>',
  'To: Jan <jan@example.com>',
  'Subject: Leak in the cellar',
  'X-Pump: =?utf-8?Q?=C5=BB=C3=B3=C5=82w?=',
  'Content-Type: multipart/mixed; boundary=m',
  '',
  '--m',
  'Content-Type: text/plain; charset=utf-8',
  '',
  'Twelve centimetres.',
  '--m',
  'Content-Type: text/html; charset=utf-8',
  '',
  '<style>h1 { color: #1f5fa8 }</style><h1>Twelve centimetres</h1><p>and <b>rising</b>. <img alt="logo" src="cid:i@x">',
  '--m',
  'Content-Type: image/png; name=logo.png',
  'Content-ID: <i@x>',
  'Content-Transfer-Encoding: base64',
  '',
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  '--m',
  'Content-Type: text/html; name="../report <1>.html"',
  '',
  '<script>',
  '--m--',
);

function assertQuiet(t: Test, { complaints, strays }: Seen): void {
  t.strictSame(complaints, [], 'the console is empty');
  t.strictSame(strays, [], 'no request leaves the origin');
}

const list = (page: Page) => page.getByRole('region', { name: 'Messages', exact: true });
const line = (page: Page, words: string | RegExp) => list(page).getByRole('link').filter({ hasText: words });
const tab = (page: Page, name: string) => page.getByRole('tab', { name, exact: true });

t.test(
  'the list and each view, at each width, dark and light, and nothing bars the way',
  options,
  async (t) => {
    const dev = await startDev(t, [RICH]);
    await dev.send(
      { type: 1, destination: 'john@example.com', subject: HARMFUL, plain: HARMFUL },
      { type: 2, destination: '+31612345678', message: 'Low battery' },
      { type: 4, destination: 'OWNER', title: 'Pump 3', message: 'Low battery' },
    );
    const browser = await openBrowser(t);
    for (const look of LOOKS) {
      const seen = await open(browser, dev.url, look);
      const { page } = seen;
      await page.getByText('4 messages').waitFor();
      await line(page, HARMFUL).waitFor();
      t.strictSame(await barriersOf(page), []);
      t.notOk(await isTooWide(page), `${look.width} px`);
      await keepPicture(page, 'inbox', look);
      await line(page, 'Leak in the cellar').click();
      await page.getByRole('heading', { name: 'Leak in the cellar' }).waitFor();
      await page.frameLocator('iframe').getByRole('heading', { name: 'Twelve centimetres' }).waitFor();
      t.strictSame(await barriersOf(page), []);
      t.notOk(await isTooWide(page), `${look.width} px`);
      await keepPicture(page, 'inbox-open', look);
      const picture = page.getByRole('img', { name: 'logo.png' });
      await picture.scrollIntoViewIfNeeded();
      await page.waitForFunction("document.querySelector('.picture img').naturalWidth === 1");
      await tab(page, 'Text').click();
      await page.getByText('Twelve centimetres.').waitFor();
      await tab(page, 'Headers').click();
      await page.getByText('Żółw').waitFor();
      t.strictSame(await barriersOf(page), []);
      await keepPicture(page, 'inbox-headers', look);
      t.equal(await page.title(), 'Inbox');
      await page.evaluate("location.hash = ''");
      await line(page, 'Leak').getByRole('img', { name: 'with files' }).waitFor();
      await page.getByLabel('Kind').selectOption('SMS');
      await line(page, 'Leak').waitFor({ state: 'detached' });
      await line(page, 'Low battery').waitFor();
      t.equal(await list(page).getByRole('link').count(), 1);
      assertQuiet(t, seen);
      await seen.context.close();
    }
  },
);

t.test(
  'mails appear as they arrive, are new until they are opened, and go when they are deleted',
  options,
  async (t) => {
    const dev = await startDev(t, [RICH]);
    const seen = await open(await openBrowser(t), dev.url);
    const { page } = seen;
    page.on('dialog', (dialog) => void dialog.accept());
    await page.getByText('1 message', { exact: true }).waitFor();
    await dev.send({ type: 1, destination: 'john@example.com', subject: HARMFUL, plain: 'It works.' });
    await page.getByText('2 messages, 1 new').waitFor();
    t.equal(await page.title(), '(1) Inbox');
    await line(page, /new/).filter({ hasText: HARMFUL }).click();
    await page.getByRole('heading', { name: HARMFUL }).waitFor();
    await page.getByText('It works.').waitFor();
    await page.getByText('2 messages', { exact: true }).waitFor();
    t.equal(await page.title(), 'Inbox');

    await page.getByLabel('Search').fill('CELLAR pump');
    await line(page, HARMFUL).waitFor({ state: 'detached' });
    await line(page, 'Leak').click();
    const downloading = page.waitForEvent('download');
    await page.getByRole('link', { name: 'report _1_.html' }).click();
    t.equal((await downloading).suggestedFilename(), 'report _1_.html');
    const whole = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download as a file' }).click();
    t.equal((await whole).suggestedFilename(), '1.eml');
    const opening = page.waitForEvent('popup');
    await page.getByRole('link', { name: 'Source' }).click();
    await (await opening).getByText('Content-Type: multipart/mixed; boundary=m').waitFor();

    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('Leak in the cellar is deleted.').waitFor();
    await page.getByText('No message is like that.').waitFor();
    await page.getByLabel('Search').fill('');
    await line(page, HARMFUL).click();
    await page.getByRole('heading', { name: HARMFUL }).waitFor();
    await fetch(`${dev.url}messages/2`, { method: 'DELETE' });
    await page.getByRole('heading', { name: 'This message is gone' }).waitFor();
    await dev.send({ type: 1, destination: 'john@example.com', subject: 'Last', plain: 'x' });
    await line(page, 'Last').waitFor();
    await page.getByRole('button', { name: 'Delete all' }).click();
    await page.getByText('Nothing has arrived yet.').waitFor();
    assertQuiet(t, seen);

    t.equal(await dev.end('SIGTERM'), 0);
    await page
      .getByRole('alert')
      .getByText(/^fieldpost dev does not answer, since \d\d:\d\d\./)
      .waitFor();
  },
);

t.test('with the keyboard alone, on a phone', options, async (t) => {
  const dev = await startDev(t, [mail('Subject: First', '', 'one'), RICH]);
  const seen = await open(await openBrowser(t), dev.url, { width: 360, scheme: 'light' });
  const { page } = seen;
  const focused = () => page.evaluate('document.activeElement.textContent') as Promise<string>;
  await line(page, 'Leak').focus();
  await page.keyboard.press('ArrowDown');
  t.match(await focused(), /First/);
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Leak in the cellar' }).waitFor();
  t.notOk(await line(page, 'First').isVisible(), 'the message has the window for itself');
  await tab(page, 'HTML').focus();
  await page.keyboard.press('ArrowRight');
  t.equal(await focused(), 'Text');
  await page.getByText('Twelve centimetres.').waitFor();
  await page.keyboard.press('End');
  await page.getByText('Żółw').waitFor();
  await page.keyboard.press('ArrowRight');
  t.equal(await focused(), 'HTML');
  await page.getByRole('button', { name: 'Back to the list' }).focus();
  await page.keyboard.press('Enter');
  await line(page, 'First').waitFor();
  t.match(await focused(), /Leak/, 'where the person was');
  assertQuiet(t, seen);
});

t.test('a hostile mail gets nowhere', options, async (t) => {
  const calls: string[] = [];
  await using evil = await serve((req, res) => {
    calls.push(req.url ?? '');
    res.end();
  });
  const html = `
    <link rel="stylesheet" href="${evil.url}/link.css"><link rel="prefetch" href="${evil.url}/prefetch">
    <style>@import url("${evil.url}/import.css"); @font-face { font-family: f; src: url(${evil.url}/font) }
      body { background: url(${evil.url}/background); font-family: f }</style>
    <meta http-equiv="refresh" content="0;url=${evil.url}/refresh">
    <base href="${evil.url}/" target="_top">
    <script>top.document.title = 'owned'; fetch('${evil.url}/fetch')</script>
    <script src="${evil.url}/script.js"></script>
    <img src="x" onerror="top.location='${evil.url}/onerror'">
    <img src="${evil.url}/pixel.png" srcset="${evil.url}/set.png 2x"><video src="${evil.url}/video" autoplay></video>
    <svg onload="top.location='${evil.url}/onload'"><image href="${evil.url}/svg"/></svg>
    <iframe src="${evil.url}/frame"></iframe><object data="${evil.url}/object"></object>
    <iframe srcdoc="<script>top.location='${evil.url}/srcdoc'</script>"></iframe>
    <p><a href="javascript:top.location='${evil.url}/javascript'">Script</a></p>
    <p><a href="${evil.url}/top" target="_top">Top</a></p>
    <p><a href="${evil.url}/blank" target="_blank" ping="${evil.url}/ping">Blank</a></p>
    <p><a href="${evil.url}/self" target="_self">Self</a></p>
    <form action="${evil.url}/form" target="_top"><button autofocus>Form</button></form>`;
  const hostile = mail('Subject: Hostile', 'Content-Type: text/html; charset=utf-8', '', html);
  const dev = await startDev(t, [hostile]);
  const { page, context } = await open(await openBrowser(t), dev.url);
  await line(page, 'Hostile').click();
  // The policy of the document says the same: each of the two is enough.
  t.equal(await page.locator('iframe').getAttribute('sandbox'), '');
  const frame = page.frameLocator('iframe');
  for (const name of ['Script', 'Top', 'Blank', 'Form', 'Self']) {
    await frame.getByText(name, { exact: true }).click();
    // Whatever the click began has begun by now.
    await page.waitForResponse(`${dev.url}messages`);
  }
  t.strictSame(calls, [], 'no request');
  t.equal(page.url(), `${dev.url}#1`, 'the page is where it was');
  t.equal(await page.title(), 'Inbox');
  t.equal(context.pages().length, 1, 'no window was opened');
  await line(page, 'Hostile').waitFor();
  const alone = await context.newPage();
  await alone.goto(`${dev.url}messages/1/html`);
  await alone.getByText('Form', { exact: true }).waitFor();
  t.equal(await alone.title(), '');
  t.strictSame(calls, [], 'nor in a window of its own');
});

t.test('a page from elsewhere cannot read or delete mails, or frame the inbox', options, async (t) => {
  const dev = await startDev(t, [RICH]);
  await using evil = await serve((_, res) => {
    res.setHeader('Content-Type', 'text/html');
    res.end(`<iframe src="${dev.url}"></iframe><iframe src="${dev.url}messages/1/html"></iframe>`);
  });
  const { page } = await open(await openBrowser(t), evil.url);
  for (const mode of ['cors', 'no-cors']) {
    for (const method of ['GET', 'DELETE', 'POST']) {
      const told = await page.evaluate(
        `fetch('${dev.url}messages', { method: '${method}', mode: '${mode}' }).then((a) => a.text()).catch(() => '')`,
      );
      t.equal(told, '', `${mode} ${method}`);
    }
  }
  for (const frame of page.frames().slice(1)) {
    t.notMatch(await frame.content(), /Inbox|centimetres/, 'no frame shows it');
  }
  const { messages } = (await (await fetch(`${dev.url}messages`)).json()) as { messages: unknown[] };
  t.equal(messages.length, 1);
});

t.test('a thousand mails', options, async (t) => {
  const mails = Array.from({ length: 1000 }, (_, n) => mail(`Subject: Mail ${n + 1}`, '', 'x'));
  const dev = await startDev(t, mails);
  const seen = await open(await openBrowser(t), dev.url);
  const { page } = seen;
  await page.getByText('1000 messages', { exact: true }).waitFor();
  t.equal(await list(page).getByRole('link').count(), 100);
  t.match(await list(page).getByRole('link').first().textContent(), 'Mail 1000');
  await page.getByRole('button', { name: 'Show more' }).click();
  t.equal(await list(page).getByRole('link').count(), 200);
  await page.getByLabel('Search').fill('mail 17');
  await line(page, /Mail 17$/).click();
  await page.getByRole('heading', { name: 'Mail 17', exact: true }).waitFor();
  assertQuiet(t, seen);
});
