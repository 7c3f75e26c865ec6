/**
 * What is made from the table of settings, or must agree with it: the README, the manual page, the unit. After a change
 * of the table `FIELDPOST_TEST_WRITE=1 bash scripts/test test/config/table.test.ts` writes the first two.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import type { Row } from '../../src/config/row.js';
import { ROWS, SECRET_BY_KEY } from '../../src/config/settings.js';
import { readTree } from '../support/source.js';

/** What is told of one key. */
interface Entry {
  readonly key: string;
  readonly fallback: string;
  readonly allowed: string;
  readonly about: string;
  readonly holds: string;
}

/** An entry for each key; a secret has two. */
const ENTRIES: readonly Entry[] = ROWS.flatMap(([, row]: readonly [unknown, Row<unknown>]) => {
  const { key, fallbackWords: fallback, allowed, about, file, credential } = row;
  const holds = row.follows === 'restart' ? 'after a restart' : 'at once';
  const own = { key, fallback, allowed, about, holds };
  if (file === null || credential === null) return [own];
  const same = 'The same in the environment, where other programs may see it: works and warns.';
  return [
    { ...own, key: `${key}_FILE`, allowed: file.allowed },
    { ...own, fallback: 'none', about: same },
  ];
});

const README = [
  '| key | default | allowed | what it is for | a new value holds |',
  '|---|---|---|---|---|',
  ...ENTRIES.map(
    ({ key, fallback, allowed, about, holds }) =>
      `| \`${key}\` | ${fallback} | ${allowed} | ${about} | ${holds} |`,
  ),
];

const MANUAL = ENTRIES.flatMap(({ key, fallback, about, holds }) => [
  '.TP',
  `.B ${key}`,
  roff(about),
  roff(`Default: ${fallback}. A new value holds ${holds}.`),
]);

/** Markdown as a line of the manual. */
function roff(text: string): string {
  return text.replaceAll('-', '\\-').replaceAll(/`([^`]*)`/g, '\\fB$1\\fP');
}

for (const [file, mark, end, lines] of [
  ['README.md', '<!-- settings -->', '<!-- end of settings -->', README],
  ['build/fieldpost.1', '.\\" settings', '.\\" end of settings', MANUAL],
] as const) {
  t.test(`${file} tells the table of settings`, async (t) => {
    const text = readFileSync(file, 'utf8');
    const from = text.indexOf(`${mark}\n`) + mark.length + 1;
    const to = text.indexOf(`${end}\n`);
    const wanted = lines.map((line) => `${line}\n`).join('');
    if (process.env.FIELDPOST_TEST_WRITE) writeFileSync(file, text.slice(0, from) + wanted + text.slice(to));
    else t.equal(text.slice(from, to), wanted, 'FIELDPOST_TEST_WRITE=1 writes it');
  });
}

t.test('no text names a setting that does not exist', async (t) => {
  const pages = ['README.md', 'CHANGELOG.md', 'build/fieldpost.1'].map(
    (file) => [file, readFileSync(file, 'utf8')] as const,
  );
  for (const [file, text] of [...pages, ...readTree(['src'], ['.ts'])]) {
    const named = [...text.matchAll(/(?<!_)FIELDPOST_[A-Z_]*[A-Z](?![A-Z_*])/g)].map(([key]) => key);
    const strangers = named.filter((key) => !SECRET_BY_KEY.has(key) && !key.startsWith('FIELDPOST_TEST'));
    t.strictSame(strangers, [], file);
  }
});

t.test('the unit and the manual name the credentials of the table', async (t) => {
  const credentials = ROWS.flatMap(([, { credential }]) => credential ?? []).sort();
  const namesIn = (file: string, pattern: RegExp) =>
    [...readFileSync(file, 'utf8').matchAll(pattern)].map(([, name]) => name).sort();
  const unit = 'systemd/fieldpost.service';
  t.strictSame(namesIn(unit, /^LoadCredential=([\w-]+):fieldpost\.\1$/gm), credentials);
  t.strictSame(namesIn(unit, /^SetCredential=([\w-]+):\(not given\)$/gm), credentials);
  const secrets = /^ {2}for secret in (.*); do$/m.exec(readFileSync('build/debian/fieldpost/postrm', 'utf8'));
  t.strictSame(secrets?.[1]?.split(' ').sort(), credentials, 'purge deletes each');
  t.strictSame(namesIn('build/fieldpost.1', /credstore\/fieldpost\.([\w-]+)/g), credentials);
});
