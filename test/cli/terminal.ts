/**
 * Runs commands in a made-up world and keeps their output; and a daemon that gives prepared answers and keeps the
 * requests.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { Environment } from '../../src/base/config/types.js';
import { runCommand } from '../../src/cli/cli.js';
import type { CommandContext } from '../../src/cli/command.js';
import { DEVICE_PROGRAM } from '../../src/cli/device.js';
import { DEVICE_SETTINGS } from '../../src/device/settings.js';
import type { TestApi } from '../support/api.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { systemError } from '../support/system-error.js';

export interface World
  extends Partial<Omit<CommandContext, 'stdin' | 'stdout' | 'stderr' | 'read' | 'list'>> {
  readonly files?: Readonly<Record<string, string | Error>>;
  readonly stdin?: readonly Uint8Array[] | AsyncIterable<Uint8Array> | string;
  readonly isTTY?: boolean;
  /** The width of the terminal. */
  readonly columns?: number;
  /** Resolves when the reader of the output closes it. */
  readonly closed?: Promise<void>;
}

/** Runs `fieldpost <argv>`. A file that is an Error throws it; one that is missing throws ENOENT. */
export async function fieldpost(argv: readonly string[], world: World = {}) {
  const { files = {}, stdin = [], isTTY = false, columns, closed, clock = new FakeClock(), ...rest } = world;
  const out: string[] = [];
  const err: string[] = [];
  const read = (path: string) => {
    const text = files[path] ?? failure('ENOENT', path);
    if (text instanceof Error) throw text;
    return text;
  };
  const list = (directory: string) => {
    const names = Object.keys(files).filter((path) => path.startsWith(`${directory}/`));
    if (names.length === 0) read(directory);
    return names.map((path) => path.slice(directory.length + 1));
  };
  const code = await runCommand<CommandContext>(DEVICE_PROGRAM, argv, {
    env: {},
    hostname: 'gateway-7',
    fileSystemBytes: async () => Number.POSITIVE_INFINITY,
    version: '1.2.3',
    machine: () => ({
      node: 'v20.0.0',
      os: 'Debian GNU/Linux 12 (bookworm)',
      kernel: '6.1.0-28.el9.x86_64',
      arch: 'arm64',
      cores: 4,
      memoryBytes: 2 ** 30,
      freeMemoryBytes: 2 ** 29,
      uptimeMs: 3_600_000,
      uid: 1000,
    }),
    settings: DEVICE_SETTINGS,
    sockets: [],
    disk: new FaultyDisk(),
    writeNew: () => Promise.reject(failure('EROFS', '/x')),
    outputOf: () => Promise.reject(new Error('there is no journalctl')),
    clock,
    pause: (ms) =>
      new Promise((resolve) => {
        clock.after(ms, resolve);
        if (clock instanceof FakeClock) clock.advance(ms);
      }),
    scratch: async () => scratchFile(),
    service: 'fieldpost',
    isUnit: false,
    stdinKind: () => 'none',
    serve: async () => 0,
    tryRelay: async () => null,
    async open(path) {
      const bytes = Buffer.from(read(path));
      return {
        read: async (offset, length) => bytes.subarray(offset, offset + length),
        size: async () => bytes.length,
        close: async () => undefined,
      };
    },
    ...rest,
    read,
    list,
    stdout: {
      write: (text) => void out.push(text),
      ...(closed && { closed: () => closed }),
      isTTY,
      columns,
    },
    stderr: { write: (text) => void err.push(text), isTTY },
    stdin: () => chunksOf(typeof stdin === 'string' ? [Buffer.from(stdin)] : stdin),
  });
  return { code, out: out.join(''), err: err.join('') };
}

/** A temporary file in memory. */
function scratchFile() {
  let bytes = Buffer.alloc(0);
  return {
    read: async (offset: number, length: number) => bytes.subarray(offset, offset + length),
    async write(more: Buffer, offset: number) {
      bytes = Buffer.concat([bytes.subarray(0, offset), more]);
    },
    close: async () => undefined,
  };
}

async function* chunksOf(chunks: readonly Uint8Array[] | AsyncIterable<Uint8Array>) {
  yield* chunks;
}

/** The setting with which commands reach this API. */
export function envOf({ listeners: { addresses } }: TestApi): Environment {
  return { FIELDPOST_LISTEN: addresses.map(addressOf).join() };
}

/** The error of node:fs for a file that cannot be read. */
export function failure(code: string, path: string): Error {
  return systemError(code, `${code}: open '${path}'`);
}

interface Asked {
  readonly call: string;
  readonly body: unknown;
  readonly headers: IncomingHttpHeaders;
}

type Prepared = { status: number; body?: unknown; type?: string; headers?: Record<string, string> };

/** A daemon on loopback (or the unix socket `path`) that answers `METHOD /path` as `answers` says. */
export async function preparedDaemon(answers: Record<string, Prepared>, path?: string) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const call = `${request.method} ${request.url}`;
    asked.push({ call, body: text === '' ? null : JSON.parse(text), headers: request.headers });
    const answer = answers[call] ?? { status: 404, body: { title: 'Not found', detail: `no ${call}` } };
    const type = answer.type ?? (answer.status < 300 ? 'application/json' : 'application/problem+json');
    response.writeHead(answer.status, { 'content-type': type, ...answer.headers });
    response.end(
      answer.body === undefined ? '' : type.includes('json') ? JSON.stringify(answer.body) : answer.body,
    );
  });
  await new Promise<void>((resolve) =>
    path === undefined ? server.listen(0, '127.0.0.1', resolve) : server.listen(path, resolve),
  );
  const listen = path === undefined ? `127.0.0.1:${(server.address() as AddressInfo).port}` : `unix:${path}`;
  const env = { FIELDPOST_LISTEN: listen };
  return {
    asked,
    env,
    /** Runs `fieldpost <argv>` against it. */
    run: (argv: readonly string[], world: World = {}) => fieldpost(argv, { env, ...world }),
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

/** A message as the daemon shows it. */
export const message = (id: string, more: object = {}) => ({
  id,
  type: 1,
  destination: `${id}@x.example`,
  status: 'queued',
  final: false,
  acceptedAt: '2026-11-20T08:59:00.000Z',
  attempts: 0,
  lastReply: null,
  nextAttemptAt: null,
  attachments: [],
  ...more,
});

/** The daemon's answer to a list, for `preparedDaemon`. */
export const listing = (status: string, messages: unknown[], next: string | null = null, after = '') => ({
  [`GET /api/internal/messages?status=${status}&limit=1000${after}`]: {
    status: 200,
    body: { messages, next },
  },
});
