import t from 'tap';
import { MINUTE_MS } from '../../src/base/limits.js';
import { dueMs, givenRules, planOf, ruleFaults, rulesInWords, rulesOf } from '../../src/mail/book/rules.js';

t.test('a rule is left out, null, or has a value that is allowed', async (t) => {
  const good: Record<string, unknown>[] = [
    {},
    { after_min: null, hours: null, zone: null, night: null, weekly: null },
    { after_min: 0 },
    { after_min: 10_080 },
    { hours: 'Mo-Fr 07:00-18:00, Sa 09:00-12:00', zone: 'Europe/Amsterdam', night: 'drop', weekly: true },
    { weekly: false },
    { zone: 'UTC', confirmedAt: 5, other: 'x' },
  ];
  for (const rules of good) t.same(ruleFaults(rules), [], JSON.stringify(rules));

  const bad: [name: string, values: unknown[], shows: string][] = [
    ['after_min', [-1, 10_081, 1.5, '60', '60m', true, [], {}, Number.NaN], 'such as 60'],
    ['hours', ['', 'always', '08:00-08:00', 'Mo 25:00-26:00', 5, []], '"Mo-Fr 07:00-18:00, Sa 09:00-12:00"'],
    ['zone', ['', 'Amsterdam', '+01:00', 5], '"Europe/Amsterdam"'],
    ['night', ['', 'line', true, 'DROP'], '"drop"'],
    ['weekly', ['true', 1, 0, 'Mo'], 'true or false'],
  ];
  for (const [name, values, shows] of bad) {
    for (const value of values) {
      const [fault, ...more] = ruleFaults({ [name]: value });
      t.equal(fault?.pointer, `/${name}`, `${name} ${JSON.stringify(value)}`);
      t.match(fault?.detail, shows);
      t.same(more, []);
    }
  }
  t.equal(ruleFaults({ after_min: -1, hours: 'x', zone: 'x', night: 'x', weekly: 'x' }).length, 5);
});

t.test('a faulty rule counts as left out', async (t) => {
  const none = { afterMs: 0, hours: null, zone: null, dropsNight: false, weekly: false };
  t.same(rulesOf({}), none);
  t.same(rulesOf({ after_min: -5, hours: 'x', zone: 'x', night: 'x', weekly: 'yes' }), none);
  t.same(rulesOf({ after_min: 90, night: 'drop', weekly: true, zone: 'Asia/Kolkata' }), {
    ...none,
    afterMs: 90 * MINUTE_MS,
    dropsNight: true,
    weekly: true,
    zone: 'Asia/Kolkata',
  });
  t.not(rulesOf({ hours: 'Mo' }).hours, null);
  t.not(rulesOf({ hours: 'Mo', zone: null }).hours, null);
  t.equal(
    rulesOf({ hours: 'Mo', zone: 'Europe/Atlantis' }).hours,
    null,
    'in a wrong zone hours would silence',
  );
  t.not(rulesOf({ hours: 'Mo', after_min: 'x' }).hours, null, 'the others count');
});

