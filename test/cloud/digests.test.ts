/** The text of a digest in each language, for mail, SMS, phone and push. */
import t from 'tap';
import { LANGS } from '../../src/base/langs.js';
import { isOneSms } from '../../src/cloud/texts/sms.js';
import { digestOf } from '../../src/cloud/texts/texts.js';

const AT_MS = Date.UTC(2026, 10, 24, 9, 41);
const OPTIONS = { timeZone: 'UTC', publicUrl: 'https://cloud.example/' };

/** Devices in an order that is not that of their names. */
const pumps = (count: number, site: string | null = null) =>
  Array.from({ length: count }, (_, n) => ({ device: `Pump ${count - n}`, site, contact: 'Anne' }));

t.test('a digest names twenty devices in order, and counts the others', async (t) => {
  const devices = [...pumps(36), { device: 'Ärger', site: 'Hall 2', contact: null }];
  const { subject, plain, short, sms } = digestOf(
    'en',
    { direction: 'offline', devices, sinceMs: AT_MS },
    OPTIONS,
  );
  const listed = Array.from({ length: 19 }, (_, n) => `- Pump ${n + 1}\n`).join('');
  t.equal(subject, '37 devices are offline');
  t.match(plain, `\n- Ärger (Hall 2)\n${listed}and 17 more\n`);
  for (const part of ['Since: 24 November 2026, 09:41 (UTC)\n', 'back online', 'https://cloud.example/\n'])
    t.match(plain, part);
  t.match(
    short,
    /^37 devices are offline, since .* \(UTC\): Ärger, Pump 1, Pump 2, Pump 3, Pump 4 and 32 more\.$/,
  );
  t.match(sms(), /^37 devices are offline, since 24 Nov, 09:41 \(UTC\): Ärger, Pump 1, .* and \d+ more\.$/);
});

t.test('a return promises nothing, and an unknown moment is left out', async (t) => {
  const content = { direction: 'back', devices: pumps(21, 'Hall 2'), sinceMs: null } as const;
  const { plain, sms } = digestOf('de', content, { ...OPTIONS, publicUrl: null });
  t.match(plain, /^Hallo,\n\n21 Geräte sind wieder online\.\n\n- Pump 1 \(Hall 2\)\n/);
  t.match(plain, /\n- Pump 20 \(Hall 2\)\nund 1 weiteres\n\nDiese Nachricht wurde automatisch versandt\.\n$/);
  t.match(sms(), /^21 Geräte sind wieder online: Pump 1, .* und \d+ weitere\.$/);
});

t.test('each language says how many; Polish has forms for that', async (t) => {
  const said = (count: number, direction: 'offline' | 'back') =>
    Object.fromEntries(
      LANGS.map((lang) => {
        const content = { direction, devices: pumps(count), sinceMs: AT_MS };
        const { subject, sms } = digestOf(lang, content, OPTIONS);
        t.ok(isOneSms(sms()) && sms().length > 70, sms());
        return [lang, subject];
      }),
    );
  for (const [count, direction] of [
    [21, 'offline'],
    [5000, 'back'],
  ] as const) {
    const subjects = Object.values(said(count, direction));
    t.equal(new Set(subjects).size, LANGS.length);
    for (const subject of subjects) t.match(subject, new RegExp(`^${count} `));
  }
  t.equal(said(21, 'offline').pl, '21 urządzeń jest offline');
  t.equal(said(22, 'offline').pl, '22 urządzenia są offline');
  t.equal(said(112, 'back').pl, '112 urządzeń jest ponownie online');
  t.equal(said(134, 'back').pl, '134 urządzenia są ponownie online');
});

t.test('the SMS of a digest names what fits, whatever the names are', async (t) => {
  const strange = ['€'.repeat(200), 'Насос', '🚰'.repeat(100), 'x'.repeat(200), 'Łódź'];
  for (const lang of LANGS) {
    for (const name of strange) {
      const devices = pumps(10_000).map((pump, n) => ({ ...pump, device: `${name} ${n}` }));
      const content = { direction: 'back', devices, sinceMs: AT_MS } as const;
      const text = digestOf(lang, content, { ...OPTIONS, timeZone: 'Asia/Kolkata' }).sms();
      t.ok(isOneSms(text), text);
      t.match(text, /^10000 /);
    }
  }
});
