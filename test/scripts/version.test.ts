/** The version of a build: that of package.json, and the commit unless that is a release. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';

/** A clone with one commit of 2026-11-25 in its own time zone, which is the 24th in UTC. */
function cloneIn(t: Test, inner = '') {
  const top = t.testdir();
  const directory = join(top, inner);
  mkdirSync(join(directory, 'scripts'), { recursive: true });
  cpSync('scripts/version', join(directory, 'scripts/version'));
  writeFileSync(join(directory, 'package.json'), '{ "version": "0.2.0" }\n');
  const env = {
    ...{ PATH: process.env.PATH, HOME: top, GIT_CONFIG_NOSYSTEM: '1' },
    ...{ GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@example.com' },
    ...{ GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@example.com' },
    GIT_COMMITTER_DATE: '2026-11-25T01:00:00+09:00',
  };
  const git = (...args: string[]) => execFileSync('git', args, { cwd: top, env, encoding: 'utf8' }).trim();
  const version = (path = env.PATH) =>
    execFileSync('bash', [join(directory, 'scripts/version')], {
      env: { ...env, PATH: path },
      encoding: 'utf8',
    }).trim();
  git('init', '--quiet');
  return {
    directory,
    git,
    version,
    commit() {
      git('add', '--all');
      git('commit', '--quiet', '--message', 'x');
      return git('rev-parse', 'HEAD').slice(0, 7);
    },
  };
}

t.test('a build from a clone names its commit, a release does not', async (t) => {
  const { directory, git, version, commit } = cloneIn(t);
  t.equal(version(), '0.2.0', 'there is no commit yet');
  const id = commit();
  t.equal(version(), `0.2.0~git20261124.${id}`);
  git('tag', 'v0.2.0-rc1');
  git('tag', 'v0.2');
  t.equal(version(), `0.2.0~git20261124.${id}`, 'tags of other versions');
  git('tag', 'v0.2.0');
  t.equal(version(), '0.2.0');
  writeFileSync(join(directory, 'package.json'), '{ "version":   "0.2.0" }\n');
  t.equal(version(), `0.2.0~git20261124.${id}.dirty`);
  t.equal(version(), version());
});

t.test('a tree inside of another clone is not that clone', async (t) => {
  const { version, commit } = cloneIn(t, 'vendor/fieldpost');
  commit();
  t.equal(version(), '0.2.0');
});

t.test('packages of commits are older than the release', async (t) => {
  const older = (a: string, b: string) => spawnSync('dpkg', ['--compare-versions', a, 'lt', b]).status;
  if (spawnSync('dpkg', ['--version']).error) return t.comment('without dpkg');
  t.equal(older('0.2.0~git20261125.e29835f', '0.2.0'), 0);
  t.equal(older('0.1.0', '0.2.0~git20261125.e29835f'), 0);
  t.equal(older('0.2.0~git20261125.ffffff0', '0.2.0~git20261126.0000000'), 0);
});

t.test('a maintainer and a homepage that make no package are refused', async (t) => {
  const refused = (env: Record<string, string>) =>
    spawnSync('bash', ['scripts/package', 'release'], { env: { ...process.env, ...env }, encoding: 'utf8' });
  for (const maintainer of ['Jane', 'jane@example.com', 'Jane <jane>', 'Jane <j@example.com>\nDepends: x'])
    t.match(refused({ FIELDPOST_PACKAGE_MAINTAINER: maintainer }), { status: 64, stderr: /NAME <ADDRESS>/ });
  for (const homepage of ['example.com', 'https://example.com/ x', 'https://example.com/\nDepends: x'])
    t.match(refused({ FIELDPOST_PACKAGE_HOMEPAGE: homepage }), { status: 64, stderr: /https:/ });
});
