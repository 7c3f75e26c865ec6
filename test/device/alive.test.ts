/** A dead man's switch for programs: a device over many boots, the signs that it gets, and who is told what. */
import PostalMime from 'postal-mime';
import t from 'tap';
import type { Lang } from '../../src/base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { LogFields } from '../../src/base/system/log.js';
import { PROGRAMS_MAX, TOLD_MAX } from '../../src/device/alive-rule.js';
import type { DeviceConfig, LinkConfig } from '../../src/device/settings.js';
import type { Address } from '../../src/mail/message/address.js';
import type { MessageType } from '../../src/mail/message/message.js';
import { settled } from '../support/clock.js';
import { Device } from '../support/device.js';
import { STATE_DIR } from '../support/store.js';

const PATH = `${STATE_DIR}/alive.json`;
const OPS = 'ops@example.com' as Address;
const PLC = 'plc-reader';
const WITHIN_MS = 10 * MINUTE_MS;
/** The least time in which a mail leaves, its outcome is on the disk, and what was refused is tried again. */
const SOON_MS = 2 * MINUTE_MS;

async function start(settings: Partial<DeviceConfig> = {}) {
  const device = await Device.start({ settings });
  const lines: [event: string, fields: LogFields][] = [];
  device.onLog = (...line) => void lines.push(line);
  const count = (event: string) => lines.filter(([one]) => one === event).length;
  return { device, lines, count };
}

async function add(device: Device, type: MessageType, destination: string, lang: Lang = 'en') {
  await device.book.add({ type, destination, lang, name: destination });
}

const parsed = (device: Device) => Promise.all(device.mails.map((mail) => PostalMime.parse(mail)));
const subjects = async (device: Device) => (await parsed(device)).map(({ subject }) => subject);
const LATE = 'gw-17: plc-reader has given no sign for 10 min';

t.test('signs in time: nothing is told, and nothing written', async (t) => {
  const { device } = await start();
  t.equal(await device.sign(PLC, WITHIN_MS, OPS), true);
  const { operations } = device.disk;
  for (let turn = 0; turn < 300; turn++) {
    await device.pass(WITHIN_MS - 1);
    t.equal(await device.sign(PLC, WITHIN_MS, OPS), false);
  }
  t.same(device.mails, []);
  t.equal(device.disk.operations, operations);
  t.same(device.alive.view(), { count: 1, late: [] });
  t.equal(device.lateNews, 0);
});

t.test('no sign in time is told once and urgently; so is the next sign, with how long it took', async (t) => {
  const { device, lines } = await start();
  await device.sign(PLC, WITHIN_MS, OPS);
  await device.pass(WITHIN_MS - 1);
  t.same(device.alive.view(), { count: 1, late: [] });
  await device.pass(1);
  t.same(device.alive.view(), { count: 1, late: [PLC] });
  t.equal(device.lateNews, 1);
  await device.pass(15 * MINUTE_MS - 1);
  t.same(await subjects(device), [LATE]);
  t.equal(device.store.get(device.offered[0] ?? '')?.extras?.urgent, true);
  t.match((await parsed(device))[0], { text: `${LATE}.\n`, to: [{ address: OPS }], from: { address: /@/ } });
  await device.sign(PLC, WITHIN_MS, OPS);
  t.same(device.alive.view(), { count: 1, late: [] });
  t.equal(device.lateNews, 2);
  await device.pass(SOON_MS);
  t.same(await subjects(device), [LATE, 'gw-17: plc-reader gives signs again, after 24 min']);
  t.match(lines, [
    ['program watched', { program: PLC, withinMs: WITHIN_MS, to: OPS }],
    ['program gives no sign', { program: PLC }],
  ]);
});

