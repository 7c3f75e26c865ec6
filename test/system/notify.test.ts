/**
 * What the service manager is told, through a program of the name systemd-notify that writes down how it was called;
 * each fault of the package that packages.md names is tried. test/systemd tries the real one.
 */
// A process of its own: it changes PATH.
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { type Test, test } from 'tap';
import { STATUS_CHARS_MAX, systemNotifier } from '../../src/base/system/notify.js';

/** A notifier whose program does `script` (of sh) after it has written down its arguments, one `[…]` each. */
function bench(t: Test, script = '', timeoutMs?: number) {
  const directory = t.testdir({});
  const log = `${directory}/log`;
  const program = `${directory}/systemd-notify`;
  writeFileSync(
    program,
    `#!/bin/sh\nn=\nfor a; do n="$n[$a]"; done\n${script}\nprintf '%s\\n' "$n" >> "${log}"\n`,
  );
  chmodSync(program, 0o755);
  const path = process.env.PATH;
  t.teardown(() => {
    process.env.PATH = path;
  });
  process.env.PATH = `${directory}:${path}`;
  const failures: string[] = [];
  const notifier = systemNotifier({
    monotonicUs: () => 1234n,
    onFailure: (reason) => failures.push(reason),
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
  const said = () => (existsSync(log) ? readFileSync(log, 'utf8').split('\n').slice(0, -1) : []);
  return { notifier, failures, said, program };
}

const OURS = `--pid=${process.pid}`;

test('each notification has the words that systemd knows', async (t) => {
  const { notifier, failures, said } = bench(t);
  await notifier.ready('nothing queued');
  await notifier.status('1 queued');
  await notifier.watchdog();
  await notifier.reloading();
  await notifier.stopping();
  t.same(said(), [
    `[--ready][${OURS}][--status=nothing queued]`,
    `[${OURS}][--status=1 queued]`,
    '[WATCHDOG=1]',
    '[RELOADING=1][MONOTONIC_USEC=1234]',
    '[STOPPING=1]',
  ]);
  t.same(failures, []);
});

test('pieces of work keep their order, however long each takes', async (t) => {
  // The first is the slowest: at once they would overtake it.
  const { notifier, said } = bench(t, 'case "$n" in *RELOADING*) sleep 0.3;; *ready*) sleep 0.1;; esac');
  await Promise.all([notifier.reloading(), notifier.ready('ok'), notifier.watchdog()]);
  t.same(said(), ['[RELOADING=1][MONOTONIC_USEC=1234]', `[--ready][${OURS}][--status=ok]`, '[WATCHDOG=1]']);
});

test('a status cannot hold commands', async (t) => {
  const { notifier, failures, said } = bench(t);
  await notifier.status('relay failing (no\nMAINPID=1\r\nWATCHDOG=1\u2028x\u0000y\u0007z\u202egnp)');
  await notifier.ready('x'.repeat(200_000));
  await notifier.status(`${'x'.repeat(STATUS_CHARS_MAX - 1)}\u{1f4a7}`);
  t.same(said(), [
    `[${OURS}][--status=relay failing (no MAINPID=1 WATCHDOG=1 x y z gnp)]`,
    `[--ready][${OURS}][--status=${'x'.repeat(STATUS_CHARS_MAX)}]`,
    `[${OURS}][--status=${'x'.repeat(STATUS_CHARS_MAX - 1)}]`,
  ]);
  t.same(failures, []);
});

test('a manager that does not listen is reported, and harms nothing', async (t) => {
  const { notifier, failures, said } = bench(
    t,
    'case "$n" in *quiet*) exit 1;; esac; echo "Connection refused" >&2; exit 1',
  );
  await notifier.ready('ok');
  await notifier.watchdog();
  await notifier.status('quiet');
  t.same(failures, ['Connection refused', 'Connection refused', 'systemd-notify failed']);
  t.same(said(), []);
});

test('a missing program is reported, and harms nothing', async (t) => {
  const { notifier, failures } = bench(t);
  process.env.PATH = t.testdir({});
  await notifier.ready('ok');
  await notifier.watchdog();
  t.equal(failures.length, 2);
  for (const reason of failures) t.match(reason, /ENOENT/);
});

test('a notification that hangs is given up, and the next is sent', async (t) => {
  // Long enough for the one that does not hang, on a busy machine too.
  const { notifier, failures, said } = bench(t, 'case "$n" in *hang*) exec sleep 6;; esac', 4000);
  await Promise.all([notifier.status('hang'), notifier.watchdog()]);
  t.match(failures, [/does not end/]);
  t.same(said(), ['[WATCHDOG=1]']);
});
