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
    nl: '20 november 2026 om 09:41 uur (UTC)',
    fr: '20 novembre 2026 à 09:41 (UTC)',
    de: '20. November 2026, 09:41 Uhr (UTC)',
    en: '20 November 2026, 09:41 (UTC)',
    it: '20 novembre 2026, ore 09:41 (UTC)',
    pl: '20 listopada 2026 r., godz. 09:41 (UTC)',
    es: '20 de noviembre de 2026, 09:41 h (UTC)',
  });
  t.equal(momentIn('fr', Date.UTC(2026, 4, 1, 0, 5), 'UTC'), '1er mai 2026 à 00:05 (UTC)');
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

const PUMP = { device: 'Pump 3', site: null, contact: null };

/** The middle of each language's mails: what happened, and since when. By those who speak it. */
const SAID: Readonly<Record<Lang, Readonly<Record<Happening['kind'], string>>>> = {
  en: {
    silent: `The device “Pump 3” is offline: we no longer receive any signal from it.
Last signal: 20 November 2026, 03:41 (UTC)`,
    stopped: `The device “Pump 3” was shut down as planned and has not come back.
Shut down: 20 November 2026, 03:41 (UTC)`,
    back: `The device “Pump 3” is back online.
Back online: 20 November 2026, 03:41 (UTC)
Outage lasted: 22 minutes`,
  },
  de: {
    silent: `Das Gerät „Pump 3“ ist offline: Wir empfangen keine Signale mehr von ihm.
Letztes Signal: 20. November 2026, 03:41 Uhr (UTC)`,
    stopped: `Das Gerät „Pump 3“ wurde planmäßig heruntergefahren und ist noch nicht wieder online.
Heruntergefahren: 20. November 2026, 03:41 Uhr (UTC)`,
    back: `Das Gerät „Pump 3“ ist wieder online.
Wieder online seit: 20. November 2026, 03:41 Uhr (UTC)
Dauer der Unterbrechung: 22 Minuten`,
  },
  nl: {
    silent: `Het apparaat “Pump 3” is offline: we ontvangen er geen signalen meer van.
Laatste signaal: 20 november 2026 om 03:41 uur (UTC)`,
    stopped: `Het apparaat “Pump 3” is volgens plan uitgeschakeld en is nog niet weer online.
Uitgeschakeld: 20 november 2026 om 03:41 uur (UTC)`,
    back: `Het apparaat “Pump 3” is weer online.
Weer online sinds: 20 november 2026 om 03:41 uur (UTC)
Duur van de onderbreking: 22 minuten`,
  },
  fr: {
    silent: `L’appareil «~Pump 3~» est hors ligne~: nous n’en recevons plus aucun signal.
Dernier signal~: 20 novembre 2026 à 03:41 (UTC)`,
    stopped: `L’appareil «~Pump 3~» a été arrêté comme prévu et n’est pas encore revenu en ligne.
Déconnexion~: 20 novembre 2026 à 03:41 (UTC)`,
    back: `L’appareil «~Pump 3~» est de nouveau en ligne.
Retour en ligne~: 20 novembre 2026 à 03:41 (UTC)
Durée de l’interruption~: 22 minutes`,
  },
  it: {
    silent: `Il dispositivo «Pump 3» è offline: non ne riceviamo più alcun segnale.
Ultimo segnale: 20 novembre 2026, ore 03:41 (UTC)`,
    stopped: `Il dispositivo «Pump 3» è stato spento come previsto e non è ancora tornato online.
Spento il: 20 novembre 2026, ore 03:41 (UTC)`,
    back: `Il dispositivo «Pump 3» è di nuovo online.
Di nuovo online dal: 20 novembre 2026, ore 03:41 (UTC)
Durata dell’interruzione: 22 minuti`,
  },
  pl: {
    silent: `Urządzenie „Pump 3” jest offline: nie otrzymujemy już od niego żadnych sygnałów.
Ostatni sygnał: 20 listopada 2026 r., godz. 03:41 (UTC)`,
    stopped: `Urządzenie „Pump 3” zostało planowo wyłączone i nie uruchomiło się jeszcze ponownie.
Wyłączenie: 20 listopada 2026 r., godz. 03:41 (UTC)`,
    back: `Urządzenie „Pump 3” jest ponownie online.
Ponownie online od: 20 listopada 2026 r., godz. 03:41 (UTC)
Czas trwania przerwy: 22 minuty`,
  },
  es: {
    silent: `El dispositivo «Pump 3» está sin conexión: ya no recibimos señales de él.
Última señal: 20 de noviembre de 2026, 03:41 h (UTC)`,
    stopped: `El dispositivo «Pump 3» se apagó según lo previsto y aún no ha vuelto a conectarse.
Desconexión: 20 de noviembre de 2026, 03:41 h (UTC)`,
    back: `El dispositivo «Pump 3» vuelve a estar en línea.
Conexión restablecida: 20 de noviembre de 2026, 03:41 h (UTC)
Duración de la interrupción: 22 minutos`,
  },
};
const NIGHT_MS = Date.UTC(2026, 10, 20, 3, 41);
const KINDS = ['silent', 'stopped', 'back'] as const;

