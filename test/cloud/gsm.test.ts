/** The alphabet of SMS: what is folded, and what one SMS holds. */
import t from 'tap';
import { folded, isOneSms } from '../../src/cloud/texts/sms.js';

t.test('letters outside of the alphabet get the spelling that people use', async (t) => {
  const spellings = {
    'Urządzenie: zażółć gęślą jaźń': 'Urzadzenie: zazólc gesla jazn'.replace('ó', 'o'),
    'ŁÓDŹ Święta': 'LODZ Swieta',
    'Señal, línea, ¿qué?': 'Señal, linea, ¿qué?',
    'À l’arrêt : «\u00a0œuvre\u202f»': 'A l\'arret : " oeuvre "',
    'Größe Ä Ö Ü ß é è à ù ì ò': 'Größe Ä Ö Ü ß é è à ù ì ò',
    '“a” „b” ‘c’ – — …': '"a" "b" \'c\' - - ...',
    'Çelik façade': 'Çelik facade',
    'n\u0301 x\u0304': 'n x',
    'Nº 1ª ﬁn': 'No 1a fin',
    'Насос 3 й': 'Насос 3 й',
    'Αντλία ポンプ 🚰': 'Αντλία ポンプ 🚰',
  };
  for (const [text, wanted] of Object.entries(spellings)) t.equal(folded(text), wanted);
});

t.test('one SMS holds 160 septets, or 70 units beyond the alphabet', async (t) => {
  t.ok(isOneSms('a'.repeat(160)));
  t.notOk(isOneSms('a'.repeat(161)));
  t.ok(isOneSms(`${'é'.repeat(150)}€€€€€`));
  t.notOk(isOneSms(`${'é'.repeat(151)}€€€€€`), 'the euro sign takes two septets');
  t.ok(isOneSms(`ń${'a'.repeat(69)}`));
  t.notOk(isOneSms(`ń${'a'.repeat(70)}`));
  t.ok(isOneSms('🚰'.repeat(35)));
  t.notOk(isOneSms('🚰'.repeat(36)), 'a character of two units');
});
