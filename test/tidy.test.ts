/**
 * The rules of the house, held against the tree. Each rule says why it is there, and is tried on planted
 * offences before it is trusted with the tree itself.
 */
// A process of its own: it takes long.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import {
  exportedTypesOf,
  hasLogic,
  importsOf,
  logEventsOf,
  longFunctionsIn,
  parse,
  readTree,
  type Tree,
  topLevelStateIn,
  undocumentedIn,
  usesOf,
} from './support/source.js';

interface Rule {
  readonly name: string;
  readonly why: string;
  /** The offences in a tree, each with its place. */
  find(tree: Tree): string[];
  /** Offences that must be found, each alone in a tree. */
  readonly planted: readonly (readonly [path: string, text: string])[];
  /** What must be let pass, all together in a tree. */
  readonly allowed?: readonly (readonly [path: string, text: string])[];
}

const LINES_MAX = 600;
const FUNCTION_LINES_MAX = 60;

// A room may import the rooms beside it here. `mail` alone stands for the files right in src/mail.
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  main: ['device', 'cloud', 'cli', 'dev', 'mail', 'base'],
  dev: ['device', 'cloud', 'mail', 'base', 'pages'],
  device: ['mail', 'base', 'pages'],
  cloud: ['mail', 'base', 'pages'],
  cli: ['mail', 'base'],
  pages: ['base'],
  mail: ['mail/delivery', 'mail/smtp-server', 'mail/store', 'mail/mime', 'mail/book', 'mail/message', 'base'],
  'mail/delivery': ['mail/store', 'mail/mime', 'mail/book', 'mail/message', 'mail', 'base'],
  'mail/smtp-server': ['mail/store', 'mail/mime', 'mail/book', 'mail/message', 'mail', 'base'],
  'mail/store': ['mail/mime', 'mail/book', 'mail/message', 'mail', 'base'],
  'mail/mime': ['mail/message', 'mail', 'base'],
  'mail/book': ['mail/message', 'base'],
  'mail/message': ['mail', 'base'],
  base: [],
};

/** Who builds what stands behind the interfaces of base/system. */
const ROOTS =
  /^src\/(?:(?:cloud-|dev-)?main|device\/daemon|cloud\/cloud|device\/service|mail\/(?:context|engine|serve))\.ts$/;

const PURE = [
  /^src\/mail\/message\//,
  /^src\/base\/retry\//,
  /^src\/device\/api\/form-(?:guard|part)\.ts$/,
  /^src\/device\/(?:book|link)\//,
  /^src\/device\/alive-(?:rule|texts)\.ts$/,
  /^src\/base\/http\/(?:answer|http-memory|page)\.ts$/,
  /^src\/mail\/smtp-server\/(?:replies|transaction)\.ts$/,
  /^src\/base\/(?:collections|event-stream|fleet-lines|langs|limits|stamp|state-lines|text|json|turns|views)\.ts$/,
  /^src\/mail\/store\/(?:record|recovery|state|tally)\.ts$/,
  /^src\/mail\/delivery\/smtp\/(?:failure-classification|protocol)\.ts$/,
  /^src\/mail\/book\//,
  /^src\/cloud\/etcd\/etcd\.ts$/,
];
const PURE_IMPORTS = ['node:buffer'];
const IMPURE_GLOBALS = ['Date.now', 'performance', 'Math.random', 'crypto', 'fetch', 'console'];

const PACKAGE_HOMES: Readonly<Record<string, string>> = {
  busboy: 'src/device/api/form.ts',
  'smtp-client': 'src/mail/delivery/smtp/session.ts',
  lowdb: 'src/base/durable-file.ts',
  'systemd-notify': 'src/base/system/notify.ts',
};

const OUTSIDE_MODULES = /^node:(?:fs|child_process|timers|worker_threads|cluster|process)(?:\/|$)/;
const OUTSIDE_GLOBALS = ['setTimeout', 'setInterval', 'setImmediate', 'AbortSignal.timeout'];