function happened(kind: Happening['kind'], sinceMs: number | null, lastedMs: number | null): Happening {
  return kind === 'back' ? { kind, sinceMs, lastedMs } : { kind, sinceMs };
}

t.test(
  'what happened is told as native speakers say it, and nobody is wished a good day at night',
  async (t) => {
    for (const lang of LANGS) {
      for (const kind of KINDS) {
        const { subject, plain } = textOf(lang, PUMP, happened(kind, NIGHT_MS, 22 * MINUTE_MS), 'UTC');
        t.ok(plain.includes(`\n\n${SAID[lang][kind].replaceAll('~', '\u00a0')}\n\n`), plain);
        t.notMatch(plain, /goedendag|bonjour|guten|buon|dzień dobry|buenos|undefined|null|~| {2}/i);
        t.match(subject, /^Pump 3[ :]/);
      }
      const subjects = KINDS.map((kind) => textOf(lang, PUMP, happened(kind, null, null), 'UTC').subject);
      t.equal(new Set(subjects).size, 3, `an outage and a planned stop have subjects of their own: ${lang}`);
    }
  },
);

t.test('a whole notification, with the site and whom to call', async (t) => {
  const about = { device: 'Pompe 3', site: 'Écluse nord', contact: 'Anne, +33 1 99 00 12 34' };
  t.same(textOf('fr', about, { kind: 'silent', sinceMs: NIGHT_MS }, 'Europe/Paris'), {
    subject: 'Pompe 3 est hors ligne',
    plain: `Madame, Monsieur,

L’appareil «~Pompe 3~» est hors ligne~: nous n’en recevons plus aucun signal.
Site~: Écluse nord
Dernier signal~: 20 novembre 2026 à 04:41 (UTC+01:00)
Contact~: Anne, +33 1 99 00 12 34

Vous recevrez un message dès que l’appareil sera de nouveau en ligne.

Ce message a été envoyé automatiquement.
`.replaceAll('~', '\u00a0'),
    short:
      'Pompe 3 est hors ligne. Site~: Écluse nord. Dernier signal~: 20 novembre 2026 à 04:41 (UTC+01:00). Contact~: Anne, +33 1 99 00 12 34.'.replaceAll(
        '~',
        '\u00a0',
      ),
  });
});

t.test('a moment that no clock can tell is left out, and so is its length', async (t) => {
  for (const lang of LANGS) {
    for (const kind of KINDS) {
      const { plain, short, subject } = textOf(lang, PUMP, happened(kind, null, null), 'UTC');
      t.notMatch(`${plain}${short}`, /\d\d|null|1970/);
      t.equal(short, `${subject}.`);
    }
  }
});
