/** The licences that go with the program: one text for each package that is compiled into it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { needsProgram } from '../support/daemon.js';

const licences = (...root: string[]) =>
  spawnSync(process.execPath, ['scripts/licences.mjs', ...root], { encoding: 'utf8' });

const npm = (...args: string[]) => execFileSync('npm', [...args, '--loglevel=error'], { encoding: 'utf8' });

/** The name and version of every package of which code may be in the program, as npm finds them. */
function runtimePackages(): string[] {
  const paths = npm('ls', '--omit=dev', '--all', '--parseable').trim().split('\n').slice(1);
  return paths.map((path) => {
    const { name, version } = JSON.parse(readFileSync(`${path}/package.json`, 'utf8'));
    return `${name} ${version}`;
  });
}

t.test(
  'each run-time package, and what it drags in, has the text of its licence beside the program',
  needsProgram,
  async (t) => {
    const [own = '', ...texts] = readFileSync('build/dist/LICENSE', 'utf8').split('\n--- ');
    t.equal(own, readFileSync('LICENSE', 'utf8'));
    const names = texts.map((text) => text.split(',')[0]);
    t.same(names.sort(), runtimePackages().sort());
    t.ok(names.includes('smtp-client 0.4.0') && names.length >= 10);
    for (const text of texts) {
      t.match(text, /^Copyright /m, text.slice(0, 40));
      t.match(text, /Permission is hereby granted[\s\S]*THE SOFTWARE IS PROVIDED/, text.slice(0, 40));
      t.notMatch(text, '```');
    }
    const [packed] = JSON.parse(npm('pack', '--dry-run', '--json', '--ignore-scripts'));
    const paths = packed.files.map(({ path }: { path: string }) => path);
    t.ok(paths.includes('build/dist/main.cjs') && paths.includes('build/dist/LICENSE'), 'npm pack has them');
  },
);

/** A project with one run-time package, which has `files`. */
function project(t: Test, files: Record<string, string>): string {
  const about = JSON.stringify({ name: 'some', version: '1.0.0', license: 'MIT' });
  return t.testdir({
    LICENSE: 'Ours\n',
    'package-lock.json': JSON.stringify({
      packages: { '': {}, 'node_modules/some': {}, 'node_modules/tool': { dev: true } },
    }),
    node_modules: { some: { 'package.json': about, ...files } },
  });
}

const MIT = 'Copyright (c) somebody\n\nPermission is hereby granted\n';

t.test('the text is a file of its own or a section of the README', async (t) => {
  const wanted = `Ours\n\n--- some 1.0.0, MIT, \n\n${MIT}`;
  for (const name of ['LICENSE', 'LICENCE.md', 'license.txt', 'COPYING'])
    t.equal(licences(project(t, { [name]: MIT })).stdout, wanted, name);
  const fenced = `# some\n\n## Licence (MIT)\n\n\`\`\`\n${MIT}\`\`\`\n`;
  t.equal(licences(project(t, { 'README.md': fenced })).stdout, wanted);
  t.equal(licences(project(t, { 'README.md': `${fenced}\n## Next\nwords\n` })).stdout, wanted);
});

t.test('a package without a text fails the build', async (t) => {
  const lacking: Record<string, string>[] = [
    {},
    { 'README.md': '# some\n' },
    { 'README.md': '# some\n\n## License\n\n[MIT](LICENSE)\n' },
    { LICENSE: 'MIT\n' },
  ];
  for (const files of lacking) {
    const { status, stderr, stdout } = licences(project(t, files));
    t.not(status, 0);
    t.match(stderr, 'node_modules/some has no text of its licence');
    t.equal(stdout, '');
  }
  t.match(
    readFileSync('scripts/build', 'utf8'),
    /^set -euo pipefail$[\s\S]*^node scripts\/licences\.mjs > /m,
  );
});