// What test/support needs of the source: values, the outside's interfaces, the doors that it opens, errors that it throws.
const SUPPORT_TAKES = [
  'base/config/',
  'base/system/',
  'mail/message/',
  'base/durable-file.ts',
  'base/errors.ts',
  'base/http/problem.ts',
  'base/limits.ts',
  'base/retry/call-error.ts',
  'base/stamp.ts',
  'base/views.ts',
  'cloud/cloud.ts',
  'cloud/document.ts',
  'cloud/etcd/etcd.ts',
  'cloud/etcd/fleet.ts',
  'cloud/fleet-store.ts',
  'cloud/presence.ts',
  'cloud/routes.ts',
  'cloud/settings.ts',
  'dev/settings.ts',
  'device/api/routes.ts',
  'device/alive-watch.ts',
  'device/alive.ts',
  'device/api/server.ts',
  'device/book/address-book.ts',
  'device/daemon.ts',
  'device/link/client.ts',
  'device/link/link.ts',
  'device/link/sync.ts',
  'device/notices.ts',
  'device/settings.ts',
  'mail/delivery/delivery.ts',
  'mail/delivery/expiry.ts',
  'mail/delivery/outcome-writer.ts',
  'mail/delivery/queue.ts',
  'mail/delivery/smtp/protocol.ts',
  'mail/delivery/smtp/session.ts',
  'mail/delivery/smtp/smtp-transport.ts',
  'mail/engine.ts',
  'mail/mime/encodings.ts',
  'mail/settings.ts',
  'mail/store/disk-error.ts',
  'mail/store/store.ts',
].map((path) => `src/${path}`);

/** All that touches `process`. It is tried as it is built, as the entries are. */
const PROCESS = 'src/base/system/process.ts';
const AS_BUILT = [PROCESS, 'src/device/service.ts', 'src/mail/context.ts'];

// Source files and rooms that the tests of another room try.
const TRIED_FROM: Readonly<Record<string, string>> = {
  'src/base/errors.ts': 'cli',
  'src/base/http/': 'api',
  'src/base/langs.ts': 'book',
  'src/base/retry/call-error.ts': 'link',
  'src/base/views.ts': 'api',
  'src/cloud/etcd/': 'cloud',
  'src/mail/metrics.ts': 'api',
  'src/mail/engine.ts': 'device',
  'src/mail/serve.ts': 'device',
  'src/mail/names.ts': 'config',
  'src/mail/settings': 'config',
  'src/device/settings.ts': 'config',
  'src/cloud/settings.ts': 'config',
  'src/dev/settings.ts': 'config',
  'src/base/crc.ts': 'store',
};

/** `src/mail/store/record.ts` → `mail/store`; `src/base/http/body.ts` → `base`; `src/cloud-main.ts` → `main`. */
function roomOf(path: string): string {
  const [, room = '', file = ''] = /^src\/(mail\/[^/.]+(?=\/)|[^/]+(?=\/))?\/?([^/.]*)/.exec(path) ?? [];
  return room === '' && /^(?:cloud-|dev-)?main$/.test(file) ? 'main' : room;
}

/** Whose tests may try a source file: `src/mail/delivery/smtp/reply.ts` → mail, delivery, smtp, reply. */
function triedFrom(path: string): readonly string[] {
  const [, tried] = Object.entries(TRIED_FROM).find(([start]) => path.startsWith(start)) ?? [];
  return tried !== undefined ? [tried] : path.replace(/^src\/|\.ts$/g, '').split('/');
}

/** `test/store/record.test.ts` → `store`; `test/json.test.ts` → `json`. */
function testRoomOf(path: string): string {
  return /^test\/([^/.]+)/.exec(path)?.[1] ?? '';
}

function sources(tree: Tree): [path: string, text: string][] {
  return [...tree].filter(([path]) => path.startsWith('src/') && path.endsWith('.ts'));
}

/** The path of a relative import, from the top of the repository. */
function targetOf(path: string, from: string): string {
  return join(dirname(path), from).replace(/\.js$/, '.ts');
}

/** What is wrong with one relative import; null if it is allowed. */
function wrongDirection(path: string, from: string, typeOnly: boolean): string | null {
  const target = targetOf(path, from);
  // What the package says of itself: its version, and its calls.
  if (/^(?:package\.json|build\/openapi\/[\w-]+\.json\?text)$/.test(target)) return null;
  const [here, there] = [roomOf(path), roomOf(target)];
  if (!(here in MAY_IMPORT)) return `${path}: is in no known room`;
  if (!(there in MAY_IMPORT)) return `${path}: ${from} is in no known room`;
  if (there === 'pages' && here !== 'pages' && !target.endsWith('.html'))
    return `${path}: a page is taken as a whole, not ${from}`;
  if (target.startsWith('src/base/system/') && here !== 'base' && !typeOnly && !ROOTS.test(path))
    return `${path}: takes more than types from ${from}`;
  if (
    path.startsWith('src/base/') &&
    target.startsWith('src/base/system/') &&
    !path.startsWith('src/base/system/') &&
    !typeOnly
  )
    return `${path}: takes more than types from ${from}`;
  const allowed =
    here === there ||
    MAY_IMPORT[here]?.some(
      (room) =>
        there === room || (room === 'mail' && here.indexOf('mail') !== 0 && there.startsWith('mail/')),
    );
  return allowed ? null : `${path}: ${here} must not import ${there} (${from})`;
}