t.test(
  'the people of the address book are told, each in their language, by what the device can send',
  async (t) => {
    for (const cloud of [null, {} as LinkConfig]) {
      const { device } = await start({ cloud });
      await add(device, 1, 'jan@example.com', 'nl');
      await add(device, 1, 'pia@example.com', 'fr');
      await add(device, 2, '+31612345678', 'de');
      await add(device, 3, '+31612345679', 'it');
      await add(device, 4, 'OWNER', 'es');
      await device.sign(PLC, WITHIN_MS, null);
      await device.pass(WITHIN_MS + SOON_MS);
      t.same(await subjects(device), [
        'gw-17: plc-reader geeft al 10 min geen teken van leven',
        'gw-17: plc-reader ne donne plus signe de vie depuis 10 min',
      ]);
      const { messages } = device.store.list({ status: 'queued', limit: 10, after: null });
      t.same(
        messages.map(({ type, destination }) => [type, destination]),
        cloud === null
          ? []
          : [
              [4, 'OWNER'],
              [3, '+31612345679'],
              [2, '+31612345678'],
            ],
      );
    }
  },
);

t.test('an address of the book is told in its language', async (t) => {
  const { device } = await start();
  await add(device, 1, 'ops@EXAMPLE.com', 'pl');
  await device.sign(PLC, WITHIN_MS, OPS);
  await device.pass(WITHIN_MS + SOON_MS);
  t.same(await subjects(device), ['gw-17: plc-reader nie daje znaku od 10 min']);
});

t.test('with nobody to tell, the log and the list say it', async (t) => {
  const { device, count } = await start();
  await device.sign(PLC, WITHIN_MS, null);
  await device.pass(DAY_MS);
  t.equal(count('nobody is told of a program'), 1);
  t.same(device.alive.view().late, [PLC]);
});

t.test('after a restart each has its whole limit again', async (t) => {
  for (const plug of [false, true]) {
    const { device } = await start();
    await device.sign(PLC, WITHIN_MS, OPS);
    await device.pass(WITHIN_MS - 1);
    const written: string[] = [];
    const watched = () => {
      device.disk.onOperation = (_, { path }) => {
        if (path.startsWith(PATH)) written.push(path);
        return 'ok';
      };
    };
    watched();
    await device.reboot({ plug, offMs: DAY_MS });
    watched();
    t.same(device.alive.view(), { count: 1, late: [] });
    await device.pass(WITHIN_MS - 1);
    t.same(device.mails, []);
    t.same(written, [], 'a restart alone writes nothing');
    await device.pass(SOON_MS);
    t.same(await subjects(device), [LATE]);
    t.equal(await device.sign(PLC, WITHIN_MS, OPS), false);
    await device.pass(SOON_MS);
    t.same((await subjects(device)).slice(1), ['gw-17: plc-reader gives signs again, after > 11 min']);
  }
});

t.test(
  'who was late before a restart stays so, is told once, and for how long as far as it is known',
  async (t) => {
    for (const isConfirmed of [true, false]) {
      const { device } = await start();
      if (isConfirmed) device.clock.confirm();
      await device.sign(PLC, WITHIN_MS, OPS);
      await device.pass(WITHIN_MS + SOON_MS);
      for (const plug of [false, true]) {
        await device.reboot({ plug, offMs: HOUR_MS });
        t.same(device.alive.view(), { count: 1, late: [PLC] });
        await device.pass(DAY_MS);
      }
      if (isConfirmed) device.clock.confirm();
      t.equal(device.mails.length, 1);
      await device.sign(PLC, WITHIN_MS, OPS);
      await device.pass(SOON_MS);
      const length = isConfirmed ? '2 d 2 h' : '> 1 d';
      t.same((await subjects(device)).slice(1), [`gw-17: plc-reader gives signs again, after ${length}`]);
      t.match(device.alive.view(), { late: [] });
    }
  },
);

t.test('a power cut at any operation: each message comes once, and none is lost', async (t) => {
  const kinds = [
    ['everything', false],
    ['nothing', true],
  ] as const;
  for (const [kind, isLinkUp] of kinds) {
    let isOver = false;
    for (let cut = 1; !isOver; cut++) {
      const { device } = await start();
      await device.sign(PLC, WITHIN_MS, OPS);
      let seen = 0;
      let left: typeof device.disk | null = null;
      device.disk.onOperation = () => {
        if (++seen === cut) left = device.disk.afterPowerCut(kind);
        return left === null ? 'ok' : 'power-cut-before';
      };
      device.isLinkUp = isLinkUp;
      // Not pass(): a message that is being sent never ends on a dead disk.
      await device.clock.advance(WITHIN_MS);
      await settled();
      await device.sign(PLC, WITHIN_MS, OPS);
      await device.clock.advance(SECOND_MS);
      await settled();
      isOver = left === null;
      device.isLinkUp = true;
      await device.reboot({ plug: true, disk: left });
      // A second episode, perhaps.
      await device.pass(WITHIN_MS + SOON_MS);
      await device.sign(PLC, WITHIN_MS, OPS);
      await device.pass(SOON_MS);
      // A message whose outcome was lost goes out again, as itself.
      const mails = new Map((await subjects(device)).map((subject, at) => [device.offered[at], subject]));
      const told = [...mails.values()].map((subject) => (subject?.includes('again') ? 'back' : 'late'));
      const texts = told.join(' ');
      t.match(texts, /^(late )?(back )?late back$/, `${kind} ${cut}: ${texts}`);
      t.match(device.alive.view(), { count: 1, late: [] });
    }
  }
});

