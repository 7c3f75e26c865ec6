/** The mails of the daemon itself: a device over many boots, its store, its relay, and who is told what. */
import PostalMime from 'postal-mime';
import t from 'tap';
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { DEBOUNCE_MS, LISTED_MAX } from '../../src/device/notices.js';
import type { DeviceConfig, ReturnReport } from '../../src/device/settings.js';
import type { Address } from '../../src/mail/message/address.js';
import { reply, TAKEN } from '../support/delivery.js';
import { Device } from '../support/device.js';
import { STATE_DIR } from '../support/store.js';

const OPS = 'ops@example.com' as Address;
const NO_USER = reply('rcpt', '550 5.1.1 no such user');
const DAY_MS = 24 * HOUR_MS;
const OUTAGE = `${STATE_DIR}/outage.json`;

/** A device whose relay refuses every mail but those to OPS; and the log. */
async function start(settings: Partial<DeviceConfig>) {
  const device = await Device.start({ settings });
  const events: string[] = [];
  device.onLog = (event) => void events.push(event);
  const refuse = (id: string) => (device.store.get(id)?.destination === OPS ? TAKEN : NO_USER);
  device.answer = refuse;
  return { device, events, refuse };
}

const parsed = (device: Device) => Promise.all(device.mails.map((mail) => PostalMime.parse(mail)));
const subjects = async (device: Device) => (await parsed(device)).map(({ subject }) => subject);
const isNotice = (device: Device, id: string) => device.store.get(id)?.extras?.notice !== undefined;

t.test('a failure is told a minute after it, with what to do', async (t) => {
  const { device } = await start({ failuresTo: OPS });
  const [id = '', other = ''] = await device.post(2);
  await device.pass(DEBOUNCE_MS - 1000);
  t.same(device.mails, []);
  await device.pass(2000);
  const [mail] = await parsed(device);
  t.match(mail, { subject: 'gw-17: 2 mails failed', to: [{ address: OPS }], html: undefined });
  for (const one of [id, other])
    t.match(
      mail?.text,
      `To: john@example.com\nSubject: test\nId: ${one}\nFailed: 550 5.1.1 no such user\nTo do: mend the cause, then on the device: fieldpost queue retry ${one} (until 2026-11-27 09:0`,
    );
  t.equal(device.store.untold.size, 0);
});

t.test('over a day of failures at most one an hour, each failure in one of them', async (t) => {
  const { device } = await start({ failuresTo: OPS });
  let count = 0;
  for (let passedMs = 0; passedMs < DAY_MS; passedMs += 7 * MINUTE_MS, count++) {
    await device.post();
    await device.pass(7 * MINUTE_MS);
    if (count % 50 === 49) await device.reboot({ plug: true });
  }
  await device.pass(2 * HOUR_MS);
  const told = (await subjects(device)).map((subject) =>
    Number(/: (\d+) mails? failed/.exec(subject ?? '')?.[1]),
  );
  t.equal(
    told.reduce((sum, one) => sum + one, 0),
    count,
  );
  // A boot whose clock is not confirmed waits the hour anew.
  t.ok(told.length <= 25 && told.length >= 20, `${told.length}`);
});

t.test('a digest that fails is not told', async (t) => {
  const { device } = await start({ failuresTo: OPS });
  device.answer = () => NO_USER;
  await device.post();
  await device.pass(DAY_MS);
  t.equal([...device.offered].filter((id) => isNotice(device, id)).length, 1);
  t.equal(device.store.counts().failed, 2);
  t.equal(device.store.untold.size, 0);
});

t.test('what failed before a restart is told after it, and nothing twice', async (t) => {
  for (const plug of [true, false]) {
    const { device, refuse } = await start({ failuresTo: OPS });
    await device.post();
    await device.pass(DEBOUNCE_MS / 2);
    await device.reboot({ plug });
    device.answer = refuse;
    // Its outcome is on the disk a second later.
    await device.pass(DEBOUNCE_MS + 5000);
    t.same(await subjects(device), ['gw-17: 1 mail failed']);
    await device.reboot({ plug });
    await device.pass(2 * HOUR_MS);
    t.equal(device.mails.length, 1);
    await device.post(2);
    await device.pass(2 * HOUR_MS);
    t.same((await subjects(device)).slice(1), ['gw-17: 2 mails failed'], `plug ${plug}`);
  }
});

