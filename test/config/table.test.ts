/**
 * What is made from the tables of settings, or must agree with them: the manual pages, which FIELDPOST_TEST_WRITE=1 writes,
 * other pages, the units, the packages.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { parseEnvFile } from '../../src/base/config/env-file.js';
import type { Row } from '../../src/base/config/row.js';
import type { Settings } from '../../src/base/config/settings.js';
import { CLOUD_SETTINGS } from '../../src/cloud/settings.js';
import { DEV_SETTINGS } from '../../src/dev/settings.js';
import { DEVICE_SETTINGS } from '../../src/device/settings.js';
import { PAGES, sameBlock } from '../support/pages.js';
import { readTree } from '../support/source.js';

const PAGE = 'build/man/fieldpost.env.5.md';

/** What is told of one key. */
interface Entry {
  readonly key: string;
  readonly fallback: string;
  readonly allowed: string;
  readonly about: string;
  readonly holds: string;
}

/** An entry for each key of a row; a secret has two. */
function entriesOf(row: Row<unknown>): readonly Entry[] {
  const { key, fallbackWords: fallback, allowed, about, file, credential } = row;
  const holds = row.follows === 'restart' ? 'after a restart' : 'at once';
  const own = { key, fallback, allowed, about, holds };
  if (file === null || credential === null) return [own];
  const same = 'The same in the environment, where other programs may see it: works and warns.';
  return [
    { ...own, key: `${key}_FILE`, allowed: file.allowed },
    { ...own, fallback: 'none', about: same },
  ];
}

/** The settings of a program as Markdown: a heading for each, so that a link can point to one. */
function linesOf({ rows }: Pick<Settings<never>, 'rows'>): string[] {
  return rows
    .flatMap(([, row]) => entriesOf(row))
    .flatMap(({ key, fallback, allowed, about, holds }) => [
      `### ${key}`,
      '',
      about,
      '',
      `Allowed: ${allowed}. Default: ${fallback}. A new value holds ${holds}.`,
      '',
    ]);
}

for (const [page, settings] of [
  [PAGE, DEVICE_SETTINGS],
  ['build/man/fieldpost-cloud.env.5.md', CLOUD_SETTINGS],
] as const) {
  t.test(`${page} tells the settings of its program alone`, async (t) => {
    sameBlock(t, page, 'settings', ['', ...linesOf(settings)]);
  });
}

t.test('no text names a setting that does not exist', async (t) => {
  const pages = [...PAGES, 'CHANGELOG.md', 'build/fieldpost.env', 'build/fieldpost-cloud.env'].map(
    (file) => [file, readFileSync(file, 'utf8')] as const,
  );
  for (const [file, text] of [...pages, ...readTree(['src'], ['.ts'])]) {
    const named = [...text.matchAll(/(?<!_)FIELDPOST_[A-Z_]*[A-Z](?![A-Z_*])/g)].map(([key]) => key);
    const strangers = named.filter(
      (key) => !DEV_SETTINGS.secretByKey.has(key) && !key.startsWith('FIELDPOST_TEST'),
    );
    t.strictSame(strangers, [], file);
  }
});

for (const [name, settings] of [
  ['fieldpost', DEVICE_SETTINGS],
  ['fieldpost-cloud', CLOUD_SETTINGS],
] as const) {
  t.test(`the unit and the page of ${name} name the credentials of the table`, async (t) => {
    const credentials = settings.rows.flatMap(([, { credential }]) => credential ?? []).sort();
    const namesIn = (file: string, pattern: string) =>
      [
        ...new Set([...readFileSync(file, 'utf8').matchAll(new RegExp(pattern, 'gm'))].map(([, is]) => is)),
      ].sort();
    const unit = `systemd/${name}.service`;
    t.strictSame(namesIn(unit, `^LoadCredential=([\\w-]+):${name}\\.\\1$`), credentials);
    t.strictSame(namesIn(unit, '^SetCredential=([\\w-]+):\\(not given\\)$'), credentials);
    const secrets = /^ {2}for secret in (.*); do$/m.exec(readFileSync(`build/debian/${name}/postrm`, 'utf8'));
    t.strictSame(secrets?.[1]?.split(' ').sort(), credentials, 'purge deletes each');
    t.strictSame(namesIn(`build/man/${name}.env.5.md`, `credstore/${name}\\.([\\w-]+)`), credentials);
  });

  t.test(`each setting in the env file of ${name} is good, also those in comments`, async (t) => {
    const file = readFileSync(`build/${name}.env`, 'utf8');
    const { values, problems } = parseEnvFile(file.replace(/^#(?=FIELDPOST_)/gm, ''));
    t.strictSame(problems, []);
    t.ok(Object.keys(values).length > 3);
    const password = { FIELDPOST_RELAY_PASSWORD_FILE: '/password' };
    const parsed = settings.parse({ ...values, ...password }, () => '* 0123456789abcdef', { hostname: 'x' });
    t.match(parsed, { warnings: [] });
  });
}

t.test('both units have the same sandbox, and only that of a device has limits', async (t) => {
  const linesOf = (name: string) =>
    readFileSync(`systemd/${name}.service`, 'utf8')
      .split('\n')
      .filter((line) =>
        /^(?:AmbientC|Capability|Device|Keyring|Lock|NoNew|Private|Protect|RemoveIPC|Restrict|SystemCall|UMask)/.test(
          line,
        ),
      );
  t.ok(linesOf('fieldpost').length > 25);
  t.strictSame(linesOf('fieldpost-cloud'), linesOf('fieldpost'));
  const cloud = ['systemd/fieldpost-cloud.service', 'build/fieldpost-cloud'].map((file) =>
    readFileSync(file, 'utf8'),
  );
  t.notMatch(cloud.join(''), /^(?:Memory|Tasks|Limit)|MALLOC|node -[^-]/m);
});

t.test('the packages reserve the ports that the program listens on by itself', (t) => {
  const reserved = /^-net\.ipv4\.ip_local_reserved_ports = (.*)$/m.exec(
    readFileSync('systemd/fieldpost.sysctl', 'utf8'),
  );
  const defaults = DEV_SETTINGS.rows.flatMap(
    ([, { fallback }]) => /^127\.0\.0\.1:(\d+)$/.exec(fallback ?? '')?.[1] ?? [],
  );
  const inbox = /INBOX_PORT = (\d+)/.exec(readFileSync('src/dev-main.ts', 'utf8'))?.[1];
  t.same(reserved?.[1]?.split(','), [...defaults, inbox]);
  const cloud = readFileSync('systemd/fieldpost-cloud.sysctl', 'utf8');
  t.match(cloud, `\n-net.ipv4.ip_local_reserved_ports = ${defaults[1]}\n`);
  t.end();
});
