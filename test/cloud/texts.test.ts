/** The words of notifications: every plural and every month against ICU, dates and whole texts against examples. */
import t from 'tap';
import { LANGS } from '../../src/base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { momentIn, spanIn, zoneOf } from '../../src/cloud/texts/moments.js';
import { type Happening, type Text, textOf } from '../../src/cloud/texts/texts.js';

const AT_MS = Date.UTC(2026, 10, 20, 9, 41);
const UNITS = { day: DAY_MS, hour: HOUR_MS, minute: MINUTE_MS, second: SECOND_MS };
type Unit = keyof typeof UNITS;

t.test('every number of every unit is said as ICU says it', async (t) => {
  const most: Readonly<Record<Unit, number>> = { day: 1200, hour: 23, minute: 59, second: 59 };
  for (const lang of LANGS) {
    for (const unit of Object.keys(UNITS) as Unit[]) {
      const format = new Intl.NumberFormat(lang, {
        style: 'unit',
        unit,
        unitDisplay: 'long',
        useGrouping: false,
      });
      for (let count = 1; count <= most[unit]; count++) {
        const wanted = format.format(count).replace(/\s/g, ' ');
        const said = spanIn(lang, count * UNITS[unit]);
        if (said !== wanted) t.equal(said, wanted, lang);
      }
    }
  }
});

t.test('a duration has at most two units, and is never empty', async (t) => {
  const ms = 2 * DAY_MS + HOUR_MS + 5 * MINUTE_MS;
  t.equal(spanIn('en', ms), '2 days and 1 hour');
  t.equal(spanIn('pl', HOUR_MS + 21 * MINUTE_MS + 59 * SECOND_MS), '1 godzina i 21 minut');
  t.equal(spanIn('es', 95 * SECOND_MS), '1 minuto y 35 segundos');
  t.equal(spanIn('nl', DAY_MS + 5 * MINUTE_MS), '1 dag', 'a gap between the units is left out');
  t.equal(spanIn('de', 12), '1 Sekunde');
});

t.test('a time is written as people write it, in the zone of the setting', async (t) => {
  for (const lang of LANGS)
    t.match(momentIn(lang, AT_MS, zoneOf('UTC')), /^20\.? .* 2026.* 09:41.* \(UTC\)$/);
  t.equal(momentIn('fr', Date.UTC(2026, 4, 1, 0, 5), zoneOf('UTC')), '1er mai 2026 à 00:05 (UTC)');
  t.equal(momentIn('en', AT_MS, zoneOf('Europe/Warsaw')), '20 November 2026, 10:41 (UTC+01:00)');
  t.equal(
    momentIn('en', Date.UTC(2026, 11, 31, 23, 30), zoneOf('Asia/Kolkata')),
    '1 January 2027, 05:00 (UTC+05:30)',
  );
  t.equal(
    momentIn('en', Date.UTC(2026, 5, 30, 22, 0), zoneOf('Europe/Warsaw')),
    '1 July 2026, 00:00 (UTC+02:00)',
  );
  for (const lang of LANGS) {
    const format = new Intl.DateTimeFormat(lang, { day: 'numeric', month: 'long', timeZone: 'UTC' });
    for (let month = 0; month < 12; month++) {
      const dayMs = Date.UTC(2026, month, 2);
      const name = format.formatToParts(dayMs).find(({ type }) => type === 'month')?.value;
      t.match(momentIn(lang, dayMs, zoneOf('UTC')), new RegExp(` ${name} `), `${lang} ${name}`);
    }
  }
});

const UTC = { timeZone: 'UTC', publicUrl: null };
const PARIS = { timeZone: 'Europe/Paris', publicUrl: 'https://cloud.example/#fleet' };
const PUMP = { device: 'Pump 3', site: null, contact: null };

const NIGHT_MS = Date.UTC(2026, 10, 20, 3, 41);
const written = (text: Text) => ({ ...text, sms: text.sms() });
const KINDS = ['silent', 'stopped', 'back'] as const;

