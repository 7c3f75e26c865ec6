/** The words about programs that give no sign, in each language. */
import t from 'tap';
import { LANGS } from '../../src/base/langs.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { aliveText } from '../../src/device/alive-texts.js';

const PROGRAM = 'plc-reader';
/** What GSM 03.38 has beyond these signs of ASCII, of the letters of our languages. */
const GSM = /^[A-Za-z0-9 .,:;<>()/+'"!?&%*=#@$_àèéùìòñäöüÄÖÜÑß-]*$/;

t.test('short, by GSM 03.38, and with name and length', async (t) => {
  const texts = LANGS.flatMap((lang) =>
    (['late', 'back'] as const).map((kind) =>
      aliveText(lang, { kind, program: PROGRAM, silentMs: 25 * MINUTE_MS, isAtLeast: false }),
    ),
  );
  for (const text of texts) {
    t.match(text, GSM);
    t.match(text, /^plc-reader .*25 min/);
    t.ok(text.length < 70, text);
  }
  t.equal(new Set(texts).size, 2 * LANGS.length);
});

t.test('how long, and what is not known', async (t) => {
  const text = (lang: (typeof LANGS)[number], silentMs: number, isAtLeast = false) =>
    aliveText(lang, { kind: 'back', program: 'p', silentMs, isAtLeast });
  t.equal(text('en', 25 * MINUTE_MS), 'p gives signs again, after 25 min');
  t.equal(text('en', 2 * DAY_MS + HOUR_MS, true), 'p gives signs again, after > 2 d 1 h');
  t.equal(text('fr', 2 * DAY_MS), 'p donne de nouveau signe de vie, après 2 j');
  t.equal(text('it', 2 * DAY_MS + HOUR_MS), 'p dà di nuovo segni di vita, dopo 2 g 1 h');
});
