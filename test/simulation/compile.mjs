/**
 * `node test/simulation/compile.mjs DIRECTORY [PLANT]`: compiles the simulation, and with it all of the source, as the
 * program is compiled; with a fault planted where one is named.
 */
import { compile } from '../../scripts/compile.mjs';
import { PLANTS, planter } from './plants.mjs';

const [directory, plant] = process.argv.slice(2);
if (plant !== undefined && !(plant in PLANTS)) {
  console.error(`simulate: no plant is called ${plant}: ${Object.keys(PLANTS).join(', ')}`);
  process.exit(64);
}
await compile('test/simulation/simulate.ts', directory, {
  plugins: plant === undefined ? [] : [planter(plant)],
});
