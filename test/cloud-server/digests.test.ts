/** The text of a digest in each language, for mail, SMS, phone and push. */
import t from 'tap';
import { digestOf } from '../../src/cloud-server/digests.js';
import { isOneSms } from '../../src/cloud-server/gsm.js';
import { LANGS } from '../../src/destinations/langs.js';

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
  t.equal(
    plain,
    `Hello,

37 devices are offline: we no longer receive any signal from them.
Since: 24 November 2026, 09:41 (UTC)

- Ärger (Hall 2)
${listed}and 17 more

You will get a message as soon as the devices are back online.

This message was sent automatically.

Overview of your devices: https://cloud.example/
`,
  );
  t.equal(
    short,
    '37 devices are offline, since 24 November 2026, 09:41 (UTC): Ärger, Pump 1, Pump 2, Pump 3, Pump 4 and 32 more.',
  );
  t.equal(
    sms(),
    '37 devices are offline, since 24 Nov, 09:41 (UTC): Ärger, Pump 1, Pump 2, Pump 3, Pump 4, Pump 5, Pump 6, Pump 7, Pump 8, Pump 9, Pump 10, Pump 11 and 25 more.',
  );
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
  t.same(said(21, 'offline'), {
    nl: '21 apparaten zijn offline',
    fr: '21 appareils sont hors ligne',
    de: '21 Geräte sind offline',
    en: '21 devices are offline',
    it: '21 dispositivi sono offline',
    pl: '21 urządzeń jest offline',
    es: '21 dispositivos están sin conexión',
  });
  t.same(said(5000, 'back'), {
    nl: '5000 apparaten zijn weer online',
    fr: '5000 appareils sont de nouveau en ligne',
    de: '5000 Geräte sind wieder online',
    en: '5000 devices are back online',
    it: '5000 dispositivi sono di nuovo online',
    pl: '5000 urządzeń jest ponownie online',
    es: '5000 dispositivos vuelven a estar en línea',
  });
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