/** Every file that reaches itself, with the imports that lead there. Imports of types count, too. */
function circlesIn(tree: Tree): string[] {
  const nexts = new Map(
    sources(tree).map(([path, text]) => {
      const imports = importsOf(parse(path, text)).filter(({ from }) => from.startsWith('.'));
      return [path, imports.map(({ from }) => targetOf(path, from))];
    }),
  );
  const wayBack = (start: string): readonly string[] | null => {
    const ways: (readonly string[])[] = [[start]];
    const seen = new Set<string>();
    for (const way of ways) {
      for (const next of nexts.get(way.at(-1) ?? '') ?? []) {
        if (next === start) return [...way, next];
        if (!seen.has(next)) ways.push([...way, next]);
        seen.add(next);
      }
    }
    return null;
  };
  return [...nexts.keys()].flatMap((path) => wayBack(path)?.join(' → ') ?? []);
}

/** The program of a page. */
const PROGRAM = /<script type="module" src="([^"]+)">/;

/** These files, those they import, and so on; `atOnce`: without those loaded later, if at all. */
function reachedFrom(starts: readonly string[], tree: Tree, atOnce = false): ReadonlySet<string> {
  const seen = new Set(starts);
  for (const path of seen) {
    const text = tree.get(path);
    if (text === undefined) continue;
    if (path.endsWith('.html')) seen.add(join(dirname(path), PROGRAM.exec(text)?.[1] ?? ''));
    else
      for (const { from, typeOnly, lazy } of importsOf(parse(path, text))) {
        if (from.startsWith('.') && !typeOnly && !(atOnce && lazy)) seen.add(targetOf(path, from));
      }
  }
  return seen;
}

/** A finding for every line of every file that `pattern` matches. */
function linesWith(pattern: RegExp, tree: Tree, within: (path: string) => boolean = () => true): string[] {
  return [...tree]
    .filter(([path]) => within(path))
    .flatMap(([path, text]) => {
      const lines = text
        .split('\n')
        .map((line, index) => (pattern.test(line) ? `${path}:${index + 1}: ${line.trim()}` : ''));
      return lines.filter((line) => line !== '');
    });
}

// Spelt so that this file does not offend against itself.
const word = (...parts: string[]) => parts.join('');
const isTest = (path: string) => path.startsWith('test/');

