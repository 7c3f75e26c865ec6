/** The alphabet of SMS; and every SMS fits one message of a phone network, counted here by the table of 3GPP TS 23.038. */
import t from 'tap';
import { LANGS, type Lang } from '../../src/base/langs.js';
import { DAY_MS, HOUR_MS } from '../../src/base/limits.js';
import { folded } from '../../src/cloud/texts/sms.js';
import { type About, type Happening, textOf } from '../../src/cloud/texts/texts.js';
import { isBasic, smsCount } from '../support/sms-count.js';

/** Of one kind of outage. */
type Outage = Extract<Happening, { readonly kind: 'silent' | 'stopped' | 'back' }>;

const smsOf = (lang: Lang, about: About, happening: Happening, timeZone: string) =>
  textOf(lang, about, happening, { timeZone, publicUrl: null }).sms();

const AT_MS = Date.UTC(2026, 10, 24, 9, 41);

const NAMES = [
  'Pump 3',
  'Przepompownia ścieków „Żabia” – Łódź Górna',
  'x'.repeat(200),
  '€'.repeat(200),
  'ł'.repeat(200),
  'Насосная станция номер три, город Санкт-Петербург',
  '🚰'.repeat(100),
  '👩🏽‍🔧'.repeat(28),
  'Αντλιοστάσιο 7',
  '[~]|'.repeat(50),
  '. . .',
  `${'long '.repeat(35)}й`,
];

/** Site and contact. */
const PLACES: readonly (readonly [string | null, string | null])[] = [
  [null, null],
  ['Hall 2', 'Anne, +33 1 99 00 12 34'],
  ['x'.repeat(200), '🚰'.repeat(100)],
  ['Санкт-Петербург', 'Ewa Żółć'],
];

const KINDS: readonly Outage[] = [
  { kind: 'silent', sinceMs: AT_MS },
  { kind: 'silent', sinceMs: null },
  { kind: 'stopped', sinceMs: AT_MS },
  { kind: 'stopped', sinceMs: null },
  { kind: 'back', sinceMs: AT_MS, lastedMs: 1234 * DAY_MS + 23 * HOUR_MS },
  { kind: 'back', sinceMs: null, lastedMs: null },
];

t.test('each language, event and name makes one SMS', async (t) => {
  for (const lang of LANGS) {
    for (const happening of KINDS) {
      for (const device of NAMES) {
        for (const [site, contact] of PLACES) {
          const text = smsOf(lang, { device, site, contact }, happening, 'Asia/Kolkata');
          if (smsCount(text) !== 1) t.equal(smsCount(text), 1, `${lang} ${text}`);
          if (!/^[^\p{Cs}]+\.$/u.test(text)) t.fail(`half a character, or no end: ${text}`);
        }
      }
    }
  }
});

t.test('letters outside of the alphabet get the spelling that people use', async (t) => {
  const spellings = {
    'Urządzenie: zażółć gęślą jaźń': 'Urzadzenie: zazólc gesla jazn'.replace('ó', 'o'),
    'ŁÓDŹ Święta': 'LODZ Swieta',
    'Señal, línea, ¿qué?': 'Señal, linea, ¿qué?',
    'À l’arrêt : «\u00a0œuvre\u202f»': 'A l\'arret : " oeuvre "',
    'Größe Ä Ö Ü ß é è à ù ì ò': 'Größe Ä Ö Ü ß é è à ù ì ò',
    '“a” „b” ‘c’ – — …': '"a" "b" \'c\' - - ...',
    '‹a› ‚b′ `c´ · ‐‑− • × đĐ ı Œ ẞ': "'a' 'b' 'c' - --- - x dD i OE SS",
    'Çelik façade': 'Çelik facade',
    'n\u0301 x\u0304': 'n x',
    'Nº 1ª ﬁn': 'No 1a fin',
    'Насос 3 й': 'Насос 3 й',
    'Αντλία ポンプ 🚰': 'Αντλία ポンプ 🚰',
  };
  for (const [text, wanted] of Object.entries(spellings)) t.equal(folded(text), wanted);
});

t.test('without strange names nothing is outside of the alphabet, and the moment is told', async (t) => {
  for (const lang of LANGS) {
    for (const happening of KINDS) {
      const text = smsOf(lang, { device: 'Pump 3', site: null, contact: null }, happening, 'Europe/Warsaw');
      t.ok([...text].every(isBasic), text);
      t.equal(/24.*10:41 .*\(UTC\+01:00\)/.test(text), happening.sinceMs !== null, text);
    }
  }
});

t.test('the less important is left out first; the event and its moment never', async (t) => {
  const say = (about: Partial<About>) =>
    smsOf(
      'en',
      { device: 'Pump 3', site: null, contact: null, ...about },
      { kind: 'silent', sinceMs: AT_MS },
      'UTC',
    );
  const long = 'y'.repeat(90);
  t.match(say({ site: 's'.repeat(60), contact: 'Anne' }), /Site: s{60}\. Contact: Anne\.$/);
  t.match(say({ site: long, contact: 'Anne' }), /\(UTC\)\. Contact: Anne\.$/);
  t.match(
    say({ site: long, contact: long }),
    /^Pump 3 is offline\. Last signal: 24 Nov, 09:41 \(UTC\)\. Contact: y{90}\.$/,
  );
  t.match(say({ site: 'Hall 2', contact: 'z'.repeat(200) }), /\(UTC\)\. Site: Hall 2\.$/);
  t.match(say({ device: 'd'.repeat(114) }), /^d{114} is offline\. Last signal: 24 Nov, 09:41 \(UTC\)\.$/);
  t.match(say({ device: 'd'.repeat(120) }), /^d{120} is offline\. Last signal: 24 Nov, 09:41\.$/);
  t.match(say({ device: 'd'.repeat(200) }), /^d{117}\.\.\. is offline\. Last signal: 24 Nov, 09:41\.$/);
  t.match(say({ device: 'й'.repeat(60) }), /^й{27}\.\.\. is offline\. Last signal: 24 Nov, 09:41\.$/);
  t.match(say({ device: '🚰'.repeat(60) }), /^🚰{13}\.\.\. is offline\. Last signal: 24 Nov, 09:41\.$/u);
  t.match(say({ device: '€'.repeat(99) }), /^€{58}\.\.\. is offline\. Last signal: 24 Nov, 09:41\.$/);
});