t.test('a person hears after their time, within their hours', async (t) => {
  const rows: [rules: Record<string, unknown>, cloudZone: string, at: string, due: string][] = [
    [{}, 'UTC', '2026-11-23T03:00Z', '2026-11-23T03:00Z'],
    [{ after_min: 60 }, 'UTC', '2026-11-23T03:00Z', '2026-11-23T04:00Z'],
    [{ hours: '07:00-18:00' }, 'UTC', '2026-11-23T03:00Z', '2026-11-23T07:00Z'],
    // First the minutes, then the hours.
    [{ after_min: 60, hours: '07:00-18:00' }, 'UTC', '2026-11-23T17:30Z', '2026-11-24T07:00Z'],
    [{ after_min: 60, hours: '07:00-18:00' }, 'UTC', '2026-11-23T06:30Z', '2026-11-23T07:30Z'],
    // The cloud's zone, or their own.
    [{ hours: '07:00-18:00' }, 'Europe/Amsterdam', '2026-11-23T03:00Z', '2026-11-23T06:00Z'],
    [{ hours: '07:00-18:00', zone: 'UTC' }, 'Europe/Amsterdam', '2026-11-23T03:00Z', '2026-11-23T07:00Z'],
    [{ hours: '07:00-18:00', zone: 'Asia/Kolkata' }, 'UTC', '2026-11-23T00:00Z', '2026-11-23T01:30Z'],
    // Faulty: at once.
    [{ hours: 'x', after_min: 'x' }, 'UTC', '2026-11-23T03:00Z', '2026-11-23T03:00Z'],
  ];
  for (const [rules, cloudZone, at, due] of rows) {
    const found = dueMs(rulesOf(rules), cloudZone, Date.parse(at));
    t.equal(
      new Date(found).toISOString(),
      new Date(due).toISOString(),
      JSON.stringify([rules, cloudZone, at]),
    );
  }
});

t.test('rules in words', async (t) => {
  const hours = 'Mo-Fr 07:00-18:00';
  const nl = 'Europe/Amsterdam';
  const rows: [rules: Record<string, unknown>, cloudZone: string | null, words: string][] = [
    [{}, null, 'told at once'],
    [{ after_min: 1 }, null, 'told after 1 minute of being offline'],
    [{ after_min: 60 }, null, 'told after 60 minutes of being offline'],
    [{ after_min: 90 }, null, 'told after 90 minutes of being offline'],
    [{ after_min: 120 }, null, 'told after 2 hours of being offline'],
    [{ after_min: 1440 }, null, 'told after 1 day of being offline'],
    [{ after_min: 10_080 }, null, 'told after 7 days of being offline'],
    [
      { after_min: 60, hours, zone: nl },
      null,
      'told after 60 minutes of being offline, Monday to Friday 07:00-18:00 (Europe/Amsterdam)',
    ],
    [{ hours }, null, "told at once, Monday to Friday 07:00-18:00 (the cloud's time zone)"],
    [{ hours }, nl, 'told at once, Monday to Friday 07:00-18:00 (Europe/Amsterdam)'],
    [{ hours, zone: 'UTC' }, nl, 'told at once, Monday to Friday 07:00-18:00 (UTC)'],
    [
      { hours, night: 'drop', weekly: true },
      'UTC',
      'told at once, Monday to Friday 07:00-18:00 (UTC); not told of what is over before these hours begin; a report each Monday at 07:00',
    ],
    [{ weekly: true }, nl, 'told at once; a report each Monday at 07:00 (Europe/Amsterdam)'],
    [{ night: 'drop' }, nl, 'told at once'],
  ];
  for (const [rules, cloudZone, words] of rows) t.equal(rulesInWords(rulesOf(rules), cloudZone), words);
});

t.test('the plan of an entry names the rules that do not count', async (t) => {
  const rows: [entry: Record<string, unknown>, plan: string, given: readonly string[]][] = [
    [{ name: 'Ann' }, 'told at once', []],
    [{ hours: null, weekly: null }, 'told at once', []],
    [{ after_min: 5, night: 'drop' }, 'told after 5 minutes of being offline', ['after_min', 'night']],
    [
      { after_min: 5, hours: 'x' },
      'told after 5 minutes of being offline; not understood and ignored: hours',
      ['after_min'],
    ],
    [{ hours: 'Mo', zone: 'x' }, 'told at once; not understood and ignored: zone, hours', ['hours']],
    [{ hours: 'x', zone: 'x' }, 'told at once; not understood and ignored: hours, zone', []],
    [
      { hours: 'Mo', weekly: 1 },
      "told at once, Monday all day (the cloud's time zone); not understood and ignored: weekly",
      ['hours'],
    ],
  ];
  for (const [entry, plan, given] of rows) {
    t.equal(planOf(entry), plan);
    t.same(Object.keys(givenRules(entry)), given, plan);
  }
});