t.test('at most one an hour, also after a restart with nothing left to tell', async (t) => {
  const { device, refuse } = await start({ failuresTo: OPS });
  await device.post();
  await device.pass(2 * DEBOUNCE_MS);
  t.equal(device.mails.length, 1);
  await device.reboot({ plug: true });
  device.answer = refuse;
  await device.post();
  await device.pass(HOUR_MS - 10 * MINUTE_MS);
  t.equal(device.mails.length, 1, 'within the hour');
  await device.pass(11 * MINUTE_MS);
  t.equal(device.mails.length, 2);
});

t.test('of many the first are listed, the others counted; queued again is not failed', async (t) => {
  const { device } = await start({ failuresTo: OPS });
  const ids = await device.post(LISTED_MAX + 13);
  await device.pass(MINUTE_MS / 2);
  device.answer = () => TAKEN;
  await device.store.retry(ids[0] as string);
  await device.pass(MINUTE_MS);
  const mail = (await parsed(device)).find(({ subject }) => subject?.includes('failed'));
  t.equal(mail?.subject, `gw-17: ${LISTED_MAX + 12} mails failed`);
  t.equal(mail?.text?.match(/^Id: /gm)?.length, LISTED_MAX);
  t.match(mail?.text, /^and 12 more: fieldpost queue list --status failed/m);
  t.notMatch(mail?.text, ids[0]);
});

t.test('expired and no longer kept: it is sent anew', async (t) => {
  const { device } = await start({ failuresTo: OPS });
  device.isLinkUp = false;
  await device.post(1, 2);
  await device.pass(DAY_MS + HOUR_MS);
  device.isLinkUp = true;
  await device.pass(HOUR_MS);
  const [mail] = await parsed(device);
  t.equal(mail?.subject, 'gw-17: 1 message failed');
  t.match(mail?.text, /^To: \+31612345678\nId: \w+\nExpired: .*\nTo do: its content is no longer kept/m);
});

t.test('a full queue: the next try is an hour later, and logged once', async (t) => {
  const { device, events, refuse } = await start({ failuresTo: OPS, maxQueue: 1 });
  await device.post(1);
  await device.pass(1000);
  device.isLinkUp = false;
  await device.post(1);
  await device.pass(3 * HOUR_MS);
  t.equal(events.filter((event) => event === 'notice waits').length, 1);
  device.isLinkUp = true;
  device.answer = refuse;
  await device.pass(2 * HOUR_MS);
  t.same(await subjects(device), ['gw-17: 2 mails failed']);
});

t.test('without the setting nothing is remembered; a reload takes it', async (t) => {
  const { device } = await start({});
  await device.post(2);
  await device.pass(HOUR_MS);
  t.equal(device.store.untold.size, 0);
  Object.assign(device.config, { failuresTo: OPS });
  await device.follow();
  await device.post(1);
  await device.pass(HOUR_MS);
  t.same(await subjects(device), ['gw-17: 1 mail failed']);
  Object.assign(device.config, { failuresTo: null });
  await device.follow();
  await device.post(1);
  await device.pass(2 * HOUR_MS);
  t.equal(device.mails.length, 1);
});

const REPORT: ReturnReport = { afterMs: HOUR_MS, to: OPS };

/** A device in an outage since `beforeMs`, with 3 mails waiting. */
async function cutOff(settings: Partial<DeviceConfig> = {}) {
  const { device, events } = await start({ returnReport: REPORT, ...settings });
  device.answer = () => TAKEN;
  device.isLinkUp = false;
  await device.post(3);
  await device.pass(1000);
  return { device, events };
}

const hasFile = async (device: Device) => (await device.disk.readWhole(OUTAGE)) !== null;

