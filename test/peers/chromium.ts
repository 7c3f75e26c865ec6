/**
 * A headless Chromium; its debugging pipe lets a test run expressions in a page.
 *
 *   await using browser = await startChromium(directory);
 *   const title = await browser.run('http://127.0.0.1:1234/healthz', 'document.title');
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';

export const CHROMIUM = '/usr/bin/chromium';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--disable-dev-shm-usage',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--remote-debugging-pipe',
];

interface Reply {
  id?: number;
  method?: string;
  sessionId?: string;
  error?: { message: string };
  // biome-ignore lint/suspicious/noExplicitAny: it depends on the call
  result?: any;
}

interface Browser extends AsyncDisposable {
  /** Loads the page and gives the value of the expression there; awaits a promise. */
  run(url: string, expression: string): Promise<unknown>;
}

/** Starts a browser whose profile is in `directory`. */
export async function startChromium(directory: string): Promise<Browser> {
  const child = spawn(CHROMIUM, [...FLAGS, `--user-data-dir=${directory}`], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    // A process group of its own, so that one signal ends all its processes.
    detached: true,
  });
  const exited = once(child, 'exit');
  const orders = child.stdio[3] as Writable;
  const replies = child.stdio[4] as Readable;
  const waiting = new Map<number, (reply: Reply) => void>();
  const listeners = new Set<(event: Reply) => void>();
  let text = '';
  replies.setEncoding('utf8').on('data', (chunk: string) => {
    const messages = (text + chunk).split('\0');
    text = messages.pop() ?? '';
    for (const message of messages) {
      const reply: Reply = JSON.parse(message);
      if (reply.id === undefined) for (const listen of listeners) listen(reply);
      else waiting.get(reply.id)?.(reply);
    }
  });
  let calls = 0;
  const call = async (method: string, params: object = {}, sessionId?: string) => {
    const id = ++calls;
    const replied = new Promise<Reply>((resolve) => waiting.set(id, resolve));
    orders.write(`${JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) })}\0`);
    const { result, error } = await Promise.race([
      replied,
      exited.then(() => Promise.reject(new Error('Chromium has ended'))),
    ]);
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  return {
    async run(url, expression) {
      const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
      const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
      await call('Page.enable', {}, sessionId);
      const loaded = new Promise<void>((resolve) => {
        listeners.add((event) => {
          if (event.method === 'Page.loadEventFired' && event.sessionId === sessionId) resolve();
        });
      });
      await call('Page.navigate', { url }, sessionId);
      await loaded;
      const evaluate = { expression, awaitPromise: true, returnByValue: true };
      const { result, exceptionDetails } = await call('Runtime.evaluate', evaluate, sessionId);
      if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
      return result.value;
    },
    async [Symbol.asyncDispose]() {
      process.kill(-(child.pid as number), 'SIGKILL');
      await exited;
      orders.destroy();
      replies.destroy();
    },
  };
}