function happened(kind: (typeof KINDS)[number], sinceMs: number | null, lastedMs: number | null): Happening {
  return kind === 'back' ? { kind, sinceMs, lastedMs } : { kind, sinceMs };
}

t.test('each language says each event, its moment and the length of an outage', async (t) => {
  for (const lang of LANGS) {
    const texts = KINDS.map((kind) => textOf(lang, PUMP, happened(kind, NIGHT_MS, 22 * MINUTE_MS), UTC));
    for (const [index, { subject, plain }] of texts.entries()) {
      t.match(subject, /^Pump 3[ :]/);
      const [, sentence = '', moment = '', lasted = ''] = /\n\n(.*)\n(.*)(?:\n(.*))?\n\n/.exec(plain) ?? [];
      t.match(sentence, /[“„«]\u00a0?Pump 3\u00a0?[”“»] .*\.$/);
      t.ok(moment.endsWith(`: ${momentIn(lang, NIGHT_MS, zoneOf('UTC'))}`), moment);
      const length = KINDS[index] === 'back' ? `: ${spanIn(lang, 22 * MINUTE_MS)}` : '';
      t.ok(lasted.endsWith(length), lasted);
      t.equal(lasted === '', length === '', plain);
      t.notMatch(
        plain,
        /goedendag|bonjour|guten|buon|dzień dobry|buenos|undefined|null| {2}/i,
        'at any hour',
      );
    }
    for (const part of ['subject', 'plain', 'short'] as const)
      t.equal(
        new Set(texts.map((text) => text[part])).size,
        KINDS.length,
        `${lang}: each event has its ${part}`,
      );
  }
});

t.test('the message of the return promises no other', async (t) => {
  const { plain } = textOf('en', PUMP, happened('back', NIGHT_MS, 22 * MINUTE_MS), UTC);
  t.notMatch(plain, /will get/);
  t.match(textOf('en', PUMP, happened('silent', NIGHT_MS, null), UTC).plain, /will get a message as soon as/);
});

t.test('a whole notification, with the site and the contact', async (t) => {
  const about = { device: 'Pompe 3', site: 'Écluse nord', contact: 'Anne, +33 1 99 00 12 34' };
  t.same(written(textOf('fr', about, { kind: 'silent', sinceMs: NIGHT_MS }, PARIS)), {
    subject: 'Pompe 3 est hors ligne',
    plain: `Madame, Monsieur,

L’appareil «~Pompe 3~» est hors ligne~: nous n’en recevons plus aucun signal.
Site~: Écluse nord
Dernier signal~: 20 novembre 2026 à 04:41 (UTC+01:00)
Contact~: Anne, +33 1 99 00 12 34

Vous recevrez un message dès que l’appareil sera de nouveau en ligne.

Ce message a été envoyé automatiquement.

Vue d’ensemble de vos appareils~: https://cloud.example/#fleet
`.replaceAll('~', '\u00a0'),
    short:
      'Pompe 3 est hors ligne. Site~: Écluse nord. Dernier signal~: 20 novembre 2026 à 04:41 (UTC+01:00). Contact~: Anne, +33 1 99 00 12 34.'.replaceAll(
        '~',
        '\u00a0',
      ),
    sms: 'Pompe 3 est hors ligne. Dernier signal le 20/11 à 04:41 (UTC+01:00). Site : Écluse nord. Contact : Anne, +33 1 99 00 12 34.',
  });
});

t.test('an unknown time is left out, and so is the duration', async (t) => {
  for (const lang of LANGS) {
    for (const kind of KINDS) {
      const { plain, short, sms: smsText, subject } = textOf(lang, PUMP, happened(kind, null, null), UTC);
      const sms = smsText();
      t.notMatch(`${plain}${short}${sms}`, /\d\d|null|1970/);
      t.match(sms, /^[^.]*Pump 3[^.]*[^., :]\.$/);
      t.equal(short, `${subject}.`);
    }
  }
});