t.test('a full queue: it is tried again until it is accepted, and logged once', async (t) => {
  const { device, count } = await start({ maxQueue: 1 });
  device.isLinkUp = false;
  await device.sign(PLC, WITHIN_MS, OPS);
  await device.post(1);
  await device.pass(WITHIN_MS + HOUR_MS);
  t.equal(count('notice waits'), 1);
  t.same(device.alive.view().late, [PLC]);
  await device.reboot({ plug: true });
  device.isLinkUp = true;
  await device.pass(HOUR_MS);
  t.match((await subjects(device)).sort(), [/^gw-17: plc-reader has given no sign for /, 'test']);
  t.equal(device.mails.length, 2);
});

t.test('a disk that takes no file: people are told all the same, and the file follows', async (t) => {
  const { device, count } = await start();
  await device.sign(PLC, WITHIN_MS, OPS);
  let isFull = true;
  device.disk.onOperation = (_, { path }) => (isFull && path.startsWith(PATH) ? 'error:ENOSPC' : 'ok');
  await t.rejects(device.sign('other', WITHIN_MS, null), { code: 'storage-full' });
  await t.rejects(device.sign(PLC, 2 * WITHIN_MS, OPS), { code: 'storage-full' });
  await t.rejects((await device.alive.open()).remove(PLC), { code: 'storage-full' });
  t.same(device.alive.view(), { count: 1, late: [] });
  await device.pass(WITHIN_MS + SOON_MS);
  t.same(await subjects(device), [LATE]);
  t.equal(count('programs not kept'), 1);
  isFull = false;
  await device.pass(SOON_MS);
  await device.reboot({ plug: true });
  await device.pass(DAY_MS);
  t.same(device.alive.view(), { count: 1, late: [PLC] });
  t.equal(device.mails.length, 1);
});

t.test('a program that comes and goes is told a few times an hour', async (t) => {
  const { device } = await start();
  const endMs = device.clock.bootMs() + 3 * HOUR_MS;
  while (device.clock.bootMs() < endMs) {
    await device.sign(PLC, 10 * SECOND_MS, OPS);
    await device.pass(12 * SECOND_MS);
  }
  await device.pass(HOUR_MS);
  const lates = (await subjects(device)).filter((subject) => subject?.includes('no sign'));
  t.ok(lates.length >= 3 * TOLD_MAX && lates.length <= 4 * TOLD_MAX + 1, `${lates.length}`);
  t.match((await subjects(device)).at(-1), /no sign/, 'that it stays away is told in the end');
});

t.test('while nothing leaves, only the newest message about a program waits', async (t) => {
  const { device } = await start();
  device.isLinkUp = false;
  for (let turn = 0; turn < 4; turn++) {
    await device.sign(PLC, WITHIN_MS, OPS);
    await device.sign('other', WITHIN_MS, OPS);
    await device.pass(WITHIN_MS + SOON_MS);
  }
  t.equal(device.store.counts().queued + device.store.counts().deferred, 2);
  device.isLinkUp = true;
  await device.pass(HOUR_MS);
  t.same((await subjects(device)).sort(), ['gw-17: other has given no sign for 10 min', LATE]);
});

