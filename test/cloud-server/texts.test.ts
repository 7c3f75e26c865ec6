/** The notifications' words: every plural and date of every language, by hand and against ICU's own tables. */
import t from 'tap';
import { momentIn, spanIn } from '../../src/cloud-server/spans.js';
import { type Happening, textOf } from '../../src/cloud-server/texts.js';
import { LANGS, type Lang } from '../../src/destinations/destination.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';

const AT_MS = Date.UTC(2026, 10, 20, 9, 41);
const UNITS = { day: DAY_MS, hour: HOUR_MS, minute: MINUTE_MS, second: SECOND_MS };
type Unit = keyof typeof UNITS;

/** Of each unit: one; two to four; five and more. Where a language has two forms, the last two are the same. */
const FORMS: Readonly<Record<Lang, Readonly<Record<Unit, string>>>> = {
  nl: {
    day: 'dag dagen dagen',
    hour: 'uur uur uur',
    minute: 'minuut minuten minuten',
    second: 'seconde seconden seconden',
  },
  fr: {
    day: 'jour jours jours',
    hour: 'heure heures heures',
    minute: 'minute minutes minutes',
    second: 'seconde secondes secondes',
  },
  de: {
    day: 'Tag Tage Tage',
    hour: 'Stunde Stunden Stunden',
    minute: 'Minute Minuten Minuten',
    second: 'Sekunde Sekunden Sekunden',
  },
  en: {
    day: 'day days days',
    hour: 'hour hours hours',
    minute: 'minute minutes minutes',
    second: 'second seconds seconds',
  },
  it: {
    day: 'giorno giorni giorni',
    hour: 'ora ore ore',
    minute: 'minuto minuti minuti',
    second: 'secondo secondi secondi',
  },
  pl: {
    day: 'dzień dni dni',
    hour: 'godzina godziny godzin',
    minute: 'minuta minuty minut',
    second: 'sekunda sekundy sekund',
  },
  es: {
    day: 'día días días',
    hour: 'hora horas horas',
    minute: 'minuto minutos minutos',
    second: 'segundo segundos segundos',
  },
};

t.test('every number of every unit has its form', async (t) => {
  for (const lang of LANGS) {
    const rules = new Intl.PluralRules(lang);
    for (const unit of Object.keys(UNITS) as Unit[]) {
      const [one, few, many] = FORMS[lang][unit].split(' ');
      const most = { day: 1200, hour: 23, minute: 59, second: 59 }[unit];
      for (let count = 1; count <= most; count++) {
        const category = rules.select(count);
        const form = category === 'one' ? one : category === 'few' ? few : many;
        const said = spanIn(lang, count * UNITS[unit]);
        if (said !== `${count} ${form}`) t.equal(said, `${count} ${form}`, `${lang} ${category}`);
      }
    }
  }
  const polish = [1, 2, 5, 12, 22, 25].map((count) => spanIn('pl', count * MINUTE_MS));
  t.same(polish, ['1 minuta', '2 minuty', '5 minut', '12 minut', '22 minuty', '25 minut']);
  t.equal(spanIn('pl', 112 * DAY_MS), '112 dni');
});

t.test('a span is told in two units at most, and never as nothing', async (t) => {
  const ms = 2 * DAY_MS + HOUR_MS + 5 * MINUTE_MS;
  t.equal(spanIn('en', ms), '2 days and 1 hour');
  t.equal(spanIn('pl', HOUR_MS + 21 * MINUTE_MS + 59 * SECOND_MS), '1 godzina i 21 minut');
  t.equal(spanIn('es', 95 * SECOND_MS), '1 minuto y 35 segundos');
  t.equal(spanIn('nl', DAY_MS + 5 * MINUTE_MS), '1 dag', 'a gap between the units is left out');
  t.equal(spanIn('de', 12), '1 Sekunde');
});

