/**
 * scripts/conformance: tells the author of a cloud, in words, which points of the contract hold.
 */
import { Cloud } from './cloud.js';
import { examine, type Finding } from './point.js';

const USAGE = `usage: scripts/conformance BASE_URL DEVICE KEY [OTHER_DEVICE OTHER_KEY]

Take a device of its own, best one that was never used: its document is replaced again and again (and put back at the
end). About a hundred SMS, one phone call and one push message go to +1 202 555 0199, a number that is kept free for
fiction, and to the placeholder CONFORMANCE. A last word and a drill go to nobody, and the device is quiet for a moment.
With a second device it is tried as well whether the two are kept apart.
`;
const MARKS: Readonly<Record<Finding['result'], string>> = {
  holds: 'ok    ',
  broken: 'BROKEN',
  'not checked': '-     ',
};

async function main(args: readonly string[]): Promise<number> {
  const [url = '', device, key, otherDevice, otherKey, ...rest] = args;
  const isPair = (otherDevice === undefined) === (otherKey === undefined);
  if (!URL.canParse(url) || device === undefined || key === undefined || !isPair || rest.length > 0) {
    process.stderr.write(USAGE);
    return 64;
  }
  const other =
    otherDevice === undefined || otherKey === undefined ? null : { device: otherDevice, key: otherKey };
  const cloud = new Cloud(url, { device, key }, { other });
  const counts = { holds: 0, broken: 0, 'not checked': 0 };
  for await (const { point, result, words } of examine(cloud)) {
    counts[result]++;
    process.stdout.write(`${MARKS[result]} ${point.name}\n`);
    if (words !== '') process.stdout.write(`         ${result}: ${words}\n`);
    if (result === 'broken') process.stdout.write(`         why it matters: ${point.why}\n`);
  }
  process.stdout.write(
    `hold: ${counts.holds}, broken: ${counts.broken}, not checked: ${counts['not checked']}\n`,
  );
  return counts.broken > 0 ? 1 : 0;
}

void main(process.argv.slice(2)).then((status) => process.exit(status));
