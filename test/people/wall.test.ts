/** The judge's own hours agree with a calendar on the wall, and with those of the program. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { hoursBeginMs, hoursIn } from '../../src/mail/book/hours.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { beginMs, isWithin, mondaysIn } from './wall.js';

const utc = (text: string) => Date.parse(`${text}Z`);

for (const [hours, zone, at, begins] of [
  ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-20T07:00', '2026-11-20T07:00'],
  ['Mo-Fr 07:00-18:00', 'UTC', '2026-11-20T18:00', '2026-11-23T07:00'],
  ['Mo-Fr 07:00-18:00, Sa 09:00-12:00', 'UTC', '2026-11-20T18:00', '2026-11-21T09:00'],
  ['Mo-Su 20:00-06:00', 'UTC', '2026-11-20T05:59', '2026-11-20T05:59'],
  ['Mo-Su 20:00-06:00', 'UTC', '2026-11-20T06:00', '2026-11-20T20:00'],
  ['Fr 20:00-06:00', 'UTC', '2026-11-21T03:00', '2026-11-21T03:00'],
  ['Mo-Su 07:00-18:00', 'America/New_York', '2026-11-20T10:00', '2026-11-20T12:00'],
  ['Mo-Su 07:00-18:00', 'Asia/Kolkata', '2026-11-20T20:00', '2026-11-21T01:30'],
  ['Mo-Su 07:00-18:00', 'Europe/Amsterdam', '2026-10-24T20:00', '2026-10-25T06:00'],
  ['Mo-Su 07:00-18:00', 'Europe/Amsterdam', '2027-03-27T20:00', '2027-03-28T05:00'],
] as const)
  t.test(`${hours} in ${zone} at ${at}`, async (t) => {
    t.equal(new Date(beginMs(hours, zone, utc(at))).toISOString(), new Date(utc(begins)).toISOString());
    t.equal(isWithin(hours, zone, utc(at)), at === begins);
  });

t.test('Mondays at seven', async (t) => {
  const found = mondaysIn('Europe/Amsterdam', utc('2026-10-18T00:00'), utc('2026-11-01T00:00'));
  t.strictSame(found, [utc('2026-10-19T05:00'), utc('2026-10-26T06:00')]);
});

t.test('the program and the judge read hours alike', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const zones = ['UTC', 'Europe/Amsterdam', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'];
  const days = ['Mo-Fr', 'Sa', 'Mo-Su', 'Fr-Mo', 'We'];
  const time = () =>
    `${String(Math.floor(random() * 24)).padStart(2, '0')}:${pick(random, ['00', '15', '30', '45'])}`;
  const part = (): string => {
    const [from, to] = [time(), time()];
    return from === to ? part() : `${pick(random, days)} ${from}-${to}`;
  };
  for (let n = 0; n < 400; n++) {
    const hours = random() < 0.7 ? part() : `${part()}, ${part()}`;
    const zone = pick(random, zones);
    // Around the changes of the clocks, and anywhere.
    const near = pick(random, [
      '2026-10-25T00:00',
      '2027-03-28T00:00',
      '2026-11-01T05:00',
      '2026-12-24T00:00',
    ]);
    const atMs = utc(near) + Math.round(((random() - 0.5) * 72 * HOUR_MS) / MINUTE_MS) * MINUTE_MS;
    const read = hoursIn(hours);
    if (read === null) throw new Error(hours);
    const [own, theirs] = [beginMs(hours, zone, atMs), hoursBeginMs(read, zone, atMs)];
    t.equal(
      new Date(own).toISOString(),
      new Date(theirs).toISOString(),
      `${hours} in ${zone} at ${new Date(atMs).toISOString()}`,
    );
  }
});
