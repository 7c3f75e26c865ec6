/**
 * `node test/people/compile.mjs DIRECTORY [PLANT]`: compiles the worlds of people, and with them all of the source, with a fault
 * planted where one is named.
 */
import { compile } from '../../scripts/compile.mjs';
import { PLANTS, planter } from './plants.mjs';

const [directory, plant] = process.argv.slice(2);
if (plant !== undefined && !(plant in PLANTS)) {
  console.error(`people: no plant is called ${plant}: ${Object.keys(PLANTS).join(', ')}`);
  process.exit(64);
}
await compile('test/people/simulate.ts', directory, {
  plugins: plant === undefined ? [] : [planter(plant)],
  readable: true,
});
