#!/usr/bin/env -S node --
/**
 * Starts fieldpost.cjs, which lies beside it, a fifth sooner: with the code that V8 has made of it before. That is kept in
 * fieldpost.cache, which `node cached.cjs --make-cache` writes, on the device, where this directory can be written.
 * Without one that fits this very program and this very version of Node.js, all is compiled as ever.
 *
 *     CRC-32 of the program and of the rest, little endian, 4 bytes · what V8 gives
 *
 * V8 sees to it that the version and the flags are right; of the program it looks at the length alone, and it trusts the
 * rest: a flipped bit would run.
 */
'use strict';
const { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { Script } = require('node:vm');
const { crc32 } = require('node:zlib');

const program = join(__dirname, 'fieldpost.cjs');
const cache = join(__dirname, 'fieldpost.cache');
const SUM_BYTES = 4;

/** The program, as text of which every character is an octet. */
function readProgram() {
  return readFileSync(program, 'latin1');
}

/** Runs the program as Node.js would, and gives its compiled script. */
function run(text, cachedData) {
  // Behind a wrapper its first line, `#!…`, must be a comment.
  const body = text.replace(/^#!/, '//');
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {${body}\n})`, {
    filename: program,
    cachedData,
  });
  script.runInThisContext()(exports, require, module, program, __dirname);
  return script;
}

/** What makes the data a cache of this program. */
function sumOf(text, data) {
  return crc32(data, crc32(text));
}

/** Undefined if there is none that is whole and of this program. */
function readCache(text) {
  try {
    const bytes = readFileSync(cache);
    const data = bytes.subarray(SUM_BYTES);
    return bytes.readUInt32LE() === sumOf(text, data) ? data : undefined;
  } catch {
    return undefined;
  }
}

/** Starts the daemon where it harms nobody, and keeps what V8 has compiled by the time it serves. */
function makeCache(text) {
  const scratch = mkdtempSync(join(tmpdir(), 'fieldpost-cache-'));
  process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
  // Neither the settings of this device nor what a service manager says is meant for it.
  const foreign = /^(?:FIELDPOST_|LISTEN_|WATCHDOG_|NOTIFY_SOCKET$|JOURNAL_STREAM$|CREDENTIALS_DIRECTORY$)/;
  for (const name of Object.keys(process.env)) if (foreign.test(name)) delete process.env[name];
  process.env.FIELDPOST_STATE_DIR = join(scratch, 'state');
  process.env.FIELDPOST_LISTEN = `unix:${join(scratch, 'socket')}`;
  process.argv.splice(2, Infinity, 'run');
  const { write } = process.stdout;
  let said = '';
  process.on('exit', (status) => {
    if (status !== 0) console.error(`cached.cjs: no cache was written: ${said}`);
  });
  // Warnings may come first. At the line that says that it has started, V8's flags are still those of the next start.
  process.stdout.write = (line) => {
    said += line;
    if (!line.includes(' started ')) return;
    process.stdout.write = write;
    try {
      const data = script.createCachedData();
      const sum = Buffer.alloc(SUM_BYTES);
      sum.writeUInt32LE(sumOf(text, data));
      writeFileSync(`${cache}.new`, Buffer.concat([sum, data]));
      renameSync(`${cache}.new`, cache);
      console.log(`${cache}: written for Node.js ${process.version}`);
      process.exit(0);
    } catch (error) {
      said = error.message;
      process.exit(1);
    }
  };
  const script = run(text);
}

function fail(words) {
  console.error(`cached.cjs: no cache was written: ${words}`);
  process.exit(1);
}

const text = readProgram();
// Node.js has it from 20.15 on.
const canSum = crc32 !== undefined;
if (process.argv[2] !== '--make-cache') run(text, canSum ? readCache(text) : undefined);
else if (canSum) makeCache(text);
else fail(`Node.js ${process.version} is too old, 20.15 is needed`);
