/**
 * Random ready-made mails on their whole way: over HTTP, through the store, to a relay. They come out octet for octet, but
 * for line endings, Bcc, Return-Path, and the headers that they lack. The model below makes both sides, and parses nothing.
 */
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { systemClock } from '../../src/base/system/clock.js';
import { createDaemon } from '../../src/device/daemon.js';
import { IS_LONG } from '../support/fuzz.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { fakeRelay } from '../support/relay.js';
import { configOf, testSystem } from '../support/system.js';

const MAILS = IS_LONG ? 10_000 : 300;
const AT_ONCE = 8;

type Random = () => number;

/** What is posted, what arrives behind the added headers, and the names of those. */
interface Sample {
  readonly posted: Buffer;
  readonly kept: Buffer;
  readonly added: readonly string[];
}

/** A line of octets that are neither CR, LF nor NUL. */
function lineOf(random: Random): string {
  const length = pick(random, [0, 0, 1, 3, 20, 76, 200, 998]);
  const first = pick(random, ['', '.', '..', 'From ', ' ', '\t', '-- ']).slice(0, length);
  let line = first;
  while (line.length < length) line += String.fromCharCode(1 + Math.floor(random() * 255));
  return line.replace(/[\r\n\0]/g, 'x');
}

function fieldOf(name: string, random: Random): string[] {
  const value = () =>
    `x${Math.floor(random() * 1e6)}${pick(random, ['', ' =?utf-8?q?=C3=BC?=', ' \xfc', ' a,b;c'])}`;
  const folds = Array.from(
    { length: Math.floor(random() * 3) },
    () => `${pick(random, [' ', '\t', '   '])}${value()}`,
  );
  return [`${name}${pick(random, [':', ': ', ' : '])}${value()}`, ...folds];
}

function sampleOf(random: Random): Sample {
  const optional = ['From', 'Date', 'Message-ID'].filter(() => random() < 0.5);
  const soup = [
    'Subject',
    'To',
    'Bcc',
    'bCC',
    'Return-Path',
    'Received',
    'X-A',
    'x-a',
    'MIME-Version',
    'List-Id',
  ];
  const names = [...optional, ...soup.filter(() => random() < 0.4)].sort(() => random() - 0.5);
  const fields = names.map((name) => ({ name, lines: fieldOf(name, random) }));
  const hasBody = fields.length === 0 || random() < 0.95;
  const body = hasBody ? Array.from({ length: Math.floor(random() * 12) }, () => lineOf(random)) : [];
  // An empty mail is refused.
  if (fields.length === 0 && body.every((line) => line.trim() === '')) body.push('x');
  // Without headers the first line of the body must not look like one: it is behind an empty line.
  const all = [...fields.flatMap(({ lines }) => lines), '', ...body];
  // A bare CR ends a line of the body, never one of the header section, which has at least one line here.
  const section = all.length - body.length;
  const isMac = random() < 0.3;
  const ending = (index: number) =>
    isMac && index >= section ? '\r' : pick(random, ['\r\n', '\r\n', '\n', '\r\r\n']);
  const posted = all.map((line, index) => line + ending(index)).join('');
  const stays = fields.filter(({ name }) => !/^(?:bcc|return-path)$/i.test(name));
  const kept = [...stays.flatMap(({ lines }) => lines), '', ...body].map((line) => `${line}\r\n`).join('');
  const added = ['From', 'Date', 'Message-ID'].filter((name) => !optional.includes(name));
  const isOpen = body.length > 0 && body.at(-1) !== '' && random() < 0.3;
  return {
    posted: Buffer.from(isOpen ? posted.replace(/(?:\r*\n|\r)$/, '') : posted, 'latin1'),
    kept: Buffer.from(kept, 'latin1'),
    added,
  };
}

t.test(`${MAILS} random ready-made mails come out as they went in`, async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  await using relay = await fakeRelay({}, { extensions: ['PIPELINING', 'SIZE 100000000'] });
  const env = {
    FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_FROM: 'Pump 3 <device@x.org>',
  };
  const daemon = await createDaemon(configOf(env), testSystem({ clock: systemClock() }).system);
  const url = `http://${daemon.addresses.map(addressOf).join()}/api/internal/messages`;
  const samples = Array.from({ length: MAILS }, (_, i) => sampleOf(seededRandom(Math.imul(seed, 31) + i)));
  let next = 0;
  const work = async () => {
    for (let i = next++; i < MAILS; i = next++) {
      const body = (samples[i] as Sample).posted;
      const answer = await fetch(`${url}?to=r${i}@x.org`, {
        method: 'POST',
        body,
        headers: { 'Content-Type': 'message/rfc822' },
      });
      if (answer.status !== 202) t.fail(`mail ${i} was answered ${answer.status}: ${await answer.text()}`);
      else await answer.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (t.passing()) await relay.arrived(MAILS);
  await daemon.stop();
  if (!t.passing()) return;
  const wrong: string[] = [];
  for (const { to, content } of relay.mails) {
    const index = Number(/^r(\d+)@/.exec(to[0] ?? '')?.[1]);
    const { kept, added } = samples[index] as Sample;
    const head = content.subarray(0, content.length - kept.length).toString('latin1');
    const isKept = content.subarray(content.length - kept.length).equals(kept);
    const names = head
      .split('\r\n')
      .slice(0, -1)
      .map((line) => line.replace(/:.*/, ''));
    if (!isKept || names.join() !== added.join())
      wrong.push(`mail ${index}: ${JSON.stringify(content.toString('latin1').slice(0, 300))}`);
    if (added.includes('From') && !head.includes('From: Pump 3 <device@x.org>\r\n'))
      wrong.push(`mail ${index}: ${head}`);
  }
  t.same(wrong.slice(0, 3), []);
  t.equal(new Set(relay.mails.map(({ to }) => to[0])).size, MAILS, 'each arrived');
});
