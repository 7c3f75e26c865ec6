/**
 * The progress of a test run, from its start on: one rewritten line on a terminal, elsewhere a line every 15 s.
 */
const REWRITE_MS = 500;
const REPEAT_MS = 15_000;

/** `, about 3 min left`; empty while too few of `all` processes have ended to tell. */
export function leftInWords(done, all, seconds) {
  if (done * 10 < all || done === all) return '';
  const leftS = (seconds / done) * (all - done);
  return `, about ${leftS < 90 ? `${Math.ceil(leftS / 10) * 10} s` : `${Math.round(leftS / 60)} min`} left`;
}

/** Begins to show `total`, whose counts the caller updates. */
export function createProgress(total) {
  const terminal = process.stdout.isTTY === true;
  const startedMs = performance.now();
  const running = new Set();
  const wipe = terminal ? '\r\x1b[K' : '';

  const line = () => {
    const seconds = Math.round((performance.now() - startedMs) / 1000);
    const now = [...running].map((file) => file.replace(/^test\//, '').replace(/\.test\.ts$/, ''));
    const { files, done, passed, failed, processes, ended } = total;
    const counts = `${done} of ${files} files, ${passed} passed, ${failed} failed, ${seconds} s`;
    const left = leftInWords(ended, processes, seconds);
    return `${counts}${left}${now.length === 0 ? '' : `; now ${now.join(', ')}`}`;
  };
  const show = () => {
    if (terminal) process.stdout.write(`${wipe}${line().slice(0, (process.stdout.columns || 120) - 1)}`);
    else console.log(`     ${line()}`);
  };
  const timer = setInterval(show, terminal ? REWRITE_MS : REPEAT_MS);
  show();

  return {
    begin(file) {
      running.add(file);
    },
    /** Prints the result of a file. */
    tell(file, lines) {
      running.delete(file);
      console.log(`${wipe}${lines.join('\n')}`);
      if (terminal) show();
    },
    end() {
      clearInterval(timer);
      process.stdout.write(wipe);
    },
  };
}
