/**
 * `node test/power/planted.mjs DIRECTORY PLANT`: compiles the program with a planted fault that only a power cut shows. Used
 * by test/peers/power-cut.test.ts.
 */
import { compile } from '../../scripts/compile.mjs';
import { cutter, PLANTS } from '../simulation/plants.mjs';

/**
 * As in plants.mjs. A missing sync of a directory cannot be found here: ext4 and xfs keep the name of a new file with its
 * first sync. test/store/power-cut.test.ts finds it.
 */
const CUTS = {
  'no-sync': [PLANTS['no-sync'].cut],
  // The answer does not wait for the sync.
  'early-answer': [
    [
      'src/mail/store/journal.ts',
      'await this.#put(segment, bytes, durable);',
      'await this.#put(segment, bytes, false); if (durable) void segment.file.sync();',
    ],
  ],
  'no-spool-sync': [['src/mail/store/spool.ts', 'await this.#created.file.sync().catch(refused);', '']],
};

const [directory, plant] = process.argv.slice(2);
await compile('src/main.ts', directory, { plugins: [cutter(plant, CUTS[plant])] });
