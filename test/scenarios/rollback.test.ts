/**
 * A rollback to the program of commit 108199e, which a device may have: built from the git history, it meets the store of
 * today's program. It knows neither ready-made mails nor `expires_in_s`, so it must not send what today's has accepted.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EMAIL } from '../support/api.js';
import { type DaemonProcess, isBuilt, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const COMMIT = '108199e';
const SOURCE = join('build', 'out', `source-${COMMIT}`);
const NEEDED = ['src', 'scripts', 'package.json', 'tsconfig.json', 'package-lock.json'];
const OLD = join(process.cwd(), SOURCE, 'out', 'main.cjs');

/** Builds the old program once. Null, or why that is impossible: a checkout may have no history. */
function whyNotBuilt(): string | null {
  if (!isBuilt) return 'the program is not built';
  if (existsSync(OLD)) return null;
  try {
    mkdirSync(SOURCE, { recursive: true });
    execFileSync('git', ['archive', '-o', `${SOURCE}.tar`, COMMIT, ...NEEDED], { stdio: 'pipe' });
    execFileSync('tar', ['-x', '-f', `${SOURCE}.tar`, '-C', SOURCE]);
    if (!existsSync(join(SOURCE, 'node_modules')))
      symlinkSync(join(process.cwd(), 'node_modules'), join(SOURCE, 'node_modules'));
    execFileSync('node', ['scripts/compile.mjs', 'src/main.ts', 'out'], { cwd: SOURCE, stdio: 'pipe' });
    chmodSync(OLD, 0o755);
    return null;
  } catch (error) {
    return `the program of ${COMMIT} cannot be built: ${String(error).slice(0, 200)}`;
  }
}

const skip = whyNotBuilt() ?? false;
const READY_MADE = 'From: own@example.com\r\nReply-To: r@example.com\r\nSubject: ready\r\n\r\nready-made\r\n';

/** Accepts a ready-made mail, one that expires, and one in which the older program sees nothing new. */
async function acceptThree({ api, port }: DaemonProcess): Promise<void> {
  const url = `http://127.0.0.1:${port}/api/internal/messages?to=john@example.com`;
  const headers = { 'Content-Type': 'message/rfc822' };
  const { status } = await fetch(url, { method: 'POST', headers, body: READY_MADE });
  if (status !== 202) throw new Error(`the ready-made mail: ${status}`);
  const mails = [
    { ...EMAIL, plain: 'ordinary' },
    { ...EMAIL, plain: 'expires', expires_in_s: 1 },
  ];
  if ((await api('messages', mails)).status !== 202) throw new Error('the mails');
}

async function isHeldBack(t: Test, state: string): Promise<void> {
  await using relay = await fakeRelay();
  const old = await startIn(t, { FIELDPOST_STATE_DIR: state, FIELDPOST_RELAY: relay.url }, ['run'], [], OLD);
  const arrived = relay.arrived(1);
  const { status } = await old.api('messages', [{ ...EMAIL, plain: 'of the old program' }]);
  t.equal(status, 202);
  await arrived;
  t.equal(await old.end('SIGTERM'), 0);
  t.equal(relay.mails.length, 1, 'it sends what it has accepted itself');
  t.match(String(relay.mails[0]?.content), /of the old program/);
  t.match(old.lines.join('\n'), / error newer store put aside /, 'it says so');
}

for (const end of ['SIGKILL', 'SIGTERM'] as const) {
  t.test(`a store of today, after ${end}`, { skip }, async (t) => {
    const state = join(t.testdir(), 'state');
    const today = await startIn(t, { FIELDPOST_STATE_DIR: state });
    await acceptThree(today);
    await today.end(end);
    await isHeldBack(t, state);
  });

  for (const endOfOld of ['SIGKILL', 'SIGTERM'] as const)
    t.test(`a store of the old program, after ${endOfOld}, an upgrade and ${end}`, { skip }, async (t) => {
      const state = join(t.testdir(), 'state');
      const old = await startIn(t, { FIELDPOST_STATE_DIR: state }, ['run'], [], OLD);
      t.equal((await old.api('messages', [EMAIL])).status, 202);
      await old.end(endOfOld);
      const today = await startIn(t, { FIELDPOST_STATE_DIR: state });
      await acceptThree(today);
      await today.end(end);
      await isHeldBack(t, state);
    });
}
