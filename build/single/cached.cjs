#!/usr/bin/env -S node --
/**
 * Starts fieldpost.cjs, which lies beside it, a fifth sooner: with the code that V8 has made of it before. That is kept in
 * fieldpost.cache, which `node cached.cjs --make-cache` writes, on the device, where this directory can be written. V8
 * takes it for this very program and this very version of Node.js alone; without one all is compiled as ever.
 *
 *     CRC-32 of the rest, little endian, 4 bytes · what V8 gives
 *
 * V8 trusts what it is given, and a flipped bit would run.
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

/** Runs the program as Node.js would, and gives its compiled script. */
function run(cachedData) {
  // Behind a wrapper its first line, `#!…`, must be a comment.
  const text = readFileSync(program, 'latin1').replace(/^#!/, '//');
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {${text}\n})`, {
    filename: program,
    cachedData,
  });
  script.runInThisContext()(exports, require, module, program, __dirname);
  return script;
}

/** Starts the daemon where it harms nobody, and keeps what V8 has compiled by the time it serves. */
function makeCache() {
  const scratch = mkdtempSync(join(tmpdir(), 'fieldpost-cache-'));
  for (const name of Object.keys(process.env)) if (name.startsWith('FIELDPOST_')) delete process.env[name];
  process.env.FIELDPOST_STATE_DIR = scratch;
  process.env.FIELDPOST_LISTEN = `unix:${join(scratch, 'socket')}`;
  process.argv.splice(2, Infinity, 'run');
  const { write } = process.stdout;
  // Its first line tells how the start went; V8's flags are still those with which the next start will come.
  process.stdout.write = (line) => {
    process.stdout.write = write;
    const isStarted = line.includes(' started ');
    if (isStarted) {
      const data = script.createCachedData();
      const sum = Buffer.alloc(SUM_BYTES);
      sum.writeUInt32LE(crc32(data));
      writeFileSync(`${cache}.new`, Buffer.concat([sum, data]));
      renameSync(`${cache}.new`, cache);
    }
    rmSync(scratch, { recursive: true, force: true });
    console.log(isStarted ? `${cache}: written for Node.js ${process.version}` : line);
    process.exit(isStarted ? 0 : 1);
  };
  const script = run();
}

/** Undefined if there is none that is whole. */
function readCache() {
  // Node.js has this from 20.15 on.
  if (crc32 === undefined) return undefined;
  try {
    const bytes = readFileSync(cache);
    const data = bytes.subarray(SUM_BYTES);
    return bytes.readUInt32LE() === crc32(data) ? data : undefined;
  } catch {
    return undefined;
  }
}

if (process.argv[2] === '--make-cache') makeCache();
else run(readCache());
