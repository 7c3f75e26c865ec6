/**
 * A private instance of Debian's tinyproxy with Basic authentication. It opens tunnels to the given ports only.
 *
 *   const proxy = await startTinyproxy(t, [port]);
 *   await startFieldpost(t, { FIELDPOST_CLOUD_PROXY: proxy.url });
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePorts, logged, type Server, sharedDirectory, startServer } from './peers.js';

/** The program that this needs. */
export const TINYPROXY = '/usr/bin/tinyproxy';

const USER = 'pump-3';
/** It takes letters, digits and `.-_` alone; the URL escapes some of them all the same. */
const PASSWORD = 'let-me.in';
const ESCAPED = 'let%2dme%2Ein';

interface Tinyproxy {
  readonly port: number;
  /** FIELDPOST_CLOUD_PROXY for it. */
  readonly url: string;
  /** The CONNECTs so far, as it logs them. */
  connects(): string[];
  /** Gives the first line of its log that matches; waits for it. */
  logged(pattern: RegExp): Promise<string>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts it; it is stopped when the test ends. */
export async function startTinyproxy(t: Test, ports: readonly number[]): Promise<Tinyproxy> {
  const directory = sharedDirectory(t);
  const [port = 0] = await freePorts(1);
  const path = (name: string) => join(directory, name);
  writeFileSync(path('log'), '');
  writeFileSync(
    path('conf'),
    `Port ${port}
Listen 127.0.0.1
Timeout 60
MaxClients 50
LogFile "${path('log')}"
LogLevel Connect
BasicAuth ${USER} ${PASSWORD}
${ports.map((one) => `ConnectPort ${one}`).join('\n')}
`,
  );
  let server: Server | null = null;
  const stop = async () => {
    const running = server;
    server = null;
    await running?.stop();
  };
  const start = async () => {
    server = await startServer(TINYPROXY, ['-d', '-c', path('conf')], port);
  };
  t.teardown(async () => {
    await stop();
    if (!t.passing()) t.comment(readFileSync(path('log'), 'utf8'));
  });
  await start();
  return {
    port,
    url: `http://${USER}:${ESCAPED}@127.0.0.1:${port}`,
    connects: () => readFileSync(path('log'), 'utf8').match(/CONNECT \S+ HTTP\/1\.1/g) ?? [],
    logged: (pattern) => logged(path('log'), pattern),
    start,
    stop,
  };
}
