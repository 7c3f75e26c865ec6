/**
 * Prints the licence of the program, and those of the packages that are compiled into it: `node scripts/licences.mjs
 * [ROOT]`. They are the packages of package-lock.json that are not for development. Fails if one has no text.
 */
import { readdirSync, readFileSync } from 'node:fs';

const root = process.argv[2] ?? new URL('..', import.meta.url).pathname;
const read = (path) => readFileSync(`${root}/${path}`, 'utf8');

/** The licence of the package in `directory`: a file of its own, or a section of its README; null without either. */
function textOf(directory) {
  const names = readdirSync(`${root}/${directory}`).sort();
  const [file] = names.filter((name) => /^(?:licen[cs]e|copying)/i.test(name));
  if (file !== undefined) return read(`${directory}/${file}`);
  const [readme] = names.filter((name) => /^readme/i.test(name));
  const section = /^#+ licen[cs]e.*\n((?:(?!#+ ).*\n?)*)/im.exec(
    readme ? read(`${directory}/${readme}`) : '',
  );
  return section?.[1].replace(/^```.*\n/gm, '') ?? null;
}

const { packages } = JSON.parse(read('package-lock.json'));
const shipped = Object.keys(packages).filter((path) => path !== '' && !packages[path].dev);
const texts = shipped.map((directory) => {
  const { name, version, license, licenses, author } = JSON.parse(read(`${directory}/package.json`));
  const text = textOf(directory);
  // A name alone, or a reference, is no licence: its words go with the code.
  if (text === null || !/copyright/i.test(text) || !/permission|redistribution/i.test(text)) {
    throw new Error(`${directory} has no text of its licence`);
  }
  const who = author?.name ?? author ?? '';
  return `\n--- ${name} ${version}, ${license ?? licenses[0].type}, ${who}\n\n${text.trim()}\n`;
});
process.stdout.write(read('LICENSE') + texts.join(''));