const RULES: readonly Rule[] = [
  {
    name: 'imports point one way',
    why: 'a message walks from door to door one way; what a room needs of another of its rank is a function that the root hands over, and system/ is built only by the root, so that a test can put a fake in its place',
    find: (tree) =>
      sources(tree).flatMap(([path, text]) =>
        importsOf(parse(path, text)).flatMap(({ from, typeOnly }) =>
          from.startsWith('.') ? (wrongDirection(path, from, typeOnly) ?? []) : [],
        ),
      ),
    planted: [
      ['src/mail/store/x.ts', "import { a } from '../../device/api/a.js';"],
      ['src/mail/store/x.ts', "import type { A } from '../delivery/a.js';"],
      ['src/mail/message/x.ts', "export { a } from '../mime/a.js';"],
      ['src/mail/smtp-server/x.ts', "import type { A } from '../delivery/a.js';"],
      ['src/device/api/x.ts', "import { systemDisk } from '../../base/system/disk.js';"],
      ['src/device/api/x.ts', "import { type Disk, systemDisk } from '../../base/system/disk.js';"],
      ['src/base/http/x.ts', "import { systemDisk } from '../system/disk.js';"],
      ['src/cloud/x.ts', "import { systemDisk } from '../base/system/disk.js';"],
      ['src/device/daemon.ts', "import { createCloud } from '../cloud/cloud.js';"],
      ['src/cloud/cloud.ts', "import type { Daemon } from '../device/daemon.js';"],
      ['src/cli/x.ts', "import type { Daemon } from '../device/daemon.js';"],
      ['src/device/x.ts', "import type { Command } from '../cli/command.js';"],
      ['src/base/config/x.ts', "const a = await import('../../mail/message/address.js');"],
      ['src/base/config/x.ts', "import { main } from '../../main.js';"],
      ['src/pages/x.ts', "import type { Store } from '../mail/store/store.js';"],
      ['src/device/x.ts', "import { a } from '../pages/dom.js';"],
      ['src/attic/x.ts', "import { KIB } from '../base/limits.js';"],
      ['src/x.ts', "import { KIB } from './base/limits.js';"],
    ],
    allowed: [
      [
        'src/device/api/x.ts',
        "import type { Disk } from '../../base/system/disk.js'; import { type Log } from '../../base/system/log.js'; import page from '../../pages/status.html';",
      ],
      [
        'src/device/api/y.ts',
        "import { x } from './x.js'; import type { Store } from '../../mail/store/store.js'; import { KIB } from '../../base/limits.js';",
      ],
      [
        'src/device/daemon.ts',
        "import { systemDisk } from '../base/system/disk.js'; import { a } from './api/a.js';",
      ],
      [
        'src/main.ts',
        "import { createDaemon } from './device/daemon.js'; import { runCommand } from './cli/cli.js';",
      ],
      [
        'src/dev/x.ts',
        "import { createDaemon } from '../device/daemon.js'; import { createCloud } from '../cloud/cloud.js';",
      ],
    ],
  },
  {
    name: 'no file imports itself by way of others',
    why: 'who reads one file of a circle must read them all; what two of them need lies below both',
    find: circlesIn,
    planted: [['src/mail/store/x.ts', "import type { X } from './x.js';"]],
    allowed: [
      ['src/mail/store/x.ts', "import type { Y } from './y.js';"],
      ['src/mail/store/y.ts', "import { z } from './z.js';"],
      ['src/mail/store/z.ts', 'export const z = 1;'],
    ],
  },
  {
    name: 'pure files are pure',
    why: 'what decides what becomes of a message is a function of values: it reads no clock, does no I/O, and can be tried on every combination',
    find: (tree) =>
      sources(tree)
        .filter(([path]) => PURE.some((pure) => pure.test(path)))
        .flatMap(([path, text]) => {
          const file = parse(path, text);
          const imports = importsOf(file).filter(({ from, names }) => {
            const crc = from === 'node:zlib' && names.length > 0 && names.every((name) => name === 'crc32');
            return from.startsWith('node:') && !crc && !PURE_IMPORTS.includes(from);
          });
          const globals = IMPURE_GLOBALS.flatMap((name) =>
            usesOf(file, name).map((place) => `${place}: uses ${name}`),
          );
          const now = /\bnew Date\(\)/.test(text) ? [`${path}: uses new Date()`] : [];
          return [...imports.map(({ from }) => `${path}: imports ${from}`), ...globals, ...now];
        }),
    planted: [
      ['src/mail/message/x.ts', "import { hostname } from 'node:os';"],
      ['src/mail/store/record.ts', "import { gzipSync } from 'node:zlib';"],
      ['src/mail/store/recovery.ts', "import zlib from 'node:zlib';"],
      ['src/mail/store/state.ts', 'const now = Date.now();'],
      ['src/mail/delivery/smtp/failure-classification.ts', 'const now = new Date();'],
      ['src/mail/delivery/smtp/protocol.ts', 'export const jitter = () => Math.random();'],
      ['src/mail/book/merge.ts', "console.log('x');"],
    ],
    allowed: [
      [
        'src/mail/store/record.ts',
        "import { Buffer } from 'node:buffer'; import { crc32 } from 'node:zlib';",
      ],
      ['src/mail/delivery/queue.ts', "import { hostname } from 'node:os';"],
      ['src/mail/message/x.ts', 'export const iso = (ms: number) => new Date(ms).toISOString();'],
    ],
  },
  {
    name: 'a package is known to one file',
    why: 'each prescribed package has faults that its one wrapper puts right; a second user would meet them bare',
    find: (tree) =>
      sources(tree).flatMap(([path, text]) =>
        importsOf(parse(path, text))
          .filter(
            ({ from }) => !from.startsWith('.') && !from.startsWith('node:') && PACKAGE_HOMES[from] !== path,
          )
          .map(
            ({ from }) =>
              `${path}: ${from} belongs to ${PACKAGE_HOMES[from] ?? 'no file: it is not among the four packages'}`,
          ),
      ),
    planted: [
      ['src/device/api/routes.ts', "import busboy from 'busboy';"],
      ['src/mail/store/store.ts', "import type { Low } from 'lowdb';"],
      ['src/mail/store/snapshot.ts', "import { Writer } from 'steno';"],
      ['src/mail/store/snapshot.ts', "import { JSONFile } from 'lowdb/node';"],
      ['src/device/daemon.ts', "const notify = await import('systemd-notify');"],
      ['src/device/api/server.ts', "import { createServer } from 'http';"],
    ],
    allowed: Object.entries(PACKAGE_HOMES).map(([name, home]) => [
      home,
      `import x from '${name}'; import 'node:net';`,
    ]),
  },
  {
    name: 'a page needs nothing of Node',
    why: 'it runs in a browser: what it takes of other rooms is pure, and small',
    find: (tree) => {
      const starts = [...tree.keys()].filter((path) => path.startsWith('src/pages/'));
      return [...reachedFrom(starts, tree)].flatMap((path) => {
        const text = path.endsWith('.ts') ? tree.get(path) : undefined;
        if (text === undefined) return [];
        const isOurs = roomOf(path) === 'pages' || PURE.some((pure) => pure.test(path));
        const node = importsOf(parse(path, text)).filter(
          ({ from, typeOnly }) => !from.startsWith('.') && !typeOnly,
        );
        return [
          ...(isOurs ? [] : [`${path}: is not pure, and a page needs it`]),
          ...node.map(({ from }) => `${path}: a page needs ${from}`),
        ];
      });
    },
    planted: [['src/pages/x.ts', "import { hostname } from 'node:os';"]],
    allowed: [
      ['src/pages/x.ts', "import { z } from '../base/limits.js'; import type { A } from '../base/views.js';"],
    ],
  },
  {
    name: 'process only in system/process.ts',
    why: 'what a program is given by its process, one object hands on: everything else can run twice in one test',
    find: (tree) =>
      sources(tree)
        .filter(([path]) => path !== PROCESS)
        .flatMap(([path, text]) => usesOf(parse(path, text), 'process')),
    planted: [
      ['src/base/config/settings.ts', 'export const env = process.env;'],
      ['src/main.ts', 'process.exit();'],
      ['src/base/system/log.ts', "globalThis; process.on('exit', () => {});"],
      ['src/device/daemon.ts', 'const { pid } = process;'],
    ],
    allowed: [
      ['src/base/system/process.ts', 'process.exit();'],
      [
        'src/mail/store/x.ts',
        "// process.env\nconst words = 'process.env'; const a = { process: 1 }; a.process;",
      ],
    ],
  },
  {
    name: 'files, children and timers only in system/',
    why: 'a test can stop time, fail the disk and lose a child only where they stand behind an interface',
    find: (tree) =>
      sources(tree)
        // A browser is outside by itself.
        .filter(([path]) => !/^src\/(?:base\/system|pages)\//.test(path))
        .flatMap(([path, text]) => {
          const file = parse(path, text);
          const modules = importsOf(file).filter(({ from }) => OUTSIDE_MODULES.test(from));
          const globals = OUTSIDE_GLOBALS.flatMap((name) =>
            usesOf(file, name).map((place) => `${place}: uses ${name}`),
          );
          return [...modules.map(({ from }) => `${path}: imports ${from}`), ...globals];
        }),
    planted: [
      ['src/mail/store/x.ts', "import { open } from 'node:fs/promises';"],
      ['src/main.ts', "import { readFileSync } from 'node:fs';"],
      ['src/cli/x.ts', "import { execFile } from 'node:child_process';"],
      ['src/device/api/x.ts', "import { setTimeout as sleep } from 'node:timers/promises';"],
      ['src/mail/delivery/x.ts', 'setTimeout(() => {}, 10);'],
      ['src/mail/delivery/x.ts', 'globalThis.x = setInterval;'],
      ['src/cloud/x.ts', 'fetchIt({ signal: AbortSignal.timeout(5) });'],
    ],
    allowed: [
      ['src/base/system/x.ts', "import { open } from 'node:fs/promises'; setTimeout(() => {}, 1);"],
      ['src/device/api/x.ts', 'socket.setTimeout(0); AbortSignal.any([]);'],
    ],
  },
  {
    name: 'a file is one noun, and says which',
    why: 'ls tells the story, the header comment says what a file is for, and what is longer than that is two nouns',
    find: (tree) =>
      sources(tree).flatMap(([path, text]) => {
        const lines = text.trimEnd().split('\n').length;
        return [
          lines > LINES_MAX ? `${path}: has ${lines} lines, at most ${LINES_MAX}` : '',
          /^(?:#!.*\n)?\/\*\*\n \* \S/.test(text) ? '' : `${path}: does not start with a header comment`,
          /\/(?:utils?|helpers?|common|misc)\.ts$/.test(path) ? `${path}: is a name for nothing` : '',
        ].filter((finding) => finding !== '');
      }),
    planted: [
      ['src/x.ts', `/**\n * X.\n */\n${'\n'.repeat(LINES_MAX)}const x = 1;`],
      ['src/x.ts', "import assert from 'node:assert';"],
      ['src/x.ts', '/** \n */\nconst x = 1;'],
      ['src/mail/store/utils.ts', '/**\n * X.\n */'],
    ],
    allowed: [['src/main.ts', '#!/usr/bin/env node\n/**\n * The process.\n */']],
  },
  {
    name: 'a function fits a screen',
    why: 'who reads a function should see its beginning and its end at once',
    find: (tree) =>
      sources(tree).flatMap(([path, text]) => longFunctionsIn(parse(path, text), FUNCTION_LINES_MAX)),
    planted: [
      ['src/x.ts', `export function x() {${'\n'.repeat(FUNCTION_LINES_MAX)}}`],
      ['src/x.ts', `const x = () => {${'\n'.repeat(FUNCTION_LINES_MAX)}};`],
      ['src/x.ts', `class X { x() {${'\n'.repeat(FUNCTION_LINES_MAX)}} }`],
    ],
    allowed: [['src/x.ts', `function x() {${'\n'.repeat(FUNCTION_LINES_MAX - 1)}}\n\nfunction y() {}`]],
  },
  {
    name: 'one word, one thing',
    why: 'a type whose name means something else in another file is read wrongly there',
    find: (tree) => {
      const places = new Map<string, string[]>();
      for (const [path, text] of sources(tree)) {
        for (const { name, place } of exportedTypesOf(parse(path, text))) {
          places.set(name, [...(places.get(name) ?? []), place]);
        }
      }
      return [...places].flatMap(([name, at]) => (at.length > 1 ? [`${name}: ${at.join(', ')}`] : []));
    },
    planted: [
      ['src/x.ts', 'export interface X {}\nexport class X {}'],
      ['src/x.ts', 'export type X = 1;\nexport class X {}'],
    ],
    allowed: [
      ['src/x.ts', 'export interface X {}\ninterface Y {}'],
      ['src/y.ts', 'export interface Y {}'],
    ],
  },
  {
    name: 'a source file has its test',
    why: 'test/ mirrors src/: the tests of a room run the code of every file in it, so that whoever changes a file knows which tests to run',
    find: (tree) => {
      const tests = [...tree.keys()].filter((path) => path.endsWith('.test.ts'));
      const tried = new Map<string, ReadonlySet<string>>();
      return sources(tree).flatMap(([path, text]) => {
        if (roomOf(path) === 'main' || AS_BUILT.includes(path) || !hasLogic(parse(path, text))) return [];
        const rooms = triedFrom(path);
        const isReached = rooms.some((room) => {
          const files =
            tried.get(room) ??
            reachedFrom(
              tests.filter((test) => testRoomOf(test) === room),
              tree,
            );
          tried.set(room, files);
          return files.has(path);
        });
        return isReached ? [] : [`${path}: no test of ${rooms.join(' or ')} reaches it`];
      });
    },
    planted: [
      ['src/mail/store/x.ts', 'export function x() {}'],
      ['src/mail/store/x.ts', 'export const x = () => 1;'],
      ['src/cli/words.ts', 'export class X {}'],
    ],
    allowed: [
      ['src/mail/store/x.ts', "import { z } from './z.js';\nexport const x = () => z;"],
      ['src/mail/store/y.ts', 'export interface Y {}\ndeclare const parsed: unique symbol;'],
      ['src/mail/store/z.ts', 'export const z = 1;'],
      ['test/store/x.test.ts', "import { x } from '../support/x.js';"],
      ['test/support/x.ts', "export { x } from '../../src/mail/store/x.js';"],
    ],
  },
  {
    name: 'a start loads nothing that only some need',
    why: 'a daemon without a cloud, and one that waits for a network, carry none of it about: it costs megabytes and milliseconds; so does what node:assert and node:perf_hooks bring with them',
    find: (tree) =>
      [...reachedFrom(['src/main.ts'], tree, true)].flatMap((path) => {
        const text = tree.get(path);
        if (text === undefined) return [];
        const heavy = importsOf(parse(path, text)).filter(
          ({ from, typeOnly, lazy }) =>
            /^node:(?:https|tls|http2|assert|perf_hooks|v8|vm)$/.test(from) && !typeOnly && !lazy,
        );
        const isLink = /^src\/device\/link\//.test(path) ? [`${path}: is loaded at the start`] : [];
        return [...isLink, ...heavy.map(({ from }) => `${path}: imports ${from}`)];
      }),
    planted: [
      ['src/main.ts', "import { request } from 'node:https';"],
      ['src/main.ts', "export { connect } from 'node:tls';"],
      ['src/main.ts', "import assert from 'node:assert';"],
    ],
    allowed: [
      ['src/main.ts', "import { a } from './device/daemon.js'; import type { A } from './device/link/a.js';"],
      ['src/device/daemon.ts', "import type { B } from 'node:tls'; const c = await import('./link/c.js');"],
      ['src/device/link/c.ts', "import { request } from 'node:https';"],
    ],
  },
  {
    name: 'what is exported is explained',
    why: 'who uses a function, class or type of another file should not have to read that file to know what it takes and gives',
    find: (tree) => sources(tree).flatMap(([path, text]) => undocumentedIn(parse(path, text))),
    planted: [
      ['src/x.ts', '/**\n * Header.\n */\nimport a from "./a.js";\nexport function x() {}'],
      ['src/x.ts', '// not a doc comment\nexport interface X {}'],
      ['src/x.ts', 'export class X {}'],
      ['src/x.ts', 'export type X = 1;'],
      ['src/x.ts', 'export async function* x() {}'],
    ],
    allowed: [['src/x.ts', '/** Gives x. */\nexport function x() {}\ninterface Y {}\nfunction y() {}']],
  },
  {
    name: 'modules hold no state',
    why: 'state lives in objects that the root builds: two daemons can run in one test',
    find: (tree) => sources(tree).flatMap(([path, text]) => topLevelStateIn(parse(path, text))),
    planted: [
      ['src/x.ts', 'let count = 0;'],
      ['src/x.ts', 'export var x;'],
    ],
    allowed: [['src/x.ts', 'const a = 1; declare let b: number; function f() { let c; }']],
  },
  {
    name: 'a log event is a constant',
    why: 'who greps a log for an event of fieldpost(1) must find it, whatever happened',
    find: (tree) =>
      sources(tree).flatMap(([path, text]) =>
        logEventsOf(parse(path, text)).flatMap(({ place, event }) => (event === null ? [place] : [])),
      ),
    planted: [
      ['src/x.ts', 'log.info("sent " + id);'],
      ['src/x.ts', 'this.#options.log.warn(event, {});'],
    ],
    allowed: [['src/x.ts', "console.info(x); log.info('sent', { id }); catalog.info(x); Math.log(x);"]],
  },
  {
    name: 'nothing is left to do',
    why: 'a note to oneself in the code is a promise that nobody keeps; either it is done or it is not there',
    find: (tree) =>
      linesWith(new RegExp(`\\b(?:${word('TO', 'DO')}|${word('FIX', 'ME')}|${word('X', 'XX')})\\b`), tree),
    planted: [
      ['src/x.ts', `// ${word('TO', 'DO')}: later`],
      ['test/x.test.ts', `/* ${word('FIX', 'ME')} */`],
      ['scripts/x', `# ${word('X', 'XX')}`],
    ],
  },
  {
    name: 'no test is left out in silence',
    why: 'a test that does not run guards nothing; one that cannot run here says why',
    find: (tree) =>
      linesWith(
        /\.only\(|\bonly: true|\.skip\(\s*\)|\bskip: true/,
        tree,
        (path) => isTest(path) && path !== 'test/tidy.test.ts',
      ),
    planted: [
      ['test/x.test.ts', "t.only('x', async () => {});"],
      ['test/x.test.ts', "t.test('x', { skip: true }, async () => {});"],
      ['test/x.test.ts', "t.test('x', { only: true }, async () => {});"],
      ['test/x.test.ts', 'return t.skip();'],
    ],
    allowed: [['test/x.test.ts', "t.skip('needs root'); t.test('x', { skip: 'needs root' }, f);"]],
  },
  {
    name: 'test/support fakes only the outside',
    why: 'a fake of a room of ours is kinder than the room, and hides what goes wrong between rooms: give the real one a fake disk, clock or network',
    find: (tree) =>
      [...tree]
        .filter(([path]) => path.startsWith('test/support/'))
        .flatMap(([path, text]) => {
          const imports = importsOf(parse(path, text)).filter(({ typeOnly }) => !typeOnly);
          const targets = imports.map(({ from }) => targetOf(path, from));
          const found = targets.filter(
            (one) => one.startsWith('src/') && !SUPPORT_TAKES.some((path) => one.startsWith(path)),
          );
          return [...found, ...(/\bimplements (?:Store|Ledger|Journal|AddressBook)\b/.exec(text) ?? [])].map(
            (what) => `${path}: ${what}`,
          );
        }),
    planted: [
      ['test/support/x.ts', "import { applyBook } from '../../src/mail/book/book.js';"],
      ['test/support/x.ts', 'export class MemoryStore implements Store {}'],
    ],
    allowed: [
      [
        'test/support/x.ts',
        "import { openStore } from '../../src/mail/store/store.js'; class X implements Clock {}",
      ],
      [
        'test/support/y.ts',
        "import type { Book } from '../../src/mail/book/book.js'; import { MIB } from '../../src/base/limits.js';",
      ],
      ['test/store/x.ts', "import { applyBook } from '../../src/mail/book/book.js';"],
    ],
  },
  {
    name: 'comments refer to what is in the repository',
    why: 'who has only the source can follow no other reference: the map is src/README.md, users have the manual pages, protocols have RFCs',
    find: (tree) =>
      linesWith(
        new RegExp(
          `(?<![-/\\w])(?!README)[a-z-]+\\.md\\b|\\b${word('local', '-api')}\\b|\\b${word('Used', ' by')} \\w`,
        ),
        tree,
        (path) => /^src\/.*\.ts$/.test(path),
      ),
    planted: [
      ['src/x.ts', `// The table of ${word('delivery', '.md')}.`],
      ['src/x.ts', `/** A type (${word('local', '-api')} §1). */`],
      ['src/x.ts', `/** A type. ${word('Used', ' by')} y.ts. */`],
    ],
    allowed: [
      ['src/x.ts', '// The table of src/README.md, and RFC 5321 §4.5.3; fieldpost-api(7) has it for users.'],
    ],
  },
  {
    name: 'no path of one machine',
    why: 'a clone in any directory of any machine builds, runs and passes',
    find: (tree) =>
      linesWith(
        new RegExp(
          `(?<![\\w.-])/(?:${word('wo', 'rk')}|${word('ho', 'me')}|${word('ro', 'ot')}|${word('Us', 'ers')})/\\w`,
        ),
        tree,
      ),
    planted: [
      ['src/x.ts', `const x = '${word('/ho', 'me')}/joe/x';`],
      ['test/x.test.ts', `const x = '${word('/wo', 'rk')}/main';`],
      ['scripts/x', `cd ${word('/ro', 'ot')}/fieldpost`],
    ],
    allowed: [['scripts/x', 'ls src/home/x; cat /etc/fieldpost/fieldpost.env']],
  },
];

const tree = readTree(
  ['src', 'test', 'scripts', 'build', ...['systemd'].filter((name) => existsSync(name))],
  [''],
);

for (const rule of RULES) {
  t.test(rule.name, async (t) => {
    for (const [path, text] of rule.planted) {
      t.not(
        rule.find(new Map([[path, text]])).length,
        0,
        `finds the planted offence in ${path}: ${text.slice(0, 80)}`,
      );
    }
    t.strictSame(rule.find(new Map(rule.allowed ?? [])), [], 'lets pass what is allowed');
    const offences = rule.find(tree);
    t.equal(offences.length, 0, `${offences.join('\n')}\n  The rule: ${rule.name}. Why: ${rule.why}.`);
  });
}

t.test('the map of the source names files and rooms that exist', async (t) => {
  const map = readFileSync('src/README.md', 'utf8');
  const paths = [...map.matchAll(/`([\w./-]+\.(?:ts|json))`/g)].map(([, path = '']) => path);
  const rooms = [...map.matchAll(/^ *([a-z-]+\/) {2,}/gm)].map(([, room = '']) => room);
  t.ok(paths.length > 20 && rooms.length > 15, 'it names some');
  const known = [...tree.keys()];
  // What a device or a user has is no file of the source.
  const isOfDevice = (path: string) => /^(?:store|settings|relay-token|outage|quiet|alive)\.json$/.test(path);
  t.strictSame(
    [
      ...paths.filter((path) => !isOfDevice(path) && !known.some((one) => `/${one}`.endsWith(`/${path}`))),
      ...rooms.filter((room) => !known.some((one) => `/${one}`.includes(`/${room}`))),
    ],
    [],
  );
});

t.test('every script can be called as the README writes it', async (t) => {
  const scripts = readdirSync('scripts', { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .filter((name) => readFileSync(join('scripts', name), 'utf8').startsWith('#!'));
  t.ok(scripts.includes('simulate'));
  t.strictSame(
    scripts.filter((name) => (statSync(join('scripts', name)).mode & 0o111) === 0),
    [],
    'executable in the checkout',
  );
});
