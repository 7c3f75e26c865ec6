/** RESULTS.md from the rows of a run; run.mjs writes it. */
import { COLUMNS } from './rounds.mjs';

const ABOUT = {
  accept:
    'Requests of 1 KiB, each answered when it is on the disk. Each server first takes 5,000 requests from 32 clients, except in the first second. Those messages stay queued, so "10,000 more" has 15,000.',
  bytes:
    'Sectors of a loop-mounted ext4 image. Each message of 1 KiB is posted when the one before was delivered: 5,000, and 500 by Postfix and nullmailer. One third of the rounds.',
  deliver:
    'One connection to a relay in another process. Of 4,000 mails of 1 KiB the first 2,000 warm each sender up; the last 2,000 have the targets. nodemailer alone keeps no queue.',
  latency:
    'A proxy delays each direction by half a round trip. Counted from the second arrival to the last. Each sender has one connection; Postfix may keep its own. One third of the rounds.',
  nagle: "A relay with Nagle's algorithm on, which writes each reply by itself. 500 mails, at most 5 s.",
  start:
    'From the start of the process to its first answer, by the script of the packages. Memory 1 s later.',
  memory: 'Resident memory, 1 s after the start or the load.',
  upload: 'A form with one file of 200 MB, synced.',
  checkpoint:
    'A snapshot of the state in memory, without its writes; 2,000 messages have changed since the one before. The longest piece is what others wait for.',
  install: 'The release, as packages install it.',
  idle: 'A daemon without work, and one that holds 1,000 messages. One third of the rounds.',
  fleet:
    'Heartbeats of 10,000 devices over 32 connections to each instance of the reference cloud. Each is due at a time that does not wait for the answers before it, and its latency counts from then. The usual rate is one every 30 s. The load generator, the cloud and etcd share the machine. One third of the rounds.',
};

/** The page. `facts` are pairs of a name and a value; `tables` pairs of a figure and its rows. */
export function pageOf({ facts, rounds, minutes, tables }) {
  const parts = [
    '# Results of scripts/bench',
    `The median (lowest–highest) of ${rounds} rounds. In a round every contestant runs once. The ratio is that of the medians; the spread is that of the ratios of the rounds. The run took ${minutes} min.`,
    'Run it again: `npm run build && node scripts/bench/run.mjs`, as root, with Postfix installed. It writes this page.',
    facts.map(([name, value]) => `- ${name}: ${value}`).join('\n'),
    ...tables.flatMap(([name, rows]) => [`## ${name}`, ABOUT[name] ?? '', markdownOf(rows)]),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

/** Rows as a table of Markdown. */
export function markdownOf(rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const head = [line(COLUMNS), `|${'---|'.repeat(COLUMNS.length)}`];
  return [...head, ...rows.map((row) => line(COLUMNS.map((name) => row[name])))].join('\n');
}