t.test('after an outage one mail says for how long, and what became of the mails', async (t) => {
  const { device } = await cutOff();
  await device.pass(HOUR_MS - 2000);
  t.notOk(await hasFile(device));
  await device.pass(3 * DAY_MS + 3 * HOUR_MS);
  t.ok(await hasFile(device));
  device.isLinkUp = true;
  await device.pass(10 * MINUTE_MS);
  const mail = (await parsed(device)).at(-1);
  t.match(mail, { subject: 'gw-17: cut off for 3 d 4 h', to: [{ address: OPS }] });
  t.match(
    mail?.text,
    /^gw-17 was cut off for 3 d 4 h \(relay\.example:587: .*unreachable.*\); 3 waited, 3 sent, 0 expired\.\nA relay could be reached again at 2026-11-23 13:0\d UTC\.\n$/,
  );
  t.notOk(await hasFile(device));
  await device.pass(DAY_MS);
  t.equal(device.mails.length, 4, 'once');
});

t.test('a shorter outage is not told, nor one in which nothing waited', async (t) => {
  const { device } = await cutOff();
  await device.pass(HOUR_MS - 10 * MINUTE_MS);
  device.isLinkUp = true;
  await device.pass(DAY_MS);
  t.equal(device.mails.length, 3);
  t.notOk(await hasFile(device));
  device.isLinkUp = false;
  const [id = ''] = await device.post();
  await device.pass(2 * HOUR_MS);
  await device.store.cancel(id);
  await device.pass(DAY_MS);
  device.isLinkUp = true;
  await device.post();
  await device.pass(DAY_MS);
  t.equal(device.mails.length, 4);
  t.notOk(await hasFile(device));
});

t.test('an outage across two boots: one write each, and the length as far as it is known', async (t) => {
  for (const isConfirmed of [true, false]) {
    const { device } = await cutOff();
    if (isConfirmed) device.clock.confirm();
    await device.pass(2 * HOUR_MS);
    for (const offMs of [DAY_MS, 0]) {
      await device.reboot({ plug: true, offMs });
      device.isLinkUp = false;
      device.answer = () => TAKEN;
      let writes = 0;
      device.disk.onOperation = (_, operation) => {
        if (operation.path.includes('outage')) writes++;
        return 'ok';
      };
      await device.pass(2 * HOUR_MS);
      t.equal(writes, 0, 'it was written at the start of the boot');
    }
    if (isConfirmed) device.clock.confirm();
    device.isLinkUp = true;
    await device.pass(2 * HOUR_MS);
    const mail = (await parsed(device)).at(-1);
    t.equal(mail?.subject, `gw-17: cut off for ${isConfirmed ? '1 d 6 h' : 'at least 3 h 3 min'}`);
    t.match(mail?.text, '3 waited, 3 sent, 0 expired; 2 boots.');
    t.notOk(await hasFile(device));
  }
});

t.test(
  'mails that expire in the outage and behind it are counted; the last are waited for an hour',
  async (t) => {
    const { device } = await cutOff();
    const content = { subject: 'x', plain: '', html: '' };
    const draft = {
      type: 1 as const,
      destination: OPS,
      content,
      attachments: [],
      ignored: [],
      lifeMs: 2 * HOUR_MS,
    };
    await device.store.accept([draft], null);
    await device.post(0);
    await device.pass(5 * HOUR_MS);
    const [first] = [...device.store.queued()];
    device.answer = (id) => (id === first?.id ? reply('rcpt', '450 4.2.0 later') : TAKEN);
    device.isLinkUp = true;
    await device.pass(59 * MINUTE_MS);
    t.equal(device.mails.length, 2);
    await device.pass(10 * MINUTE_MS);
    t.match((await parsed(device)).at(-1)?.text, '; 4 waited, 2 sent, 1 expired, 1 still waiting.');
  },
);

t.test('without an address of its own the report goes where failures go', async (t) => {
  const { device } = await cutOff({ returnReport: { afterMs: HOUR_MS, to: null }, failuresTo: OPS });
  await device.pass(2 * HOUR_MS);
  device.isLinkUp = true;
  await device.pass(HOUR_MS);
  t.match(await parsed(device), [{}, {}, {}, { subject: 'gw-17: cut off for 2 h', to: [{ address: OPS }] }]);
});
