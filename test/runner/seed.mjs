/**
 * The seed of a run of tests. It follows from the commit: a second run of a commit draws the same, the next commit draws
 * anew. FIELDPOST_TEST_SEED replays a seed; `FIELDPOST_TEST_SEED=fresh` draws one.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SEED_END = 2 ** 32;
/** Where there is no git, or no commit. */
const SEED_WITHOUT_COMMIT = 1;

/** The seed that is asked for. `commit`: its hash; null: there is none. Throws RangeError. */
export function seedOf(asked, commit, random = Math.random) {
  if (asked === 'fresh') return Math.floor(random() * SEED_END);
  if (asked === undefined || asked === '')
    return commit === null ? SEED_WITHOUT_COMMIT : Number.parseInt(commit.slice(0, 8), 16);
  const seed = Number(asked);
  if (/^\d+$/.test(asked) && seed < SEED_END) return seed;
  throw new RangeError(`FIELDPOST_TEST_SEED=${asked}: a whole number below ${SEED_END}, or fresh`);
}

/** The seed of this run. Throws RangeError. */
export function seedOfRun() {
  const { status, stdout } = spawnSync('git', ['rev-parse', '--verify', '--quiet', 'HEAD'], {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    encoding: 'utf8',
  });
  return seedOf(process.env.FIELDPOST_TEST_SEED, status === 0 ? stdout.trim() : null);
}