t.test('a wall that leaps changes nothing, and a suspend makes nobody late', async (t) => {
  const { device } = await start();
  await device.sign(PLC, WITHIN_MS, OPS);
  await device.pass(WITHIN_MS / 2);
  device.clock.leap(30 * DAY_MS);
  await device.pass(0);
  t.same(device.alive.view().late, []);
  device.clock.suspend(DAY_MS);
  await device.pass(WITHIN_MS / 2 - 1);
  t.same(device.alive.view().late, []);
  device.clock.leap(-30 * DAY_MS);
  await device.pass(1);
  t.same(device.alive.view().late, [PLC]);
});

t.test('a daemon that stood still hears first what has come meanwhile', async (t) => {
  const { device } = await start();
  await device.sign(PLC, WITHIN_MS, OPS);
  await device.sign('other', WITHIN_MS, OPS);
  device.clock.stall(DAY_MS);
  await device.pass(SECOND_MS);
  t.same(device.alive.view().late, []);
  await device.sign(PLC, WITHIN_MS, OPS);
  // Signs of one do not put off the other.
  for (let turn = 0; turn < 10; turn++) {
    await device.pass(SECOND_MS);
    await device.sign(PLC, WITHIN_MS, OPS);
  }
  t.same(device.alive.view().late, ['other']);
});

t.test('another limit or address is kept; a program that is removed is no longer late', async (t) => {
  const { device } = await start();
  await device.sign(PLC, WITHIN_MS, null);
  t.equal(await device.sign(PLC, HOUR_MS, OPS), false);
  await device.reboot({ plug: true });
  const shown = { name: PLC, withinMs: HOUR_MS, to: OPS, late: false, lastSignAt: null };
  t.same((await device.alive.open()).list(), [shown]);
  await device.pass(HOUR_MS + SOON_MS);
  t.same(device.alive.view().late, [PLC]);
  t.equal(device.lateNews, 1);
  await (await device.alive.open()).remove(PLC);
  t.same(device.alive.view(), { count: 0, late: [] });
  t.equal(device.lateNews, 2);
  await t.rejects((await device.alive.open()).remove(PLC), { code: 'not-found' });
  await device.reboot({ plug: true });
  await device.pass(DAY_MS);
  t.equal(device.mails.length, 1);
  t.equal(await device.disk.readWhole(PATH), null);
  // A new one of that name is another: its messages have other keys.
  await device.sign(PLC, WITHIN_MS, OPS);
  await device.pass(WITHIN_MS + SOON_MS);
  t.equal(device.mails.length, 2);
});

t.test('so many programs and no more; those that are there go on', async (t) => {
  const { device } = await start();
  for (let index = 0; index < PROGRAMS_MAX; index++) await device.sign(`p${index}`, WITHIN_MS, null);
  await t.rejects(device.sign('one-more', WITHIN_MS, null), { code: 'rate-limited' });
  t.equal(await device.sign('p0', 2 * WITHIN_MS, null), false);
  await (await device.alive.open()).remove('p1');
  t.equal(await device.sign('one-more', WITHIN_MS, null), true);
  await device.pass(WITHIN_MS);
  t.equal(device.alive.view().late.length, PROGRAMS_MAX - 1);
  t.equal(device.lateNews, 1, 'the link hears once of all');
});

t.test(
  'signs at one moment: one is the first, and its name is on the disk before the others are answered',
  async (t) => {
    const { device } = await start();
    const firsts = await Promise.all([1, 2, 3].map(() => device.sign(PLC, WITHIN_MS, OPS)));
    t.same(firsts, [true, false, false]);
    await device.reboot({ plug: true });
    t.equal(device.alive.view().count, 1);
  },
);

t.test(
  'a damaged or unreadable file: it is logged, and the programs are known again by their signs',
  async (t) => {
    for (const damage of ['bytes', 'shape', 'read'] as const) {
      const { device, count } = await start();
      await device.sign(PLC, WITHIN_MS, OPS);
      if (damage !== 'read') {
        const file = await device.disk.open(PATH, 'update');
        await file.write(Buffer.from(damage === 'bytes' ? '?' : '00000000 {}\n'), 0);
        await file.sync();
        await file.close();
      } else {
        device.disk.onRead = (path) => (path === PATH ? 'EIO' : null);
      }
      await device.reboot();
      t.equal(device.alive.view().count, 0, damage);
      t.equal(count('programs not kept'), 1, damage);
      t.equal(await device.sign(PLC, WITHIN_MS, OPS), true);
      await device.reboot();
    }
  },
);
