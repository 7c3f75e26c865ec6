/** What a production install takes on flash: the compiled program and the run-time packages, as packages install them. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compare } from './rounds.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const KIB_MAX = 1.5 * 1024;

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function install({ base }) {
  const version = execFileSync('bash', [`${ROOT}scripts/version`], { encoding: 'utf8' }).trim();
  execFileSync('bash', [`${ROOT}scripts/package`, 'release'], { stdio: 'ignore' });
  const directory = await mkdtemp(join(base, 'install-'));
  execFileSync('tar', ['xzf', `${ROOT}build/out/fieldpost-${version}.tar.gz`, '-C', directory]);
  const told = execFileSync('du', ['-s', '--apparent-size', '-k', `${directory}/fieldpost-${version}/lib`]);
  await rm(directory, { recursive: true });
  return [
    compare('production install', 'KiB', [Number.parseInt(String(told), 10)], undefined, {
      ownAtMost: KIB_MAX,
    }),
  ];
}