t.test('a moment is told as people write it, in the zone that is asked for', async (t) => {
  const said = Object.fromEntries(LANGS.map((lang) => [lang, momentIn(lang, AT_MS, 'UTC')]));
  t.same(said, {
    nl: '20 november 2026, 09:41 (UTC)',
    fr: '20 novembre 2026, 09:41 (UTC)',
    de: '20. November 2026, 09:41 Uhr (UTC)',
    en: '20 November 2026, 09:41 (UTC)',
    it: '20 novembre 2026, 09:41 (UTC)',
    pl: '20 listopada 2026 r., 09:41 (UTC)',
    es: '20 de noviembre de 2026, 09:41 (UTC)',
  });
  t.equal(momentIn('fr', Date.UTC(2026, 4, 1, 0, 5), 'UTC'), '1er mai 2026, 00:05 (UTC)');
  t.equal(momentIn('en', AT_MS, 'Europe/Warsaw'), '20 November 2026, 10:41 (UTC+01:00)');
  t.equal(
    momentIn('en', Date.UTC(2026, 11, 31, 23, 30), 'Asia/Kolkata'),
    '1 January 2027, 05:00 (UTC+05:30)',
  );
  t.equal(momentIn('en', Date.UTC(2026, 5, 30, 22, 0), 'Europe/Warsaw'), '1 July 2026, 00:00 (UTC+02:00)');
  for (const lang of LANGS) {
    const format = new Intl.DateTimeFormat(lang, { day: 'numeric', month: 'long', timeZone: 'UTC' });
    for (let month = 0; month < 12; month++) {
      const dayMs = Date.UTC(2026, month, 2);
      const name = format.formatToParts(dayMs).find(({ type }) => type === 'month')?.value;
      t.match(momentIn(lang, dayMs, 'UTC'), new RegExp(` ${name} `), `${lang} ${name}`);
    }
  }
});

const BACK: Happening = { kind: 'back', sinceMs: AT_MS, lastedMs: 22 * MINUTE_MS };

t.test('a whole notification, in Dutch and in Polish', async (t) => {
  t.same(textOf('nl', 'Pomp 3', { kind: 'silent', sinceMs: AT_MS }, 'UTC'), {
    subject: 'Pomp 3 is offline',
    plain: `Goedendag,

Het apparaat “Pomp 3” is offline: we ontvangen er geen signalen meer van.
Laatste levensteken: 20 november 2026, 09:41 (UTC)

U ontvangt bericht zodra het apparaat weer bereikbaar is.

Dit bericht is automatisch verzonden.
`,
    short: 'Pomp 3 is offline. Laatste levensteken: 20 november 2026, 09:41 (UTC).',
  });
  t.same(textOf('pl', 'Pompa 3', BACK, 'UTC'), {
    subject: 'Pompa 3 jest ponownie online',
    plain: `Dzień dobry,

Urządzenie „Pompa 3” jest ponownie dostępne.
Ponownie dostępne od: 20 listopada 2026 r., 09:41 (UTC)
Czas trwania przerwy: 22 minuty

Ta wiadomość została wysłana automatycznie.
`,
    short:
      'Pompa 3 jest ponownie online. Ponownie dostępne od: 20 listopada 2026 r., 09:41 (UTC). Czas trwania przerwy: 22 minuty.',
  });
});

t.test('in every language every kind says the device, the moment, and on return the length', async (t) => {
  const seen = new Set<string>();
  for (const lang of LANGS) {
    for (const kind of ['silent', 'stopped', 'back'] as const) {
      const happening = kind === 'back' ? BACK : { kind, sinceMs: AT_MS };
      const { subject, plain, short } = textOf(lang, 'Pump 3', happening, 'UTC');
      t.match(subject, /^Pump 3 /);
      t.notMatch(subject, /[\n.]/);
      for (const text of [plain, short]) {
        t.ok(text.includes('Pump 3') && text.includes(momentIn(lang, AT_MS, 'UTC')), text);
        t.equal(text.includes(spanIn(lang, 22 * MINUTE_MS)), kind === 'back', text);
      }
      t.notMatch(plain, /undefined| {2}/);
      seen.add(plain);
    }
  }
  t.equal(seen.size, LANGS.length * 3, 'no two are the same');
});
